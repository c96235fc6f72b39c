// SPDX-License-Identifier: Apache-2.0
#include "load/request_chains.h"

#include <algorithm>

#include "load/run_loop.h"
#include "model/error.h"
#include "sched/prefix_cache.h"

namespace plimsoll::load {

namespace {
constexpr std::uint64_t kPrefillStream = 0x70726566696c6c;  // separates the prefill router's random numbers
constexpr std::uint16_t kNotServed = 503;
double to_s(Nanos time) { return 1e-9 * static_cast<double>(time); }
std::size_t as_index(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

RequestChains::RequestChains(const Replication& replication, Runner& runner, std::function<void(std::size_t)> decides)
    : pools_(*replication.scenario.pools),
      prefill_(*pools_.prefill),
      runner_(runner),
      decides_replica_(std::move(decides)),
      decodes_(static_cast<std::size_t>(replication.scenario.replicas)),
      step_tokens_(sched::resolve_limits(prefill_.policy).step_tokens),
      decode_block_(replication.scenario.kv.block_tokens),
      info_(sched::router_info(prefill_.router)),
      links_(runner.transport({pools_.transfer.source_rate, pools_.transfer.target_rate, pools_.transfer.path},
                              static_cast<std::size_t>(prefill_.replicas), decodes_)),
      router_(sched::make_router(prefill_.router,
                                 (replication.scenario.workload.seed ^ kPrefillStream) + replication.index,
                                 prefill_.router_options)),
      loads_(static_cast<std::size_t>(prefill_.replicas)),
      prompts_(loads_.size(), 0),
      at_prefill_(loads_.size()),
      steps_(loads_.size()) {
  if (!prefill_.life) return;
  life_.emplace(prefill_, replication.index);
  for (std::size_t i = 0; i < loads_.size(); ++i) loads_[i].healthy = life_->serves(i);
}

Nanos RequestChains::next_event() const {
  Nanos next = links_->next_event();
  if (!deliveries_.empty()) next = std::min(next, deliveries_.front().at);
  if (!holds_.empty()) next = std::min(next, holds_.front().until);
  return life_ && !over_ ? std::min(next, life_->next()) : next;
}

bool RequestChains::advance(Nanos now) {
  bool any = false;
  while (const std::optional<KvTransport::Id> flow = links_->take(now)) {
    any = true;
    arrived(*flow, now);
  }
  while (!holds_.empty() && holds_.front().until <= now) {
    any = true;
    end_holds(now);
  }
  while (!deliveries_.empty() && deliveries_.front().at <= now) {
    any = true;
    const Delivery due = deliveries_.front();
    deliveries_.pop_front();
    if (find(due.chain, due.serial) != nullptr) deliver(due.chain, now);
  }
  return changes(now) || any;
}

RequestChains::Chain* RequestChains::find(sched::ReqId chain, std::uint64_t serial) {
  if (chain >= chains_.size()) return nullptr;
  Chain& found = chains_[chain];
  return found.stage != Stage::free && found.request.serial == serial ? &found : nullptr;
}

// ---- where a request goes -----------------------------------------------------------------------------------

std::optional<std::int32_t> RequestChains::choose_prefill(const sched::NewRequest& request, Nanos now) {
  if (life_) life_->arrived();
  if (std::none_of(loads_.begin(), loads_.end(), [](const sched::ReplicaLoad& load) { return load.healthy; }))
    return {};
  if (loads_.size() == 1) return 0;
  // The prefill router sees the current state, even if its options allow stale reports.
  if (info_.sees_kv) runner_.settle(now);
  if (info_.sees_kv || info_.sees_queues || info_.tracks_prefill) {
    for (std::size_t i = 0; i < loads_.size(); ++i) runner_.describe(decodes_ + i, loads_[i]);
    router_->reported(loads_);
  }
  cached_.clear();
  if (info_.sees_cache) {
    const std::vector<std::uint64_t> blocks = blocks_of(request, prefill_.kv.block_tokens);
    for (std::size_t i = 0; i < loads_.size(); ++i)
      cached_.push_back(runner_.cached_tokens(decodes_ + i, blocks, request.input - 1));
  }
  const bool by_hash = !info_.sees_cache && request.hash_block_tokens > 0;
  return static_cast<std::int32_t>(
      router_->route({.session = request.session,
                      .tokens = request.input,
                      .prefix_hashes = request.prefix_hashes,
                      .now = now,
                      .prompt = request.input,
                      .block_tokens = by_hash ? request.hash_block_tokens : prefill_.kv.block_tokens,
                      .cached = cached_},
                     loads_));
}

std::vector<std::uint64_t> RequestChains::blocks_of(const sched::NewRequest& request, sched::Tok block_tokens) const {
  return sched::block_hashes({.hashes = request.prefix_hashes,
                              .block_tokens = request.hash_block_tokens,
                              .tokens = request.input,
                              .chain = request.hashes_chain},
                             block_tokens);
}

bool RequestChains::goes_local(const sched::NewRequest& request, std::size_t decode, std::int32_t prefill, Nanos now) {
  if (pools_.local.policy == LocalPrefill::Policy::never) return false;
  runner_.settle(now);  // inside a leap, decodes evict cached blocks
  return is_local(pools_.local,
                  {.prompt = request.input,
                   .cached = runner_.cached_tokens(decode, blocks_of(request, decode_block_), request.input - 1),
                   .waiting = prompts_[as_index(prefill)],
                   .step_tokens = step_tokens_});
}

void RequestChains::count(Chain& chain, bool arrives, Nanos now) {
  if (chain.counted == arrives) return;
  chain.counted = arrives;
  const std::int64_t sign = arrives ? 1 : -1;
  sched::ReplicaLoad& load = loads_[as_index(chain.prefill)];
  load.outstanding += sign;
  load.outstanding_tokens += sign * chain.request.input;
  prompts_[as_index(chain.prefill)] += sign * chain.request.input;
  router_->changed(as_index(chain.prefill), loads_);
  if (life_) life_->note(as_index(chain.prefill), now, sign);
}

sched::ReqId RequestChains::arrive(std::size_t decode, const sched::NewRequest& request, Nanos now) {
  auto id = static_cast<sched::ReqId>(chains_.size());
  if (free_.empty()) {
    chains_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Chain& chain = chains_[id];
  chain = {};
  chain.request = request;
  chain.name = request.name;
  chain.hashes.assign(request.prefix_hashes.begin(), request.prefix_hashes.end());
  chain.decode = static_cast<std::uint32_t>(decode);
  chain.stage = Stage::to_decode;
  const std::optional<std::int32_t> prefill = choose_prefill(request, now);
  if (!prefill) {
    fail(id, "no prefill replica serves", now);
    return id;
  }
  if (goes_local(request, decode, *prefill, now)) {
    deliver_decode(id, now);
    return id;
  }
  chain.prefill = *prefill;
  chain.stages.prefill_replica = *prefill;
  chain.stages.pushed = transfer().mode == TransferMode::push;
  count(chain, true, now);
  if (!chain.stages.pushed) chain.stage = Stage::to_prefill;
  deliver_later(id, now + transfer().hop, now);
  return id;
}

void RequestChains::deliver_later(sched::ReqId id, Nanos at, Nanos now) {
  if (at <= now)
    deliver(id, now);
  else
    deliveries_.push_back({at, id, chains_[id].request.serial});
}

void RequestChains::deliver(sched::ReqId id, Nanos now) {
  if (chains_[id].stage == Stage::to_prefill)
    deliver_prefill(id, now);
  else if (chains_[id].stage == Stage::to_decode)
    deliver_decode(id, now);
}

// The prefill replica samples one token, which ends the request there.
void RequestChains::deliver_prefill(sched::ReqId id, Nanos now) {
  Chain& chain = chains_[id];
  sched::NewRequest request = chain.request;
  request.name = chain.name;
  request.prefix_hashes = chain.hashes;
  request.output = request.max_new = 1;
  request.hold = true;
  request.client = id;
  request.tracked_prefill = info_.tracks_prefill ? request.input : -1;
  chain.stage = Stage::prefill;
  chain.stages.prefill_arrived = now;
  const std::size_t slot = slot_of(chain);
  const std::optional<sched::ReqId> handle = runner_.arrive(slot, request, now);
  if (handle) {
    chain.prefill_id = *handle;
    std::vector<sched::ReqId>& there = at_prefill_[as_index(chain.prefill)];
    if (*handle >= there.size()) there.resize(*handle + 1, sched::kNoRequest);
    there[*handle] = id;
  }
  collect(slot, runner_.ended(slot), now);
  wake(slot);
}

void RequestChains::deliver_decode(sched::ReqId id, Nanos now) {
  Chain& chain = chains_[id];
  sched::NewRequest request = chain.request;
  request.name = chain.name;
  request.prefix_hashes = chain.hashes;
  request.client = id;
  const bool remote = chain.prefill >= 0;
  request.remote = remote ? request.input : 0;
  request.seeded = remote && transfer().first_token == FirstToken::prefill;
  chain.stage = remote ? Stage::allocates : Stage::decode;
  const std::size_t slot = chain.decode;
  const std::optional<sched::ReqId> handle = runner_.arrive(slot, request, now);
  chain.decode_id = handle.value_or(sched::kNoRequest);
  // A refusal is in the runner's list of ended requests; the loop collects it.
  if (handle && chain.abandoned) runner_.abandon(slot, *handle, chain.request.serial);
  wake(slot);
}

void RequestChains::wake(std::size_t slot) {
  if (!runner_.busy(slot)) decides_replica_(slot);
}

// ---- what replicas report -----------------------------------------------------------------------------------

void RequestChains::decided(std::size_t slot, Nanos now) {
  if (is_prefill(slot)) {
    note_step(slot, now);
  } else {
    loads(slot, now);
  }
}

void RequestChains::collect(std::size_t slot, std::vector<sched::FinishedAttempt>& ended, Nanos now) {
  if (is_prefill(slot)) {
    chunks_ended(slot, now);
    // What follows an end may end other requests of the replica.
    for (const sched::FinishedAttempt& e : std::exchange(ended, {})) prefill_ended(slot, e, now);
    return;
  }
  loads(slot, now);
  std::erase_if(ended, [this](const sched::FinishedAttempt& e) { return find(e.client, e.serial) == nullptr; });
  for (sched::FinishedAttempt& e : ended) decode_ended(e);
}

void RequestChains::prefill_ended(std::size_t slot, const sched::FinishedAttempt& ended, Nanos now) {
  Chain* const chain = find(ended.client, ended.serial);
  if (chain == nullptr || chain->stage != Stage::prefill) {
    // Its client gave up while its last step ran.
    if (runner_.is_held(slot, ended.id, ended.serial)) runner_.release(slot, ended.id, ended.serial, now);
    return;
  }
  // This comes before the request leaves the load: a draining replica must not stop before its KV is read.
  if (life_ && ended.outcome == sched::Outcome::completed) life_->keep(as_index(chain->prefill), ended.end, 1);
  count(*chain, false, ended.end);
  if (ended.outcome != sched::Outcome::completed) {
    sched::FinishedAttempt refused = ended;
    refused.client = chain->request.client;
    refused.output = chain->request.output;
    refused.max_new = chain->request.max_new;
    failed_.emplace_back(chain->decode, refused);
    withdraw(*chain, true, ended.end);
    close(ended.client);
    return;
  }
  chain->stages.prefill_start = ended.first_scheduled;
  chain->stages.prefill_end = ended.end;
  chain->service = ended.service;
  chain->preempt_s = ended.preempt_s;
  chain->preemptions = ended.preemptions;
  chain->kept = true;
  holds_.push_back({ended.end + transfer().hold, slot_of(*chain), chain->prefill_id, ended.serial, ended.client});
  if (!chain->stages.pushed) {
    chain->stage = Stage::to_decode;
    deliver_later(ended.client, ended.end + transfer().hop, ended.end);
    return;
  }
  chain->stage = Stage::transfer;
  chain->stages.transfer_start = ended.end;
  if (chain->flow < 0) open_flow(*chain, ended.client);
  if (chain->sent < chain->request.input) {
    links_->add(chain->flow, part_of(*chain, chain->request.input), to_s(ended.end));
    chain->sent = chain->request.input;
  }
  links_->finish(chain->flow, to_s(ended.end));
}

// Ends a chain, and combines its times on both sides.
void RequestChains::decode_ended(sched::FinishedAttempt& ended) {
  const sched::ReqId id = ended.client;
  Chain& chain = chains_[id];
  sched::Stages& stages = chain.stages;
  stages.decode_start = ended.first_scheduled;
  ended.client = chain.request.client;
  ended.stages = &stages;
  ended.preemptions += chain.preemptions;
  ended.preempt_s += chain.preempt_s;
  ended.service += chain.service;
  if (!stages.local() && stages.transfer_end >= 0) {
    // From the sending to the end, without the prefill and the transfer.
    const Nanos begin = stages.decode_start < 0 ? ended.end : stages.decode_start;
    ended.queue_s = to_s(begin - chain.request.sent) - to_s(stages.prefill_end - stages.prefill_start) -
                    to_s(stages.transfer_end - stages.transfer_start);
  }
  withdraw(chain, false, ended.end);
  close(id);
}

// ---- transfers ----------------------------------------------------------------------------------------------

void RequestChains::loads(std::size_t slot, Nanos now) {
  for (const sched::Load& load : runner_.loads(slot)) {
    Chain& chain = chains_[load.client];
    if (chain.stage != Stage::allocates || chain.decode_id != load.id) continue;
    chain.cached = chain.sent = load.cached;
    chain.stages.transferred = chain.request.input - load.cached;
    if (chain.lost) {
      lose_kv(load.client, now);
    } else if (chain.stages.pushed) {
      chain.stage = Stage::to_prefill;
      deliver(load.client, now);
    } else {
      start_pull(chain, load.client, now);
    }
  }
  runner_.loads(slot).clear();
}

// Returns the next part of a prompt to send: the tokens not yet sent among its first `end` ones.
KvTransport::Part RequestChains::part_of(const Chain& chain, sched::Tok end) const {
  const sched::Tok block = prefill_.kv.block_tokens, tokens = end - chain.sent;
  return {.ready_s = 0,
          .fixed_s = transfer().fixed_s((tokens + block - 1) / block),
          .bytes = static_cast<double>(tokens) * transfer().bytes_per_token,
          .not_before_s = 0,
          .cargo = {.serial = chain.request.serial,
                    .source = chain.prefill_id,
                    .target = chain.decode_id,
                    .first = chain.sent,
                    .last = end}};
}

void RequestChains::open_flow(Chain& chain, sched::ReqId id) {
  chain.flow = links_->open(as_index(chain.prefill), chain.decode);
  if (as_index(chain.flow) >= flow_chain_.size()) flow_chain_.resize(as_index(chain.flow) + 1);
  flow_chain_[as_index(chain.flow)] = id;
}

// With overlap, only what could not be sent during the prefill remains to be sent.
void RequestChains::start_pull(Chain& chain, sched::ReqId id, Nanos now) {
  chain.stage = Stage::transfer;
  chain.stages.transfer_start = now;
  open_flow(chain, id);
  KvTransport::Part part = part_of(chain, chain.request.input);
  if (transfer().overlap != TransferOverlap::none) {
    const double alone = part.fixed_s + part.bytes / links_->rates().alone();
    const double left = std::clamp(chain.busy_until - to_s(now), 0.0, alone);
    const double share = alone > 0 ? left / alone : 0;
    part.fixed_s *= share;
    part.bytes *= share;
  }
  links_->add(chain.flow, part, to_s(now));
  links_->finish(chain.flow, to_s(now));
}

void RequestChains::note_step(std::size_t slot, Nanos now) {
  if (transfer().overlap == TransferOverlap::none || !runner_.busy(slot)) return;
  const std::size_t prefill = slot - decodes_;
  Step& step = steps_[prefill];
  const sched::Replica& replica = runner_.scheduler(slot);
  if (!step.chunks.empty() && step.steps_before == replica.steps()) return;
  step.chunks.clear();
  step.steps_before = replica.steps();
  for (const sched::Forward& forward : replica.decision().forwards()) {
    for (const sched::Segment& segment : forward.prefill) {
      if (segment.id >= at_prefill_[prefill].size()) continue;
      const sched::ReqId id = at_prefill_[prefill][segment.id];
      if (id >= chains_.size()) continue;
      const Chain& chain = chains_[id];
      const bool there = chain.stage == Stage::prefill && slot_of(chain) == slot && chain.prefill_id == segment.id;
      if (!there) continue;
      step.chunks.push_back({.chain = id,
                             .serial = chains_[id].request.serial,
                             .end = segment.context + segment.new_tokens,
                             .last = segment.emits,
                             .start = now});
    }
  }
  if (transfer().overlap != TransferOverlap::layer) return;
  for (const Chunk& chunk : step.chunks) send_chunk(chunk, runner_.step_end(slot), now);
}

void RequestChains::chunks_ended(std::size_t slot, Nanos now) {
  Step& step = steps_[slot - decodes_];
  if (step.chunks.empty() || runner_.scheduler(slot).steps() == step.steps_before) return;
  const std::vector<Chunk> chunks = std::move(step.chunks);
  step.chunks.clear();
  if (transfer().overlap != TransferOverlap::chunk) return;
  for (const Chunk& chunk : chunks) send_chunk(chunk, now, now);
}

// Hands a chunk to the links: when it is computed, or, by layers, while it is being computed. Every chunk but the last
// ends with a whole block. Layer i of n may leave when i/n of the step has passed. So sending can begin after the first
// n-th part of the step, and the last layer leaves at its end.
void RequestChains::send_chunk(const Chunk& chunk, Nanos step_end, Nanos now) {
  Chain* const chain = find(chunk.chain, chunk.serial);
  if (chain == nullptr) return;
  const sched::Tok block = prefill_.kv.block_tokens;
  const sched::Tok end = chunk.last ? chain->request.input : chunk.end / block * block;
  if (end <= chain->sent) return;
  KvTransport::Part part = part_of(*chain, end);
  chain->sent = end;
  const double alone = part.fixed_s + part.bytes / links_->rates().alone();
  part.ready_s = to_s(step_end);
  if (transfer().overlap == TransferOverlap::layer) {
    const auto layers = static_cast<double>(transfer().layers);
    part.ready_s = to_s(chunk.start) + to_s(step_end - chunk.start) / layers;
    part.not_before_s = to_s(step_end) + alone / layers;
  }
  if (chain->stages.pushed) {
    if (chain->flow < 0) open_flow(*chain, chunk.chain);
    links_->add(chain->flow, part, to_s(now));
  } else {
    chain->busy_until = std::max(std::max(chain->busy_until, part.ready_s) + alone, part.not_before_s);
  }
}

void RequestChains::arrived(KvTransport::Id flow, Nanos now) {
  const sched::ReqId id = flow_chain_[as_index(flow)];
  Chain& chain = chains_[id];
  chain.flow = -1;
  release(chain, now);
  land(id, true, now);
}

void RequestChains::land(sched::ReqId id, bool has_arrived, Nanos now) {
  Chain& chain = chains_[id];
  chain.stage = Stage::decode;
  chain.stages.transfer_end = now;
  runner_.land(chain.decode, {chain.decode_id, chain.request.serial, has_arrived}, now);
  wake(chain.decode);
}

void RequestChains::release(Chain& chain, Nanos now) {
  if (!std::exchange(chain.kept, false)) return;
  const std::size_t slot = slot_of(chain);
  runner_.release(slot, chain.prefill_id, chain.request.serial, now);
  if (life_) life_->keep(as_index(chain.prefill), now, -1);
  wake(slot);
  while (!holds_.empty() && !runner_.is_held(holds_.front().slot, holds_.front().id, holds_.front().serial))
    holds_.pop_front();
}

// Ends holds that have expired: the KV was not read in time, so the prefill replica frees its blocks.
void RequestChains::end_holds(Nanos now) {
  const Hold hold = holds_.front();
  holds_.pop_front();
  Chain* const chain = find(hold.chain, hold.serial);
  if (!runner_.is_held(hold.slot, hold.id, hold.serial)) return;
  if (chain != nullptr && chain->stage == Stage::transfer) return;  // it is being read
  runner_.release(hold.slot, hold.id, hold.serial, now);
  if (life_) life_->keep(hold.slot - decodes_, now, -1);
  wake(hold.slot);
  if (chain == nullptr) return;
  chain->kept = false;
  chain->lost = true;
}

// ---- ends before the answer ---------------------------------------------------------------------------------

// Handles the loss of KV for a request that already has its blocks on the decode replica.
void RequestChains::lose_kv(sched::ReqId id, Nanos now) {
  Chain& chain = chains_[id];
  if (chain.flow >= 0) links_->abort(std::exchange(chain.flow, -1), to_s(now));
  if (transfer().load_failure == LoadFailure::fail) {
    fail(id, "the KV transfer failed", now);
    return;
  }
  if (chain.stages.transfer_start < 0) chain.stages.transfer_start = now;
  land(id, false, now);
}

void RequestChains::cancel(sched::ReqId chain, std::uint64_t serial, Nanos now) {
  Chain* const found = find(chain, serial);
  if (found == nullptr) return;
  withdraw(*found, true, now);
  close(chain);
}

void RequestChains::abandon(sched::ReqId chain, std::uint64_t serial) {
  Chain* const found = find(chain, serial);
  if (found == nullptr) return;
  found->abandoned = true;
  if (found->decode_id != sched::kNoRequest) runner_.abandon(found->decode, found->decode_id, serial);
}

// The prefill replicas are not told: they keep the KV until their time limit.
void RequestChains::lose(std::size_t decode, Nanos now) {
  for (sched::ReqId id = 0; id < chains_.size(); ++id) {
    Chain& chain = chains_[id];
    if (chain.stage == Stage::free || chain.decode != decode) continue;
    chain.kept = false;
    chain.decode_id = sched::kNoRequest;
    withdraw(chain, true, now);
    close(id);
  }
}

// Withdraws the request from the prefill replica and, with `from_decode`, from the decode replica too.
void RequestChains::withdraw(Chain& chain, bool from_decode, Nanos now) {
  if (chain.flow >= 0) links_->abort(std::exchange(chain.flow, -1), to_s(now));
  if (chain.prefill >= 0) {
    count(chain, false, now);
    const std::size_t slot = slot_of(chain);
    if (chain.stage == Stage::prefill && chain.prefill_id != sched::kNoRequest) {
      chain.stage = Stage::to_decode;  // later reports of the prefill replica are ignored
      runner_.cancel(slot, chain.prefill_id, chain.request.serial, now);
      wake(slot);
    }
    release(chain, now);
  }
  if (!from_decode || chain.decode_id == sched::kNoRequest) return;
  runner_.cancel(chain.decode, chain.decode_id, chain.request.serial, now);
  wake(chain.decode);
}

void RequestChains::fail(sched::ReqId id, const char* code, Nanos now) {
  Chain& chain = chains_[id];
  sched::FinishedAttempt ended;
  ended.serial = chain.request.serial;
  ended.client = chain.request.client;
  ended.outcome = sched::Outcome::rejected;
  ended.http = kNotServed;
  ended.code = code;
  ended.input = chain.request.input;
  ended.output = chain.request.output;
  ended.max_new = chain.request.max_new;
  ended.sent = chain.request.sent;
  ended.arrived = ended.end = now;
  failed_.emplace_back(chain.decode, ended);
  withdraw(chain, true, now);
  close(id);
}

bool RequestChains::rests() const {
  return chains_.size() > free_.size() && links_->next_event() == sched::kNever && deliveries_.empty() &&
         holds_.empty() && !(life_ && life_->fails());
}

void RequestChains::fail_all(Nanos now) {
  for (sched::ReqId id = 0; id < chains_.size(); ++id)
    if (chains_[id].stage != Stage::free)
      fail(id, "the decode pool is deadlocked: no request can free the blocks that others need", now);
}

// Its times stay readable until the next request arrives.
void RequestChains::close(sched::ReqId id) {
  chains_[id].stage = Stage::free;
  free_.push_back(id);
}

}  // namespace plimsoll::load
