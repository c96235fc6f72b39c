// SPDX-License-Identifier: Apache-2.0
// The life of a request in a replica: arrive, decide, apply. replica_steps.cpp handles the end of steps.
#include "sched/replica.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "model/error.h"
#include "sched/prefix_cache.h"
#include "sched/replica_live.h"

namespace plimsoll::sched {

namespace {
// Returns what a policy that reserves by output length may know: the number of tokens to reserve, not the length
// itself.
Tok reserve_tokens(const PolicyConfig& config, const NewRequest& request) {
  if (!config.reserve) return 0;
  if (*config.reserve == Reserve::oracle) return request.input + request.output;
  if (*config.reserve == Reserve::pow2)
    return request.input + static_cast<Tok>(std::bit_ceil(static_cast<std::uint32_t>(request.output)));
  return 0;
}
}  // namespace

Replica::Replica(const Config& config)
    : policy_(make_policy(config.policy)),
      itl_(config.itl),
      traits_(traits_of(config.policy)),
      table_(config.window),
      kv_(config.kv),
      log_(config.keep_log),
      config_(config.policy) {}
Replica::~Replica() = default;

// TGI counts the request against its concurrency limit before it validates, and checks the total before the input.
std::optional<Reject> Replica::front_door(const Request& request, Tok reserve_tokens) const {
  if (config_.max_concurrent && table_.size() >= *config_.max_concurrent) return Reject{kNoRequest, 429, "overloaded"};
  if (config_.max_total && std::int64_t{request.prompt} + request.max_new > *config_.max_total)
    return Reject{kNoRequest, 422, "max_total_tokens"};
  if (config_.max_input && request.prompt > *config_.max_input) return Reject{kNoRequest, 422, "input_length"};
  return policy_->admit(request, View{table_, kv_, reserve_tokens});
}

std::optional<ReqId> Replica::arrive(const NewRequest& request, Nanos now) {
  const Request entry{.serial = static_cast<std::uint32_t>(request.serial),
                      .prompt = request.input,
                      .max_new = request.max_new,
                      .arrival = now};
  const RareFields rare{
      .reserve_tokens = reserve_tokens(config_, request), .priority = request.priority, .remote = request.remote};
  if (const std::optional<Reject> refusal = front_door(entry, rare.reserve_tokens)) {
    refuse(request, *refusal, now);
    return {};
  }
  const ReqId id = table_.add(entry, rare);
  if (id >= live_.size()) live_.resize(id + 1);
  // The epoch continues when a handle is reused, so heap entries of its previous owner remain recognisable as stale.
  Live live{.sent = request.sent, .client = request.client, .output = request.output};
  live.epoch = live_[id].epoch;
  live.seeded = request.seeded;
  live.hold = request.hold;
  ++live.epoch;
  live_[id] = live;
  log_.name(id, request.serial, request.name);
  open_prefix(id, request);
  if (request.tracked_prefill >= 0) track(id, request);
  if (traits_.decides_ahead)
    unseen_.push_back(id);
  else
    policy_->on_arrival(id, View{table_, kv_}, now);
  return id;
}

void Replica::refuse(const NewRequest& request, const Reject& refusal, Nanos now) {
  FinishedAttempt record{.serial = request.serial,
                         .client = request.client,
                         .outcome = Outcome::rejected,
                         .http = refusal.http,
                         .code = refusal.code,
                         .unfit = refusal.is_for_length(),
                         .input = request.input,
                         .output = request.output,
                         .max_new = request.max_new,
                         .sent = request.sent,
                         .arrived = now,
                         .end = now,
                         .service = {}};
  record.queue_s = 1e-9 * static_cast<double>(now - request.sent);
  if (log_.enabled())
    log_.reject(request.name.empty() ? "r" + std::to_string(request.serial) : std::string(request.name), refusal.http);
  ended_.push_back(record);
}

void Replica::open_prefix(ReqId id, const NewRequest& request) {
  std::vector<std::uint64_t> hashes;
  if (kv_.prefix_caching())
    hashes = block_hashes({.hashes = request.prefix_hashes,
                           .block_tokens = request.hash_block_tokens,
                           .tokens = request.content > 0 ? request.content : request.input,
                           .chain = request.hashes_chain},
                          kv_.block_tokens());
  live_[id].known = request.content > request.input;
  kv_.open(id, hashes);
}

void Replica::track(ReqId id, const NewRequest& request) {
  if (id >= tracked_.size()) tracked_.resize(id + 1, -1);
  tracked_[id] = request.tracked_prefill;
  tracked_prefill_ += request.tracked_prefill;
  tracked_blocks_ += kv_.blocks_for(request.input);
}

// Stops counting the request's prefill: it has its first token, or it has ended.
void Replica::forget_prefill(ReqId id) {
  if (id < tracked_.size() && tracked_[id] > 0) tracked_prefill_ -= std::exchange(tracked_[id], 0);
}

void Replica::describe(ReplicaLoad& load) const {
  load.kv_blocks_in_use = kv_.in_use();
  load.kv_used = kv_.total() > 0 ? static_cast<double>(kv_.in_use()) / static_cast<double>(kv_.total()) : 0;
  load.waiting = policy_->queued() + std::ssize(unseen_);
  load.running = table_.size() - load.waiting;
  load.prefill_tokens = tracked_prefill_;
  load.prompt_blocks = tracked_blocks_;
}

bool Replica::is_live(ReqId id, std::uint64_t serial) const {
  return id < live_.size() && live_[id].live && table_[id].serial == serial;
}

void Replica::abandon(ReqId id) { live_[id].abandoned = true; }

void Replica::set_output(ReqId id, Tok output) {
  PLIMSOLL_CHECK(output > table_.generated(id) && output <= table_[id].max_new,
                 "the output length exceeds what is generated and is within the cap");
  live_[id].output = output;
  if (table_.decoding(id)) push_finish(id);
}

void Replica::cancel(ReqId id, Outcome outcome, Nanos now) {
  if (traits_.returns_at_batch_end && table_[id].state == State::running) {
    abandon(id);  // a row of a static batch cannot leave it
    return;
  }
  std::erase(unseen_, id);
  std::erase_if(landings_, [id](const auto& landed) { return landed.first.id == id; });
  policy_->on_cancel(id, View{table_, kv_}, now);
  if (in_decided_step(id))
    gone_.push_back(id);
  else
    end_request(id, outcome, now);
}

bool Replica::decide(Nanos now) {
  if (!traits_.decides_ahead) {
    ask_policy(now);
    return decision_.has_step();
  }
  const bool arrivals = (!unseen_.empty() && decision_.arrival_breaks) || !landings_.empty();
  show_arrivals(now);
  if (!std::exchange(ahead_, false) && plan_left_ == 0) {
    idle_until_ = now;
    ask_policy(now);
  } else if (plan_left_ > 0 || arrivals || !gone_.empty()) {
    decision_.repeat = 0;  // the event that ended the plan affects only the step after the one already decided
  }
  plan_left_ = decision_.has_step() ? plan_steps() : 0;
  return decision_.has_step();
}

void Replica::ask_policy(Nanos now) {
  decision_.clear();
  policy_->decide(now, View{table_, kv_}, decision_);
  // A policy that decides ahead may refuse a request whose last token is being computed. Such a request still
  // completes.
  std::erase_if(decision_.rejects, [this](const Reject& refusal) {
    return std::find(finished_.begin(), finished_.end(), refusal.id) != finished_.end();
  });
  if (log_.enabled()) decision_.arrival_breaks = true;  // the log prints a refusal on the next step's line
  apply(decision_, now);
}

// Frees blocks before any are taken: a policy relies on what its preemptions free in the same decision.
void Replica::apply(const Decision& decision, Nanos now) {
  log_.note_moves(decision);
  for (const Reject& refusal : decision.rejects) reject(refusal, now);
  for (const KvOp& op : decision.kv) {
    if (traits_.block_by_block) break;
    if (op.kind == KvOp::Kind::free_all) preempt(op, now);
    if (op.kind == KvOp::Kind::swap_out) preempt(op, now);
  }
  bool decodes = !traits_.block_by_block;  // decoding rows have taken their blocks
  covered_ = 0;
  for (const KvOp& op : decision.kv) {
    if (op.kind == KvOp::Kind::attach_prefix && !std::exchange(decodes, true)) take_decodes();
    if (traits_.block_by_block && op.kind == KvOp::Kind::free_all) {
      preempt(op, now);
    } else if (op.kind == KvOp::Kind::attach_prefix) {
      kv_.attach_prefix(op.id, static_cast<Tok>(op.tokens));
      table_.set_computed(op.id, static_cast<Tok>(op.tokens));
      occupancy_.restore(static_cast<Tok>(op.tokens));
    } else if (op.kind == KvOp::Kind::keep) {
      table_.set_computed(op.id, static_cast<Tok>(op.tokens));
      occupancy_.store_prefill(service(op.id).kv, static_cast<Tok>(op.tokens));
    } else if (op.kind == KvOp::Kind::swap_in) {
      kv_.swap_in(op.id);
      occupancy_.restore(table_.computed(op.id));
      start_service(op.id, now);
      if (live_[op.id].was_decoding) join(op.id);
    } else if (op.kind == KvOp::Kind::load) {
      apply_load(op, now);
    } else if (op.kind == KvOp::Kind::grow && table_.decoding(op.id)) {
      const Blk blocks = kv_.need(op.id, op.tokens);
      kv_.take_early(blocks);
      covered_ += blocks;
    } else if (op.kind == KvOp::Kind::grow || op.kind == KvOp::Kind::reserve) {
      apply_grow(op);
    }
  }
  if (traits_.decides_ahead && !decodes) take_decodes();
  for (const ReqId id : decision.joined) {
    start_service(id, now);
    join(id);
  }
  for (const Forward& forward : decision.forwards())
    for (const Segment& segment : forward.prefill)
      if (table_[segment.id].state == State::waiting && !is_lost(segment)) start_service(segment.id, now);
  if (log_.enabled() && decision.has_step()) log_.plan(decision, policy_->batch_order(), table_);
}

void Replica::apply_grow(const KvOp& op) {
  Live& live = live_[op.id];
  if (op.kind == KvOp::Kind::reserve) {
    kv_.reserve(op.id, op.tokens);
    const double tokens = static_cast<double>(kv_.held(op.id) * kv_.block_tokens());
    // The KV of the last output token is never stored.
    const double final_tokens = table_[op.id].prompt + live.output - 1;
    occupancy_.reserve(service(live).kv, tokens, final_tokens, table_.computed(op.id));
    return;
  }
  if (kv_.held(op.id) == 0) occupancy_.restore(table_.computed(op.id));  // of a lost row
  kv_.grow(op.id, op.tokens);
  if (traits_.block_by_block) kv_.publish(op.id, static_cast<Tok>(op.tokens));
  occupancy_.grow(service(live).kv, op.tokens, table_.computed(op.id));
}

// Returns whether the same decision preempts the request of this row.
bool Replica::is_lost(const Segment& segment) const {
  const std::vector<ReqId>& preempted = decision_.preempted;
  return std::find(preempted.begin(), preempted.end(), segment.id) != preempted.end();
}

// Records that the request holds nothing any more (released or swapped out). Call before its computed count changes.
void Replica::forget_kv(ReqId id) {
  if (live_[id].service >= 0)
    occupancy_.forget(service(id).kv, table_.computed(id));
  else
    occupancy_.forget(table_.computed(id));
}

void Replica::preempt(const KvOp& op, Nanos now) {
  const ReqId id = op.id;
  const bool swap = op.kind == KvOp::Kind::swap_out;
  // Blocks that this decision gave the request for a decode count as taken, and are freed with the others.
  const Blk given = kv_.prefix_caching() ? kv_.need(id, op.tokens) : 0;
  covered_ -= given;
  const Tok known = known_tokens(id, static_cast<Tok>(op.tokens));
  Live& live = live_[id];
  ++preemptions_;
  ++table_.edit(id).preemptions;
  live.was_decoding = table_.decoding(id);
  if (live.was_decoding) leave(id);
  stop_service(id, now);
  forget_kv(id);
  if (swap) {
    kv_.swap_out(id);
  } else {
    kv_.release(id, known, true, given);
    table_.set_computed(id, 0);
  }
  table_.edit(id).state = swap ? State::swapped : State::waiting;
}

void Replica::start_service(ReqId id, Nanos now) {
  Service& served = service(id);
  table_.edit(id).state = State::running;
  served.begin = spent_;
  if (served.first_scheduled < 0)
    served.first_scheduled = now;
  else
    served.preempt_s += 1e-9 * static_cast<double>(now - served.stopped);
}

void Replica::stop_service(ReqId id, Nanos now) {
  Service& served = service(id);
  served.time += spent_;
  served.time += served.begin * -1.0;
  served.stopped = now;
}

void Replica::reject(const Reject& refusal, Nanos now) {
  log_.reject(refusal.id, refusal.http);
  end_request(refusal.id, Outcome::rejected, now);
  ended_.back().http = refusal.http;
  ended_.back().code = refusal.code;
  ended_.back().unfit = refusal.is_for_length();
}

void Replica::end_request(ReqId id, Outcome outcome, Nanos now) {
  Live& live = live_[id];
  if (table_.decoding(id)) leave(id);
  const bool scheduled = live.service >= 0 && service(live).first_scheduled >= 0;
  if (table_[id].state == State::running)
    stop_service(id, now);
  else if (scheduled)
    service(live).preempt_s += 1e-9 * static_cast<double>(now - service(live).stopped);
  if (table_.remote(id) > 0) unstage(id);
  const bool holds = live.hold != 0 && outcome == Outcome::completed;
  if (kv_.held(id) > 0 && !holds) forget_kv(id);
  // The request's published blocks stay findable. Its other blocks were private, and the request does not return.
  if (live.known && kv_.held(id) > 0) kv_.publish(id, table_.computed(id));
  const Blk early = live.ahead && kv_.prefix_caching() ? kv_.need(id, table_.computed(id) + 1) : 0;
  if (!holds) {
    kv_.release(id, table_.computed(id), false, early);
    kv_.close(id);
  }
  const Request& request = table_[id];
  forget_prefill(id);
  if (id < tracked_.size() && std::exchange(tracked_[id], -1) >= 0) tracked_blocks_ -= kv_.blocks_for(request.prompt);
  FinishedAttempt record{.serial = request.serial,
                         .client = live.client,
                         .id = id,
                         .outcome = outcome,
                         .input = request.prompt,
                         .output = live.output,
                         .max_new = request.max_new,
                         .generated = table_.generated(id),
                         .preemptions = request.preemptions,
                         .sent = live.sent,
                         .arrived = request.arrival,
                         .end = now,
                         .service = {}};
  if (live.abandoned && outcome == Outcome::completed) record.outcome = Outcome::timed_out;
  record.queue_s = 1e-9 * static_cast<double>(now - live.sent);
  if (live.service >= 0) {
    const Service& served = service(live);
    record.first_scheduled = served.first_scheduled;
    record.first_token = served.first_token;
    if (scheduled) record.queue_s = 1e-9 * static_cast<double>(served.first_scheduled - live.sent);
    record.preempt_s = served.preempt_s;
    record.service = served.time;
    services_.give(std::exchange(live.service, -1));
  }
  ended_.push_back(record);
  live.live = false;
  ++live.epoch;
  live.held = holds ? 1 : 0;
  if (!holds) table_.remove(id);
}

void Replica::join(ReqId id) {
  Live& live = live_[id];
  table_.join_group(id);
  kv_.join_group(id, table_.computed(id));
  occupancy_.join_group(service(live).kv);
  live.fresh = true;
  fresh_.push_back(id);
  push_finish(id);
}

void Replica::leave(ReqId id) {
  Live& live = live_[id];
  if (!live.fresh) service(live).emitted = group_emitted_;
  live.fresh = false;
  ++live.epoch;
  occupancy_.leave_group(service(live).kv);
  kv_.leave_group(id);
  table_.leave_group(id);
}

// A member decodes one token per tick of the group's clock, so the clock reading at which it ends is known when it
// joins.
void Replica::push_finish(ReqId id) {
  Live& live = live_[id];
  finishes_.push_back({table_.clock() + live.output - table_.generated(id), id, ++live.epoch});
  std::push_heap(finishes_.begin(), finishes_.end(), kLater);
}

std::int64_t Replica::steps_to_finish() {
  while (!finishes_.empty()) {
    const Finish& next = finishes_.front();
    if (live_[next.id].epoch == next.epoch && table_.decoding(next.id)) return next.clock - table_.clock();
    std::pop_heap(finishes_.begin(), finishes_.end(), kLater);
    finishes_.pop_back();
  }
  return kForever;
}

std::int64_t Replica::plan_steps() {
  if (decision_.repeat == 0) return 1;
  return std::min(decision_.repeat + 1, steps_to_finish());
}

}  // namespace plimsoll::sched
