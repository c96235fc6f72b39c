// SPDX-License-Identifier: Apache-2.0
// Requests of a scenario with two pools: each visits a prefill replica, its KV is transferred, and a decode replica
// produces the answer. This class sits between the loop of a run and its runner. The dispatcher sees the decode
// replicas only: it chooses one for each request, which counts as outstanding there until the answer is complete. The
// chains choose the prefill replica at the same time.
//
// The runner's slots are those of the decode pool, then those of the prefill pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "load/clients.h"
#include "load/fleet_life.h"
#include "load/kv_transport.h"
#include "load/pools.h"
#include "load/scenario.h"
#include "sched/replica.h"
#include "sched/router.h"

namespace plimsoll::load {

class Runner;

class RequestChains {
 public:
  /// The replication's scenario has pools. `decides` makes the replica in a slot decide next. All must outlive this
  /// object.
  RequestChains(const Replication& replication, Runner& runner, std::function<void(std::size_t)> decides);

  /// Returns when something may happen next; kNever if nothing is under way.
  [[nodiscard]] Nanos next_event() const;
  /// Processes everything that is due: deliveries, ends of transfers, starts and stops of prefill replicas. Returns
  /// whether anything happened.
  bool advance(Nanos now);
  /// Takes a request whose answer is to come from the decode replica in the slot. Returns the handle of its chain. It
  /// may have failed already: see failed().
  [[nodiscard]] sched::ReqId arrive(std::size_t decode, const sched::NewRequest& request, Nanos now);
  /// Drops a request wherever it is; its client is gone.
  void cancel(sched::ReqId chain, std::uint64_t serial, Nanos now);
  /// Records that the client gave up, while the engines continue.
  void abandon(sched::ReqId chain, std::uint64_t serial);
  /// Ends the requests of a decode replica that failed. Their clients know already.
  void lose(std::size_t decode, Nanos now);
  /// Call after each decision of a slot.
  void decided(std::size_t slot, Nanos now);
  /// Call when a step of a slot may have ended or a request may have left it. Turns what left a decode replica into the
  /// ends of chains, and drops the others from the list.
  void collect(std::size_t slot, std::vector<sched::FinishedAttempt>& ended, Nanos now);
  [[nodiscard]] bool is_prefill(std::size_t slot) const { return slot >= decodes_; }
  /// Requests that failed before a decode replica could end them, with their decode slots. The caller clears the list.
  using Failed = std::vector<std::pair<std::size_t, sched::FinishedAttempt>>;
  [[nodiscard]] Failed& failed() { return failed_; }
  /// Returns whether requests are open but none is on its way between replicas, so nothing will happen here by itself.
  [[nodiscard]] bool rests() const;
  /// Fails all requests: those of the decode side wait for blocks that only they could free.
  void fail_all(Nanos now);
  /// No request is left: the prefill replicas no longer start, stop or fail.
  void end_life() { over_ = true; }
  /// Returns the usage of the prefill pool until `end`; nullopt if the pool is fixed.
  [[nodiscard]] std::optional<sched::FleetUsage> use(Nanos end) const {
    return life_ ? std::optional(life_->use(end)) : std::nullopt;
  }

 private:
  enum class Stage : std::uint8_t {
    free,
    to_prefill,  // on its way to the prefill replica
    prefill,     // there
    to_decode,   // on its way to the decode replica, which has not seen it
    allocates,   // waits there for blocks
    transfer,    // its KV is sent
    decode       // all that is left happens on the decode replica
  };
  struct Chain {
    sched::NewRequest request;
    std::string name;
    std::vector<std::uint64_t> hashes;
    Stage stage = Stage::free;
    std::uint32_t decode = 0;
    std::int32_t prefill = -1;  // in the prefill pool; -1: none
    sched::ReqId prefill_id = sched::kNoRequest, decode_id = sched::kNoRequest;
    KvTransport::Id flow = -1;
    bool counted = false, kept = false;    // outstanding at the prefill replica; its blocks there are unread
    bool lost = false, abandoned = false;  // its KV is gone
    sched::Tok cached = 0, sent = 0;       // tokens that need not be sent, or that are handed to the links
    double busy_until = 0;                 // pull with overlap: seconds, end of sending what is computed so far
    std::int32_t preemptions = 0;
    double preempt_s = 0;
    model::TimeParts service;  // on the prefill replica
    sched::Stages stages;
  };
  struct Delivery {
    Nanos at = 0;
    sched::ReqId chain = 0;
    std::uint64_t serial = 0;
  };
  struct Hold {  // KV on a prefill replica that must be read by `until`
    Nanos until = 0;
    std::size_t slot = 0;
    sched::ReqId id = 0;
    std::uint64_t serial = 0;
    sched::ReqId chain = 0;
  };
  struct Chunk {  // of a prompt, in the step that runs
    sched::ReqId chain = 0;
    std::uint64_t serial = 0;
    sched::Tok end = 0;
    bool last = false;
    Nanos start = 0;
  };
  struct Step {
    std::vector<Chunk> chunks;
    std::int64_t steps_before = 0;
  };

