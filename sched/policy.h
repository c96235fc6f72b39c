// SPDX-License-Identifier: Apache-2.0
// The batching policy: a deterministic state machine with no clock, thread, random number, allocator or device inside.
// Time enters as `now`. The simulator and the real executor drive the same object through the same Replica.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "sched/decision.h"
#include "sched/kv_ledger.h"
#include "sched/policy_config.h"
#include "sched/request_table.h"

namespace plimsoll::sched {

/// What a policy may look at.
struct View {
  const RequestTable& requests;
  const KvLedger& kv;
  Tok reserve_tokens = 0;  // RequestTable::reserve_tokens() of the request that admit() is asked about
};

/// `steps` identical steps ended (more than one only after a decision with repeat); `finished` requests ended with
/// them.
struct StepsDone {
  std::int64_t steps = 1;
  std::span<const ReqId> finished;  // rows that produced their last token, in batch order; still readable in the View
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// Checks the product's own limits at the front door, after the common checks (front_door.h). Returns the refusal, if
  /// any.
  [[nodiscard]] virtual std::optional<Reject> admit(const Request&, const View&) const { return {}; }
  /// Reports that a request has passed the front door: it is in the table and waits.
  virtual void on_arrival(ReqId id, const View& view, Nanos now) = 0;
  /// Reports that the client is gone: the policy forgets the request, whatever its state. The Replica frees its blocks
  /// after this call.
  virtual void on_cancel(ReqId id, const View& view, Nanos now) = 0;
  /// Reports that the KV of a request (RequestTable::remote()) has arrived from a prefill replica, or is lost. The
  /// table states how much of the request is computed.
  virtual void on_transfer_done(ReqId /*id*/, const View& /*view*/, Nanos /*now*/) {}
  /// Reports that steps have ended. The Replica has already updated the table (counters, decode group); a request whose
  /// prefill has completed is in the decode group. The blocks of finished requests are freed after this call (at the
  /// end of the batch with returns_at_batch_end).
  virtual void on_steps_done(const StepsDone& done, const View& view, Nanos now) = 0;
  /// Fills `out`, which is clear. Called when no step is in flight and something happened (arrival, steps done, cancel,
  /// wake_at reached). A decision without forwards runs nothing.
  virtual void decide(Nanos now, const View& view, Decision& out) = 0;
  /// Returns the running requests in batch order, for the decision log.
  [[nodiscard]] virtual std::span<const ReqId> batch_order() const = 0;
  /// Returns the number of waiting requests, without swapped-out ones.
  [[nodiscard]] virtual std::int64_t queued() const = 0;
};

/// Makes the policy of config.policy. Throws InputError for a combination that the product refuses at start-up.
[[nodiscard]] std::unique_ptr<Policy> make_policy(const PolicyConfig& config);

}  // namespace plimsoll::sched
