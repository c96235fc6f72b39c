// SPDX-License-Identifier: Apache-2.0
// The parts of Replica that only prefill and decode pools use: blocks that wait for KV from elsewhere, and blocks that
// stay until another replica has read them.
#include <algorithm>

#include "model/error.h"
#include "sched/replica.h"
#include "sched/replica_live.h"

namespace plimsoll::sched {

// The blocks are taken now; they count as held for tokens that are not computed yet.
void Replica::apply_load(const KvOp& op, Nanos now) {
  const Tok cached = table_.computed(op.id);
  kv_.grow(op.id, op.tokens);
  occupancy_.grow(service(op.id).kv, op.tokens, cached);
  staged_ += kv_.held(op.id);
  staged_peak_ = std::max(staged_peak_, staged_);
  loads_.push_back({.id = op.id, .client = live_[op.id].client, .cached = cached, .at = now});
}

// Does nothing for a request that has not taken its blocks yet.
void Replica::unstage(ReqId id) {
  staged_ -= kv_.held(id);
  table_.end_remote(id);
}

void Replica::land(const Landing& landing, Nanos now) {
  if (traits_.decides_ahead)
    landings_.emplace_back(landing, now);
  else
    take_landed(landing.id, landing.arrived, now);
}

// Without a first token the last token of the prompt is computed again, because its logits did not come along.
void Replica::take_landed(ReqId id, bool arrived, Nanos now) {
  const Tok had = table_.computed(id), prompt = table_[id].prompt;
  unstage(id);
  const bool seeded = arrived && live_[id].seeded;
  if (arrived) {
    const Tok computed = std::max(had, seeded ? prompt : prompt - 1);
    table_.set_computed(id, computed);
    occupancy_.store_prefill(service(id).kv, computed - had);
    kv_.publish(id, computed);
  }
  if (seeded) seed(id, now);
  if (live_[id].live) policy_->on_transfer_done(id, View{table_, kv_}, now);
}

void Replica::seed(ReqId id, Nanos now) {
  Service& served = service(id);
  served.first_token = now;
  served.emitted = 1e-9 * static_cast<double>(now);
  table_.emit(id);
  forget_prefill(id);
  if (table_.generated(id) < live_[id].output) return;
  policy_->on_cancel(id, View{table_, kv_}, now);
  end_request(id, Outcome::completed, now);
}

bool Replica::is_held(ReqId id, std::uint64_t serial) const {
  return id < live_.size() && live_[id].held && table_[id].serial == serial;
}

void Replica::release_held(ReqId id) {
  PLIMSOLL_CHECK(live_[id].held, "only an ended request whose blocks are held can release them");
  occupancy_.forget(table_.computed(id));
  kv_.release(id, table_.computed(id), false);
  kv_.close(id);
  live_[id].held = 0;
  table_.remove(id);
}

}  // namespace plimsoll::sched
