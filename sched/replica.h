// SPDX-License-Identifier: Apache-2.0
// One serving replica: policy, KV ledger, front door, request table, decision log and measurements. Both backends drive
// this class, the simulator with computed times and the executor with measured ones:
//
//   arrive()/cancel() as they happen -> decide() when no step is in flight -> run what decision() says -> complete()
//
// With Traits::decides_ahead the next step is decided when a step starts, without knowing that step's tokens or what
// arrives while it runs. Only the counters of the running step are known. So complete() asks the policy as soon as the
// step has ended, before any other event of that time, and decide() returns this decision. Requests that have ended by
// then are still rows of the step.
//
// The driver orders events at equal times (load/run_loop.h). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/forward_cost.h"
#include "sched/by_request.h"
#include "sched/decision_log.h"
#include "sched/kv_ledger.h"
#include "sched/kv_occupancy.h"
#include "sched/log_histogram.h"
#include "sched/policy.h"
#include "sched/request_table.h"
#include "sched/router.h"

namespace plimsoll::sched {

/// How an attempt ended.
enum class Outcome : std::uint8_t { completed, rejected, timed_out, cancelled };

/// A request as it reaches the replica. `output` is the true output length; the policy never sees it.
struct NewRequest {
  std::uint64_t serial = 0;
  Tok input = 1, output = 1, max_new = 1;
  Nanos sent = 0;  // intended send time: latency counts from here
  std::uint64_t session = 0;
  std::int32_t priority = 0;
  std::span<const std::uint64_t> prefix_hashes;
  Tok hash_block_tokens = 0;  // tokens covered by one hash
  Tok content = 0;            // tokens of the sequence that the hashes describe; 0: those of the prompt
  bool hashes_chain = false;  // each hash stands for all content up to the end of its block
  Tok tracked_prefill = -1;   // prompt tokens that count as prefill in describe(), until the first token; -1: none do
  std::string_view name;      // for the log; empty: r<serial>
  std::uint32_t client = 0;   // the sender's own handle, returned in FinishedAttempt
  // With pools for prefill and decode (docs/pools.md):
  Tok remote = 0;       // tokens of the prompt whose KV a prefill replica sends; 0: none
  bool seeded = false;  // with `remote`: the first output token comes with the KV
  bool hold = false;    // the blocks stay after the end, until release_held()
};

/// The times of a request's stages with two pools, in nanoseconds since the start of the run; -1: never.
struct Stages {
  std::int32_t prefill_replica = -1;  // -1: the decode replica computed the prompt
  bool pushed = false;                // the decode replica had taken the blocks before the prefill began
  Nanos prefill_arrived = -1, prefill_start = -1, prefill_end = -1;
  Nanos transfer_start = -1, transfer_end = -1;
  Nanos decode_start = -1;  // first step on the decode replica
  Tok transferred = 0;      // tokens whose KV was sent
  [[nodiscard]] bool local() const { return prefill_replica < 0; }
};

/// A request whose blocks have just been taken for KV that comes from a prefill replica.
struct Load {
  ReqId id = kNoRequest;
  std::uint32_t client = 0;  // as in NewRequest
  Tok cached = 0;            // leading tokens that the replica has already
  Nanos at = 0;
};

/// The end of such a wait: the KV has arrived, or it is lost.
struct Landing {
  ReqId id = kNoRequest;
  std::uint64_t serial = 0;
  bool arrived = true;
};

/// One request (attempt) that left the replica. Times in nanoseconds since the start of the run; -1: never happened.
struct FinishedAttempt {
  std::uint64_t serial = 0;
  std::uint32_t client = 0;  // as in NewRequest
  ReqId id = kNoRequest;     // its handle, which may be in use again
  Outcome outcome = Outcome::completed;
  std::uint16_t http = 0;  // HTTP status of a rejection
  const char* code = "";
  bool unfit = false;  // rejected for its length, whatever the load
  Tok input = 0, output = 0, max_new = 0, generated = 0;
  std::int32_t preemptions = 0;
  Nanos sent = 0, arrived = 0, first_scheduled = -1, first_token = -1, end = 0;
  // The parts of its latency, seconds: before the first step, while preempted, and in steps by cause.
  double queue_s = 0, preempt_s = 0;
  model::TimeParts service;
  const Stages* stages = nullptr;  // with two pools; valid until the next request arrives
};

/// The scheduler of one engine instance, with its requests and KV blocks, without a clock or a device.
class Replica {
 public:
  struct Config {
    PolicyConfig policy;
    KvConfig kv;
    Tok window = 0;                          // the model's sliding window
    bool keep_log = false;                   // write the decision log
    std::shared_ptr<LogHistogram> itl = {};  // replicas that one thread drives may share it; null: one of its own
  };
  explicit Replica(const Config& config);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  /// Delivers a request. Returns nullopt if the front door refused it (it is then in ended()). A policy that decides
  /// ahead sees the request at the next decide().
  std::optional<ReqId> arrive(const NewRequest& request, Nanos now);
  /// Drops a request whose client is gone. Call between steps. With Traits::decides_ahead a row of the step that is
  /// already decided leaves when that step completes. A row of a static batch cannot leave: it runs to its end.
  void cancel(ReqId id, Outcome outcome, Nanos now);
  /// Returns whether the handle still belongs to the request with this serial; handles are reused, serials are not.
  [[nodiscard]] bool is_live(ReqId id, std::uint64_t serial) const;
  /// Sets the final output length of a live request. A real engine learns it with the last token: call this when the
  /// step with that token has run, before complete(). `output` must exceed the tokens produced so far and not the cap.
  void set_output(ReqId id, Tok output);
  /// Marks a request whose client gave up while the engine keeps working: it will end as timed_out.
  void abandon(ReqId id);

