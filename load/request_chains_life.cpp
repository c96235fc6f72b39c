// SPDX-License-Identifier: Apache-2.0
// Prefill replicas that come and go, and what happens to their requests.
#include "load/request_chains.h"
#include "load/run_loop.h"

namespace plimsoll::load {

bool RequestChains::changes(Nanos now) {
  bool any = false;
  while (life_ && !over_) {
    const std::optional<FleetLife::Event> event = life_->take(now);
    if (!event) break;
    any = true;
    sched::ReplicaLoad& load = loads_[event->slot];
    load.healthy = event->change == FleetLife::Change::serves;
    if (event->change == FleetLife::Change::dies) lose_prefill(event->slot, now);
    if (event->change != FleetLife::Change::drains) {
      load = sched::ReplicaLoad{.healthy = load.healthy};
      runner_.replace(decodes_ + event->slot, event->change == FleetLife::Change::serves, now);
    }
    router_->changed(event->slot, loads_);
  }
  return any;
}

// Requests that the replica is still prefilling fail. Requests whose KV has not been read completely lose it. FleetLife
// and the router forget both.
void RequestChains::lose_prefill(std::size_t prefill, Nanos now) {
  steps_[prefill].chunks.clear();
  prompts_[prefill] = 0;
  for (sched::ReqId id = 0; id < chains_.size(); ++id) {
    Chain& chain = chains_[id];
    if (chain.stage == Stage::free || chain.prefill != static_cast<std::int32_t>(prefill)) continue;
    chain.counted = chain.kept = false;
    const bool unread = chain.stage == Stage::to_decode || (chain.stage == Stage::allocates && !chain.stages.pushed);
    if (chain.stage == Stage::transfer) {
      lose_kv(id, now);
    } else if (unread && chain.stages.prefill_end >= 0) {
      chain.lost = true;
    } else if (chain.stage != Stage::decode) {
      chain.prefill_id = sched::kNoRequest;
      fail(id, "the prefill replica failed", now);
    }
  }
}

}  // namespace plimsoll::load
