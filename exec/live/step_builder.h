// SPDX-License-Identifier: Apache-2.0
// Turns the scheduler's decisions into forwards: token ids, contexts and block tables. Each replica's worker owns one
// builder. It keeps each request's prompt, its produced tokens, how many of them are in the cache, and its blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "exec/block_pool.h"
#include "exec/forward_device.h"
#include "exec/live/prompts.h"
#include "exec/live/step_order.h"
#include "load/scenario.h"
#include "sched/kv_ledger.h"

namespace plimsoll::exec {

/// Must agree with the scheduler's own settings, or blocks and steps would differ.
struct StepBuilderConfig {
  sched::KvConfig kv;
  bool block_by_block = false;   // sched::Traits::block_by_block of the policy
  std::int32_t sequences = 256;  // the engine's slots for sampled tokens
  Sampling sampling;
};
/// Returns the configuration of a builder for the deployment's replicas.
[[nodiscard]] StepBuilderConfig builder_config(const load::Scenario& scenario, std::int32_t sequences,
                                               const Sampling& sampling = {});

/// For one thread, but for outgoing(). `device` and `prompts` must outlive it.
class StepBuilder {
 public:
  StepBuilder(const StepBuilderConfig& config, const PromptSource& prompts, ForwardDevice& device);

  /// Applies the order's changes and KV operations; swapping copies blocks.
  void begin(const StepOrder& order);
  /// Lays out forward `index` of step `step` of the order; at most two are in flight.
  void prepare(const StepOrder& order, std::int64_t step, std::size_t index);
  /// Hands the prepared forward to the device.
  void launch() { device_.start(in_flight_.back().input); }
  void start(const StepOrder& order, std::int64_t step, std::size_t index) {
    prepare(order, step, index);
    launch();
  }
  /// Waits for the oldest forward and records its tokens.
  void finish();
  /// Call when all forwards of a step are finished.
  void end_step();
  /// Returns whether the order's next step may start before the last one has finished: every row then needs a slot.
  [[nodiscard]] bool may_run_ahead(const StepOrder& order) const;

  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  /// The part of a computed prompt that leaves for another replica.
  struct Outgoing {
    std::vector<std::int32_t> blocks;
    std::optional<std::int32_t> token;  // the one sampled after the prompt, if its end is part of it
  };
  /// Returns what holds the tokens [first, last) of a live request, which finished forwards have computed. `first`
  /// begins a block. Any thread; does not wait for a forward.
  [[nodiscard]] Outgoing outgoing(ReqId id, Tok first, Tok last) const;
  [[nodiscard]] ForwardDevice& device() { return device_; }
  /// Called by finish(), on its thread, with each token that a request produced. May be empty.
  std::function<void(std::uint64_t serial, std::int32_t token)> on_token;

 private:
  struct Sequence {
    std::uint64_t serial = 0;
    OpenRequest origin;                // kept until the prompt is needed
    std::vector<std::int32_t> tokens;  // the prompt, then the generated tokens
    Tok computed = 0;                  // tokens in the cache, those of started forwards included
    std::int32_t slot = -1;
    std::optional<Sampling> sampling;  // none: sampling_
    std::vector<std::byte> swapped;    // its blocks while it is swapped out
    std::int64_t swapped_blocks = 0;
    [[nodiscard]] const Sampling* own_sampling() const { return sampling ? &*sampling : nullptr; }
    /// A request with a seed of its own gets the same tokens whatever its serial is.
    [[nodiscard]] std::uint64_t sampling_key() const { return sampling ? 0 : serial; }
  };
  struct InFlight {
    ForwardInput input;
    std::vector<ReqId> answers;  // the request of each sampled row; kNoRequest for a dead row
  };

  void apply(const std::vector<sched::KvOp>& ops);
  void free_all(const sched::KvOp& op);
  void open(const OpenRequest& request);
  void close(ReqId id);
  void land(const LandedKv& kv);
  void swap_out(ReqId id);
  void swap_in(ReqId id);
  void materialise(Sequence& sequence);
  void add_prefill(const sched::Segment& segment, Tok padded, InFlight& forward);
  void cover_decodes(const StepOrder& order);
  void add_decode(ReqId id, Tok charged, InFlight& forward);
  void add_dead(ReqId id, Tok charged, InFlight& forward);
  void take_slot(Sequence& sequence);
  [[nodiscard]] Sequence& sequence(ReqId id) { return sequences_[id]; }

  const PromptSource& prompts_;
  ForwardDevice& device_;
  mutable std::mutex mutex_;  // held to change sequences_ and pool_, and by outgoing(); not while a forward runs
  BlockPool pool_;
  Sampling sampling_;
  Tok block_tokens_;
  bool block_by_block_;
  std::vector<Sequence> sequences_;  // indexed by ReqId
  std::vector<std::int32_t> free_slots_;
  std::deque<InFlight> in_flight_;                // a deque: references stay valid
  std::vector<InFlight> spare_;                   // kept to reuse their storage
  std::vector<std::pair<ReqId, Tok>> published_;  // prompt tokens to publish at the end of the step
  ForwardOutput output_;
};

}  // namespace plimsoll::exec
