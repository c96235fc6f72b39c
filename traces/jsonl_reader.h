// SPDX-License-Identifier: Apache-2.0
// Passes the records of a JSON-lines trace to a TraceBuilder. Each line is an object; keys may be in any order, and
// unknown keys are skipped. Internal to traces/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "traces/fields.h"
#include "traces/formats.h"
#include "traces/json_line.h"
#include "traces/line_reader.h"
#include "traces/trace_builder.h"

namespace plimsoll::traces {

class JsonlReader {
 public:
  JsonlReader(const TraceFormat& format, LineReader& lines, std::string file, TraceBuilder& builder);

  /// Reads all records. Throws TraceError.
  void read_all();

 private:
  void read_record(std::string_view line);
  void refuse_other_syntax(std::string_view line) const;
  [[noreturn]] void refuse_line(JsonLine& json, std::string_view column, Fault fault);
  Fault read_object(JsonLine& json);
  Fault read_member(JsonLine& json);
  Fault read_value(JsonLine& json, const Column& column);
  Fault read_tokens(std::string_view text, std::int32_t& out) const;
  Fault read_arrival(std::string_view text);
  Fault read_hashes(JsonLine& json);
  Fault read_session(JsonLine& json);
  Fault read_turns(JsonLine& json);
  Fault read_turn(JsonLine& json);
  Fault read_turn_value(JsonLine& json, std::string_view key);
  void add_turns();
  void check_gap();
  void check_keys();
  void find_session();
  [[nodiscard]] FieldPlace place_of(std::string_view key) const { return {lines_.number(), 0, key}; }

  const TraceFormat& format_;
  LineReader& lines_;
  std::string file_;
  TraceBuilder& builder_;
  double unit_;
  ParsedRow row_;
  std::vector<std::uint64_t> hashes_;
  std::string_view key_;    // the key being read, for messages
  std::uint32_t seen_ = 0;  // bit i is set if format_.columns[i] was present
  std::int64_t chat_ = -1, parent_ = -1;
  std::uint64_t named_ = 0;  // the session, if its id is a text; 0: none
  struct Turn {              // of an agentic record
    std::int32_t input = -1, output = -1;
    Nanos after = 0;  // from its answer to the next turn
  };
  std::vector<Turn> turns_;
  bool agentic_ = false;
  std::uint64_t unnamed_ = 0;                  // agentic records without a session id so far
  std::unordered_set<std::uint64_t> started_;  // sessions of rows so far, where rows may lack times
  std::unordered_map<std::int64_t, std::uint64_t> session_of_chat_;  // for look-ups only, never iterated
};

}  // namespace plimsoll::traces
