// SPDX-License-Identifier: Apache-2.0
// Filters as Jinja 3.1 defines them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/template_helpers.h"
#include "text/template_text.h"
#include "text/template_value.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

constexpr std::int64_t kWidest = 1000;  // indentation

Value generator(List items) { return Sequence{.kind = Sequence::Kind::generator, .items = std::move(items)}; }

// A generator fails when it is read: `fill` adds its items and may throw.
template <class Fill>
Value lazily(const Fill& fill) {
  Sequence out{.kind = Sequence::Kind::generator, .items = {}};
  try {
    fill(out.items);
  } catch (const TemplateError& error) {
    out.problem = error.what();
  }
  return out;
}

Value default_filter(const Value& self, const Arguments& arguments) {
  const bool also_false = arguments.get(1, "boolean", false).truth();
  return self.is_undefined() || (also_false && !self.truth()) ? arguments.get(0, "default_value", "") : self;
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
  return lazily([&](List& out) {
    if (!self.truth()) return;
    const NamedCallable* test = nullptr;
    if (arguments.positional.size() > kTest) {
      const std::string& name = arguments.text(kTest, "test");
      test = find_test(name);
      if (test == nullptr) throw TemplateError(fmt::format("the test '{}' is not supported", name));
    }
    if (Attribute && arguments.positional.empty()) throw TemplateError("the name of an attribute is missing");
    const Arguments rest = without_first(arguments, kTest + 1);
    for (const Value& item : items_of(self)) {
      const Value subject = Attribute ? path_member(item, arguments.positional[0]) : item;
      if ((test == nullptr ? subject.truth() : (*test)(subject, rest).truth()) == Keeps) out.push_back(item);
    }
  });
}

Value map_filter(const Value& self, const Arguments& arguments) {
  return lazily([&](List& out) {
    if (!self.truth()) return;
    const Value* const path = arguments.find(std::string::npos, "attribute");
    if (arguments.positional.empty() && path != nullptr) {
      const Value fallback = arguments.get(std::string::npos, "default");
      for (const Value& item : items_of(self)) {
        const Value found = path_member(item, *path);
        out.push_back(found.is_undefined() && !fallback.is_none() ? fallback : found);
      }
      return;
    }
    const std::string& name = arguments.text(0, "filter");
    const NamedCallable* const filter = find_filter(name);
    if (filter == nullptr) throw TemplateError(fmt::format("the filter '{}' is not supported", name));
    const Arguments rest = without_first(arguments, 1);
    for (const Value& item : items_of(self)) out.push_back((*filter)(item, rest));
  });
}

Value join_filter(const Value& self, const Arguments& arguments) {
  const Value path = arguments.get(1, "attribute");
  const std::string by = arguments.get(0, "d", "").text();
  const List items = items_of(self);
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i)
    out += (i > 0 ? by : "") + (path.is_none() ? items[i] : path_member(items[i], path)).text();
  return out;
}

Value tojson(const Value& self, const Arguments& arguments) {
  JsonStyle style;
  style.ascii = arguments.get(0, "ensure_ascii", false).truth();
  const Value indent = arguments.get(1, "indent");
  if (!indent.is_none()) {
    const bool text = indent.as_string() != nullptr;
    style.indent = text ? *indent.as_string()
                        : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(indent.whole(), 0, 64)), ' ');
    style.item_separator = ",";
  }
  const Value separators = arguments.get(2, "separators");
  if (const List* pair = separators.as_list(); pair != nullptr && pair->size() == 2) {
    style.item_separator = text_of((*pair)[0]);
    style.key_separator = text_of((*pair)[1]);
  } else if (!separators.is_none()) {
    throw TemplateError("tojson: expected two separators, found " + separators.kind());
  }
  style.sort_keys = arguments.get(3, "sort_keys", false).truth();
  return to_json(self, style);
}

