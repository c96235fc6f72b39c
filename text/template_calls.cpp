// SPDX-License-Identifier: Apache-2.0
// Filters, tests and functions as Jinja 3.1 defines them.
#include "text/template_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>

#include "text/template_helpers.h"
#include "text/template_value.h"

namespace plimsoll::text {

const Value* Arguments::find(std::size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

Value Arguments::get(std::size_t position, std::string_view name, Value fallback) const {
  const Value* const found = find(position, name);
  return found == nullptr ? std::move(fallback) : *found;
}

const std::string& Arguments::text(std::size_t position, std::string_view name) const {
  const Value* const found = find(position, name);
  if (found == nullptr || found->as_string() == nullptr)
    throw TemplateError(fmt::format("argument '{}': a text was expected", name));
  return *found->as_string();
}

namespace {

constexpr std::int64_t kLongestRange = 100'000;

// ---- tests ------------------------------------------------------------------------------------------------------

const Value& operand(const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError("a test lacks its operand");
  return arguments.positional[0];
}

constexpr auto kTests = std::to_array<NamedCallable>({
    {"defined", [](const Value& v, const Arguments&) -> Value { return !v.is_undefined(); }},
    {"undefined", [](const Value& v, const Arguments&) -> Value { return v.is_undefined(); }},
    {"none", [](const Value& v, const Arguments&) -> Value { return v.is_none(); }},
    {"string", [](const Value& v, const Arguments&) -> Value { return v.as_string() != nullptr; }},
    {"mapping", [](const Value& v, const Arguments&) -> Value { return v.as_dict() != nullptr; }},
    {"iterable",
     [](const Value& v, const Arguments&) -> Value {
       return v.as_string() != nullptr || v.as_list() != nullptr || v.as_dict() != nullptr || v.is_undefined();
     }},
    {"sequence",
     [](const Value& v, const Arguments&) -> Value {
       return v.as_string() != nullptr || v.as_list() != nullptr || v.as_dict() != nullptr || v.is_undefined();
     }},
    {"number", [](const Value& v, const Arguments&) -> Value { return v.is_number(); }},
    {"integer", [](const Value& v, const Arguments&) -> Value { return v.as_int() != nullptr; }},
    {"float", [](const Value& v, const Arguments&) -> Value { return v.as_float() != nullptr; }},
    {"boolean", [](const Value& v, const Arguments&) -> Value { return v.as_bool() != nullptr; }},
    {"true", [](const Value& v, const Arguments&) -> Value { return v.as_bool() != nullptr && *v.as_bool(); }},
    {"false", [](const Value& v, const Arguments&) -> Value { return v.as_bool() != nullptr && !*v.as_bool(); }},
    {"callable", [](const Value& v, const Arguments&) -> Value { return v.as_macro() != nullptr; }},
    {"odd", [](const Value& v, const Arguments&) -> Value { return v.whole() % 2 != 0; }},
    {"even", [](const Value& v, const Arguments&) -> Value { return v.whole() % 2 == 0; }},
    {"divisibleby",
     [](const Value& v, const Arguments& a) -> Value {
       if (operand(a).whole() == 0) throw TemplateError("divisibleby: found 0");
       return calculate(Operator::modulo, v, operand(a)).whole() == 0;
     }},
    {"eq", [](const Value& v, const Arguments& a) -> Value { return equal(v, operand(a)); }},
    {"equalto", [](const Value& v, const Arguments& a) -> Value { return equal(v, operand(a)); }},
    {"==", [](const Value& v, const Arguments& a) -> Value { return equal(v, operand(a)); }},
    {"ne", [](const Value& v, const Arguments& a) -> Value { return !equal(v, operand(a)); }},
    {"!=", [](const Value& v, const Arguments& a) -> Value { return !equal(v, operand(a)); }},
    {"lt", [](const Value& v, const Arguments& a) -> Value { return less(v, operand(a)); }},
    {"gt", [](const Value& v, const Arguments& a) -> Value { return less(operand(a), v); }},
    {"le", [](const Value& v, const Arguments& a) -> Value { return !less(operand(a), v); }},
    {"ge", [](const Value& v, const Arguments& a) -> Value { return !less(v, operand(a)); }},
    {"in", [](const Value& v, const Arguments& a) -> Value { return contains(operand(a), v); }},
    {"lower", [](const Value& v, const Arguments&) -> Value { return lower_text(v.text()) == v.text(); }},
    {"upper", [](const Value& v, const Arguments&) -> Value { return upper_text(v.text()) == v.text(); }},
});

// ---- filters ----------------------------------------------------------------------------------------------------

Value default_filter(const Value& self, const Arguments& arguments) {
  const bool also_false = arguments.get(1, "boolean", false).truth();
  return self.is_undefined() || (also_false && !self.truth()) ? arguments.get(0, "default_value", "") : self;
}

Value index_value(const std::string& digits) {
  std::int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    throw TemplateError("the index " + digits + " is too large");
  return value;
}

// The member `path` of a value: names and numbers with dots between.
Value path_member(Value value, const std::string& path) {
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t dot = std::min(path.find('.', at), path.size());
    const std::string name = path.substr(at, dot - at);
    const bool index = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    value = member(value, index ? index_value(name) : Value(name));
    at = dot + 1;
  }
  return value;
}

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments out = arguments;
  out.positional.erase(out.positional.begin(),
                       out.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, out.positional.size())));
  return out;
}