  /// Reports that the KV of a request with NewRequest::remote has arrived, or is lost, so that the request starts from
  /// what the cache has. Call between steps. A policy that decides ahead sees it at the next decide().
  void land(const Landing& landing, Nanos now);
  /// Returns the requests for whose expected KV blocks were taken since the caller last cleared this list.
  [[nodiscard]] std::vector<Load>& loads() { return loads_; }
  /// Returns whether the request has ended and still holds its blocks (NewRequest::hold).
  [[nodiscard]] bool is_held(ReqId id, std::uint64_t serial) const;
  /// Frees the blocks of such a request. Call between steps.
  void release_held(ReqId id);
  /// Return the blocks of requests whose KV is on its way: now, and the maximum so far.
  [[nodiscard]] Blk staged() const { return staged_; }
  [[nodiscard]] Blk staged_peak() const { return staged_peak_; }

  /// Asks the policy. Returns true if there is a step to run; otherwise call again at the next event or at wake_at().
  bool decide(Nanos now);
  [[nodiscard]] const Decision& decision() const { return decision_; }
  [[nodiscard]] Nanos wake_at() const { return decision_.wake_at; }
  /// Returns how many identical steps may run before the next decision: 1 + repeat, up to the first finished request.
  [[nodiscard]] std::int64_t plan_steps();
  /// Reports that `time.steps` <= plan_steps() of the decided steps have ended. The rest of the plan stays valid.
  void complete(const StepsTime& time);

