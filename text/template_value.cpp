// SPDX-License-Identifier: Apache-2.0
#include "text/template_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "text/template_calls.h"
#include "text/template_text.h"

namespace plimsoll::text {
namespace {

// Formats a number as Python does.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string json_string(const std::string& text, bool ascii) {
  return nlohmann::json(text).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
}

class JsonWriter {
 public:
  explicit JsonWriter(JsonStyle style) : style_(std::move(style)) {}
  std::string out;

  void write(const Value& value, int depth) {
    if (value.is_none())
      out += "null";
    else if (const bool* flag = value.as_bool())
      out += *flag ? "true" : "false";
    else if (const double* number = value.as_float())
      out += std::isnan(*number)   ? "NaN"
             : std::isinf(*number) ? (*number > 0 ? "Infinity" : "-Infinity")
                                   : float_text(*number);
    else if (const std::string* text = value.as_string())
      out += json_string(*text, style_.ascii);
    else if (const List* list = value.as_list())
      write_list(*list, depth);
    else if (const Dict* dict = value.as_dict())
      write_dict(*dict, depth);
    else if (value.as_int() != nullptr)
      out += value.text();
    else
      throw TemplateError("tojson: " + value.kind() + " has no JSON form");
  }

 private:
  void line(int depth) {
    if (!style_.indent) return;
    out += '\n';
    for (int i = 0; i < depth; ++i) out += *style_.indent;
  }
  void write_list(const List& list, int depth) {
    if (list.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      line(depth + 1);
      write(list[i], depth + 1);
    }
    line(depth);
    out += ']';
  }
  // A key is a text in JSON.
  static std::string key_text(const Value& key) {
    if (key.as_string() != nullptr) return *key.as_string();
    if (!key.is_number() && !key.is_none()) throw TemplateError("tojson: found " + key.kind() + " as a key");
    JsonWriter writer({});
    writer.write(key, 0);
    return std::move(writer.out);
  }
  void write_dict(const Dict& dict, int depth) {
    if (dict.items.empty()) {
      out += "{}";
      return;
    }
    std::vector<std::size_t> order(dict.items.size());
    std::iota(order.begin(), order.end(), 0U);
    if (style_.sort_keys)
      std::ranges::sort(order,
                        [&](std::size_t a, std::size_t b) { return less(dict.items[a].first, dict.items[b].first); });
    out += '{';
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      line(depth + 1);
      const auto& [key, value] = dict.items[order[i]];
      out += json_string(key_text(key), style_.ascii) + style_.key_separator;
      write(value, depth + 1);
    }
    line(depth);
    out += '}';
  }

  JsonStyle style_;
};

}  // namespace

namespace {

constexpr std::size_t kDeepestValue = 200;

std::size_t checked_depth(std::size_t depth) {
  if (depth > kDeepestValue) throw TemplateError("values nest too deeply");
  return depth;
}

}  // namespace

