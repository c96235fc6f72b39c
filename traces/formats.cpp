// SPDX-License-Identifier: Apache-2.0
#include "traces/formats.h"

#include <algorithm>
#include <array>

#include "traces/text.h"

namespace plimsoll::traces {
namespace {

constexpr Need kMust = Need::required, kExpected = Need::expected;

constexpr std::array kAzure = {Column{"TIMESTAMP", Role::arrival, kMust}, Column{"ContextTokens", Role::input, kMust},
                               Column{"GeneratedTokens", Role::output, kMust}};
constexpr std::array kAzureMultimodal = {
    Column{"TIMESTAMP", Role::arrival, kMust}, Column{"NumImages", Role::other, kMust},
    Column{"ContextTokens", Role::input, kMust}, Column{"GeneratedTokens", Role::output, kMust}};
constexpr std::array kBurstGpt = {
    Column{"Timestamp", Role::arrival, kMust},    Column{"Model"},
    Column{"Request tokens", Role::input, kMust}, Column{"Response tokens", Role::output, kMust},
    Column{"Total tokens", Role::total},          Column{"Log Type"}};
constexpr std::array kBurstGpt3 = {Column{"Timestamp", Role::arrival, kMust},
                                   Column{"Session ID", Role::session, kMust},
                                   Column{"Elapsed time"},
                                   Column{"Model"},
                                   Column{"Request tokens", Role::input, kMust},
                                   Column{"Response tokens", Role::output, kMust},
                                   Column{"Total tokens", Role::total},
                                   Column{"Log Type"}};
constexpr std::array kVidur = {Column{"arrived_at", Role::arrival, kMust},
                               Column{"num_prefill_tokens", Role::input, kMust},
                               Column{"num_decode_tokens", Role::output, kMust}};
constexpr std::array kLengths = {Column{"num_prefill_tokens", Role::input, kMust},
                                 Column{"num_decode_tokens", Role::output, kMust},
                                 Column{"num_total_tokens", Role::total}, Column{"pd_ratio"}};
constexpr std::array kSplitwise = {Column{"request_id"},
                                   Column{"request_type"},
                                   Column{"application_id"},
                                   Column{"arrival_timestamp", Role::arrival, kMust},
                                   Column{"batch_size"},
                                   Column{"prompt_size", Role::input, kMust},
                                   Column{"token_size", Role::output, kMust}};
constexpr std::array kLengthsNs = {Column{"arrival_time_ns", Role::arrival, kMust},
                                   Column{"input_toks", Role::input, kMust},
                                   Column{"output_toks", Role::output, kMust}};
constexpr std::array kApex = {Column{"StartTimeOffset", Role::arrival, kMust},
                              Column{"ContextTokens", Role::input, kMust},
                              Column{"GeneratedTokens", Role::output, kMust}};
constexpr std::array kPlimsoll = {Column{"arrival_s", Role::arrival, kMust},
                                  Column{"input_tokens", Role::input, kMust},
                                  Column{"output_tokens", Role::output, kMust},
                                  Column{"session", Role::session},
                                  Column{"prefix", Role::prefix},
                                  Column{"priority", Role::priority},
                                  Column{"gap_s", Role::gap}};
constexpr std::array kMooncake = {
    Column{"timestamp", Role::arrival, kMust},    Column{"input_length", Role::input, kMust},
    Column{"output_length", Role::output, kMust}, Column{"hash_ids", Role::prefix, kExpected},
    Column{"session_id", Role::session},          Column{"delay", Role::gap}};
constexpr std::array kQwen = {
    Column{"chat_id", Role::session, kMust},      Column{"parent_chat_id", Role::parent, kMust},
    Column{"timestamp", Role::arrival, kMust},    Column{"input_length", Role::input, kMust},
    Column{"output_length", Role::output, kMust}, Column{"hash_ids", Role::prefix, kExpected}};
constexpr std::array kServingSim = {Column{"input_toks", Role::input, kMust},
                                    Column{"output_toks", Role::output, kMust},
                                    Column{"arrival_time_ns", Role::arrival, kMust},
                                    Column{"session_id", Role::session}, Column{"sub_requests", Role::turns}};
constexpr std::array kServeGenOffline = {Column{"request_id"}, Column{"input_length", Role::input, kMust},
                                         Column{"output_length", Role::output, kMust},
                                         Column{"hash_ids", Role::prefix}};

constexpr std::array kFormats = {
    TraceFormat{"plimsoll", Syntax::csv, TimeUnit::seconds, 16, kPlimsoll},
    TraceFormat{"azure2023", Syntax::csv, TimeUnit::date, 0, kAzure},
    TraceFormat{"azure2024", Syntax::csv, TimeUnit::date, 0, kAzure},
    TraceFormat{"azure2025mm", Syntax::csv, TimeUnit::date, 0, kAzureMultimodal},
    TraceFormat{"burstgpt", Syntax::csv, TimeUnit::seconds, 0, kBurstGpt},
    TraceFormat{"burstgpt3", Syntax::csv, TimeUnit::seconds, 0, kBurstGpt3},
    TraceFormat{"vidur_arrivals", Syntax::csv, TimeUnit::seconds, 0, kVidur},
    TraceFormat{"lengths", Syntax::csv, TimeUnit::none, 0, kLengths},
    TraceFormat{"splitwise_sim", Syntax::csv, TimeUnit::seconds, 0, kSplitwise},
    TraceFormat{"lengths_ns", Syntax::csv, TimeUnit::nanoseconds, 0, kLengthsNs},
    TraceFormat{"apex", Syntax::csv, TimeUnit::nanoseconds, 0, kApex},
    TraceFormat{"mooncake", Syntax::jsonl, TimeUnit::milliseconds, 512, kMooncake},
    TraceFormat{"qwen_bailian", Syntax::jsonl, TimeUnit::seconds, 16, kQwen},
    TraceFormat{"llmservingsim", Syntax::jsonl, TimeUnit::nanoseconds, 0, kServingSim},
    TraceFormat{"servegen_offline", Syntax::jsonl, TimeUnit::none, 16, kServeGenOffline},
};

// Removes the next line that is not blank from the beginning of the text and returns it.
std::string_view take_line(std::string_view& text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!trimmed(line).empty()) return line;
  }
  return {};
}

