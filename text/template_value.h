// SPDX-License-Identifier: Apache-2.0
// The values of a chat template, with the meaning that Python and Jinja give them. Private to the template's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll::text {

/// A template failed on this conversation; what() says why.
class TemplateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Value;
using List = std::vector<Value>;
/// What a loop can visit, besides texts and dictionaries.
struct Sequence {
  enum class Kind : std::uint8_t { list, tuple, range, view, generator };
  Kind kind = Kind::list;
  List items;
  std::string name = {};     // how Python calls it: a range with its bounds, or the kind of view
  std::size_t taken = 0;     // how many items were read of a generator, which can be read once
  std::string problem = {};  // why a generator ends before its end
  std::size_t depth = 0;     // how deeply the items nest
};
/// The names of views.
inline constexpr const char *kKeysView = "dict_keys", *kValuesView = "dict_values", *kItemsView = "dict_items";
/// A dictionary in order of insertion; chat templates have small ones.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  /// Returns null if there is none. Throws TemplateError for a value that cannot be a key.
  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* find(const std::string& key) const;
  void set(const Value& key, Value value);
  std::size_t depth = 0;  // how deeply the items nest
};
struct MacroNode;
struct Scope;
/// A macro and the scope that it was defined in, which ends before the macro if that is kept elsewhere.
struct MacroValue {
  const MacroNode* node = nullptr;
  Scope* scope = nullptr;
  std::weak_ptr<const bool> alive;  // as long as the scope
};
struct NamedCallable;
/// A function, or a method and what it applies to.
struct Function {
  const NamedCallable* callable = nullptr;
  std::shared_ptr<const Value> self;
};

/// One value. Sequences and dictionaries are shared and never change, but that a generator is read. A namespace is
/// shared and changes.
class Value {
 public:
  struct Undefined {
    std::string name;  // for messages
  };
  struct Namespace {
    std::shared_ptr<Dict> members;
  };

  Value() = default;  // none
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string value) : data_(std::move(value)) {}
  Value(std::string_view value) : data_(std::string(value)) {}
  Value(const char* value) : data_(std::string(value)) {}
  Value(List value) : Value(Sequence{.kind = Sequence::Kind::list, .items = std::move(value)}) {}
  Value(Sequence value);
  Value(Dict value);
  Value(Namespace value) : data_(std::move(value)) {}
  Value(MacroValue value) : data_(std::move(value)) {}
  Value(Function value) : data_(std::move(value)) {}
  [[nodiscard]] static Value undefined(std::string name) {
    Value out;
    out.data_ = Undefined{std::move(name)};
    return out;
  }

  /// A text that the filter `safe` returned: where texts are joined, Jinja escapes the other ones.
  [[nodiscard]] static Value safe_text(std::string text) {
    Value out(std::move(text));
    out.safe_ = true;
    return out;
  }
  [[nodiscard]] bool is_safe_text() const { return safe_; }

  [[nodiscard]] bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<std::monostate>(data_); }
  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&data_); }
  [[nodiscard]] const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data_); }
  [[nodiscard]] const double* as_float() const { return std::get_if<double>(&data_); }
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&data_); }
  /// Returns the items of a list or a tuple.
  [[nodiscard]] const List* as_list() const;
  [[nodiscard]] Sequence* as_sequence() const;
  [[nodiscard]] const Dict* as_dict() const;
  [[nodiscard]] const Namespace* as_namespace() const { return std::get_if<Namespace>(&data_); }
  [[nodiscard]] const MacroValue* as_macro() const { return std::get_if<MacroValue>(&data_); }
  [[nodiscard]] const Function* as_function() const { return std::get_if<Function>(&data_); }
  [[nodiscard]] bool is(Sequence::Kind kind) const { return as_sequence() != nullptr && as_sequence()->kind == kind; }
  /// Returns how deeply sequences and dictionaries nest.
  [[nodiscard]] std::size_t depth() const;
  /// Returns whether the value contains the namespace of these members.
  [[nodiscard]] bool contains_namespace(const Dict* members) const;
  /// Returns whether the value can be a dictionary's key in Python.
  [[nodiscard]] bool hashable() const;
  /// Returns whether the value is a number; true and false are 1 and 0.
  [[nodiscard]] bool is_number() const { return as_bool() != nullptr || as_int() != nullptr || as_float() != nullptr; }
  [[nodiscard]] double number() const;
  /// Returns a whole number. Throws TemplateError for another value.
  [[nodiscard]] std::int64_t whole() const;

  [[nodiscard]] bool truth() const;
  /// Returns the text that an expression prints. Throws TemplateError for a value whose text is an address in Python.
  [[nodiscard]] std::string text() const;
  /// Returns Python's repr().
  [[nodiscard]] std::string repr() const;
  /// Returns a name for messages, such as "a list".
  [[nodiscard]] std::string kind() const;
  /// Throws TemplateError for an undefined value.
  const Value& required() const;

 private:
  std::variant<std::monostate, Undefined, bool, std::int64_t, double, std::string, std::shared_ptr<Sequence>,
               std::shared_ptr<const Dict>, Namespace, MacroValue, Function>
      data_;
  bool safe_ = false;
};

[[nodiscard]] bool equal(const Value& a, const Value& b);
/// Returns a < b. Throws TemplateError for values without an order.
[[nodiscard]] bool less(const Value& a, const Value& b);
[[nodiscard]] bool contains(const Value& container, const Value& item);
/// Returns the items that a loop visits: of a sequence, the keys of a dictionary, the characters of a text. Reads a
/// generator to its end.
[[nodiscard]] List items_of(const Value& value);
/// Returns the length in items or characters.
[[nodiscard]] std::int64_t length_of(const Value& value);

[[nodiscard]] Value from_json(const nlohmann::ordered_json& json);

/// How tojson writes: Python's json.dumps().
struct JsonStyle {
  std::optional<std::string> indent = {};  // of one level; none: on one line
  bool sort_keys = false;
  bool ascii = false;
  std::string item_separator = ", ", key_separator = ": ";
};
[[nodiscard]] std::string to_json(const Value& value, const JsonStyle& style);

// ---- operators, as Python defines them (template_operators.cpp) ------------------------------------------------

enum class Operator : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power, concatenate };
enum class Comparison : std::uint8_t { equal, unequal, less, at_most, greater, at_least, in, not_in };

/// Both throw TemplateError for operands that the operator does not take.
[[nodiscard]] Value calculate(Operator op, const Value& a, const Value& b);
[[nodiscard]] bool compare(Comparison comparison, const Value& a, const Value& b);
/// Returns nullopt for a sign that is no comparison.
[[nodiscard]] std::optional<Comparison> comparison_of(std::string_view sign);

}  // namespace plimsoll::text
