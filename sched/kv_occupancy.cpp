// SPDX-License-Identifier: Apache-2.0
#include "sched/kv_occupancy.h"

#include <algorithm>

namespace plimsoll::sched {

namespace {
// The parabola a + b x + c x^2 (x = j - (n - 1) / 2) that has the zeroth, first and second moments of the step times.
struct Parabola {
  double a, b, c;
};
Parabola fit(const StepsTime& time) {
  const auto n = static_cast<double>(time.steps);
  if (time.steps < 3) {
    const double slope = time.steps == 2 ? time.total - 2 * time.first : 0;
    return {time.total / n, slope, 0};
  }
  const double middle = (n - 1) / 2, mu2 = (n * n - 1) / 12, mu4 = mu2 * (3 * n * n - 7) / 20;
  const double x1 = time.moment1 - middle * time.total;
  const double x2 = time.moment2 - 2 * middle * time.moment1 + middle * middle * time.total;
  const double c = (x2 - mu2 * time.total) / (n * (mu4 - mu2 * mu2));
  return {time.total / n - c * mu2, x1 / (n * mu2), c};
}
}  // namespace

void KvOccupancy::reserve(KvShare& share, double tokens, double final_tokens, Tok computed) {
  share.reserved = tokens;
  share.reserved_final = std::min(tokens, final_tokens);
  reserved_ += share.reserved;
  reserved_final_ += share.reserved_final;
  reserved_used_ += computed;
}

void KvOccupancy::grow(KvShare& share, std::int64_t covered, Tok computed) {
  const double pending = std::max<double>(0, static_cast<double>(covered - computed));
  pending_ += pending - share.pending;
  share.pending = pending;
}

void KvOccupancy::forget(KvShare& share, Tok computed) {
  forget(computed);
  if (share.reserved > 0) {
    reserved_ -= share.reserved;
    reserved_final_ -= share.reserved_final;
    reserved_used_ -= computed;
    share.reserved = share.reserved_final = 0;
  }
  pending_ -= share.pending;
  share.pending = 0;
}

void KvOccupancy::add_steps(const StepsTime& time, const StepLoad& load, const KvLedger& kv, bool external) {
  const auto members = static_cast<double>(load.members);
  const auto block_tokens = static_cast<double>(kv.block_tokens());
  Integrals& sum = integrals_;
  sum.busy_s += time.total;
  sum.batch += time.total * static_cast<double>(load.members + load.listed + load.prefills);
  // Tokens stored during step j: those stored before, plus one per member for every step since. A shared block counts
  // once.
  const double used = used_ - static_cast<double>(kv.shared() * kv.block_tokens());
  sum.used_tokens += used * time.total + members * time.moment1;
  const Parabola f = fit(time);
  const double growth = load.members > 0 ? kv.weighted_growth(time.steps, f.a, f.b, f.c) : 0;
  sum.held_tokens += (static_cast<double>(kv.in_use()) * time.total + growth) * block_tokens;
  sum.internal += (reserved_ - reserved_final_) * time.total;
  sum.reserved_unused += (reserved_final_ - reserved_used_ + pending_) * time.total -
                         static_cast<double>(load.members > 0 ? reserved_members_ : 0) * time.moment1;
  if (external) sum.external += static_cast<double>(kv.free()) * block_tokens * time.total;
  sum.last_block = sum.held_tokens - sum.used_tokens - sum.internal - sum.reserved_unused;
  peak_used_ = std::max(peak_used_, used + load.prefill_tokens + static_cast<double>(load.listed) +
                                        members * static_cast<double>(time.steps));
}

}  // namespace plimsoll::sched
