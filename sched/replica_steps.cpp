// SPDX-License-Identifier: Apache-2.0
// What happens when steps end: counters advance, tokens are emitted, rows finish, integrals grow.
#include <algorithm>
#include <limits>

#include "model/error.h"
#include "sched/replica.h"
#include "sched/replica_live.h"

namespace plimsoll::sched {

namespace {
StepLoad load_of(const Decision& decision, const RequestTable& table) {
  StepLoad load;
  for (const Forward& forward : decision.forwards()) {
    if (forward.decodes == Decodes::group) load.members = table.group_size();
    if (forward.decodes == Decodes::listed) load.listed += static_cast<std::int64_t>(forward.listed.size());
    load.prefills += static_cast<std::int64_t>(forward.prefill.size());
    for (const Segment& segment : forward.prefill) load.prefill_tokens += segment.new_tokens;
  }
  return load;
}
}  // namespace

Replica::DecodeLoad Replica::decode_load(const Forward& forward) const {
  DecodeLoad load;
  if (forward.decodes != Decodes::none) load = wasted_;
  if (forward.decodes == Decodes::group) {
    load.rows += table_.group_size();
    load.context += static_cast<double>(table_.group_context());
    load.context_windowed += static_cast<double>(table_.group_context_windowed());
  } else if (forward.decodes == Decodes::listed) {
    load.rows += static_cast<std::int64_t>(forward.listed.size());
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

// Updates the occupancy first: the integrals cover the time of the steps, before their tokens are stored. Decodes come
// before prefills: a request that completes its prefill joins the group only after the group's own steps.
void Replica::complete(const StepsTime& time) {
  occupancy_.add_steps(time, load_of(decision_, table_), kv_, wastes_free_blocks());
  log_.ran(time.steps);
  steps_ += time.steps;
  spent_ += time.parts;
  finished_.clear();
  wasted_ = {};
  for (const Forward& forward : decision_.forwards()) complete_decodes(forward, time);
  for (const Forward& forward : decision_.forwards()) complete_prefills(forward, time);
  // The plan continues: padded rows attend to one more token in each further step.
  if (decision_.repeat >= time.steps) {
    decision_.repeat -= time.steps;
    for (Forward& forward : decision_.edit_forwards())
      if (forward.padded > 0) forward.padded += static_cast<Tok>(time.steps);
  }
  if (traits_.decides_ahead) {
    plan_left_ -= time.steps;
    end_gone(time.end_stamp);
    if (plan_left_ == 0) decide_ahead(time.end_stamp);
  }
  finish_rows(time);
}

void Replica::complete_decodes(const Forward& forward, const StepsTime& time) {
  if (forward.decodes == Decodes::none) return;
  if (forward.decodes == Decodes::listed) {
    for (const ReqId id : forward.listed) {
      Live& live = live_[id];
      Service& served = service(live);
      // A row that decoded alone since the last group step has its own last emission; the others share the group's.
      const double emitted = live.fresh ? served.emitted : group_emitted_;
      if (!traits_.returns_at_batch_end) itl_.add((time.start - emitted) + time.first, 1);
      served.emitted = time.end;
      served.decoded = steps_;
      if (!live.fresh) {
        live.fresh = true;
        fresh_.push_back(id);
      }
      table_.advance_member(id);
      kv_.advance_member(id);
      occupancy_.store_decode(served.kv);
      if (table_.generated(id) == live.output)
        finished_.push_back(id);
      else
        push_finish(id);
    }
    return;
  }
  if (!traits_.returns_at_batch_end) {
    // Members that joined since the last group step count the gap from their own first token. All other gaps are equal
    // and are added once, weighted by the number of members.
    std::int64_t rest = table_.group_size();
    for (const ReqId id : fresh_) {
      if (!live_[id].fresh) continue;
      itl_.add((time.start - service(id).emitted) + time.first, 1);
      --rest;
      live_[id].fresh = false;
    }
    if (rest > 0) itl_.add((time.start - group_emitted_) + time.first, rest);
  } else {
    for (const ReqId id : fresh_) live_[id].fresh = false;
  }
  fresh_.clear();
  group_emitted_ = time.end;
  group_decoded_ = steps_;
  occupancy_.store_group(time.steps, table_.group_size());
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
    if (is_lost(segment)) {
      table_.set_computed(segment.id, segment.new_tokens);
      continue;
    }
    Service& served = service(segment.id);
    table_.prefill(segment.id, segment.new_tokens);
    occupancy_.store_prefill(served.kv, segment.new_tokens);
    if (!traits_.block_by_block) kv_.publish(segment.id, table_.computed(segment.id));
    PLIMSOLL_CHECK(segment.emits == (table_.computed(segment.id) == table_.length(segment.id)),
                   "a prefill emits exactly when it covers the whole sequence");
    if (segment.emits) emit(segment.id, time);
  }
}

// A completed (re)prefill samples one token; then the request joins the decode group, or it is finished.
void Replica::emit(ReqId id, const StepsTime& time) {
  Live& live = live_[id];
  Service& served = service(live);
  if (served.first_token < 0) {
    served.first_token = time.end_stamp;
    forget_prefill(id);
  } else if (!traits_.returns_at_batch_end) {
    itl_.add(time.end - served.emitted, 1);
  }
  served.emitted = time.end;
  served.prefilled = steps_;
  table_.emit(id);
  const bool ends = table_.generated(id) == live.output;
  if (ends) finished_.push_back(id);
  // A policy that decides ahead does not know yet that the request has ended, unless it reached its cap.
  if (!ends || (traits_.decides_ahead && table_.generated(id) < table_[id].max_new)) join(id);
}

// Requests end in order of arrival, whatever the order in which the heap returns them. vLLM ends them in batch order,
// which decides whose blocks are reused first.
void Replica::sort_finished() {
  if (finished_.size() < 2) return;
  std::sort(finished_.begin(), finished_.end(),
            [this](ReqId a, ReqId b) { return table_[a].serial < table_[b].serial; });
  if (!traits_.block_by_block) return;
  std::vector<ReqId> in_order;
  for (const ReqId id : policy_->batch_order())
    if (const auto found = std::find(finished_.begin(), finished_.end(), id); found != finished_.end()) {
      in_order.push_back(id);
      finished_.erase(found);
    }
  finished_.insert(finished_.begin(), in_order.begin(), in_order.end());
}

void Replica::finish_rows(const StepsTime& time) {
  sort_finished();
  for (const ReqId id : finished_)
    if (table_.decoding(id)) leave(id);
  policy_->on_steps_done({time.steps, finished_}, View{table_, kv_}, time.end_stamp);
  if (!traits_.returns_at_batch_end) {
    for (const ReqId id : finished_) end_request(id, Outcome::completed, time.end_stamp);
    finished_.clear();  // their handles may be reused
    return;
  }
  // A batch that returns as a whole keeps its finished rows until the last one ends.
  held_rows_.insert(held_rows_.end(), finished_.begin(), finished_.end());
  finished_.clear();
  if (table_.group_size() > 0) return;
  for (const ReqId id : held_rows_) {
    service(id).first_token = time.end_stamp;  // the whole answer comes at once
    end_request(id, Outcome::completed, time.end_stamp);
  }
  held_rows_.clear();
}

// A contiguous slot is as long as the longest sequence: a shorter free remainder is of no use to the queue.
bool Replica::wastes_free_blocks() const {
  return traits_.contiguous && policy_->queued() > 0 && kv_.free() * kv_.block_tokens() < config_.max_len();
}

}  // namespace plimsoll::sched
