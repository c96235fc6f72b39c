// SPDX-License-Identifier: Apache-2.0
// What happens when steps end: counters advance, tokens appear, rows finish, integrals grow.
#include <algorithm>
#include <limits>

#include "model/error.h"
#include "sched/replica.h"
#include "sched/replica_live.h"

namespace plimsoll::sched {

namespace {
// The parabola a + b x + c x^2 (x = j - (n-1)/2) with the zeroth, first and second moments of the step times.
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

Replica::DecodeLoad Replica::decode_load(const Forward& forward) const {
  DecodeLoad load;
  if (forward.decodes == Decodes::group) {
    load.rows = table_.group_size();
    load.context = static_cast<double>(table_.group_context());
    load.context_windowed = static_cast<double>(table_.group_context_windowed());
  } else if (forward.decodes == Decodes::listed) {
    load.rows = static_cast<std::int64_t>(forward.listed.size());
    const Tok window = table_.window() > 0 ? table_.window() : std::numeric_limits<Tok>::max();
    for (const ReqId id : forward.listed) {
      const Tok context = table_.computed(id) + 1;
      load.context += context;
      load.context_windowed += std::min(context, window);
    }
  }
  if (forward.decodes != Decodes::none && forward.padded > 0) {
    load.rows += static_cast<std::int64_t>(forward.dead.size());
    load.context = load.context_windowed = static_cast<double>(load.rows) * forward.padded;
  }
  return load;
}

void Replica::complete(const StepsTime& time) {
  integrate(time);
  log_.ran(time.steps);
  steps_ += time.steps;
  spent_ += time.parts;
  finished_.clear();
  for (const Forward& forward : decision_.forwards()) complete_decodes(forward, time);
  for (const Forward& forward : decision_.forwards()) complete_prefills(forward, time);
  if (decision_.repeat >= time.steps) {
    decision_.repeat -= time.steps;
    for (Forward& forward : decision_.edit_forwards())
      if (forward.padded > 0) forward.padded += static_cast<Tok>(time.steps);
  }
  finish_rows(time);
}

void Replica::complete_decodes(const Forward& forward, const StepsTime& time) {
  if (forward.decodes == Decodes::none) return;
  if (forward.decodes == Decodes::listed) {
    for (const ReqId id : forward.listed) {
      Live& live = live_[id];
      Live::Served& served = live.served();
      const double emitted = live.fresh ? served.emitted : group_emitted_;
      if (!traits_.returns_at_batch_end) itl_.add((time.start - emitted) + time.first, 1);
      served.emitted = time.end;
      if (!live.fresh) {
        live.fresh = true;
        fresh_.push_back(id);
      }
      table_.advance_member(id);
      kv_.advance_member(id);
      used_tokens_ += 1;
      if (served.reserved_tokens > 0) reserved_used_ += 1;
      if (table_.generated(id) == live.output)
        finished_.push_back(id);
      else
        push_finish(id);
    }
    return;
  }
  if (!traits_.returns_at_batch_end) {
    std::int64_t rest = table_.group_size();
    for (const ReqId id : fresh_) {
      if (!live_[id].fresh) continue;
      itl_.add((time.start - live_[id].served().emitted) + time.first, 1);
      --rest;
      live_[id].fresh = false;
    }
    itl_.add((time.start - group_emitted_) + time.first, rest);
  } else {
    for (const ReqId id : fresh_) live_[id].fresh = false;
  }
  fresh_.clear();
  group_emitted_ = time.end;
  used_tokens_ += static_cast<double>(time.steps * table_.group_size());
  reserved_used_ += static_cast<double>(time.steps * reserved_members_);
  table_.advance_group(time.steps);
  kv_.advance_group(time.steps);
  while (steps_to_finish() <= 0) {
    finished_.push_back(finishes_.front().id);
    std::pop_heap(finishes_.begin(), finishes_.end(), kLater);
    finishes_.pop_back();
  }
}

void Replica::complete_prefills(const Forward& forward, const StepsTime& time) {
  for (const Segment& segment : forward.prefill) {
    Live::Served& served = live_[segment.id].served();
    table_.prefill(segment.id, segment.new_tokens);
    used_tokens_ += segment.new_tokens;
    if (served.reserved_tokens > 0) reserved_used_ += segment.new_tokens;
    const double arrived = std::min<double>(served.pending, segment.new_tokens);
    served.pending -= arrived;
    pending_prefill_ -= arrived;
    kv_.publish(segment.id, table_.computed(segment.id));
    PLIMSOLL_CHECK(segment.emits == (table_.computed(segment.id) == table_.length(segment.id)),
                   "a prefill emits exactly when it covers the whole sequence");
    if (segment.emits) emit(segment.id, time);
  }
}

// A completed (re)prefill samples one token; then the request decodes with the group, or is finished.
void Replica::emit(ReqId id, const StepsTime& time) {
  Live& live = live_[id];
  Live::Served& served = live.served();
  if (served.first_token < 0)
    served.first_token = time.end_stamp;
  else if (!traits_.returns_at_batch_end)
    itl_.add(time.end - served.emitted, 1);
  served.emitted = time.end;
  table_.emit(id);
  if (table_.generated(id) == live.output)
    finished_.push_back(id);
  else
    join(id);
}

void Replica::finish_rows(const StepsTime& time) {
  std::sort(finished_.begin(), finished_.end(),
            [this](ReqId a, ReqId b) { return table_[a].serial < table_[b].serial; });
  for (const ReqId id : finished_)
    if (table_.decoding(id)) leave(id);
  policy_->on_steps_done({time.steps, finished_}, View{table_, kv_}, time.end_stamp);
  if (!traits_.returns_at_batch_end) {
    for (const ReqId id : finished_) end_request(id, Outcome::completed, time.end_stamp);
    return;
  }
  held_rows_.insert(held_rows_.end(), finished_.begin(), finished_.end());
  if (table_.group_size() > 0) return;
  for (const ReqId id : held_rows_) {
    live_[id].served().first_token = time.end_stamp;  // the whole answer comes at once
    end_request(id, Outcome::completed, time.end_stamp);
  }
  held_rows_.clear();
}

void Replica::integrate(const StepsTime& time) {
  std::int64_t group = 0, listed = 0, prefills = 0;
  double prefill_tokens = 0;
  for (const Forward& forward : decision_.forwards()) {
    if (forward.decodes == Decodes::group) group = table_.group_size();
    if (forward.decodes == Decodes::listed) listed += static_cast<std::int64_t>(forward.listed.size());
    prefills += static_cast<std::int64_t>(forward.prefill.size());
    for (const Segment& segment : forward.prefill) prefill_tokens += segment.new_tokens;
  }
  const auto members = static_cast<double>(group);
  Integrals& sum = integrals_;
  sum.busy_s += time.total;
  sum.batch += time.total * static_cast<double>(group + listed + prefills);
  // Tokens present during step j: those before it and one more a member for every step since. A shared block counts
  // once.
  const double used = used_tokens_ - static_cast<double>(kv_.shared() * kv_.block_tokens());
  sum.used_tokens += used * time.total + members * time.moment1;
  const Parabola f = fit(time);
  const double growth = group > 0 ? kv_.weighted_growth(time.steps, f.a, f.b, f.c) : 0;
  sum.held_tokens += (static_cast<double>(kv_.in_use()) * time.total + growth) * kv_.block_tokens();
  sum.internal += (reserved_tokens_ - reserved_final_) * time.total;
  sum.reserved_unused += (reserved_final_ - reserved_used_ + pending_prefill_) * time.total -
                         static_cast<double>(group > 0 ? reserved_members_ : 0) * time.moment1;
  const double left = static_cast<double>(kv_.free()) * kv_.block_tokens();
  if (traits_.contiguous && policy_->queued() > 0 && left < config_.max_len()) sum.external += left * time.total;
  sum.last_block = sum.held_tokens - sum.used_tokens - sum.internal - sum.reserved_unused;
  peak_used_tokens_ = std::max(peak_used_tokens_, used + prefill_tokens + static_cast<double>(listed) +
                                                      members * static_cast<double>(time.steps));
}

}  // namespace plimsoll::sched
