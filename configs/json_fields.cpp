// SPDX-License-Identifier: Apache-2.0
// nlohmann-json does not report the positions of values. Here it reads through an iterator that records how far it has
// got, so the callback for a name knows the position of that name.
#include "configs/json_fields.h"

#include <fmt/format.h>

#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "configs/quantity.h"
#include "configs/text_file.h"

namespace plimsoll::configs {

namespace {

using nlohmann::json;

constexpr int kMaxJsonDepth = 64;

/// Iterates over a text and stores in `reached` how many characters were read.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const std::string& text, std::size_t at, std::size_t& reached)
      : text_(&text), at_(at), reached_(&reached) {}
  reference operator*() const { return (*text_)[at_]; }
  TrackedIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  TrackedIterator operator++(int) {
    const TrackedIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const TrackedIterator& other) const { return at_ == other.at_; }

 private:
  const std::string* text_;
  std::size_t at_;
  std::size_t* reached_;
};

/// Refuses input that nlohmann-json accepts, and collects the positions of the outermost object's names.
class Watcher {
 public:
  Watcher(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  bool operator()(int depth, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= kMaxJsonDepth) throw InputError(here(), fmt::format("nested deeper than {} levels", kMaxJsonDepth));
      names_.resize(static_cast<std::size_t>(depth) + 1);
      names_.back().clear();
    }
    if (event == json::parse_event_t::key) add(depth, value.get<std::string>());
    return true;
  }
  [[nodiscard]] Where here() const { return place_in(text_, reached == 0 ? 0 : reached - 1, file_); }
  [[nodiscard]] std::map<std::string, Where> places() && { return std::move(places_); }

  std::size_t reached = 0;

 private:
  void add(int depth, const std::string& name) {
    const std::size_t quotes = 2;
    const std::size_t length = name.size() + quotes;  // without escapes, which field names do not contain
    // Computed only on demand: a long file has tens of thousands of names.
    const auto where = [&] { return place_in(text_, reached >= length ? reached - length : 0, file_); };
    names_.resize(static_cast<std::size_t>(depth));
    if (!names_.back().insert(name).second)
      throw InputError(where(), fmt::format("'{}' occurs twice in one object", shortened(name)));
    if (depth == 1) places_.emplace(name, where());
  }

  const std::string& text_;
  const std::string& file_;
  std::vector<std::set<std::string>> names_;  // of the objects that are currently open
  std::map<std::string, Where> places_;
};

// Returns the reason in "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …; last read:
// '…'". Omits the position, which Where holds, and the last input, which may not be text.
std::string reason(const json::exception& error) {
  std::string_view text = error.what();
  if (const std::size_t end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
  if (text.starts_with("parse error"))
    if (const std::size_t end = text.find(": "); end != std::string_view::npos) text.remove_prefix(end + 2);
  return shortened(text.substr(0, text.find("; last read")), 200);
}

std::string described(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return fmt::format("'{}'", shortened(value.get<std::string>()));
  return value.dump();
}

}  // namespace

JsonFields JsonFields::from_file(const std::string& path) {
  const std::string text = read_text_file(path, "a Hugging Face config.json");
  Watcher watcher(text, path);
  JsonFields fields;
  fields.file_ = path;
  fields.whole_ = {path, 0, 0};
  try {
    fields.object_ = json::parse(TrackedIterator(text, 0, watcher.reached),
                                 TrackedIterator(text, text.size(), watcher.reached), std::ref(watcher));
  } catch (const json::exception& error) {
    throw InputError(watcher.here(), fmt::format("not valid JSON: {}", reason(error)));
  }
  if (!fields.object_.is_object())
    throw InputError(Where{path, 1, 1}, fmt::format("found {}, expected an object {{…}}", described(fields.object_)));
  fields.places_ = std::move(watcher).places();
  return fields;
}

// Checkpoints use several names for one field; the first one found is used.
JsonFields::Found JsonFields::look_up(const FieldName& field) const {
  for (const std::string& name : field.names())
    if (const auto found = object_.find(name); found != object_.end()) return {name, &*found};
  return {field.names().front(), nullptr};
}

const json* JsonFields::find(const FieldName& field) const { return look_up(field).value; }

bool JsonFields::is_null(const FieldName& field) const {
  const json* value = find(field);
  return value == nullptr || value->is_null();
}

// A nested field has no position of its own, so the error points to the outermost field that contains it.
void JsonFields::fail(const FieldName& field, const std::string& text) const {
  const Found found = look_up(field);
  const auto place = places_.find(found.name);
  throw InputError(place == places_.end() ? whole_ : place->second, fmt::format("{}{}: {}", outer_, found.name, text));
}

std::optional<JsonFields> JsonFields::inside(const FieldName& field) const {
  const Found found = look_up(field);
  if (found.value == nullptr || found.value->is_null()) return {};
  if (!found.value->is_object())
    fail(field, fmt::format("found {}, expected an object {{…}}", described(*found.value)));
  JsonFields fields;
  fields.file_ = file_;
  fields.outer_ = outer_ + found.name + '.';
  fields.object_ = *found.value;
  const auto place = places_.find(found.name);
  fields.whole_ = place == places_.end() ? whole_ : place->second;
  return fields;
}

void JsonFields::add_defaults(const json& defaults) {
  for (const auto& [name, value] : defaults.items())
    if (!object_.contains(name)) object_[name] = value;
}

// Compares unsigned numbers as unsigned, because a value above 2^63 would become negative.
std::int32_t JsonFields::converted(const FieldName& field, const json& value, Range range) const {
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(range.max)
                                               : value.is_number_integer() && value.get<std::int64_t>() <= range.max;
  if (!fits || value.get<std::int64_t>() < range.min)
    fail(field, fmt::format("found {}, expected a whole number from {} to {}", described(value), range.min, range.max));
  return static_cast<std::int32_t>(value.get<std::int64_t>());
}

std::int32_t JsonFields::whole(const FieldName& field, Range range) const {
  const json* value = find(field);
  if (value == nullptr)
    fail(field, fmt::format("is missing, expected a whole number from {} to {}", range.min, range.max));
  return converted(field, *value, range);
}

std::int32_t JsonFields::whole_or(const FieldName& field, Range range, std::int32_t fallback) const {
  const json* value = find(field);
  return value == nullptr || value->is_null() ? fallback : converted(field, *value, range);
}

double JsonFields::number_or(const FieldName& field, double min, double max, double fallback) const {
  const json* value = find(field);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_number() || value->get<double>() < min || value->get<double>() > max)
    fail(field, fmt::format("found {}, expected a number from {} to {}", described(*value), number_text(min),
                            number_text(max)));
  return value->get<double>();
}

bool JsonFields::flag_or(const FieldName& field, bool fallback) const {
  const json* value = find(field);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_boolean()) fail(field, fmt::format("found {}, expected true or false", described(*value)));
  return value->get<bool>();
}

std::string JsonFields::text(const FieldName& field) const {
  const json* value = find(field);
  if (value == nullptr) fail(field, "is missing, expected text");
  if (!value->is_string()) fail(field, fmt::format("found {}, expected text", described(*value)));
  return value->get<std::string>();
}

std::string JsonFields::text_or(const FieldName& field, const std::string& fallback) const {
  return is_null(field) ? fallback : text(field);
}

}  // namespace plimsoll::configs
