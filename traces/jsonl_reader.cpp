// SPDX-License-Identifier: Apache-2.0
#include "traces/jsonl_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "traces/text.h"

namespace plimsoll::traces {
namespace {

// Returns the number (FNV-1a) of a session whose id is a text; never 0.
std::uint64_t id_of_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash == 0 ? 1 : hash;
}

// Numbers for sessions without an id, far from those that files state.
std::uint64_t unnamed_id(std::uint64_t count) { return std::uint64_t{1} << 63U | count; }

Fault read_id(std::string_view text, std::int64_t& id) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc{} && stop == text.data() + text.size()) return {};
  return {"not-an-integer", fmt::format("id must be an integer below 2^63, got {}", quoted(text))};
}

}  // namespace

JsonlReader::JsonlReader(const TraceFormat& format, LineReader& lines, std::string file, TraceBuilder& builder)
    : format_(format), lines_(lines), file_(std::move(file)), builder_(builder), unit_(nanos_per(format.time)) {}

void JsonlReader::read_all() {
  std::string_view line;
  bool first = true;
  while (lines_.next(line)) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (std::exchange(first, false)) refuse_other_syntax(line);
    read_record(line);
  }
}

void JsonlReader::refuse_other_syntax(std::string_view line) const {
  const std::string_view text = trimmed(line);
  const auto refuse = [&](std::string_view code, std::string what) {
    reject({file_, lines_.number(), 1, "", std::move(what), std::string(code)});
  };
  // Refuse a line that opens an array. One that begins with "[[" is left to the parser, which limits the depth.
  if (text[0] == '[' && !text.starts_with("[["))
    refuse("json-array", "file is one JSON array, expected one object per line");
  const bool other = std::string_view("{[\"'-0123456789").find(text[0]) == std::string_view::npos;
  const bool csv = text[0] != '{' && text[0] != '[' && text.find(',') != std::string_view::npos;
  if (csv && is_plain_ascii(text)) refuse("not-this-format", "looks like CSV, expected JSON lines");
  if (other && is_plain_ascii(text)) refuse("not-this-format", "expected JSON lines, found " + quoted(text));
}

void JsonlReader::refuse_line(JsonLine& json, std::string_view column, Fault fault) {
  const std::size_t byte = json.column();
  const bool cut = fault.text.starts_with("unexpected end of line");
  // Copy the name first: at_end() may move the text of the line.
  std::string name(column);
  if (cut)
    fault.text += lines_.unterminated() || lines_.at_end()
                      ? "; file truncated?"
                      : ": an object spans several lines; expected one object per line";
  reject({file_, lines_.number(), byte, std::move(name), std::move(fault.text), std::string(fault.code)});
}

void JsonlReader::read_record(std::string_view line) {
  if (!is_plain_ascii(line)) {
    const BadByte bad = find_bad_byte(line);
    if (bad.offset != std::string_view::npos) reject({file_, lines_.number(), bad.offset + 1, "", bad.text, bad.code});
  }
  row_ = {};
  hashes_.clear();
  seen_ = 0;
  chat_ = parent_ = -1;
  named_ = 0;
  agentic_ = false;
  turns_.clear();
  key_ = {};
  JsonLine json(line);
  if (json.kind() != JsonKind::object) {
    const JsonKind kind = json.kind();
    // Bad syntax anywhere in the value is reported instead of its type.
    if (Fault fault = json.skip()) refuse_line(json, "", std::move(fault));
    reject({file_, lines_.number(), 1, "", fmt::format("expected object, got {}", name_of(kind)), "wrong-type"});
  }
  if (Fault fault = read_object(json)) refuse_line(json, key_, std::move(fault));
  if (!json.done()) refuse_line(json, "", {"json-syntax", "characters after the object; expected one object per line"});
  check_gap();
  check_keys();
  find_session();
  if (agentic_)
    add_turns();
  else
    builder_.add(row_);
}

// A row that follows an answer needs no time of its own, if its session has begun.
void JsonlReader::check_gap() {
  if (row_.gap < 0) {
    if (named_ != 0 || chat_ >= 0) started_.insert(named_ != 0 ? named_ : static_cast<std::uint64_t>(chat_) + 1);
    return;
  }
  const std::uint64_t session = named_ != 0 ? named_ : chat_ >= 0 ? static_cast<std::uint64_t>(chat_) + 1 : 0;
  if (session == 0)
    reject({file_, lines_.number(), 0, "delay", "a delay counts from an answer of its session: 'session_id' is missing",
            "missing-key"});
  row_.follows = row_.arrival_place.column.empty() && started_.contains(session);
  started_.insert(session);
}

