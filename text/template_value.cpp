// SPDX-License-Identifier: Apache-2.0
#include "text/template_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "text/utf8.h"

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

std::string string_repr(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out.push_back(c);
  }
  return out + quote;
}

std::string json_string(const std::string& text, bool ascii) {
  return nlohmann::json(text).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}
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
    if (style_.indent >= 0) out += "\n" + std::string(static_cast<std::size_t>(style_.indent * depth), ' ');
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
  void write_dict(const Dict& dict, int depth) {
    if (dict.items.empty()) {
      out += "{}";
      return;
    }
    std::vector<std::size_t> order(dict.items.size());
    std::iota(order.begin(), order.end(), 0U);
    if (style_.sort_keys) std::ranges::sort(order, {}, [&](std::size_t i) { return dict.items[i].first; });
    out += '{';
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      line(depth + 1);
      const auto& [key, value] = dict.items[order[i]];
      out += json_string(key, style_.ascii) + style_.key_separator;
      write(value, depth + 1);
    }
    line(depth);
    out += '}';
  }

  const JsonStyle& style_;
};

}  // namespace

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items)
    if (name == key) return &value;
  return nullptr;
}

void Dict::set(std::string key, Value value) {
  for (auto& [name, old] : items) {
    if (name != key) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(std::move(key), std::move(value));
}

const List* Value::as_list() const {
  const auto* const list = std::get_if<std::shared_ptr<const List>>(&data_);
  return list == nullptr ? nullptr : list->get();
}
const Dict* Value::as_dict() const {
  const auto* const dict = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return dict == nullptr ? nullptr : dict->get();
}

double Value::number() const {
  if (const bool* flag = as_bool()) return *flag ? 1 : 0;
  if (const std::int64_t* whole = as_int()) return static_cast<double>(*whole);
  if (const double* number = as_float()) return *number;
  throw TemplateError("a number was expected, found " + kind());
}

std::int64_t Value::whole() const {
  if (const bool* flag = as_bool()) return *flag ? 1 : 0;
  if (const std::int64_t* whole = as_int()) return *whole;
  throw TemplateError("a whole number was expected, found " + kind());
}

bool Value::truth() const {
  if (is_none() || is_undefined()) return false;
  if (is_number()) return number() != 0;
  if (const std::string* text = as_string()) return !text->empty();
  if (const List* list = as_list()) return !list->empty();
  if (const Dict* dict = as_dict()) return !dict->items.empty();
  return true;
}

std::string Value::text() const {
  if (const std::string* text = as_string()) return *text;
  if (is_undefined()) return {};
  return repr();
}

std::string Value::repr() const {
  if (is_none()) return "None";
  if (is_undefined()) return "Undefined";
  if (const bool* flag = as_bool()) return *flag ? "True" : "False";
  if (const std::int64_t* whole = as_int()) return fmt::format("{}", *whole);
  if (const double* number = as_float()) return float_text(*number);
  if (const std::string* text = as_string()) return string_repr(*text);
  std::string out;
  if (const List* list = as_list()) {
    for (const Value& item : *list) out += (out.empty() ? "" : ", ") + item.repr();
    return "[" + out + "]";
  }
  if (const Dict* dict = as_dict()) {
    for (const auto& [key, value] : dict->items)
      out += (out.empty() ? "" : ", ") + string_repr(key) + ": " + value.repr();
    return "{" + out + "}";
  }
  return "<" + kind() + ">";
}

std::string Value::kind() const {
  if (is_none()) return "none";
  if (const auto* undefined = std::get_if<Undefined>(&data_)) return "'" + undefined->name + "', which is undefined";
  if (as_bool() != nullptr) return "a truth value";
  if (is_number()) return "a number";
  if (as_string() != nullptr) return "a text";
  if (as_list() != nullptr) return "a list";
  if (as_dict() != nullptr) return "a dictionary";
  return as_macro() != nullptr ? "a macro" : "a namespace";
}

const Value& Value::required() const {
  if (is_undefined()) throw TemplateError("found " + kind());
  return *this;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.as_string() != nullptr && b.as_string() != nullptr) return *a.as_string() == *b.as_string();
  if (a.is_none() || a.is_undefined()) return a.is_none() == b.is_none() && a.is_undefined() == b.is_undefined();
  if (const List* x = a.as_list(), *y = b.as_list(); x != nullptr && y != nullptr)
    return std::ranges::equal(*x, *y, equal);
  const Dict *x = a.as_dict(), *y = b.as_dict();
  if (x == nullptr || y == nullptr || x->items.size() != y->items.size()) return false;
  return std::ranges::all_of(x->items, [&](const auto& item) {
    const Value* const other = y->find(item.first);
    return other != nullptr && equal(item.second, *other);
  });
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.as_string() != nullptr && b.as_string() != nullptr) return *a.as_string() < *b.as_string();
  if (const List* x = a.as_list(), *y = b.as_list(); x != nullptr && y != nullptr)
    return std::ranges::lexicographical_compare(*x, *y, less);
  throw TemplateError(fmt::format("{} and {} have no order", a.kind(), b.kind()));
}

bool contains(const Value& container, const Value& item) {
  if (const std::string* text = container.as_string()) {
    if (item.as_string() == nullptr) throw TemplateError("'in' a text: a text was expected, found " + item.kind());
    return text->find(*item.as_string()) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict())
    return item.as_string() != nullptr && dict->find(*item.as_string()) != nullptr;
  if (const List* list = container.as_list())
    return std::ranges::any_of(*list, [&](const Value& other) { return equal(item, other); });
  if (container.is_undefined()) return false;
  throw TemplateError("'in': nothing is in " + container.kind());
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min(utf8_length(text[at]), text.size() - at);
    out.push_back(text.substr(at, length));
    at += length;
  }
  return out;
}

List items_of(const Value& value) {
  if (const List* list = value.as_list()) return *list;
  List out;
  if (value.is_undefined()) return out;
  if (const Dict* dict = value.as_dict()) {
    for (const auto& [key, unused] : dict->items) out.emplace_back(key);
  } else if (const std::string* text = value.as_string()) {
    for (const std::string_view c : characters_of(*text)) out.emplace_back(c);
  } else {
    throw TemplateError("a list was expected, found " + value.kind());
  }
  return out;
}

std::int64_t length_of(const Value& value) {
  if (const std::string* text = value.as_string()) return static_cast<std::int64_t>(characters_of(*text).size());
  if (const Dict* dict = value.as_dict()) return static_cast<std::int64_t>(dict->items.size());
  return static_cast<std::int64_t>(items_of(value).size());
}

Value from_json(const nlohmann::ordered_json& json) {
  if (json.is_boolean()) return json.get<bool>();
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