// select and reject, of items or of an attribute.
template <bool Attribute, bool Keeps>
Value choose(const Value& self, const Arguments& arguments) {
  constexpr std::size_t kTest = Attribute ? 1 : 0;
  Callable test = nullptr;
  if (arguments.positional.size() > kTest) {
    const std::string& name = arguments.text(kTest, "test");
    test = find_test(name);
    if (test == nullptr) throw TemplateError(fmt::format("the test '{}' is not supported", name));
  }
  const Arguments rest = without_first(arguments, kTest + 1);
  List out;
  for (const Value& item : items_of(self)) {
    const Value subject = Attribute ? path_member(item, arguments.text(0, "attribute")) : item;
    if ((test == nullptr ? subject.truth() : test(subject, rest).truth()) == Keeps) out.push_back(item);
  }
  return out;
}

Value map_filter(const Value& self, const Arguments& arguments) {
  List out;
  if (const Value* const attribute = arguments.find(std::string::npos, "attribute")) {
    for (const Value& item : items_of(self)) {
      Value found = path_member(item, attribute->text());
      out.push_back(found.is_undefined() ? arguments.get(std::string::npos, "default", std::move(found)) : found);
    }
    return out;
  }
  const std::string& name = arguments.text(0, "filter");
  const Callable filter = find_filter(name);
  if (filter == nullptr) throw TemplateError(fmt::format("the filter '{}' is not supported", name));
  const Arguments rest = without_first(arguments, 1);
  for (const Value& item : items_of(self)) out.push_back(filter(item, rest));
  return out;
}

Value join_filter(const Value& self, const Arguments& arguments) {
  List items = items_of(self);
  if (const Value* const attribute = arguments.find(1, "attribute"))
    for (Value& item : items) item = path_member(item, attribute->text());
  return joined(items, arguments.get(0, "d", "").text());
}

Value tojson(const Value& self, const Arguments& arguments) {
  JsonStyle style;
  style.ascii = arguments.get(0, "ensure_ascii", false).truth();
  const Value indent = arguments.get(1, "indent");
  if (!indent.is_none()) {
    style.indent = static_cast<int>(std::clamp<std::int64_t>(indent.whole(), 0, 64));
    style.item_separator = ",";
  }
  const Value separators = arguments.get(2, "separators");
  if (const List* pair = separators.as_list(); pair != nullptr && pair->size() == 2) {
    style.item_separator = (*pair)[0].text();
    style.key_separator = (*pair)[1].text();
  }
  style.sort_keys = arguments.get(3, "sort_keys", false).truth();
  return to_json(self, style);
}

Value indent_filter(const Value& self, const Arguments& arguments) {
  const Value width = arguments.get(0, "width", std::int64_t{4});
  const std::string pad =
      width.as_string() != nullptr
          ? *width.as_string()
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(width.whole(), 0, 1000)), ' ');
  const bool first = arguments.get(1, "first", false).truth(), blank = arguments.get(2, "blank", false).truth();
  const std::string text = self.text();
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const bool padded = at == 0 ? first : (blank || end > at);
    if (at > 0) out += '\n';
    if (padded) out += pad;
    out.append(text, at, end - at);
    at = end + 1;
  }
  return out;
}

// Compares texts without regard to case unless `exact`, as Jinja does.
bool sorts_before(const Value& a, const Value& b, bool exact) {
  if (!exact && a.as_string() != nullptr && b.as_string() != nullptr)
    return lower_text(*a.as_string()) < lower_text(*b.as_string());
  return less(a, b);
}

Value sort_filter(const Value& self, const Arguments& arguments) {
  List out = items_of(self);
  const bool reversed = arguments.get(0, "reverse", false).truth(),
             exact = arguments.get(1, "case_sensitive", false).truth();
  const Value attribute = arguments.get(2, "attribute");
  const auto key = [&](const Value& v) { return attribute.is_none() ? v : path_member(v, attribute.text()); };
  std::ranges::stable_sort(out, [&](const Value& a, const Value& b) {
    return reversed ? sorts_before(key(b), key(a), exact) : sorts_before(key(a), key(b), exact);
  });
  return out;
}