Value indent_filter(const Value& self, const Arguments& arguments) {
  const Value width = arguments.get(0, "width", std::int64_t{4});
  const std::string pad =
      width.as_string() != nullptr
          ? *width.as_string()
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(width.whole(), 0, kWidest)), ' ');
  if (width.as_string() == nullptr && width.whole() > kWidest)
    throw TemplateError("indent: more than 1000 is not supported");
  const bool first = arguments.get(1, "first", false).truth(), blank = arguments.get(2, "blank", false).truth();
  const std::string text = text_of(self.required()) + "\n";
  std::string out;
  const std::vector<std::string_view> lines = lines_of(text, false);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !lines[i].empty()) out += pad;
    out += lines[i];
  }
  return out;
}

// Like str.title(), but words begin behind blanks, hyphens and brackets only.
Value title_filter(const Value& self, const Arguments&) {
  const std::string text = self.text();
  std::string out, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    const std::size_t first = utf8_length(word[0]);
    out += upper_text(word.substr(0, first)) + lower_text(word.substr(first));
    word.clear();
  };
  for (const std::string_view c : characters_of(text)) {
    if (std::string_view("-({[<").find(c) == std::string_view::npos && after_spaces(c, 0) == 0) {
      word += c;
      continue;
    }
    end_word();
    out += c;
  }
  end_word();
  return out;
}

// ---- order ------------------------------------------------------------------------------------------------------

// What items are compared by: texts without regard to case unless `exact`, as Jinja does.
Value sort_key(const Value& value, bool exact) {
  return !exact && value.as_string() != nullptr ? Value(lower_text(*value.as_string())) : value;
}

List sorted(std::vector<std::pair<Value, Value>> keyed, bool reversed) {
  std::ranges::stable_sort(
      keyed, [&](const auto& a, const auto& b) { return reversed ? less(b.first, a.first) : less(a.first, b.first); });
  List out;
  for (auto& [key, value] : keyed) out.push_back(std::move(value));
  return out;
}

Value sort_filter(const Value& self, const Arguments& arguments) {
  const bool exact = arguments.get(1, "case_sensitive", false).truth();
  const Value path = arguments.get(2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items_of(self)) {
    List key;
    if (path.as_string() == nullptr) {
      key.push_back(sort_key(path.is_none() ? item : path_member(item, path), exact));
    } else {
      for (std::size_t at = 0; at <= path.as_string()->size();) {
        const std::size_t comma = std::min(path.as_string()->find(',', at), path.as_string()->size());
        key.push_back(sort_key(path_member(item, path.as_string()->substr(at, comma - at)), exact));
        at = comma + 1;
      }
    }
    keyed.emplace_back(std::move(key), item);
  }
  return sorted(std::move(keyed), arguments.get(0, "reverse", false).whole() != 0);
}

Value dictsort(const Value& self, const Arguments& arguments) {
  const std::string by = arguments.get(1, "by", "key").text();
  if (by != "key" && by != "value") throw TemplateError("dictsort: found by='" + by + "'");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& pair : pairs_of(dict_of(self)))
    keyed.emplace_back(
        sort_key((*pair.as_list())[by == "value" ? 1 : 0], arguments.get(0, "case_sensitive", false).truth()), pair);
  return sorted(std::move(keyed), arguments.get(2, "reverse", false).whole() != 0);
}

Value unique(const Value& self, const Arguments& arguments) {
  return lazily([&](List& out) {
    const bool exact = arguments.get(0, "case_sensitive", false).truth();
    const Value path = arguments.get(1, "attribute");
    List seen;
    for (const Value& item : items_of(self)) {
      const Value key = sort_key(path.is_none() ? item : path_member(item, path), exact);
      if (!key.hashable()) throw TemplateError("unique: " + key.kind() + " cannot be a key");
      if (std::ranges::any_of(seen, [&](const Value& other) { return equal(key, other); })) continue;
      seen.push_back(key);
      out.push_back(item);
    }
  });
}

