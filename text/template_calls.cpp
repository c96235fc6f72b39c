// SPDX-License-Identifier: Apache-2.0
// Tests and functions as Jinja 3.1 defines them, members and slices as Python does.
#include "text/template_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "text/template_helpers.h"
#include "text/template_text.h"
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
    throw TemplateError(fmt::format("argument '{}': expected a string", name));
  return *found->as_string();
}

Value NamedCallable::operator()(const Value& self, const Arguments& arguments) const {
  if (parameters == "*") return function(self, arguments);
  std::vector<std::string_view> names;
  bool by_name = true;
  for (std::string_view rest = parameters; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word == "/")
      by_name = false;
    else
      names.push_back(word);
  }
  const std::size_t given = arguments.positional.size();
  if (given > names.size()) throw TemplateError(fmt::format("{}: at most {} arguments", name, names.size()));
  for (const auto& [key, value] : arguments.named) {
    const auto found = std::ranges::find(names, std::string_view(key));
    if (!by_name || found == names.end() || static_cast<std::size_t>(found - names.begin()) < given)
      throw TemplateError(fmt::format("{}: found the argument '{}'", name, key));
  }
  for (std::size_t i = given; i < required; ++i)
    if (arguments.find(i, names[i]) == nullptr)
      throw TemplateError(fmt::format("{}: the argument '{}' is missing", name, names[i]));
  return function(self, arguments);
}

namespace {

constexpr std::int64_t kLongestRange = 100'000;

// ---- tests ------------------------------------------------------------------------------------------------------

template <Comparison kind>
Value compared(const Value& v, const Arguments& arguments) {
  return compare(kind, v, arguments.positional[0]);
}
bool has_remainder(const Value& v, std::int64_t divisor) {
  return !equal(calculate(Operator::modulo, v, divisor), std::int64_t{0});
}
bool is_callable(const Value& v) { return v.as_macro() != nullptr || v.as_function() != nullptr || v.is_undefined(); }
bool is_iterable(const Value& v) {
  return v.as_string() != nullptr || v.as_sequence() != nullptr || v.as_dict() != nullptr || v.is_undefined();
}
// Has a length and an index.
bool is_sequence(const Value& v) {
  return is_iterable(v) && !v.is(Sequence::Kind::view) && !v.is(Sequence::Kind::generator);
}

constexpr auto kTests = std::to_array<NamedCallable>({
    {"defined", [](const Value& v, const Arguments&) -> Value { return !v.is_undefined(); }},
    {"undefined", [](const Value& v, const Arguments&) -> Value { return v.is_undefined(); }},
    {"none", [](const Value& v, const Arguments&) -> Value { return v.is_none(); }},
    {"string", [](const Value& v, const Arguments&) -> Value { return v.as_string() != nullptr; }},
    {"mapping", [](const Value& v, const Arguments&) -> Value { return v.as_dict() != nullptr; }},
    {"iterable", [](const Value& v, const Arguments&) -> Value { return is_iterable(v); }},
    {"sequence", [](const Value& v, const Arguments&) -> Value { return is_sequence(v); }},
    {"number", [](const Value& v, const Arguments&) -> Value { return v.is_number(); }},
    {"integer", [](const Value& v, const Arguments&) -> Value { return v.as_int() != nullptr; }},
    {"float", [](const Value& v, const Arguments&) -> Value { return v.as_float() != nullptr; }},
    {"boolean", [](const Value& v, const Arguments&) -> Value { return v.as_bool() != nullptr; }},
    {"true", [](const Value& v, const Arguments&) -> Value { return v.as_bool() != nullptr && *v.as_bool(); }},
    {"false", [](const Value& v, const Arguments&) -> Value { return v.as_bool() != nullptr && !*v.as_bool(); }},
    {"callable", [](const Value& v, const Arguments&) -> Value { return is_callable(v); }},
    {"odd",
     [](const Value& v, const Arguments&) -> Value {
       return equal(calculate(Operator::modulo, v, std::int64_t{2}), std::int64_t{1});
     }},
    {"even", [](const Value& v, const Arguments&) -> Value { return !has_remainder(v, 2); }},
    {"divisibleby",
     [](const Value& v, const Arguments& a) -> Value {
       return equal(calculate(Operator::modulo, v, a.get(0, "num")), std::int64_t{0});
     },
     "num", 1},
    {"lower", [](const Value& v, const Arguments&) -> Value { return consists_of(v.text(), Letters::lower); }},
    {"upper", [](const Value& v, const Arguments&) -> Value { return consists_of(v.text(), Letters::upper); }},
    {"in", [](const Value& v, const Arguments& a) -> Value { return contains(a.get(0, "seq"), v); }, "seq", 1},
    {"eq", compared<Comparison::equal>, "/ other", 1},
    {"equalto", compared<Comparison::equal>, "/ other", 1},
    {"==", compared<Comparison::equal>, "/ other", 1},
    {"ne", compared<Comparison::unequal>, "/ other", 1},
    {"!=", compared<Comparison::unequal>, "/ other", 1},
    {"lt", compared<Comparison::less>, "/ other", 1},
    {"lessthan", compared<Comparison::less>, "/ other", 1},
    {"<", compared<Comparison::less>, "/ other", 1},
    {"gt", compared<Comparison::greater>, "/ other", 1},
    {"greaterthan", compared<Comparison::greater>, "/ other", 1},
    {">", compared<Comparison::greater>, "/ other", 1},
    {"le", compared<Comparison::at_most>, "/ other", 1},
    {"<=", compared<Comparison::at_most>, "/ other", 1},
    {"ge", compared<Comparison::at_least>, "/ other", 1},
    {">=", compared<Comparison::at_least>, "/ other", 1},
});

// ---- functions --------------------------------------------------------------------------------------------------

Value range_function(const Value&, const Arguments& arguments) {
  std::int64_t begin = 0, end = arguments.get(0, "").whole();
  if (arguments.positional.size() > 1) {
    begin = end;
    end = arguments.positional[1].whole();
  }
  const std::int64_t step = arguments.get(2, "", std::int64_t{1}).whole();
  if (step == 0) throw TemplateError("range: the step is 0");
  List out;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<std::int64_t>(out.size()) == kLongestRange) throw TemplateError("range: more than 100000 numbers");
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;  // beyond every end
  }
  std::string name =
      step == 1 ? fmt::format("range({}, {})", begin, end) : fmt::format("range({}, {}, {})", begin, end, step);
  return Sequence{.kind = Sequence::Kind::range, .items = std::move(out), .name = std::move(name)};
}