Value dictsort(const Value& self, const Arguments& arguments) {
  List out = *dict_items(self, {}).as_list();
  const bool exact = arguments.get(0, "case_sensitive", false).truth(),
             reversed = arguments.get(2, "reverse", false).truth();
  const std::size_t by = arguments.get(1, "by", "key").text() == "value" ? 1 : 0;
  std::ranges::stable_sort(out, [&](const Value& a, const Value& b) {
    const Value &x = (*a.as_list())[by], &y = (*b.as_list())[by];
    return reversed ? sorts_before(y, x, exact) : sorts_before(x, y, exact);
  });
  return out;
}

Value unique(const Value& self, const Arguments&) {
  List out;
  for (const Value& item : items_of(self))
    if (std::ranges::none_of(out, [&](const Value& other) { return equal(item, other); })) out.push_back(item);
  return out;
}

Value reverse(const Value& self, const Arguments&) { return slice(self, {}, {}, std::int64_t{-1}); }
Value first_item(const Value& self, const Arguments&) {
  const List items = items_of(self);
  return items.empty() ? Value::undefined("the first item of an empty list") : items.front();
}
Value last_item(const Value& self, const Arguments&) {
  const List items = items_of(self);
  return items.empty() ? Value::undefined("the last item of an empty list") : items.back();
}

Value to_int(const Value& self, const Arguments& arguments) {
  if (const double* number = self.as_float(); number != nullptr && std::abs(*number) < 9e18)
    return static_cast<std::int64_t>(*number);
  if (self.as_int() != nullptr || self.as_bool() != nullptr) return self.whole();
  const std::string text = stripped(self.text(), std::string(kWhite), true, true);
  std::int64_t out = 0;
  const auto [end, error] =
      std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), text.data() + text.size(), out);
  if (error == std::errc() && end == text.data() + text.size()) return out;
  return arguments.get(0, "default", std::int64_t{0});
}
Value to_float(const Value& self, const Arguments& arguments) {
  if (self.is_number()) return self.number();
  const std::string text = stripped(self.text(), std::string(kWhite), true, true);
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc() && end == text.data() + text.size()) return out;
  return arguments.get(0, "default", 0.0);
}

Value absolute(const Value& self, const Arguments&) {
  return self.number() < 0 ? calculate(Operator::subtract, std::int64_t{0}, self) : self;
}
Value round_filter(const Value& self, const Arguments& arguments) {
  const double scale = std::pow(10.0, arguments.get(0, "precision", std::int64_t{0}).number());
  const std::string method = arguments.get(1, "method", "common").text();
  const double value = self.number() * scale;
  return (method == "ceil" ? std::ceil(value) : method == "floor" ? std::floor(value) : std::nearbyint(value)) / scale;
}

Value sum_filter(const Value& self, const Arguments& arguments) {
  const Value attribute = arguments.get(0, "attribute");
  Value total = arguments.get(1, "start", std::int64_t{0});
  for (const Value& item : items_of(self)) {
    const Value part = attribute.is_none() ? item : path_member(item, attribute.text());
    total = calculate(Operator::add, total, part);
  }
  return total;
}
template <bool Largest>
Value extreme(const Value& self, const Arguments&) {
  const List items = items_of(self);
  if (items.empty()) return Value::undefined("the extreme of an empty list");
  return Largest ? *std::ranges::max_element(items, less) : *std::ranges::min_element(items, less);
}

constexpr auto kFilters = std::to_array<NamedCallable>({
    {"trim", strip_both},
    {"tojson", tojson},
    {"upper", [](const Value& v, const Arguments&) -> Value { return upper_text(v.text()); }},
    {"lower", [](const Value& v, const Arguments&) -> Value { return lower_text(v.text()); }},
    {"capitalize", capitalize},
    {"title", title},
    {"replace", replace},
    {"length", [](const Value& v, const Arguments&) -> Value { return length_of(v); }},
    {"count", [](const Value& v, const Arguments&) -> Value { return length_of(v); }},
    {"string", [](const Value& v, const Arguments&) -> Value { return v.text(); }},
    {"safe", [](const Value& v, const Arguments&) -> Value { return v; }},
    {"list", [](const Value& v, const Arguments&) -> Value { return items_of(v); }},
    {"items", dict_items},
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round_filter},
    {"sum", sum_filter},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"default", default_filter},
    {"d", default_filter},
    {"join", join_filter},
    {"first", first_item},
    {"last", last_item},
    {"map", map_filter},
    {"select", choose<false, true>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<true, false>},
    {"sort", sort_filter},
    {"dictsort", dictsort},
    {"unique", unique},
    {"reverse", reverse},
    {"indent", indent_filter},
});