const Value* Dict::find(const std::string& key) const {
  for (const auto& [name, value] : items)
    if (const std::string* text = name.as_string(); text != nullptr && *text == key) return &value;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (!key.hashable()) throw TemplateError(key.kind() + " cannot be a key");
  for (const auto& [name, value] : items)
    if (equal(name, key)) return &value;
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  if (!key.hashable()) throw TemplateError(key.kind() + " cannot be a key");
  depth = std::max(depth, checked_depth(value.depth() + 1));
  for (auto& [name, old] : items) {
    if (!equal(name, key)) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(key, std::move(value));
}

Value::Value(Sequence value) {
  for (const Value& item : value.items) value.depth = std::max(value.depth, checked_depth(item.depth() + 1));
  data_ = std::make_shared<Sequence>(std::move(value));
}

Value::Value(Dict value) {
  for (const auto& [key, item] : value.items) value.depth = std::max(value.depth, checked_depth(item.depth() + 1));
  data_ = std::make_shared<const Dict>(std::move(value));
}

std::size_t Value::depth() const {
  if (const Sequence* sequence = as_sequence()) return sequence->depth;
  if (const Dict* dict = as_dict()) return dict->depth;
  return as_namespace() != nullptr ? as_namespace()->members->depth : 0;
}

bool Value::contains_namespace(const Dict* members) const {
  const auto in_items = [&](const Dict& dict) {
    return std::ranges::any_of(dict.items, [&](const auto& item) { return item.second.contains_namespace(members); });
  };
  if (const Sequence* sequence = as_sequence())
    return std::ranges::any_of(sequence->items, [&](const Value& item) { return item.contains_namespace(members); });
  if (const Dict* dict = as_dict()) return in_items(*dict);
  if (const Function* function = as_function()) return function->self && function->self->contains_namespace(members);
  return as_namespace() != nullptr && (as_namespace()->members.get() == members || in_items(*as_namespace()->members));
}

Sequence* Value::as_sequence() const {
  const auto* const sequence = std::get_if<std::shared_ptr<Sequence>>(&data_);
  return sequence == nullptr ? nullptr : sequence->get();
}
const List* Value::as_list() const {
  return is(Sequence::Kind::list) || is(Sequence::Kind::tuple) ? &as_sequence()->items : nullptr;
}
const Dict* Value::as_dict() const {
  const auto* const dict = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return dict == nullptr ? nullptr : dict->get();
}

double Value::number() const {
  if (const bool* flag = as_bool()) return *flag ? 1 : 0;
  if (const std::int64_t* whole = as_int()) return static_cast<double>(*whole);
  if (const double* number = as_float()) return *number;
  throw TemplateError("expected a number, found " + kind());
}

std::int64_t Value::whole() const {
  if (const bool* flag = as_bool()) return *flag ? 1 : 0;
  if (const std::int64_t* whole = as_int()) return *whole;
  throw TemplateError("expected a whole number, found " + kind());
}

bool Value::hashable() const {
  if (is(Sequence::Kind::tuple)) return std::ranges::all_of(as_sequence()->items, &Value::hashable);
  return !is(Sequence::Kind::list) && as_dict() == nullptr;
}

bool Value::truth() const {
  if (is_none() || is_undefined()) return false;
  if (is_number()) return number() != 0;
  if (const std::string* text = as_string()) return !text->empty();
  if (const Sequence* items = as_sequence()) return items->kind == Sequence::Kind::generator || !items->items.empty();
  if (const Dict* dict = as_dict()) return !dict->items.empty();
  return true;
}

std::string Value::text() const {
  if (const std::string* text = as_string()) return *text;
  if (is_undefined()) return {};
  return repr();
}

namespace {

std::string dict_repr(const Dict& dict) {
  std::string out;
  for (const auto& [key, value] : dict.items) out += (out.empty() ? "" : ", ") + key.repr() + ": " + value.repr();
  return "{" + out + "}";
}

std::string sequence_repr(const Sequence& sequence) {
  if (sequence.kind == Sequence::Kind::range) return sequence.name;
  std::string out;
  for (const Value& item : sequence.items) out += (out.empty() ? "" : ", ") + item.repr();
  if (sequence.kind == Sequence::Kind::list) return "[" + out + "]";
  if (sequence.kind == Sequence::Kind::view) return sequence.name + "([" + out + "])";
  return "(" + out + (sequence.items.size() == 1 ? ",)" : ")");
}

}  // namespace

std::string Value::repr() const {
  if (is_none()) return "None";
  if (is_undefined()) return "Undefined";
  if (const bool* flag = as_bool()) return *flag ? "True" : "False";
  if (const std::int64_t* whole = as_int()) return fmt::format("{}", *whole);
  if (const double* number = as_float()) return float_text(*number);
  if (is_safe_text()) return "Markup(" + python_repr(*as_string()) + ")";
  if (const std::string* text = as_string()) return python_repr(*text);
  if (const Dict* dict = as_dict()) return dict_repr(*dict);
  if (const Namespace* space = as_namespace()) return "<Namespace " + dict_repr(*space->members) + ">";
  if (as_sequence() == nullptr || is(Sequence::Kind::generator)) throw TemplateError(kind() + " cannot be printed");
  return sequence_repr(*as_sequence());
}

std::string Value::kind() const {
  if (is_none()) return "none";
  if (const auto* undefined = std::get_if<Undefined>(&data_)) return "'" + undefined->name + "', which is undefined";
  if (as_bool() != nullptr) return "a boolean";
  if (is_number()) return "a number";
  if (as_string() != nullptr) return "a string";
  if (as_dict() != nullptr) return "a dictionary";
  if (as_namespace() != nullptr) return "a namespace";
  if (as_macro() != nullptr) return "a macro";
  if (const Function* function = as_function())
    return fmt::format("the {} '{}'", function->self ? "method" : "function", function->callable->name);
  constexpr const char* kKinds[] = {"a list", "a tuple", "a range", "a dictionary view", "a generator"};
  return kKinds[static_cast<std::size_t>(as_sequence()->kind)];
}

const Value& Value::required() const {
  if (is_undefined()) throw TemplateError("found " + kind());
  return *this;
}

namespace {

bool equal_sequences(const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  if (a.kind != Sequence::Kind::view)
    return a.kind != Sequence::Kind::generator && std::ranges::equal(a.items, b.items, equal);
  const auto in_b = [&](const Value& x) {
    return std::ranges::any_of(b.items, [&](const Value& y) { return equal(x, y); });
  };
  return a.name == b.name && a.name != kValuesView && std::ranges::all_of(a.items, in_b);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  return a.items.size() == b.items.size() && std::ranges::all_of(a.items, [&](const auto& item) {
           const Value* const other = b.find(item.first);
           return other != nullptr && equal(item.second, *other);
         });
}

bool less_lists(const List& a, const List& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!equal(a[i], b[i])) return less(a[i], b[i]);
  return a.size() < b.size();
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.as_float() != nullptr || b.as_float() != nullptr) return a.number() == b.number();
    return a.whole() == b.whole();
  }
  if (a.as_string() != nullptr && b.as_string() != nullptr) return *a.as_string() == *b.as_string();
  if (a.is_none() || a.is_undefined()) return a.is_none() == b.is_none() && a.is_undefined() == b.is_undefined();
  if (a.as_sequence() != nullptr && b.as_sequence() != nullptr)
    return equal_sequences(*a.as_sequence(), *b.as_sequence());
  if (a.as_dict() != nullptr && b.as_dict() != nullptr) return equal_dicts(*a.as_dict(), *b.as_dict());
  if (a.as_namespace() != nullptr && b.as_namespace() != nullptr)
    return a.as_namespace()->members == b.as_namespace()->members;
  if (a.as_macro() != nullptr && b.as_macro() != nullptr) return a.as_macro()->node == b.as_macro()->node;
  return false;
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.as_float() != nullptr || b.as_float() != nullptr) return a.number() < b.number();
    return a.whole() < b.whole();
  }
  if (a.as_string() != nullptr && b.as_string() != nullptr) return *a.as_string() < *b.as_string();
  if (a.as_list() != nullptr && b.as_list() != nullptr && a.as_sequence()->kind == b.as_sequence()->kind)
    return less_lists(*a.as_list(), *b.as_list());
  throw TemplateError(fmt::format("{} and {} cannot be compared", a.kind(), b.kind()));
}