// The members that dict() and namespace() take from a dictionary or pairs.
Dict members_of(const Arguments& arguments) {
  Dict out;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0].required();
    if (from.as_dict() != nullptr) {
      out = *from.as_dict();
    } else {
      for (const Value& pair : items_of(from)) {
        const List parts = items_of(pair);
        if (parts.size() != 2) throw TemplateError("dict: pairs were expected, found " + pair.kind());
        out.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [key, value] : arguments.named) out.set(key, value);
  if (arguments.positional.size() > 1) throw TemplateError("dict: more than one argument");
  return out;
}
Value namespace_function(const Value&, const Arguments& arguments) {
  auto members = std::make_shared<Dict>(members_of(arguments));
  for (const auto& [key, value] : members->items)
    if (key.as_string() != nullptr) check_namespace_name(*key.as_string());
  return Value::Namespace{std::move(members)};
}
Value dict_function(const Value&, const Arguments& arguments) { return members_of(arguments); }
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

constexpr auto kFunctions = std::to_array<NamedCallable>({{"range", range_function, "/ start stop step", 1},
                                                          {"namespace", namespace_function, "*"},
                                                          {"dict", dict_function, "*"},
                                                          {"raise_exception", raise_exception, "message", 1},
                                                          {"strftime_now", strftime_now, "format", 1}});

std::int64_t size_of(const Value& value) {
  return value.as_string() != nullptr ? length_of(value) : static_cast<std::int64_t>(value.as_sequence()->items.size());
}
bool has_index(const Value& value) {
  return value.as_list() != nullptr || value.is(Sequence::Kind::range) || value.as_string() != nullptr;
}
const Dict* members_of(const Value& value) {
  return value.as_namespace() != nullptr ? value.as_namespace()->members.get() : value.as_dict();
}

std::int64_t index_value(const std::string& digits) {
  std::int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    throw TemplateError("the index " + digits + " is too large");
  return value;
}

}  // namespace

const NamedCallable* find_test(std::string_view name) { return look_up(kTests, name); }
const NamedCallable* find_function(std::string_view name) { return look_up(kFunctions, name); }

void check_namespace_name(const std::string& name) {
  if (name.starts_with('_')) throw TemplateError("a namespace holds no '" + name + "': names do not begin with '_'");
}

Value attribute(const Value& object, const std::string& name) {
  object.required();
  if (auto method = find_method(object, name)) return *method;
  const Dict* const members = members_of(object);
  const Value* const found = members == nullptr ? nullptr : members->find(name);
  return found == nullptr ? Value::undefined(name) : *found;
}

Value member(const Value& object, const Value& key) {
  object.required();
  if (const std::string* name = key.as_string()) {
    const Dict* const members = members_of(object);
    if (const Value* const found = members == nullptr ? nullptr : members->find(*name)) return *found;
    return find_method(object, *name).value_or(Value::undefined(*name));
  }
  if (const Dict* const dict = object.as_dict()) {
    const Value* const found = key.hashable() ? dict->find(key) : nullptr;
    return found == nullptr ? Value::undefined("item " + key.kind()) : *found;
  }
  if (!has_index(object) || (key.as_int() == nullptr && key.as_bool() == nullptr))
    return Value::undefined("item " + (key.is_number() ? key.text() : key.kind()));
  const std::int64_t size = size_of(object), at = key.whole() < 0 ? key.whole() + size : key.whole();
  if (at < 0 || at >= size) return Value::undefined("item " + key.text());
  if (object.as_sequence() != nullptr) return object.as_sequence()->items[static_cast<std::size_t>(at)];
  return characters_of(*object.as_string())[static_cast<std::size_t>(at)];
}

Value path_member(Value value, const Value& path) {
  if (path.as_string() == nullptr) return path.is_none() ? value : member(value, path);
  for (std::size_t at = 0; at <= path.as_string()->size();) {
    const std::size_t dot = std::min(path.as_string()->find('.', at), path.as_string()->size());
    const std::string name = path.as_string()->substr(at, dot - at);
    const bool index = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    value = member(value, index ? index_value(name) : Value(name));
    at = dot + 1;
  }
  return value;
}

Value slice(const Value& object, const Value& begin, const Value& end, const Value& step) {
  object.required();
  if (object.is(Sequence::Kind::range)) throw TemplateError("a slice of a range is not supported");
  if (!has_index(object)) throw TemplateError("expected a list or string, found " + object.kind());
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
  std::string text;
  for (std::int64_t i = from; stride > 0 ? i < to : i > to; i += stride) {
    const Value& item = items[static_cast<std::size_t>(i)];
    if (object.as_string() != nullptr)
      text += *item.as_string();
    else
      out.push_back(item);
  }
  if (object.as_string() != nullptr) return text;
  return Sequence{.kind = object.as_sequence()->kind, .items = std::move(out)};
}

}  // namespace plimsoll::text