  /// Requests that ended since the caller last cleared this list.
  [[nodiscard]] std::vector<FinishedAttempt>& ended() { return ended_; }
  /// Fills in what the replica reports to a router (sched/router.h).
  void describe(ReplicaLoad& load) const;
  [[nodiscard]] const RequestTable& requests() const { return table_; }
  [[nodiscard]] RequestTable& requests() { return table_; }
  [[nodiscard]] const KvLedger& kv() const { return kv_; }
  [[nodiscard]] const Policy& policy() const { return *policy_; }
  [[nodiscard]] const Traits& traits() const { return traits_; }
  [[nodiscard]] Role role() const { return config_.role; }
  [[nodiscard]] const Integrals& integrals() const { return occupancy_.integrals(); }
  [[nodiscard]] double peak_used_tokens() const { return occupancy_.peak_used(); }
  [[nodiscard]] std::int64_t preemptions() const { return preemptions_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Times between the tokens of a request, weighted by requests. The driver adds the gaps of steps 1 … n-1 of a leap.
  [[nodiscard]] HistogramShare& itl() { return itl_; }
  [[nodiscard]] DecisionLog& log() { return log_; }
  /// The rows that a forward decodes, dead ones included, and the sum of the tokens to which they attend.
  struct DecodeLoad {
    std::int64_t rows = 0;
    double context = 0, context_windowed = 0;
  };
  /// Returns the decode rows of a forward of the decided step.
  [[nodiscard]] DecodeLoad decode_load(const Forward& forward) const;

 private:
  struct Live;  // the Replica's data on a request beyond the table
  struct Service;
  struct Finish {
    std::int64_t clock;
    ReqId id;
    std::uint32_t epoch;
  };

  [[nodiscard]] std::optional<Reject> front_door(const Request& request, Tok reserve_tokens) const;
  void refuse(const NewRequest& request, const Reject& refusal, Nanos now);
  [[nodiscard]] Service& service(Live& live);
  [[nodiscard]] Service& service(ReqId id);
  void open_prefix(ReqId id, const NewRequest& request);
  void track(ReqId id, const NewRequest& request);
  void forget_prefill(ReqId id);
  void apply(const Decision& decision, Nanos now);
  void preempt(const KvOp& op, Nanos now);
  void start_service(ReqId id, Nanos now);
  void stop_service(ReqId id, Nanos now);
  void reject(const Reject& reject, Nanos now);
  void end_request(ReqId id, Outcome outcome, Nanos now);
  void join(ReqId id);
  void leave(ReqId id);
  void push_finish(ReqId id);
  [[nodiscard]] std::int64_t steps_to_finish();
  void apply_grow(const KvOp& op);
  void apply_load(const KvOp& op, Nanos now);
  void take_landed(ReqId id, bool arrived, Nanos now);
  void seed(ReqId id, Nanos now);
  void unstage(ReqId id);
  void forget_kv(ReqId id);
  [[nodiscard]] bool is_lost(const Segment& segment) const;
  [[nodiscard]] bool wastes_free_blocks() const;
  void ask_policy(Nanos now);
  void show_arrivals(Nanos until);
  void decide_ahead(Nanos now);
  void leave_capped();
  void waste_rows();
  void take_decodes();
  void end_gone(Nanos now);
  [[nodiscard]] bool in_decided_step(ReqId id) const;
  [[nodiscard]] bool decoded_last(ReqId id);
  [[nodiscard]] Tok known_tokens(ReqId id, Tok given);
  void complete_prefills(const Forward& forward, const StepsTime& time);
  void complete_decodes(const Forward& forward, const StepsTime& time);
  void emit(ReqId id, const StepsTime& time);
  void finish_rows(const StepsTime& time);
  void sort_finished();

  // Members that steps use come first: with many replicas, only a small part of each stays in the processor's cache.
  std::unique_ptr<Policy> policy_;
  HistogramShare itl_;
  Traits traits_;
  double group_emitted_ = 0;         // seconds: when the group last decoded
  std::int64_t group_decoded_ = -1;  // the step in which the group last decoded
  std::int64_t preemptions_ = 0, steps_ = 0;
  model::TimeParts spent_;  // all step time so far, by cause
  RequestTable table_;
  KvLedger kv_;
  KvOccupancy occupancy_;
  Decision decision_;
  std::vector<Live> live_;
  Pool<Service> services_;
  std::vector<Finish> finishes_;  // min-heap by (clock, serial): when each member of the group produces its last token
  std::vector<ReqId> fresh_;      // joined since the last group step: their first gap differs from the rest
  std::vector<ReqId> finished_, held_rows_;
  std::vector<FinishedAttempt> ended_;
  std::vector<Tok> tracked_;  // by id: prompt tokens that count as prefill; empty unless requests are tracked
  std::int64_t tracked_prefill_ = 0, tracked_blocks_ = 0;  // of all tracked requests
  Blk covered_ = 0;  // blocks that decodes of the decision have taken before it ends
  // With Traits::decides_ahead:
  bool ahead_ = false;                               // decision_ is already applied and belongs to the next step
  std::int64_t plan_left_ = 0;                       // steps of the decided plan that have not ended yet
  std::vector<ReqId> unseen_;                        // arrivals that the policy has not seen
  std::vector<std::pair<Landing, Nanos>> landings_;  // with their times; the policy has not seen them
  std::vector<ReqId> gone_;                          // cancelled rows of the decided step; they leave when it ends
  DecodeLoad wasted_;                                // rows of the decided step whose requests have already ended
  Nanos idle_until_ = kNever;  // when the engine started after being idle; kNever: not waiting for its second step
  // With pools for prefill and decode:
  std::vector<Load> loads_;
  Blk staged_ = 0, staged_peak_ = 0;
  DecisionLog log_;
  PolicyConfig config_;
};

}  // namespace plimsoll::sched
