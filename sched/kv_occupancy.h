// SPDX-License-Identifier: Apache-2.0
// How full a replica's KV cache is: the tokens that are stored, reserved or still to be computed, and the integrals of
// these over time. The ledger (kv_ledger.h) counts blocks and decides what fits; this class only measures.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/forward_cost.h"
#include "sched/kv_ledger.h"
#include "sched/types.h"

namespace plimsoll::sched {

/// The time that `steps` identical steps took. With more than one step, f(j) is the time of step j.
struct StepsTime {
  std::int64_t steps = 1;
  double start = 0;             // seconds since the start of the run; equals the previous step's end if there is no gap
  double first = 0, total = 0;  // seconds: f(0) and the sum of f(j)
  double moment1 = 0, moment2 = 0;  // sums of j f(j) and j^2 f(j)
  model::TimeParts parts;           // sums over all steps
  double end = 0;                   // seconds since the start of the run
  Nanos end_stamp = 0;              // the same, rounded
};

/// Time integrals over the steps, in units times seconds; divide by the duration for means.
struct Integrals {
  double busy_s = 0;                                                       // time spent in steps
  double batch = 0;                                                        // sequences in the step
  double used_tokens = 0;                                                  // tokens that have KV
  double held_tokens = 0;                                                  // capacity of the held blocks, in tokens
  double internal = 0, reserved_unused = 0, external = 0, last_block = 0;  // wasted tokens by kind

  friend Integrals operator-(const Integrals& a, const Integrals& b) {
    return {a.busy_s - b.busy_s,           a.batch - b.batch,          a.used_tokens - b.used_tokens,
            a.held_tokens - b.held_tokens, a.internal - b.internal,    a.reserved_unused - b.reserved_unused,
            a.external - b.external,       a.last_block - b.last_block};
  }
};

/// What one request adds to the occupancy beyond the tokens that it has computed.
struct KvShare {
  double reserved = 0;        // tokens reserved for life
  double reserved_final = 0;  // how many of these it will have stored when it ends
  double pending = 0;         // capacity held on demand for tokens that are not computed yet
};

/// The rows of one step.
struct StepLoad {
  std::int64_t members = 0;  // members of the decode group; each stores one more token per step
  std::int64_t listed = 0;   // other decodes
  std::int64_t prefills = 0;
  double prefill_tokens = 0;
};

/// Integrals over the time of steps, in token-seconds; the replica reports every change.
class KvOccupancy {
 public:
  // ---- changes between steps. `computed` is the number of tokens that the request has computed. ---------------
  /// Records that the request reserves `tokens` for life and will have stored at most `final_tokens` of them.
  void reserve(KvShare& share, double tokens, double final_tokens, Tok computed);
  /// Records that the request holds blocks on demand that cover `covered` tokens.
  void grow(KvShare& share, std::int64_t covered, Tok computed);
  /// Adds tokens that were found in the prefix cache or swapped in.
  void restore(Tok computed) { used_ += computed; }
  /// Records that the request holds nothing any more: it was released or swapped out.
  void forget(KvShare& share, Tok computed);
  /// The same for a request without a KvShare, which has never been served.
  void forget(Tok computed) { used_ -= computed; }
  void join_group(const KvShare& share) { reserved_members_ += share.reserved > 0 ? 1 : 0; }
  void leave_group(const KvShare& share) { reserved_members_ -= share.reserved > 0 ? 1 : 0; }

  // ---- tokens that steps store. Call after add_steps(). --------------------------------------------------------
  /// Records that every member of the group has stored a token in each of the steps.
  void store_group(std::int64_t steps, std::int64_t members) {
    used_ += static_cast<double>(steps * members);
    reserved_used_ += static_cast<double>(steps * reserved_members_);
  }
  /// Records that one request has stored a decoded token.
  void store_decode(const KvShare& share) {
    used_ += 1;
    if (share.reserved > 0) reserved_used_ += 1;
  }
  /// Records that one request has computed `tokens` of its prompt.
  void store_prefill(KvShare& share, Tok tokens) {
    used_ += tokens;
    if (share.reserved > 0) reserved_used_ += tokens;
    const double arrived = std::min<double>(share.pending, tokens);
    share.pending -= arrived;
    pending_ -= arrived;
  }

  /// Adds the steps to the integrals, at the occupancy before them. `external`: the queue needs a contiguous slot
  /// longer than the free space, so the free tokens are wasted.
  void add_steps(const StepsTime& time, const StepLoad& load, const KvLedger& kv, bool external);

  [[nodiscard]] const Integrals& integrals() const { return integrals_; }
  /// Returns the most tokens stored at the end of any step so far.
  [[nodiscard]] double peak_used() const { return peak_used_; }

 private:
  Integrals integrals_;
  double used_ = 0, peak_used_ = 0;
  // For requests that reserve for life: tokens reserved, tokens stored at their end, tokens stored now, and how many of
  // these requests are in the group.
  double reserved_ = 0, reserved_final_ = 0, reserved_used_ = 0;
  std::int64_t reserved_members_ = 0;
  double pending_ = 0;
};

}  // namespace plimsoll::sched
