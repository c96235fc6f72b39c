// SPDX-License-Identifier: Apache-2.0
#include "sched/sarathi.h"

#include <algorithm>

namespace plimsoll::sched {

namespace {
constexpr double kWatermark = 0.01;
}  // namespace

std::unique_ptr<Policy> make_sarathi(const PolicyConfig& config) { return std::make_unique<Sarathi>(config); }

Sarathi::Sarathi(const PolicyConfig& config)
    : max_running_(resolve_limits(config).max_running),
      chunk_(resolve_limits(config).step_tokens),
      watermark_(config.watermark.value_or(kWatermark)),
      max_len_(config.max_len()) {}

std::optional<Reject> Sarathi::admit(const Request& request, const View&) const {
  if (max_len_ > 0 && most_tokens(request) > max_len_) return Reject{kNoRequest, 400, "max_model_len"};
  return {};
}

void Sarathi::decide(Nanos now, const View& view, Decision& out) {
  Step step{.tokens = 0, .free = view.kv.free(), .members = view.requests.group_size(), .preempted = false};
  Forward& forward = out.add_forward();
  const Blk growth = view.kv.group_growth(1);
  if (growth + 1 <= step.free) {  // enough even for the last request, which needs a free block
    step.tokens = step.members;
    step.free -= growth;
    if (step.members > 0) forward.decodes = Decodes::group;
  } else {
    schedule_decodes(view, step, out, forward);
  }
  if (std::ssize(running_) > step.members) schedule_prefills(view, step, forward);
  if (!step.preempted) schedule_waiting(view, step, out, forward);
  if (forward.prefill.empty() && forward.decodes == Decodes::none) {
    out.drop_forward();
    if (step.preempted || !out.rejects.empty()) out.wake_at = now + 1;
    return;
  }
  if (!forward.prefill.empty() || !out.kv.empty() || std::ssize(running_) > step.members) return;
  out.repeat = std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free() - 1) - 1);
  out.arrival_breaks = waiting_.empty();  // even without room, an arrival at the head may be refused
}

// Schedules decodes in order of arrival. Unfinished prefills are skipped here, but may be preempted from the tail.
void Sarathi::schedule_decodes(const View& view, Step& step, Decision& out, Forward& forward) {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const ReqId id = running_[i];
    if (!view.requests.decoding(id)) continue;
    bool gone = false;
    while (step.free < 1 && !gone) {
      const ReqId last = running_.back();
      running_.pop_back();
      step.preempted = true;
      step.members -= view.requests.decoding(last) ? 1 : 0;
      step.free += view.kv.held(last);
      out.preempted.push_back(last);
      out.kv.push_back({KvOp::Kind::free_all, last, 0});
      waiting_.push_front(last);
      gone = last == id;
    }
    if (gone) break;
    step.free -= view.kv.need(id, view.requests.computed(id) + 1);
    ++step.tokens;
    forward.decodes = Decodes::group;  // every member that stays decodes
  }
}

void Sarathi::schedule_prefills(const View& view, Step& step, Forward& forward) {
  for (const ReqId id : running_) {
    if (view.requests.decoding(id)) continue;
    const Tok computed = view.requests.computed(id), length = view.requests.length(id);
    const auto tokens = static_cast<Tok>(std::min<std::int64_t>(length - computed, chunk_ - step.tokens));
    if (tokens <= 0) continue;
    step.tokens += tokens;
    forward.prefill.push_back({id, tokens, computed, computed + tokens == length});
  }
}

void Sarathi::schedule_waiting(const View& view, Step& step, Decision& out, Forward& forward) {
  const auto spared = static_cast<Blk>(watermark_ * static_cast<double>(view.kv.total()));
  while (!waiting_.empty()) {
    const ReqId id = waiting_.front();
    const Tok length = view.requests.length(id);
    const Blk need = view.kv.blocks_for(length);
    if (view.kv.total() - need < spared) {
      out.rejects.push_back({id, 500, "kv_capacity"});  // otherwise it would block the queue for ever
      waiting_.pop_front();
      continue;
    }
    const auto tokens = static_cast<Tok>(std::min<std::int64_t>(length, chunk_ - step.tokens));
    if (step.free - need < spared || std::ssize(running_) >= max_running_ || tokens <= 0) return;
    step.free -= need;
    step.tokens += tokens;
    out.kv.push_back({KvOp::Kind::grow, id, length});
    forward.prefill.push_back({id, tokens, 0, tokens == length});
    // Running requests are in order of arrival: a preempted request returns to its place.
    const auto place = std::find_if(running_.begin(), running_.end(), [&](ReqId other) {
      return view.requests[other].serial > view.requests[id].serial;
    });
    running_.insert(place, id);
    waiting_.pop_front();
  }
}

}  // namespace plimsoll::sched
