// SPDX-License-Identifier: Apache-2.0
#include "sched/orca.h"

namespace plimsoll::sched {

std::unique_ptr<Policy> make_orca(const PolicyConfig& config) { return std::make_unique<Orca>(config); }

Orca::Orca(const PolicyConfig& config)
    : config_(config),
      reserve_(config.reserve.value_or(Reserve::max_len)),
      max_running_(resolve_limits(config).max_running) {}

std::int64_t Orca::reserved_tokens(const Request& request, Tok reserve) const {
  switch (reserve_) {
    case Reserve::max_len: return slot_tokens(config_, request);
    case Reserve::request_cap: return most_tokens(request);
    case Reserve::pow2:
    case Reserve::oracle: return reserve;
  }
  return 0;
}

std::optional<Reject> Orca::admit(const Request& request, const View& view) const {
  if (config_.queue_limit && queued() >= *config_.queue_limit) return Reject{kNoRequest, 503, "queue_capacity"};
  if (reserve_ == Reserve::max_len) return refuse_slot(config_, request, view.kv);
  if (view.kv.blocks_for(reserved_tokens(request, view.reserve_tokens)) > view.kv.total())
    return Reject{kNoRequest, 422, "max_total_tokens"};
  return {};
}

void Orca::on_steps_done(const StepsDone& done, const View& view, Nanos) {
  if (!done.finished.empty()) remove_finished(running_, view.requests);
}

void Orca::decide(Nanos, const View& view, Decision& out) {
  const bool decodes = !running_.empty();
  const std::size_t old = running_.size();
  Blk free = view.kv.free();
  while (!waiting_.empty() && std::ssize(running_) < max_running_) {
    const ReqId id = waiting_.front();
    const std::int64_t tokens = reserved_tokens(view.requests[id], view.requests.reserve_tokens(id));
    const Blk blocks = view.kv.blocks_for(tokens);
    if (blocks > free) break;
    free -= blocks;
    out.kv.push_back({KvOp::Kind::reserve, id, tokens});
    running_.push_back(id);
    waiting_.pop_front();
  }
  if (running_.empty()) return;
  Forward& forward = out.add_forward();
  for (std::size_t i = old; i < running_.size(); ++i)
    forward.prefill.push_back({running_[i], view.requests[running_[i]].prompt, 0, true});
  if (decodes) forward.decodes = Decodes::group;
  if (!forward.prefill.empty()) return;
  // Everything is reserved. If the head of the queue does not fit or the batch is full, an arrival changes nothing.
  out.repeat = kForever;
  out.arrival_breaks = waiting_.empty() && std::ssize(running_) < max_running_;
}

}  // namespace plimsoll::sched