template <bool Largest>
Value extreme(const Value& self, const Arguments& arguments) {
  const Value path = arguments.get(1, "attribute");
  const bool exact = arguments.get(0, "case_sensitive", false).truth();
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : items_of(self)) {
    Value key = sort_key(path.is_none() ? item : path_member(item, path), exact);
    if (!best || (Largest ? less(best->first, key) : less(key, best->first))) best.emplace(std::move(key), item);
  }
  return best ? best->second : Value::undefined("the minimum or maximum of an empty list");
}

Value reverse(const Value& self, const Arguments&) {
  if (self.as_string() != nullptr) return slice(self, {}, {}, std::int64_t{-1});
  List items = items_of(self);
  std::ranges::reverse(items);
  return self.is(Sequence::Kind::generator) ? Value(std::move(items)) : generator(std::move(items));
}
Value first_item(const Value& self, const Arguments&) {
  if (Sequence* const sequence = self.as_sequence(); self.is(Sequence::Kind::generator)) {
    if (sequence->taken < sequence->items.size()) return sequence->items[sequence->taken++];
    if (!sequence->problem.empty()) throw TemplateError(sequence->problem);
    return Value::undefined("the first item of an empty list");
  }
  const List items = items_of(self);
  return items.empty() ? Value::undefined("the first item of an empty list") : items.front();
}
Value last_item(const Value& self, const Arguments&) {
  if (self.is(Sequence::Kind::generator)) throw TemplateError("last: a generator cannot be read backwards");
  const List items = items_of(self);
  return items.empty() ? Value::undefined("the last item of an empty list") : items.back();
}

// ---- numbers ----------------------------------------------------------------------------------------------------

// The number that a text writes as Python reads it, with blanks around it and single underscores between digits.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
  std::string digits = trimmed(text, {});
  for (std::size_t at = digits.find('_'); at != std::string::npos; at = digits.find('_', at)) {
    const auto is_digit = [&](std::size_t i) { return i < digits.size() && digits[i] >= '0' && digits[i] <= '9'; };
    if (at == 0 || !is_digit(at - 1) || !is_digit(at + 1)) return std::nullopt;
    digits.erase(at, 1);
  }
  const bool plus = digits.size() > 1 && digits[0] == '+' && digits[1] != '-';
  Number out = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data() + (plus ? 1 : 0), end, out);
  if (error == std::errc::result_out_of_range) throw TemplateError("the number " + digits + " is too large");
  return error == std::errc() && stop == end ? std::optional(out) : std::nullopt;
}

std::optional<double> float_of(const Value& value) {
  if (value.required().is_number()) return value.number();
  return value.as_string() != nullptr ? number_in<double>(*value.as_string()) : std::nullopt;
}

Value to_int(const Value& self, const Arguments& arguments) {
  if (self.as_int() != nullptr || self.as_bool() != nullptr) return self.whole();
  if (self.as_string() != nullptr)
    if (const auto whole = number_in<std::int64_t>(*self.as_string())) return *whole;
  const std::optional<double> number = float_of(self);
  if (!number || !std::isfinite(*number)) return arguments.get(0, "default", std::int64_t{0});
  if (std::abs(*number) >= 9.2e18) throw TemplateError("int: the number is beyond 64 bits");
  return static_cast<std::int64_t>(*number);
}
Value to_float(const Value& self, const Arguments& arguments) {
  const std::optional<double> number = float_of(self);
  return number ? Value(*number) : arguments.get(0, "default", 0.0);
}

Value absolute(const Value& self, const Arguments&) {
  if (self.as_float() != nullptr) return std::abs(*self.as_float());
  return self.whole() < 0 ? calculate(Operator::subtract, std::int64_t{0}, self) : Value(self.whole());
}

