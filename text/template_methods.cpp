// SPDX-License-Identifier: Apache-2.0
// Methods of texts, lists and dictionaries as Python 3 defines them.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "text/template_helpers.h"
#include "text/utf8.h"

namespace plimsoll::text {

Callable look_up(std::span<const NamedCallable> table, std::string_view name) {
  for (const NamedCallable& entry : table)
    if (entry.name == name) return entry.call;
  return nullptr;
}

std::string stripped(const std::string& text, const std::string& set, bool left, bool right) {
  const std::vector<std::string_view> members = characters_of(set);
  const auto is_member = [&](std::string_view c) { return std::ranges::find(members, c) != members.end(); };
  const std::vector<std::string_view> characters = characters_of(text);
  std::size_t begin = 0, end = characters.size();
  while (left && begin < end && is_member(characters[begin])) ++begin;
  while (right && end > begin && is_member(characters[end - 1])) --end;
  std::string out;
  for (std::size_t i = begin; i < end; ++i) out += characters[i];
  return out;
}

std::string joined(const List& items, const std::string& by) {
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) out += (i > 0 ? by : "") + items[i].text();
  return out;
}

const Dict& dict_of(const Value& value) {
  if (const auto* space = value.as_namespace()) return *space->members;
  if (value.as_dict() == nullptr) throw TemplateError("a dictionary was expected, found " + value.kind());
  return *value.as_dict();
}

namespace {

const std::string& text_of(const Value& value) {
  if (value.as_string() == nullptr) throw TemplateError("a text was expected, found " + value.kind());
  return *value.as_string();
}

Value strip(const Value& self, const Arguments& arguments, bool left, bool right) {
  const Value* const set = arguments.find(0, "chars");
  const bool given = set != nullptr && !set->is_none();
  return stripped(self.text(),
                  given ? text_of(*set) : std::string(kWhite) + "\x1c\x1d\x1e\x1f\u0085\u00a0\u2028\u2029\u3000", left,
                  right);
}

template <utf8proc_int32_t (*Convert)(utf8proc_int32_t)>
std::string converted(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<utf8proc_int32_t>(read_code_point(text, at));
    append_utf8(out, static_cast<char32_t>(Convert(c)));
  }
  return out;
}

Value upper(const Value& self, const Arguments&) { return upper_text(self.text()); }
Value lower(const Value& self, const Arguments&) { return lower_text(self.text()); }

// The first character as in a title, the rest in lower case.
std::string capitalized(const std::string& word) {
  if (word.empty()) return word;
  const std::size_t first = utf8_length(word[0]);
  return converted<utf8proc_totitle>(word.substr(0, first)) + lower_text(word.substr(first));
}

bool is_cased(std::string_view character) {
  std::size_t at = 0;
  const auto c = static_cast<utf8proc_int32_t>(read_code_point(character, at));
  return utf8proc_tolower(c) != c || utf8proc_toupper(c) != c;
}

std::string replaced(const std::string& text, const Arguments& arguments) {
  const std::string &from = arguments.text(0, "old"), &to = arguments.text(1, "new");
  const Value count = arguments.get(2, "count");
  std::int64_t left = count.is_none() ? -1 : count.whole();
  std::string out;
  std::size_t done = 0;
  if (from.empty()) throw TemplateError("replace: an empty text cannot be replaced");
  for (std::size_t at = text.find(from); at != std::string::npos && left != 0; at = text.find(from, done), --left) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  return out.append(text, done);
}