// The turns of an agentic record follow each other: the first at the record's time, the others after their tools.
void JsonlReader::add_turns() {
  if (row_.record.session == 0) row_.record.session = unnamed_id(++unnamed_);
  Nanos gap = -1;
  for (const Turn& turn : turns_) {
    row_.record.input_tokens = turn.input;
    row_.record.output_tokens = turn.output;
    row_.input_place = place_of("input_toks");
    row_.output_place = place_of("output_toks");
    row_.gap = gap;
    row_.follows = gap >= 0;
    builder_.add(row_);
    gap = turn.after;
  }
}

Fault JsonlReader::read_object(JsonLine& json) {
  if (!json.take('{')) return json.expected("'{'");
  if (json.take('}')) return {};
  do {
    key_ = {};
    if (json.kind() != JsonKind::string && json.take('}')) return {"json-syntax", "trailing comma"};
    if (Fault fault = read_member(json)) return fault;
  } while (json.take(','));
  key_ = {};
  return json.take('}') ? Fault{} : json.expected("',' or '}'");
}

Fault JsonlReader::read_member(JsonLine& json) {
  std::string_view key;
  if (Fault fault = json.string(key)) return fault;
  if (!json.take(':')) return json.expected("':'");
  for (std::size_t i = 0; i < format_.columns.size(); ++i) {
    const Column& column = format_.columns[i];
    if (column.name != key) continue;
    key_ = column.name;
    const std::uint32_t bit = 1U << i;
    if ((seen_ & bit) != 0) return {"duplicate-key", fmt::format("'{}' is given twice", column.name)};
    seen_ |= bit;
    return read_value(json, column);
  }
  if (key == "sub_requests") return {"unsupported", "only format llmservingsim has agentic records (sub_requests)"};
  return json.skip(1);
}

Fault JsonlReader::read_value(JsonLine& json, const Column& column) {
  if (column.role == Role::other || column.role == Role::total) return json.skip(1);
  if (column.role == Role::session) return read_session(json);
  if (column.role == Role::turns) return read_turns(json);
  const JsonKind kind = json.kind();
  const JsonKind wanted = column.role == Role::prefix ? JsonKind::array : JsonKind::number;
  if (kind == JsonKind::none) return json.expected(name_of(wanted));
  if (kind != wanted) return {"wrong-type", fmt::format("expected {}, got {}", name_of(wanted), name_of(kind))};
  if (column.role == Role::prefix) return read_hashes(json);
  std::string_view text;
  if (Fault fault = json.number(text)) return fault;
  if (column.role == Role::arrival) return read_arrival(text);
  if (column.role == Role::gap) return parse_time(text, unit_, row_.gap);
  if (column.role == Role::input || column.role == Role::output) {
    const bool input = column.role == Role::input;
    (input ? row_.input_place : row_.output_place) = place_of(key_);
    return read_tokens(text, input ? row_.record.input_tokens : row_.record.output_tokens);
  }
  return read_id(text, parent_);
}

// Some publishers name sessions by numbers, others by texts.
Fault JsonlReader::read_session(JsonLine& json) {
  const JsonKind kind = json.kind();
  const bool may_be_text = std::none_of(format_.columns.begin(), format_.columns.end(),
                                        [](const Column& c) { return c.role == Role::parent; });
  if (kind == JsonKind::none) return json.expected("a session id");
  std::string_view text;
  if (may_be_text && kind == JsonKind::string) {
    if (Fault fault = json.string(text)) return fault;
    named_ = id_of_text(text);
    return {};
  }
  if (kind != JsonKind::number)
    return {"wrong-type", fmt::format("expected {}, got {}", name_of(JsonKind::number), name_of(kind))};
  if (Fault fault = json.number(text)) return fault;
  return read_id(text, chat_);
}

Fault JsonlReader::read_turns(JsonLine& json) {
  const JsonKind kind = json.kind();
  if (kind == JsonKind::none) return json.expected("an array");
  if (kind != JsonKind::array)
    return {"wrong-type", fmt::format("expected {}, got {}", name_of(JsonKind::array), name_of(kind))};
  agentic_ = true;
  if (!json.take('[')) return json.expected("'['");
  if (json.take(']')) return {"empty-field", "no sub-requests"};
  do {
    if (json.kind() != JsonKind::object) return {"wrong-type", "expected an object for each sub-request"};
    if (Fault fault = read_turn(json)) return fault;
  } while (json.take(','));
  return json.take(']') ? Fault{} : json.expected("',' or ']'");
}

