// SPDX-License-Identifier: Apache-2.0
// What the policies before vLLM share: the rows of a batch, the contiguous slots they may occupy, the waiting line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "sched/policy.h"

namespace plimsoll::sched {

/// Drops the rows that have produced their last token. None of these policies preempts: a row that has produced a token
/// and is not in the decode group has finished.
inline void remove_finished(std::vector<ReqId>& rows, const RequestTable& requests) {
  std::erase_if(rows, [&](ReqId id) { return requests.generated(id) > 0 && !requests.decoding(id); });
}

/// True if the request was there.
template <class Line>
bool remove_one(Line& line, ReqId id) {
  const auto found = std::find(line.begin(), line.end(), id);
  if (found == line.end()) return false;
  line.erase(found);
  return true;
}

/// Tokens the request may come to hold if it uses its whole cap.
inline std::int64_t most_tokens(const Request& request) { return std::int64_t{request.prompt} + request.max_new; }

/// A contiguous slot: the longest sequence, or prompt + cap where that is not known.
inline std::int64_t slot_tokens(const PolicyConfig& config, const Request& request) {
  return config.max_len() > 0 ? config.max_len() : most_tokens(request);
}

/// A request that is too long for its slot, or whose slot is larger than the pool, would block for ever.
inline std::optional<Reject> refuse_slot(const PolicyConfig& config, const Request& request, const KvLedger& kv) {
  const std::int64_t slot = slot_tokens(config, request);
  if (most_tokens(request) > slot || kv.blocks_for(slot) > kv.total())
    return Reject{kNoRequest, 422, "max_total_tokens"};
  return {};
}

/// "name[1 2 3] " for digests.
template <class Line>
void append_line(std::string& out, const char* name, const Line& line) {
  out += name;
  out += '[';
  for (const ReqId id : line) out += std::to_string(id) + ' ';
  out += "] ";
}

}  // namespace plimsoll::sched
