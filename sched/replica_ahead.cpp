// SPDX-License-Identifier: Apache-2.0
// Policies that decide a step while the one before it runs (Traits::decides_ahead).
#include <algorithm>

#include "sched/replica.h"
#include "sched/replica_live.h"

namespace plimsoll::sched {

namespace {
// While an idle engine starts its first step, further requests that were sent at the same instant arrive. The policy
// sees them before it decides the second step.
constexpr Nanos kStart = 1'000'000;
}  // namespace

// Only the counters of the running step are known to have advanced. Its tokens and later arrivals are not known yet.
void Replica::decide_ahead(Nanos now) {
  if (idle_until_ != kNever) show_arrivals(idle_until_ + kStart);
  idle_until_ = kNever;
  sort_finished();
  leave_capped();
  ask_policy(now);
  table_.set_capped(0);
  ahead_ = decision_.has_step();
  if (ahead_) waste_rows();
}

void Replica::show_arrivals(Nanos until) {
  std::size_t seen = 0;
  for (; seen < unseen_.size() && table_[unseen_[seen]].arrival <= until; ++seen)
    policy_->on_arrival(unseen_[seen], View{table_, kv_}, table_[unseen_[seen]].arrival);
  unseen_.erase(unseen_.begin(), unseen_.begin() + static_cast<std::ptrdiff_t>(seen));
  std::size_t landed = 0;
  for (; landed < landings_.size() && landings_[landed].second <= until; ++landed)
    take_landed(landings_[landed].first.id, landings_[landed].first.arrived, landings_[landed].second);
  landings_.erase(landings_.begin(), landings_.begin() + static_cast<std::ptrdiff_t>(landed));
}

// A request at its cap is known to end, but keeps its place and its blocks until its last token is computed.
void Replica::leave_capped() {
  std::int64_t capped = 0;
  for (const ReqId id : finished_) {
    if (table_.generated(id) < table_[id].max_new) continue;
    if (table_.decoding(id)) leave(id);
    ++capped;
  }
  table_.set_capped(capped);
}

// Requests that have ended remain rows of the decided step. Such a row costs time and, until the request is released,
// blocks; it has no other effect.
void Replica::waste_rows() {
  if (!finished_.empty()) decision_.repeat = 0;
  for (Forward& forward : decision_.edit_forwards()) {
    for (const ReqId id : finished_) {
      if (!table_.decoding(id) || forward.decodes == Decodes::none) continue;
      if (forward.decodes == Decodes::listed && std::erase(forward.listed, id) == 0) continue;
      live_[id].ahead = true;
      const Tok context = table_.computed(id) + 1;
      ++wasted_.rows;
      wasted_.context += context;
      wasted_.context_windowed += table_.window() > 0 ? std::min(context, table_.window()) : context;
    }
  }
}

// Decodes take their blocks before waiting requests look up cached ones. The ledger counts them when the step runs.
void Replica::take_decodes() {
  Blk growth = 0;
  for (const Forward& forward : decision_.forwards()) {
    if (forward.decodes == Decodes::group) growth += kv_.group_growth(1);
    if (forward.decodes == Decodes::listed)
      for (const ReqId id : forward.listed) growth += kv_.need(id, table_.computed(id) + 1);
  }
  kv_.take_early(growth - covered_);
}

bool Replica::in_decided_step(ReqId id) const {
  if ((!ahead_ && plan_left_ == 0) || table_[id].state != State::running) return false;
  for (const Forward& forward : decision_.forwards()) {
    if (forward.decodes == Decodes::group && table_.decoding(id)) return true;
    if (std::find(forward.listed.begin(), forward.listed.end(), id) != forward.listed.end()) return true;
    for (const Segment& segment : forward.prefill)
      if (segment.id == id) return true;
  }
  return false;
}

// Cancelled requests leave at the end of the step in which they were rows.
void Replica::end_gone(Nanos now) {
  for (const ReqId id : gone_) {
    std::erase(finished_, id);
    end_request(id, Outcome::timed_out, now);
  }
  gone_.clear();
}

bool Replica::decoded_last(ReqId id) {
  Live& live = live_[id];
  if (!table_.decoding(id)) return false;
  return (group_decoded_ == steps_ && !live.fresh) || service(live).decoded == steps_;
}

// Returns how many tokens of a preempted request have content in the prefix cache. A policy that decides ahead does not
// know the last token yet, so its block is not complete. `given`: the tokens that the preempting decision had already
// made the request cover.
Tok Replica::known_tokens(ReqId id, Tok given) {
  const bool decoded = traits_.decides_ahead && decoded_last(id);
  if (given == 0) return table_.computed(id) - (decoded ? 1 : 0);
  const bool unknown = decoded || (traits_.decides_ahead && service(id).prefilled == steps_);
  return std::min(given, table_.length(id) - (unknown ? 1 : 0));
}

}  // namespace plimsoll::sched