bool header_has(std::string_view header, std::string_view name) {
  for (std::size_t begin = 0; begin <= header.size();) {
    const std::size_t end = std::min(header.find_first_of(",;\t|", begin), header.size());
    std::string_view field = trimmed(header.substr(begin, end - begin));
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
    if (field == name) return true;
    begin = end + 1;
  }
  return false;
}

bool has_key(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (at > 0 && end < text.size() && (text[at - 1] == '"' || text[at - 1] == '\'') && text[end] == text[at - 1])
      return true;
  }
  return false;
}

// The formats of Azure 2023 and 2024 have the same header; only the newer one states the zone.
bool first_row_has_zone(std::string_view row) {
  const std::string_view stamp = row.substr(0, row.find(','));
  return stamp.ends_with('Z') || (stamp.size() > 19 && stamp.find_first_of("+-", 19) != std::string_view::npos);
}

}  // namespace

std::span<const TraceFormat> all_formats() { return kFormats; }

const TraceFormat* find_format(std::string_view name) {
  const auto same = [](char a, char b) { return a == b || (a == '_' && b == '-'); };
  for (const TraceFormat& format : kFormats) {
    if (std::equal(format.name.begin(), format.name.end(), name.begin(), name.end(), same)) return &format;
  }
  if (name == "vidur") return find_format("vidur_arrivals");
  if (name == "qwen") return find_format("qwen_bailian");
  if (name == "azure") return find_format("azure2023");
  return nullptr;
}

double nanos_per(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::seconds: return 1e9;
    case TimeUnit::milliseconds: return 1e6;
    case TimeUnit::none:
    case TimeUnit::date:
    case TimeUnit::nanoseconds: return 1;
  }
  return 1;
}

std::string column_list(const TraceFormat& format) {
  std::string out;
  for (const Column& column : format.columns) {
    if (!out.empty()) out += ',';
    out += column.name;
  }
  return out;
}

const TraceFormat* recognise(std::string_view beginning) {
  const std::string_view whole = beginning;
  const std::string_view header = take_line(beginning);
  const bool json = trimmed(header).starts_with('{') || trimmed(header).starts_with('[');
  const TraceFormat* best = nullptr;
  int best_score = 0;
  for (const TraceFormat& format : kFormats) {
    if ((format.syntax == Syntax::jsonl) != json) continue;
    int score = 0;
    for (const Column& column : format.columns) {
      const bool found = json ? has_key(whole, column.name) : header_has(header, column.name);
      // A column that is present counts more for a format than a missing one counts against it.
      if (found) score += 3;
      if (!found && column.need == Need::required) score -= 2;
    }
    if (score > best_score) best = &format, best_score = score;
  }
  if (best != nullptr && best->name == "azure2023" && first_row_has_zone(take_line(beginning)))
    return find_format("azure2024");
  return best;
}

std::vector<std::string_view> trace_formats() {
  std::vector<std::string_view> names;
  for (const TraceFormat& format : kFormats) names.push_back(format.name);
  return names;
}

}  // namespace plimsoll::traces