  [[nodiscard]] Chain* find(sched::ReqId chain, std::uint64_t serial);
  [[nodiscard]] std::size_t slot_of(const Chain& chain) const {
    return decodes_ + static_cast<std::size_t>(chain.prefill);
  }
  [[nodiscard]] const TransferConfig& transfer() const { return pools_.transfer; }
  [[nodiscard]] std::optional<std::int32_t> choose_prefill(const sched::NewRequest& request, Nanos now);
  [[nodiscard]] std::vector<std::uint64_t> blocks_of(const sched::NewRequest& request, sched::Tok block_tokens) const;
  [[nodiscard]] bool goes_local(const sched::NewRequest& request, std::size_t decode, std::int32_t prefill, Nanos now);
  void count(Chain& chain, bool arrives, Nanos now);
  void deliver_later(sched::ReqId id, Nanos at, Nanos now);
  void deliver(sched::ReqId id, Nanos now);
  void deliver_prefill(sched::ReqId id, Nanos now);
  void deliver_decode(sched::ReqId id, Nanos now);
  void prefill_ended(std::size_t slot, const sched::FinishedAttempt& ended, Nanos now);
  void decode_ended(sched::FinishedAttempt& ended);
  void loads(std::size_t slot, Nanos now);
  void note_step(std::size_t slot, Nanos now);
  void chunks_ended(std::size_t slot, Nanos now);
  void send_chunk(const Chunk& chunk, Nanos step_end, Nanos now);
  void start_pull(Chain& chain, sched::ReqId id, Nanos now);
  void open_flow(Chain& chain, sched::ReqId id);
  [[nodiscard]] KvTransport::Part part_of(const Chain& chain, sched::Tok end) const;
  void arrived(KvTransport::Id flow, Nanos now);
  void end_holds(Nanos now);
  bool changes(Nanos now);
  void lose_prefill(std::size_t prefill, Nanos now);
  void lose_kv(sched::ReqId id, Nanos now);
  void land(sched::ReqId id, bool has_arrived, Nanos now);
  void release(Chain& chain, Nanos now);
  void withdraw(Chain& chain, bool from_decode, Nanos now);
  void fail(sched::ReqId id, const char* code, Nanos now);
  void close(sched::ReqId id);
  void wake(std::size_t slot);

  const Pools& pools_;
  const Scenario& prefill_;
  Runner& runner_;
  std::function<void(std::size_t)> decides_replica_;
  std::size_t decodes_;
  std::int64_t step_tokens_;  // of a prefill replica
  sched::Tok decode_block_;   // tokens of a KV block of a decode replica
  const sched::RouterInfo& info_;
  std::unique_ptr<KvTransport> links_;
  std::unique_ptr<sched::Router> router_;
  std::vector<sched::ReplicaLoad> loads_;  // of prefill replicas
  std::vector<sched::Tok> cached_;         // tokens of the prompt that is routed, by prefill replica
  std::vector<std::int64_t> prompts_;      // tokens of unfinished prompts, by prefill replica
  std::optional<FleetLife> life_;          // of prefill replicas; none: all serve throughout the run
  std::vector<Chain> chains_;
  std::vector<sched::ReqId> free_;
  std::vector<sched::ReqId> flow_chain_;               // by flow
  std::vector<std::vector<sched::ReqId>> at_prefill_;  // chain by prefill replica and its handle there
  std::vector<Step> steps_;                            // by prefill replica
  std::deque<Delivery> deliveries_;                    // in order of time
  std::deque<Hold> holds_;                             // in order of time
  Failed failed_;
  bool over_ = false;
};

}  // namespace plimsoll::load