// ---- functions --------------------------------------------------------------------------------------------------

Value range_function(const Value&, const Arguments& arguments) {
  std::int64_t begin = 0, end = arguments.get(0, "start").whole();
  if (arguments.positional.size() > 1) {
    begin = end;
    end = arguments.positional[1].whole();
  }
  const std::int64_t step = arguments.get(2, "step", std::int64_t{1}).whole();
  if (step == 0) throw TemplateError("range: the step is 0");
  List out;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<std::int64_t>(out.size()) == kLongestRange) throw TemplateError("range: more than 100000 numbers");
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;  // beyond every end
  }
  return out;
}

Value namespace_function(const Value&, const Arguments& arguments) {
  auto members = std::make_shared<Dict>();
  for (const Value& from : arguments.positional)
    for (const auto& [key, value] : dict_of(from).items) members->set(key, value);
  for (const auto& [key, value] : arguments.named) members->set(key, value);
  return Value::Namespace{std::move(members)};
}
Value dict_function(const Value&, const Arguments& arguments) {
  Dict out;
  for (const Value& from : arguments.positional)
    for (const auto& [key, value] : dict_of(from).items) out.set(key, value);
  for (const auto& [key, value] : arguments.named) out.set(key, value);
  return out;
}
Value raise_exception(const Value&, const Arguments& arguments) {
  throw TemplateError(arguments.get(0, "message").text());
}
Value strftime_now(const Value&, const Arguments& arguments) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 256> out{};
  const std::size_t size = std::strftime(out.data(), out.size(), arguments.text(0, "format").c_str(), &local);
  return std::string_view(out.data(), size);
}

constexpr auto kFunctions = std::to_array<NamedCallable>({{"range", range_function},
                                                          {"namespace", namespace_function},
                                                          {"dict", dict_function},
                                                          {"raise_exception", raise_exception},
                                                          {"strftime_now", strftime_now}});

}  // namespace

Callable find_filter(std::string_view name) { return look_up(kFilters, name); }
Callable find_test(std::string_view name) { return look_up(kTests, name); }
Callable find_function(std::string_view name) { return look_up(kFunctions, name); }

Value member(const Value& object, const Value& name) {
  object.required();
  const std::string* const key = name.as_string();
  if (key != nullptr) {
    const auto* const space = object.as_namespace();
    const Dict* const dict = space != nullptr ? space->members.get() : object.as_dict();
    const Value* const found = dict == nullptr ? nullptr : dict->find(*key);
    return found == nullptr ? Value::undefined(*key) : *found;
  }
  if (name.as_int() == nullptr) return Value::undefined(name.text());
  const std::int64_t size = object.as_list() != nullptr || object.as_string() != nullptr ? length_of(object) : 0;
  const std::int64_t at = *name.as_int() < 0 ? *name.as_int() + size : *name.as_int();
  if (at < 0 || at >= size) return Value::undefined(fmt::format("item {}", *name.as_int()));
  if (const List* list = object.as_list()) return (*list)[static_cast<std::size_t>(at)];
  return characters_of(*object.as_string())[static_cast<std::size_t>(at)];
}

Value slice(const Value& object, const Value& begin, const Value& end, const Value& step) {
  if (object.as_list() == nullptr && object.as_string() == nullptr)
    throw TemplateError("a list or text was expected, found " + object.kind());
  const List items = items_of(object);
  const auto size = static_cast<std::int64_t>(items.size());
  // Every step beyond the size takes one item, so it can be clamped.
  const std::int64_t stride = std::clamp(step.is_none() ? 1 : step.whole(), -(size + 1), size + 1);
  if (stride == 0) throw TemplateError("a slice's step is 0");
  const auto bound = [&](const Value& value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    const std::int64_t at = value.whole() < 0 ? value.whole() + size : value.whole();
    return stride > 0 ? std::clamp<std::int64_t>(at, 0, size) : std::clamp<std::int64_t>(at, -1, size - 1);
  };
  const std::int64_t from = bound(begin, stride > 0 ? 0 : size - 1), to = bound(end, stride > 0 ? size : -1);
  List out;
  for (std::int64_t i = from; stride > 0 ? i < to : i > to; i += stride)
    out.push_back(items[static_cast<std::size_t>(i)]);
  if (object.as_string() != nullptr) return joined(out, "");
  return out;
}

}  // namespace plimsoll::text
