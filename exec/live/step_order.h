// SPDX-License-Identifier: Apache-2.0
// A decision of the scheduler, in the form that is sent to a replica's worker. It is self-contained: the worker reads
// nothing that the control thread owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sched/decision.h"
#include "sched/types.h"

namespace plimsoll::exec {

using sched::ReqId;
using sched::Tok;

/// A request that is new to the worker.
struct OpenRequest {
  ReqId id = sched::kNoRequest;
  std::uint64_t serial = 0;
  Tok input = 0;
  std::vector<std::uint64_t> prefix_hashes;  // as in sched::NewRequest
  Tok hash_block_tokens = 0;
  bool seeded = false;  // as in sched::NewRequest
};

/// KV of a prompt that a prefill replica has computed and sent (docs/pools.md).
struct LandedKv {
  ReqId id = sched::kNoRequest;
  Tok first = 0;                      // the first token that was sent; begins a block
  std::vector<std::byte> blocks;      // all blocks from there to the end of the prompt
  std::optional<std::int32_t> token;  // the one that the prefill replica sampled; used if the request is seeded
};

/// A change of the live requests since the last order. Changes are in order of time, because ids are reused.
struct Change {
  bool opens = false;                   // whether the request is new; otherwise it has ended
  OpenRequest request;                  // only the id is set if the request has ended
  std::vector<sched::KvOp> kv = {};     // if not empty, the only content: operations of a decision without a step
  std::optional<LandedKv> landed = {};  // if set, the only content
};

struct OrderForward {
  std::vector<sched::Segment> prefill;
  std::vector<ReqId> decode;  // in batch order
  std::vector<ReqId> dead;
  Tok padded = 0;  // as in sched::Forward, for the first step
};

struct StepOrder {
  std::vector<Change> changes;         // applied first
  std::vector<sched::KvOp> kv;         // applied next, in the order that sched::KvOp defines
  std::vector<OrderForward> forwards;  // then run `steps` times; more than once only for pure decodes
  std::int64_t steps = 1;
  Nanos wake_at = sched::kNever;  // stop at the first step boundary at or after this time
  int inflight = 1;               // steps that may be in flight at once (sched::Traits)
};

}  // namespace plimsoll::exec
