// SPDX-License-Identifier: Apache-2.0
// Methods of texts, lists and dictionaries as Python 3 defines them.
#include <algorithm>
#include <array>

#include "text/template_helpers.h"
#include "text/template_text.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

std::string stripped(const std::string& text, const Value& chars, bool left, bool right) {
  if (chars.is_none()) {
    std::string_view rest = text;
    if (left) rest = left_stripped(rest);
    return std::string(right ? right_stripped(rest) : rest);
  }
  const std::vector<std::string_view> members = characters_of(text_of(chars)), characters = characters_of(text);
  const auto is_member = [&](std::string_view c) { return std::ranges::find(members, c) != members.end(); };
  std::size_t begin = 0, end = characters.size();
  while (left && begin < end && is_member(characters[begin])) ++begin;
  while (right && end > begin && is_member(characters[end - 1])) --end;
  std::string out;
  for (std::size_t i = begin; i < end; ++i) out += characters[i];
  return out;
}

template <bool Left, bool Right>
Value strip(const Value& self, const Arguments& arguments) {
  return stripped(text_of(self), arguments.get(0, "chars"), Left, Right);
}

Value upper(const Value& self, const Arguments&) { return upper_text(text_of(self)); }
Value lower(const Value& self, const Arguments&) { return lower_text(text_of(self)); }
Value capitalize(const Value& self, const Arguments&) { return capitalized(text_of(self)); }
Value title(const Value& self, const Arguments&) { return titled(text_of(self)); }

Value replace_method(const Value& self, const Arguments& arguments) {
  return replaced(text_of(self), arguments.text(0, "old"), arguments.text(1, "new"),
                  arguments.get(2, "count", std::int64_t{-1}).whole());
}

List split_at_blanks(std::string_view text, std::int64_t most) {
  List out;
  for (std::size_t at = after_spaces(text, 0); at < text.size();) {
    if (most >= 0 && static_cast<std::int64_t>(out.size()) == most) {
      out.emplace_back(text.substr(at));  // with the blanks at its end
      break;
    }
    const std::size_t end = next_space(text, at);
    out.emplace_back(text.substr(at, end - at));
    at = after_spaces(text, end);
  }
  return out;
}

