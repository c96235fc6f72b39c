// SPDX-License-Identifier: Apache-2.0
#include "sched/tgi_chunked.h"

#include "sched/kv_preview.h"

namespace plimsoll::sched {

// With chunking the product ignores its batch size once a batch runs. Here a stated max_running always applies.
TgiChunked::TgiChunked(const PolicyConfig& config)
    : config_(config),
      budget_(resolve_limits(config).prefill_tokens),
      max_running_(config.max_running.value_or(kForever)) {}

Blk TgiChunked::usable_blocks(const KvLedger& kv) const {
  if (!config_.kv_token_budget) return kv.total();
  return std::min(kv.total(), *config_.kv_token_budget / kv.block_tokens());
}

std::optional<Reject> TgiChunked::admit(const Request& request, const View& view) const {
  if (config_.queue_limit && queued() >= *config_.queue_limit) return Reject{kNoRequest, 429, "overloaded"};
  if (view.kv.blocks_for(most_tokens(request) - 1) > usable_blocks(view.kv))
    return Reject{kNoRequest, 422, "max_total_tokens"};
  return {};
}

void TgiChunked::on_cancel(ReqId id, const View& view, Nanos now) {
  QueuePolicy::on_cancel(id, view, now);
  remove_one(partial_, id);
}

void TgiChunked::on_steps_done(const StepsDone& done, const View& view, Nanos) {
  std::erase_if(partial_, [&](ReqId id) { return view.requests.generated(id) > 0; });
  if (!done.finished.empty()) remove_finished(running_, view.requests);
}

// Adds the next chunks of the running batch, oldest request first. Each may use the budget that is left but for one
// token per other request of the batch, and gets at least one token. Returns the number of tokens.
std::int64_t TgiChunked::add_chunks(const View& view, Forward& forward) const {
  std::int64_t left = budget_ - (std::ssize(running_) - 1), tokens = 0;
  for (const ReqId id : partial_) {
    const Tok context = view.requests.computed(id);
    const std::int64_t rest = view.requests[id].prompt - context;
    const std::int64_t chunk = std::max<std::int64_t>(std::min(rest, left), 1);
    left -= chunk;
    tokens += chunk;
    forward.prefill.push_back({id, static_cast<Tok>(chunk), context, chunk == rest});
  }
  return tokens;
}

void TgiChunked::admit_waiting(std::int64_t budget, const View& view, Decision& out, Forward& forward) {
  const KvLedger& kv = view.kv;
  std::int64_t left = kv.blocks_for(std::max<std::int64_t>(budget, 0)) * kv.block_tokens();  // rounded as in the router
  Blk available = usable_blocks(kv) - kv.in_use();
  KvPreview preview(kv);
  while (!waiting_.empty() && left > 0 && std::ssize(running_) < max_running_) {
    const ReqId id = waiting_.front();
    const Request& request = view.requests[id];
    const PrefixHit hit = preview.prefix_hit(id, request.prompt - 1);
    const std::int64_t held = most_tokens(request) - 1;
    const Blk fresh = kv.blocks_for(held) - kv.blocks_for(hit.tokens);
    if (fresh + hit.idle_blocks > available) break;
    available -= fresh + hit.idle_blocks;
    if (hit.tokens > 0) {
      preview.attach_prefix(id, hit.tokens);
      out.kv.push_back({KvOp::Kind::attach_prefix, id, hit.tokens});
    }
    preview.take(fresh);
    out.kv.push_back({KvOp::Kind::reserve, id, held});
    const std::int64_t rest = request.prompt - hit.tokens, chunk = std::min(rest, left);
    left -= chunk;
    forward.prefill.push_back({id, static_cast<Tok>(chunk), hit.tokens, chunk == rest});
    running_.push_back(id);
    partial_.push_back(id);
    waiting_.pop_front();
  }
}

void TgiChunked::decide(Nanos, const View& view, Decision& out) {
  if (running_.empty() && waiting_.empty()) return;
  const std::int64_t before = std::ssize(running_), decodes = before - std::ssize(partial_);
  Forward& forward = out.add_forward();
  const std::int64_t chunked = add_chunks(view, forward);
  const std::int64_t room = budget_ - chunked - decodes;
  const bool admits = before == 0 || !step_follows_;
  if (admits) admit_waiting(room, view, out, forward);
  step_follows_ = before > 0 && std::ssize(running_) > before;
  if (decodes > 0) forward.decodes = Decodes::group;
  if (!forward.prefill.empty() || !admits) return;
  // Only a finished request makes room for a head that does not fit.
  out.repeat = kForever;
  out.arrival_breaks = waiting_.empty() && room > 0 && before < max_running_;
}

}  // namespace plimsoll::sched