Fault JsonlReader::read_turn(JsonLine& json) {
  turns_.emplace_back();
  if (!json.take('{')) return json.expected("'{'");
  if (!json.take('}')) {
    do {
      std::string_view key;
      if (Fault fault = json.string(key)) return fault;
      if (!json.take(':')) return json.expected("':'");
      if (Fault fault = read_turn_value(json, key)) return fault;
    } while (json.take(','));
    if (!json.take('}')) return json.expected("',' or '}'");
  }
  if (turns_.back().input >= 0 && turns_.back().output >= 0) return {};
  return {"missing-key", fmt::format("sub-request {} has no '{}'", turns_.size(),
                                     turns_.back().input < 0 ? "input_toks" : "output_toks")};
}

Fault JsonlReader::read_turn_value(JsonLine& json, std::string_view key) {
  const bool input = key == "input_toks", output = key == "output_toks", tool = key == "tool_duration_ns";
  if (!input && !output && !tool) return json.skip(3);
  if (json.kind() != JsonKind::number)
    return {"wrong-type",
            fmt::format("'{}': expected {}, got {}", key, name_of(JsonKind::number), name_of(json.kind()))};
  std::string_view text;
  if (Fault fault = json.number(text)) return fault;
  if (tool) return parse_time(text, unit_, turns_.back().after);
  return read_tokens(text, input ? turns_.back().input : turns_.back().output);
}

// A JSON number is already well-formed; only a fraction and a number that is too large must be distinguished.
Fault JsonlReader::read_tokens(std::string_view text, std::int32_t& out) const {
  if (text.find_first_of("eE") == std::string_view::npos) return parse_tokens(text, out);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range || std::abs(value) > 2147483647.0) {
    return {"out-of-range", fmt::format("{} does not fit (limit 2147483647 tokens)", quoted(text))};
  }
  return {"not-an-integer", fmt::format("token count must be written as an integer, got {}", quoted(text))};
}

Fault JsonlReader::read_arrival(std::string_view text) {
  row_.arrival_place = place_of(key_);
  return parse_time(text, unit_, row_.record.arrival);
}

Fault JsonlReader::read_hashes(JsonLine& json) {
  row_.hashes_place = place_of(key_);
  if (!json.take('[')) return json.expected("'['");
  if (!json.take(']')) {
    do {
      const JsonKind kind = json.kind();
      std::string_view text;
      std::uint64_t id = 0;
      if (kind == JsonKind::none) return json.expected("a block id");
      if (kind != JsonKind::number) return {"wrong-type", fmt::format("expected block ids, got {}", name_of(kind))};
      if (Fault fault = json.number(text)) return fault;
      if (Fault fault = parse_id(text, id))
        return fault.code == "not-a-number" ? Fault{"not-an-integer", fault.text} : fault;
      hashes_.push_back(id);
    } while (json.take(','));
    if (!json.take(']')) return json.expected("',' or ']'");
  }
  row_.hashes = hashes_;
  return {};
}

void JsonlReader::check_keys() {
  for (std::size_t i = 0; i < format_.columns.size(); ++i) {
    const Column& column = format_.columns[i];
    if (column.need == Need::optional || (seen_ & (1U << i)) != 0) continue;
    if (row_.follows && column.role == Role::arrival) continue;
    if (agentic_ && (column.role == Role::input || column.role == Role::output)) continue;
    if (column.need == Need::expected) {
      builder_.lacks(place_of(column.name));
      continue;
    }
    reject({file_, lines_.number(), 0, std::string(column.name), fmt::format("record has no '{}'", column.name),
            "missing-key"});
  }
}

// A conversation is named after its first turn, or, if a turn's parent is missing from the trace, after that parent.
void JsonlReader::find_session() {
  if (named_ != 0) row_.record.session = named_;
  if (chat_ < 0) return;
  std::int64_t root = chat_;
  std::uint64_t session = 0;
  if (parent_ >= 0) {
    root = parent_;
    if (const auto it = session_of_chat_.find(parent_); it != session_of_chat_.end()) session = it->second;
  }
  // A chat id may be 0, but session 0 means none.
  if (session == 0) session = static_cast<std::uint64_t>(root) + 1;
  session_of_chat_[chat_] = session;
  row_.record.session = session;
}

}  // namespace plimsoll::traces