// From the right; the words are in reversed order.
List rsplit_at_blanks(std::string_view text, std::int64_t most) {
  List out;
  for (text = right_stripped(text); !text.empty(); text = right_stripped(text)) {
    std::size_t begin = 0;
    for (std::size_t at = next_space(text, 0); at < text.size(); at = next_space(text, begin))
      begin = after_spaces(text, at);
    if (static_cast<std::int64_t>(out.size()) == most) begin = 0;
    out.emplace_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  return out;
}

const std::string& separator_of(const Value& value) {
  if (text_of(value).empty()) throw TemplateError("split: the separator is empty");
  return text_of(value);
}

Value split(const Value& self, const Arguments& arguments) {
  const std::string& text = text_of(self);
  const Value separator = arguments.get(0, "sep");
  const std::int64_t most = arguments.get(1, "maxsplit", std::int64_t{-1}).whole();
  if (separator.is_none()) return split_at_blanks(text, most);
  const std::string& by = separator_of(separator);
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
  if (most < 0 && separator.is_none()) return split_at_blanks(text, most);
  List out;
  if (separator.is_none()) {
    out = rsplit_at_blanks(text, most);
  } else {
    const std::string& by = separator_of(separator);
    std::size_t end = text.size();
    while ((most < 0 || static_cast<std::int64_t>(out.size()) < most) && end >= by.size()) {
      const std::size_t at = text.rfind(by, end - by.size());
      if (at == std::string::npos) break;
      out.emplace_back(text.substr(at + by.size(), end - at - by.size()));
      end = at;
    }
    out.emplace_back(text.substr(0, end));
  }
  std::ranges::reverse(out);
  return out;
}

template <bool FromRight>
Value partition(const Value& self, const Arguments& arguments) {
  const std::string& text = text_of(self);
  const Value separator = arguments.get(0, "sep");
  const std::string& by = separator_of(separator);
  const std::size_t at = FromRight ? text.rfind(by) : text.find(by);
  List out{text, "", ""};
  if (at != std::string::npos)
    out = {text.substr(0, at), by, text.substr(at + by.size())};
  else if (FromRight)
    out = {"", "", text};
  return Sequence{.kind = Sequence::Kind::tuple, .items = std::move(out)};
}

Value splitlines(const Value& self, const Arguments& arguments) {
  List out;
  for (const std::string_view line : lines_of(text_of(self), arguments.get(0, "keepends", false).truth()))
    out.emplace_back(line);
  return out;
}

// The part of a text that the arguments `start` and `end` choose, in characters; nothing if it begins behind the end.
struct Part {
  std::string_view text;
  std::int64_t begin = 0;
};
std::optional<Part> part_of(const std::string& text, const Arguments& arguments) {
  if (arguments.positional.size() < 2) return Part{text};
  const std::vector<std::string_view> characters = characters_of(text);
  const auto size = static_cast<std::int64_t>(characters.size());
  const auto bound = [&](std::size_t position, std::int64_t fallback) {
    const Value value = arguments.get(position, "");
    if (value.is_none()) return fallback;
    return value.whole() < 0 ? std::max<std::int64_t>(value.whole() + size, 0) : value.whole();
  };
  const std::int64_t begin = bound(1, 0), end = std::min(bound(2, size), size);
  if (begin > size || begin > end) return std::nullopt;
  const auto byte = [&](std::int64_t at) {
    return at == size ? text.size()
                      : static_cast<std::size_t>(characters[static_cast<std::size_t>(at)].data() - text.data());
  };
  return Part{std::string_view(text).substr(byte(begin), byte(end) - byte(begin)), begin};
}

template <bool AtEnd>
Value has_affix(const Value& self, const Arguments& arguments) {
  const std::optional<Part> part = part_of(text_of(self), arguments);
  const auto has = [&](const Value& affix) {
    const std::string& text = text_of(affix);
    return part && (AtEnd ? part->text.ends_with(text) : part->text.starts_with(text));
  };
  const Value affixes = arguments.get(0, "");
  return affixes.is(Sequence::Kind::tuple) ? std::ranges::any_of(*affixes.as_list(), has) : has(affixes);
}
Value removeprefix(const Value& self, const Arguments& arguments) {
  const std::string &text = text_of(self), &affix = arguments.text(0, "prefix");
  return text.starts_with(affix) ? text.substr(affix.size()) : text;
}
Value removesuffix(const Value& self, const Arguments& arguments) {
  const std::string &text = text_of(self), &affix = arguments.text(0, "suffix");
  return text.ends_with(affix) ? text.substr(0, text.size() - affix.size()) : text;
}

template <bool FromRight, bool Required>
Value find_text(const Value& self, const Arguments& arguments) {
  const std::string& wanted = arguments.text(0, "sub");
  const std::optional<Part> part = part_of(text_of(self), arguments);
  const std::size_t at = !part ? std::string::npos : FromRight ? part->text.rfind(wanted) : part->text.find(wanted);
  if (at != std::string::npos)
    return part->begin + static_cast<std::int64_t>(characters_of(part->text.substr(0, at)).size());
  if (Required) throw TemplateError("index: the substring is not found");
  return std::int64_t{-1};
}

Value count_in(const Value& self, const Arguments& arguments) {
  const std::string& wanted = arguments.text(0, "sub");
  const std::optional<Part> part = part_of(text_of(self), arguments);
  if (!part) return std::int64_t{0};
  if (wanted.empty()) return static_cast<std::int64_t>(characters_of(part->text).size()) + 1;
  std::int64_t count = 0;
  for (std::size_t at = part->text.find(wanted); at != std::string::npos;
       at = part->text.find(wanted, at + wanted.size()))
    ++count;
  return count;
}

template <Letters Kind>
Value all_are(const Value& self, const Arguments&) {
  return consists_of(text_of(self), Kind);
}

Value join_method(const Value& self, const Arguments& arguments) {
  std::string out;
  const List items = items_of(arguments.get(0, "iterable").required());
  for (std::size_t i = 0; i < items.size(); ++i) out += (i > 0 ? text_of(self) : "") + text_of(items[i]);
  return out;
}

// Python's str.format() for fields that only name an argument.
Value format(const Value& self, const Arguments& arguments) {
  const std::string& text = text_of(self);
  std::string out;
  std::int64_t next = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((c == '{' || c == '}') && at + 1 < text.size() && text[at + 1] == c) {
      out += c;
      ++at;
    } else if (c == '{') {
      const std::size_t end = text.find('}', at);
      const std::string name = text.substr(at + 1, std::min(end, text.size()) - at - 1);
      if (end == std::string::npos || name.find_first_of(".[:!{") != std::string::npos)
        throw TemplateError("format: the field '{" + name + "' is not supported");
      const bool counts = name.find_first_not_of("0123456789") == std::string::npos && name.size() < 4;
      const std::int64_t position = name.empty() ? next++ : counts ? std::stoi(name) : -1;
      const Value* const found = counts ? arguments.find(static_cast<std::size_t>(position), "")
                                        : arguments.find(arguments.positional.size(), name);
      if (found == nullptr) throw TemplateError("format: the field '{" + name + "}' has no argument");
      out += found->text();
      at = end;
    } else if (c == '}') {
      throw TemplateError("format: a '}' stands alone");
    } else {
      out += c;
    }
  }
  return out;
}

