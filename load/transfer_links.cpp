// SPDX-License-Identifier: Apache-2.0
#include "load/transfer_links.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::load {

namespace {
constexpr double kNotYet = std::numeric_limits<double>::infinity();

Nanos rounded(double seconds) { return std::llround(seconds * 1e9); }
}  // namespace

double KvTransport::Rates::alone() const { return std::min({source, target, path}); }

TransferLinks::TransferLinks(const Rates& rates, std::size_t sources, std::size_t targets)
    : KvTransport(rates), sources_(sources, 0), targets_(targets, 0) {
  PLIMSOLL_CHECK(rates.alone() > 0, "the rate of a link is above 0");
}

TransferLinks::Id TransferLinks::open(std::size_t source, std::size_t target) {
  Id id = static_cast<Id>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  flow(id) = {.source = source, .target = target, .parts = {}, .phase = Phase::idle};
  ++open_;
  return id;
}

void TransferLinks::add(Id id, const Part& part, double now_s) {
  flow(id).parts.push_back(part);
  if (flow(id).phase == Phase::idle) begin(id, now_s);
  find_next();
}

void TransferLinks::finish(Id id, double now_s) {
  flow(id).finished = true;
  if (flow(id).phase == Phase::idle) begin(id, now_s);
  find_next();
}

void TransferLinks::abort(Id id, double now_s) {
  Flow& f = flow(id);
  if (f.phase == Phase::sending) leave_links(id, now_s);
  f.phase = Phase::closed;
  std::erase(active_, id);
  std::erase(done_, id);
  free_.push_back(id);
  --open_;
  find_next();
}

// Starts the next part, or ends the transfer if there is none.
void TransferLinks::begin(Id id, double now_s) {
  Flow& f = flow(id);
  if (f.parts.empty()) {
    std::erase(active_, id);
    f.phase = f.finished ? Phase::done : Phase::idle;
    if (f.finished) done_.push_back(id);
    return;
  }
  const Part& part = f.parts.front();
  if (std::find(active_.begin(), active_.end(), id) == active_.end()) active_.push_back(id);
  f.phase = Phase::fixed;
  f.ends = std::max(now_s, part.ready_s) + part.fixed_s;
}

void TransferLinks::end_phase(Id id, double now_s) {
  Flow& f = flow(id);
  const Part part = f.parts.front();
  if (f.phase == Phase::fixed && part.bytes > 0 && rates_.alone() < kNotYet) {
    f.phase = Phase::sending;
    f.remaining = part.bytes;
    f.rate = 0;
    f.since = now_s;
    ++sources_[f.source];
    ++targets_[f.target];
    share(f.source, f.target, now_s);
    return;
  }
  if (f.phase == Phase::fixed) sent_ += part.bytes;
  if (f.phase == Phase::sending) leave_links(id, now_s);
  if (f.phase != Phase::arriving && part.not_before_s > now_s) {
    f.phase = Phase::arriving;
    f.ends = part.not_before_s;
    return;
  }
  f.parts.pop_front();
  begin(id, now_s);
}

void TransferLinks::leave_links(Id id, double now_s) {
  Flow& f = flow(id);
  const double bytes = f.rate * (now_s - f.since);
  // The end of a part is a rounded time; all its bytes count as sent by then.
  sent_ += now_s >= f.ends ? f.remaining : std::min(f.remaining, bytes);
  f.phase = Phase::idle;
  --sources_[f.source];
  --targets_[f.target];
  share(f.source, f.target, now_s);
}

// Sets the rates of all transfers that share a link with one that has just started or stopped.
void TransferLinks::share(std::size_t source, std::size_t target, double now_s) {
  for (const Id id : active_) {
    Flow& f = flow(id);
    if (f.phase != Phase::sending || (f.source != source && f.target != target)) continue;
    const double bytes = std::min(f.remaining, f.rate * (now_s - f.since));
    sent_ += bytes;
    f.remaining -= bytes;
    f.since = now_s;
    f.rate = std::min({rates_.source / sources_[f.source], rates_.target / targets_[f.target], rates_.path});
    f.ends = now_s + f.remaining / f.rate;
  }
}

void TransferLinks::find_next() {
  next_ = kNotYet;
  for (const Id id : active_) next_ = std::min(next_, flow(id).ends);
}

Nanos TransferLinks::next_event() const {
  if (!done_.empty()) return 0;
  return next_ < kNotYet ? rounded(next_) : sched::kNever;
}

// Phases end in order of their exact times; at equal times, the transfer that was opened first comes first.
std::optional<TransferLinks::Id> TransferLinks::take(Nanos now) {
  while (done_.empty() && next_ < kNotYet && rounded(next_) <= now) {
    const double at = next_;
    const auto first = std::find_if(active_.begin(), active_.end(), [&](Id id) { return flow(id).ends <= at; });
    end_phase(*first, at);
    find_next();
  }
  if (done_.empty()) return {};
  const Id id = done_.front();
  done_.erase(done_.begin());
  flow(id).phase = Phase::closed;
  free_.push_back(id);
  --open_;
  return id;
}

}  // namespace plimsoll::load