// Python rounds the exact value, halves to the even digit.
double rounded(double value, std::int64_t precision) {
  if (!std::isfinite(value)) return value;
  if (precision >= 0) return std::stod(fmt::format("{:.{}f}", value, std::min<std::int64_t>(precision, 400)));
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / scale) * scale;
}
Value round_filter(const Value& self, const Arguments& arguments) {
  const Value places = arguments.get(0, "precision", std::int64_t{0});
  const std::string method = arguments.get(1, "method", "common").text();
  if (!self.is_number()) throw TemplateError("round: expected a number, found " + self.kind());
  if (method == "common" && places.is_none()) return to_int(rounded(self.number(), 0), {});
  const std::int64_t precision = places.whole();
  if (method == "common") {
    if (self.as_float() != nullptr) return rounded(self.number(), precision);
    return precision >= 0 ? self.whole() : static_cast<std::int64_t>(rounded(self.number(), precision));
  }
  if (method != "ceil" && method != "floor") throw TemplateError("round: found the method '" + method + "'");
  const double scale = std::pow(10.0, static_cast<double>(precision)), value = self.number() * scale;
  return (method == "ceil" ? std::ceil(value) : std::floor(value)) / scale;
}

Value sum_filter(const Value& self, const Arguments& arguments) {
  const Value path = arguments.get(0, "attribute");
  Value total = arguments.get(1, "start", std::int64_t{0});
  if (total.as_string() != nullptr) throw TemplateError("sum: strings cannot be summed");
  for (const Value& item : items_of(self))
    total = calculate(Operator::add, total, path.is_none() ? item : path_member(item, path));
  return total;
}

constexpr auto kFilters = std::to_array<NamedCallable>({
    {"trim", [](const Value& v, const Arguments& a) -> Value { return trimmed(v.text(), a.get(0, "chars")); }, "chars"},
    {"tojson", tojson, "ensure_ascii indent separators sort_keys"},
    {"upper", [](const Value& v, const Arguments&) -> Value { return upper_text(v.text()); }},
    {"lower", [](const Value& v, const Arguments&) -> Value { return lower_text(v.text()); }},
    {"capitalize", [](const Value& v, const Arguments&) -> Value { return capitalized(v.text()); }},
    {"title", title_filter},
    {"replace",
     [](const Value& v, const Arguments& a) -> Value {
       const Value count = a.get(2, "count");
       return replaced(v.text(), a.get(0, "old").text(), a.get(1, "new").text(), count.is_none() ? -1 : count.whole());
     },
     "old new count", 2},
    {"length", [](const Value& v, const Arguments&) -> Value { return length_of(v); }},
    {"count", [](const Value& v, const Arguments&) -> Value { return length_of(v); }},
    {"string", [](const Value& v, const Arguments&) -> Value { return v.text(); }},
    {"safe", [](const Value& v, const Arguments&) -> Value { return Value::safe_text(v.text()); }},
    {"list", [](const Value& v, const Arguments&) -> Value { return items_of(v); }},
    {"items",
     [](const Value& v, const Arguments&) -> Value {
       return lazily([&](List& out) {
         if (!v.is_undefined()) out = pairs_of(dict_of(v));
       });
     }},
    {"int", to_int, "default base"},
    {"float", to_float, "default"},
    {"abs", absolute},
    {"round", round_filter, "precision method"},
    {"sum", sum_filter, "attribute start"},
    {"min", extreme<false>, "case_sensitive attribute"},
    {"max", extreme<true>, "case_sensitive attribute"},
    {"default", default_filter, "default_value boolean"},
    {"d", default_filter, "default_value boolean"},
    {"join", join_filter, "d attribute"},
    {"first", first_item},
    {"last", last_item},
    {"map", map_filter, "*"},
    {"select", choose<false, true>, "*"},
    {"reject", choose<false, false>, "*"},
    {"selectattr", choose<true, true>, "*"},
    {"rejectattr", choose<true, false>, "*"},
    {"sort", sort_filter, "reverse case_sensitive attribute"},
    {"dictsort", dictsort, "case_sensitive by reverse"},
    {"unique", unique, "case_sensitive attribute"},
    {"reverse", reverse},
    {"indent", indent_filter, "width first blank"},
});

}  // namespace

const NamedCallable* find_filter(std::string_view name) { return look_up(kFilters, name); }

}  // namespace plimsoll::text