Value count_items(const Value& self, const Arguments& arguments) {
  const Value item = arguments.get(0, "");
  return static_cast<std::int64_t>(
      std::ranges::count_if(*self.as_list(), [&](const Value& x) { return equal(x, item); }));
}
Value index_of(const Value& self, const Arguments& arguments) {
  const Value item = arguments.get(0, "");
  const auto found = std::ranges::find_if(*self.as_list(), [&](const Value& x) { return equal(x, item); });
  if (found == self.as_list()->end()) throw TemplateError("index: the item is not in the list");
  return static_cast<std::int64_t>(found - self.as_list()->begin());
}

Value view(List items, const char* name) {
  return Sequence{.kind = Sequence::Kind::view, .items = std::move(items), .name = name};
}
Value dict_items(const Value& self, const Arguments&) { return view(pairs_of(dict_of(self)), kItemsView); }
Value dict_keys(const Value& self, const Arguments&) { return view(items_of(self), kKeysView); }
Value dict_values(const Value& self, const Arguments&) {
  List out;
  for (const auto& [key, value] : dict_of(self).items) out.push_back(value);
  return view(std::move(out), kValuesView);
}
Value dict_get(const Value& self, const Arguments& arguments) {
  const Value* const found = dict_of(self).find(arguments.get(0, ""));
  return found == nullptr ? arguments.get(1, "") : *found;
}
Value copy(const Value& self, const Arguments&) { return self; }

