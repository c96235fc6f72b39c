// SPDX-License-Identifier: Apache-2.0
#include "sched/tgi.h"

#include <fmt/format.h>

#include <cmath>

#include "model/error.h"
#include "sched/tgi_chunked.h"

namespace plimsoll::sched {

namespace {
constexpr std::int64_t kForceAfter = 20;  // MAX_WAITING_TOKENS

template <class A, class B>
void require_at_most(const char* low_name, const std::optional<A>& low, const char* high_name,
                     const std::optional<B>& high) {
  if (low && high && std::int64_t{*low} > std::int64_t{*high})
    throw InputError(fmt::format("scheduler: {} is {}, but TGI does not start with more than {}, which is {}", low_name,
                                 *low, high_name, *high));
}

// The router's checks at start-up, applied to the values that the study states. With chunking a prompt may exceed the
// prefill budget.
void check_start(const PolicyConfig& config) {
  if (config.max_input && config.max_total && *config.max_input >= *config.max_total)
    throw InputError(
        fmt::format("scheduler: max_input is {}, but TGI starts only with less than max_total, which is {}",
                    *config.max_input, *config.max_total));
  if (variant_of(config) != PolicyVariant::tgi_v3)
    require_at_most("max_input", config.max_input, "prefill_token_budget", config.prefill_token_budget);
  require_at_most("prefill_token_budget", config.prefill_token_budget, "kv_token_budget", config.kv_token_budget);
  require_at_most("max_total", config.max_total, "kv_token_budget", config.kv_token_budget);
}

std::int64_t round_up(std::int64_t tokens, const KvLedger& kv) { return kv.blocks_for(tokens) * kv.block_tokens(); }
}  // namespace

std::unique_ptr<Policy> make_tgi(const PolicyConfig& config) {
  check_start(config);
  if (variant_of(config) == PolicyVariant::tgi_v3) return std::make_unique<TgiChunked>(config);
  return std::make_unique<Tgi>(config);
}

Tgi::Tgi(const PolicyConfig& config)
    : config_(config),
      prefill_budget_(resolve_limits(config).prefill_tokens),
      force_after_(config.force_after.value_or(kForceAfter)),
      served_ratio_(
          static_cast<float>(config.served_ratio.value_or(policy_info(config.policy).served_ratio.value_or(1)))) {}

std::int64_t Tgi::total_budget(const KvLedger& kv) const {
  return config_.kv_token_budget.value_or(kv.total() * kv.block_tokens());
}

// Refuses what could never be admitted: in the product it would block the queue for ever.
std::optional<Reject> Tgi::admit(const Request& request, const View& view) const {
  if (config_.queue_limit && queued() >= *config_.queue_limit) return Reject{kNoRequest, 429, "overloaded"};
  const std::int64_t prompt = round_up(request.prompt, view.kv);
  if (prompt + round_up(request.max_new, view.kv) > total_budget(view.kv) ||
      view.kv.blocks_for(most_tokens(request) - 1) > view.kv.total())
    return Reject{kNoRequest, 422, "max_total_tokens"};
  if (prompt > round_up(prefill_budget_, view.kv)) return Reject{kNoRequest, 422, "input_length"};
  return {};
}

void Tgi::on_steps_done(const StepsDone& done, const View& view, Nanos) {
  waiting_tokens_ = prefilled_ ? 1 : waiting_tokens_ + done.steps;
  if (!done.finished.empty()) remove_finished(running_, view.requests);
}

// Returns how many requests may join. TGI 2.0.0 tests whether the new batch has reached this room only for equality,
// and only after it has taken a request. So a full batch stops nothing, and for a larger one the room wraps around.
std::int64_t Tgi::room() const {
  if (!config_.max_running) return kForever;
  const std::int64_t room = *config_.max_running - std::ssize(running_);
  if (config_.tgi_batch_size_bug && room <= 0) return kForever;
  return std::max<std::int64_t>(room, 0);
}

// Returns the least number of waiting requests that may interrupt the running batch.
std::int64_t Tgi::least() const {
  if (running_.empty() || waiting_tokens_ >= force_after_) return 0;
  return static_cast<std::int64_t>(std::floor(static_cast<float>(running_.size()) * served_ratio_));
}

// The router's next_batch without its minimum size. Also checks the real blocks, in case the budget exceeds the pool.
Tgi::Offer Tgi::offer(const View& view) const {
  Offer offer;
  const KvLedger& kv = view.kv;
  const std::int64_t most = room();
  const std::int64_t prefill_budget = round_up(prefill_budget_, kv);
  const std::int64_t budget = std::max<std::int64_t>(total_budget(kv) - kv.in_use() * kv.block_tokens(), 0);
  std::int64_t prompts = 0, caps = 0;
  Blk blocks = 0;
  for (const ReqId id : waiting_) {
    if (offer.requests == most) break;
    const Request& request = view.requests[id];
    prompts += round_up(request.prompt, kv);
    caps += round_up(request.max_new, kv);
    blocks += kv.blocks_for(most_tokens(request) - 1);
    if (prompts > prefill_budget || prompts + caps > budget || blocks > kv.free()) {
      offer.stop = Stop::budget;
      return offer;
    }
    ++offer.requests;
  }
  if (offer.requests == most) offer.stop = Stop::batch_size;
  return offer;
}

void Tgi::decide(Nanos, const View& view, Decision& out) {
  if (running_.empty()) decode_follows_ = false;
  // After a prefill beside a running batch, the product decodes once before it looks at the queue again.
  if (decode_follows_) {
    decode_follows_ = prefilled_ = false;
    out.add_forward().decodes = Decodes::group;
    return;
  }
  const Offer next = offer(view);
  if (next.requests > 0 && next.requests >= least()) {
    decode_follows_ = !running_.empty();
    prefill(next.requests, view, out);
  } else if (!running_.empty()) {
    prefilled_ = false;
    decode(next, out);
  }
}

void Tgi::prefill(std::int64_t requests, const View& view, Decision& out) {
  prefilled_ = true;
  Forward& forward = out.add_forward();
  for (; requests > 0; --requests) {
    const ReqId id = waiting_.front();
    const Request& request = view.requests[id];
    out.kv.push_back({KvOp::Kind::reserve, id, most_tokens(request) - 1});
    forward.prefill.push_back({id, request.prompt, 0, true});
    running_.push_back(id);
    waiting_.pop_front();
  }
}

// Decodes repeat until a request may join: after force_after steps if too few requests could join, or when a running
// request has left if none could. An arrival matters only if the offer ended because the queue was empty.
void Tgi::decode(const Offer& offer, Decision& out) const {
  out.add_forward().decodes = Decodes::group;
  out.repeat = offer.requests > 0 ? force_after_ - 1 - waiting_tokens_ : kForever;
  out.arrival_breaks = offer.stop == Stop::queue_end;
}

}  // namespace plimsoll::sched