List split_at_blanks(const std::string& text, std::int64_t most) {
  List out;
  std::size_t at = text.find_first_not_of(kWhite);
  while (at != std::string::npos) {
    if (most >= 0 && static_cast<std::int64_t>(out.size()) == most) {
      out.emplace_back(text.substr(at, text.find_last_not_of(kWhite) + 1 - at));
      break;
    }
    const std::size_t end = std::min(text.find_first_of(kWhite, at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kWhite, end);
  }
  return out;
}

Value split(const Value& self, const Arguments& arguments) {
  const std::string& text = text_of(self);
  const Value separator = arguments.get(0, "sep");
  const std::int64_t most = arguments.get(1, "maxsplit", std::int64_t{-1}).whole();
  if (separator.is_none()) return split_at_blanks(text, most);
  const std::string& by = text_of(separator);
  if (by.empty()) throw TemplateError("split: the separator is empty");
  List out;
  std::size_t done = 0;
  for (std::size_t at = text.find(by); at != std::string::npos; at = text.find(by, done)) {
    if (most >= 0 && static_cast<std::int64_t>(out.size()) == most) break;
    out.emplace_back(text.substr(done, at - done));
    done = at + by.size();
  }
  out.emplace_back(text.substr(done));
  return out;
}

Value rsplit(const Value& self, const Arguments& arguments) {
  const std::string& text = text_of(self);
  const Value separator = arguments.get(0, "sep");
  const std::int64_t most = arguments.get(1, "maxsplit", std::int64_t{-1}).whole();
  if (separator.is_none() || most < 0) return split(self, arguments);
  const std::string& by = text_of(separator);
  if (by.empty()) throw TemplateError("rsplit: the separator is empty");
  List out;
  std::size_t end = text.size();
  while (static_cast<std::int64_t>(out.size()) < most && end >= by.size()) {
    const std::size_t at = text.rfind(by, end - by.size());
    if (at == std::string::npos) break;
    out.emplace_back(text.substr(at + by.size(), end - at - by.size()));
    end = at;
  }
  out.emplace_back(text.substr(0, end));
  std::ranges::reverse(out);
  return out;
}

Value splitlines(const Value& self, const Arguments&) {
  const std::string& text = text_of(self);
  List out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\r", at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return out;
}

bool any_affix(const Value& affixes, bool (*has)(const std::string&, const std::string&), const std::string& text) {
  if (const List* list = affixes.as_list())
    return std::ranges::any_of(*list, [&](const Value& affix) { return has(text, text_of(affix)); });
  return has(text, text_of(affixes));
}
Value startswith(const Value& self, const Arguments& arguments) {
  return any_affix(
      arguments.get(0, "prefix"),
      [](const std::string& text, const std::string& affix) { return text.starts_with(affix); }, text_of(self));
}
Value endswith(const Value& self, const Arguments& arguments) {
  return any_affix(
      arguments.get(0, "suffix"),
      [](const std::string& text, const std::string& affix) { return text.ends_with(affix); }, text_of(self));
}
Value removeprefix(const Value& self, const Arguments& arguments) {
  const std::string &text = text_of(self), &affix = arguments.text(0, "prefix");
  return text.starts_with(affix) ? text.substr(affix.size()) : text;
}
Value removesuffix(const Value& self, const Arguments& arguments) {
  const std::string &text = text_of(self), &affix = arguments.text(0, "suffix");
  return text.ends_with(affix) ? text.substr(0, text.size() - affix.size()) : text;
}

std::int64_t character_index(const std::string& text, std::size_t at) {
  if (at == std::string::npos) return -1;
  return static_cast<std::int64_t>(characters_of(std::string_view(text).substr(0, at)).size());
}
Value find_text(const Value& self, const Arguments& arguments) {
  return character_index(text_of(self), text_of(self).find(arguments.text(0, "sub")));
}
Value rfind_text(const Value& self, const Arguments& arguments) {
  return character_index(text_of(self), text_of(self).rfind(arguments.text(0, "sub")));
}
Value count_in(const Value& self, const Arguments& arguments) {
  const Value item = arguments.get(0, "sub");
  if (self.as_string() == nullptr)
    return static_cast<std::int64_t>(
        std::ranges::count_if(items_of(self), [&](const Value& x) { return equal(x, item); }));
  std::int64_t count = 0;
  const std::string &text = text_of(self), &part = text_of(item);
  if (part.empty()) return length_of(self) + 1;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

template <bool (*Is)(char)>
Value all_are(const Value& self, const Arguments&) {
  const std::string& text = text_of(self);
  return !text.empty() && std::ranges::all_of(text, Is);
}
bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return kWhite.find(c) != std::string_view::npos; }

Value join_method(const Value& self, const Arguments& arguments) {
  return joined(items_of(arguments.get(0, "iterable")), text_of(self));
}

Value dict_keys(const Value& self, const Arguments&) { return items_of(self); }
Value dict_values(const Value& self, const Arguments&) {
  List out;
  for (const auto& [key, value] : dict_of(self).items) out.push_back(value);
  return out;
}
Value dict_get(const Value& self, const Arguments& arguments) {
  const Value key = arguments.get(0, "key");
  const Value* const found = key.as_string() == nullptr ? nullptr : dict_of(self).find(*key.as_string());
  return found == nullptr ? arguments.get(1, "default") : *found;
}

Value strip_left(const Value& self, const Arguments& arguments) { return strip(self, arguments, true, false); }
Value strip_right(const Value& self, const Arguments& arguments) { return strip(self, arguments, false, true); }

}  // namespace

std::string upper_text(const std::string& text) { return converted<utf8proc_toupper>(text); }
std::string lower_text(const std::string& text) { return converted<utf8proc_tolower>(text); }

Value capitalize(const Value& self, const Arguments&) { return capitalized(self.text()); }
Value title(const Value& self, const Arguments&) {
  const std::string text = self.text();  // its characters are views
  std::string out, word;
  for (const std::string_view c : characters_of(text)) {
    if (is_cased(c)) {
      word += c;
      continue;
    }
    out += capitalized(word);
    out += c;
    word.clear();
  }
  return out + capitalized(word);
}
Value replace(const Value& self, const Arguments& arguments) { return replaced(self.text(), arguments); }
Value dict_items(const Value& self, const Arguments&) {
  List out;
  for (const auto& [key, value] : dict_of(self).items) out.emplace_back(List{Value(key), value});
  return out;
}
Value strip_both(const Value& self, const Arguments& arguments) { return strip(self, arguments, true, true); }

namespace {

constexpr auto kMethods = std::to_array<NamedCallable>({{"strip", strip_both},
                                                        {"lstrip", strip_left},
                                                        {"rstrip", strip_right},
                                                        {"upper", upper},
                                                        {"lower", lower},
                                                        {"capitalize", capitalize},
                                                        {"title", title},
                                                        {"replace", replace},
                                                        {"split", split},
                                                        {"rsplit", rsplit},
                                                        {"splitlines", splitlines},
                                                        {"startswith", startswith},
                                                        {"endswith", endswith},
                                                        {"removeprefix", removeprefix},
                                                        {"removesuffix", removesuffix},
                                                        {"find", find_text},
                                                        {"rfind", rfind_text},
                                                        {"count", count_in},
                                                        {"isdigit", all_are<is_decimal>},
                                                        {"isspace", all_are<is_blank>},
                                                        {"join", join_method},
                                                        {"items", dict_items},
                                                        {"keys", dict_keys},
                                                        {"values", dict_values},
                                                        {"get", dict_get}});

}  // namespace

Callable find_method(std::string_view name) { return look_up(kMethods, name); }

}  // namespace plimsoll::text