constexpr unsigned kText = 1, kList = 2, kTuple = 4, kDict = 8;
struct Method {
  NamedCallable callable;
  unsigned kinds;
};
constexpr auto kMethods = std::to_array<Method>({
    {{"strip", strip<true, true>, "/ chars"}, kText},
    {{"lstrip", strip<true, false>, "/ chars"}, kText},
    {{"rstrip", strip<false, true>, "/ chars"}, kText},
    {{"upper", upper}, kText},
    {{"lower", lower}, kText},
    {{"capitalize", capitalize}, kText},
    {{"title", title}, kText},
    {{"replace", replace_method, "/ old new count", 2}, kText},
    {{"split", split, "sep maxsplit"}, kText},
    {{"rsplit", rsplit, "sep maxsplit"}, kText},
    {{"partition", partition<false>, "/ sep", 1}, kText},
    {{"rpartition", partition<true>, "/ sep", 1}, kText},
    {{"splitlines", splitlines, "keepends"}, kText},
    {{"startswith", has_affix<false>, "/ prefix start end", 1}, kText},
    {{"endswith", has_affix<true>, "/ suffix start end", 1}, kText},
    {{"removeprefix", removeprefix, "/ prefix", 1}, kText},
    {{"removesuffix", removesuffix, "/ suffix", 1}, kText},
    {{"find", find_text<false, false>, "/ sub start end", 1}, kText},
    {{"rfind", find_text<true, false>, "/ sub start end", 1}, kText},
    {{"index", find_text<false, true>, "/ sub start end", 1}, kText},
    {{"rindex", find_text<true, true>, "/ sub start end", 1}, kText},
    {{"count", count_in, "/ sub start end", 1}, kText},
    {{"isdigit", all_are<Letters::digits>}, kText},
    {{"isdecimal", all_are<Letters::decimal>}, kText},
    {{"isalpha", all_are<Letters::alphabetic>}, kText},
    {{"isalnum", all_are<Letters::alphanumeric>}, kText},
    {{"isspace", all_are<Letters::spaces>}, kText},
    {{"islower", all_are<Letters::lower>}, kText},
    {{"isupper", all_are<Letters::upper>}, kText},
    {{"join", join_method, "/ iterable", 1}, kText},
    {{"format", format, "*"}, kText},
    {{"count", count_items, "/ value", 1}, kList | kTuple},
    {{"index", index_of, "/ value", 1}, kList | kTuple},
    {{"items", dict_items}, kDict},
    {{"keys", dict_keys}, kDict},
    {{"values", dict_values}, kDict},
    {{"get", dict_get, "/ key default", 1}, kDict},
    {{"copy", copy}, kList | kDict},
});

// Methods that change their value. Templates may not call them, but published ones name them where it does no harm.
constexpr auto kListChanges =
    std::to_array<std::string_view>({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
constexpr auto kDictChanges = std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});
template <std::size_t N>
bool has(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

unsigned kind_of(const Value& value) {
  if (value.as_string() != nullptr) return kText;
  if (value.as_dict() != nullptr) return kDict;
  return value.is(Sequence::Kind::list) ? kList : value.is(Sequence::Kind::tuple) ? kTuple : 0;
}

}  // namespace

const NamedCallable* look_up(std::span<const NamedCallable> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &NamedCallable::name);
  return found == table.end() ? nullptr : &*found;
}

const std::string& text_of(const Value& value) {
  if (value.as_string() == nullptr) throw TemplateError("expected a string, found " + value.kind());
  return *value.as_string();
}

const Dict& dict_of(const Value& value) {
  if (value.as_dict() == nullptr) throw TemplateError("expected a dictionary, found " + value.kind());
  return *value.as_dict();
}

std::string trimmed(const std::string& text, const Value& chars) { return stripped(text, chars, true, true); }

std::string replaced(const std::string& text, const std::string& from, const std::string& to, std::int64_t count) {
  std::string out;
  std::size_t done = 0;
  if (from.empty()) {  // stands before each character and at the end
    for (const std::string_view c : characters_of(text)) {
      if (count-- == 0) return out.append(text, done);
      out.append(to).append(c);
      done += c.size();
    }
    return count == 0 ? out : out.append(to);
  }
  for (std::size_t at = text.find(from); at != std::string::npos && count != 0; at = text.find(from, done), --count) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  return out.append(text, done);
}

List pairs_of(const Dict& dict) {
  List out;
  for (const auto& [key, value] : dict.items)
    out.emplace_back(Sequence{.kind = Sequence::Kind::tuple, .items = {key, value}});
  return out;
}

bool is_method(std::string_view name) {
  return has(kListChanges, name) || has(kDictChanges, name) ||
         std::ranges::any_of(kMethods, [&](const Method& method) { return method.callable.name == name; });
}

std::optional<Value> find_method(const Value& self, std::string_view name) {
  const unsigned kind = kind_of(self);
  if (self.is_safe_text() && is_method(name))
    throw TemplateError("methods of a string marked 'safe' are not supported");
  for (const Method& method : kMethods)
    if (method.callable.name == name && (method.kinds & kind) != 0)
      return Function{.callable = &method.callable, .self = std::make_shared<const Value>(self)};
  if ((kind == kList && has(kListChanges, name)) || (kind == kDict && has(kDictChanges, name)))
    return Value::undefined(std::string(name));
  return std::nullopt;
}

}  // namespace plimsoll::text