bool contains(const Value& container, const Value& item) {
  if (const std::string* text = container.as_string()) {
    if (item.as_string() == nullptr) throw TemplateError("'in' a string: expected a string, found " + item.kind());
    return text->find(*item.as_string()) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) return dict->find(item) != nullptr;
  if (container.is_undefined()) return false;
  if (container.as_sequence() == nullptr) throw TemplateError("'in': cannot search in " + container.kind());
  return std::ranges::any_of(items_of(container), [&](const Value& other) { return equal(item, other); });
}

List items_of(const Value& value) {
  if (Sequence* const sequence = value.as_sequence()) {
    if (sequence->kind != Sequence::Kind::generator) return sequence->items;
    if (!sequence->problem.empty()) throw TemplateError(sequence->problem);
    const auto begin = sequence->items.begin() + static_cast<std::ptrdiff_t>(sequence->taken);
    sequence->taken = sequence->items.size();
    return {begin, sequence->items.end()};
  }
  List out;
  if (value.is_undefined()) return out;
  if (const Dict* dict = value.as_dict()) {
    for (const auto& [key, unused] : dict->items) out.emplace_back(key);
  } else if (const std::string* text = value.as_string()) {
    for (const std::string_view c : characters_of(*text)) out.emplace_back(c);
  } else {
    throw TemplateError("expected a list, found " + value.kind());
  }
  return out;
}

std::int64_t length_of(const Value& value) {
  if (value.is(Sequence::Kind::generator)) throw TemplateError("a generator has no length");
  if (const std::string* text = value.as_string()) return static_cast<std::int64_t>(characters_of(*text).size());
  return static_cast<std::int64_t>(items_of(value).size());
}

Value from_json(const nlohmann::ordered_json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX)
    throw TemplateError("the number " + json.dump() + " is beyond 64 bits");
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List out;
    for (const auto& item : json) out.push_back(from_json(item));
    return out;
  }
  if (json.is_object()) {
    Dict out;
    for (const auto& [key, item] : json.items()) out.items.emplace_back(key, from_json(item));
    return out;
  }
  return {};
}

std::string to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace plimsoll::text
