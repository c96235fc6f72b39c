// SPDX-License-Identifier: Apache-2.0
#include "exec/group/leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "exec/group/messages.h"

namespace plimsoll::exec::group {

namespace {
constexpr std::chrono::milliseconds kPatience{3000}, kLookEvery{5};
}

/// The ranks of one replica that the followers hold, as the leader sees them.
class LeaderRanks final : public MemberRanks {
 public:
  LeaderRanks(Leader& leader, const Member& member, ReplicaLinks& links) : MemberRanks(member, links), leader_(leader) {
    for (std::size_t p = 1; p < links.steps.size(); ++p) inboxes_.push_back(std::make_unique<Inbox>(links.steps[p]));
  }
  [[nodiscard]] PeerFailure fate(std::size_t process) const { return inboxes_[process - 1]->fate(); }

  // Sends to every follower. The leader's own ranks run the same forward meanwhile.
  void tell(const net::Bytes& message) {
    for (std::size_t p = 1; p < links_.steps.size(); ++p)
      if (!links_.steps[p].send(message)) throw PeerFailed();
  }
  /// The followers make a new decoder for every order, so the encoder must start afresh too.
  void begin() { encoder_ = {}; }

  void watch(std::function<void()> abort) override {
    for (const auto& inbox : inboxes_) inbox->watch(abort);
  }
  void explain() override { leader_.check(true); }
  void start(const ForwardInput& input) override { tell(encoder_.encode(input)); }
  void trace() override { tell(plain(Kind::trace)); }

  void add_logits(std::span<float> logits) override {
    for (const auto& inbox : inboxes_) {
      const net::Bytes message = inbox->take(Kind::logits);
      Reader in(message);
      // Every process has the columns of its part of the vocabulary; the sizes come from another process and are
      // checked before they are used.
      const std::uint64_t rows = in.whole(), vocabulary = rows == 0 ? 0 : logits.size() / rows;
      const std::uint64_t first = in.whole(), columns = in.whole();
      if (rows * vocabulary != logits.size() || first > vocabulary || columns > vocabulary - first)
        throw DeviceError("another process reports a different vocabulary size");
      for (std::uint64_t row = 0; columns > 0 && row < rows; ++row)
        std::memcpy(logits.data() + row * vocabulary + first, in.raw(columns * sizeof(float)).data(),
                    columns * sizeof(float));
      in.end();
    }
  }

  void add_traces(std::span<const OpTrace> rank_0, std::vector<OpTrace>& all) override {
    // All ranks run the same ops in the same order, so the followers send only the times.
    tell(plain(Kind::fetch_traces));
    for (const auto& inbox : inboxes_) {
      const net::Bytes message = inbox->take(Kind::times);
      Reader in(message);
      const std::int32_t first = in.number32(), ranks = in.number32();
      for (std::int32_t rank = 0; rank < ranks; ++rank)
        for (const OpTrace& trace : rank_0) {
          all.push_back(trace);
          all.back().rank = first + rank;
          all.back().measured_s = in.f64();
        }
      in.end();
    }
  }

  // A KV block lies in equal parts on all processes, in the order of their ranks.
  void read_block(std::int32_t block, std::span<std::byte> host) override {
    Writer out(Kind::read_block);
    out.number(block);
    tell(out.bytes());
    const std::size_t part = host.size() / static_cast<std::size_t>(member_.processes);
    for (std::size_t p = 1; p < links_.steps.size(); ++p) {
      const net::Bytes message = inboxes_[p - 1]->take(Kind::block);
      Reader in(message);
      std::ranges::copy(in.raw(part), host.subspan(p * part).begin());
    }
  }

  void write_block(std::int32_t block, std::span<const std::byte> host) override {
    const std::size_t part = host.size() / static_cast<std::size_t>(member_.processes);
    for (std::size_t p = 1; p < links_.steps.size(); ++p) {
      Writer out(Kind::write_block);
      out.number(block);
      out.raw(host.subspan(p * part, part));
      if (!links_.steps[p].send(out.bytes())) throw PeerFailed();
    }
  }

 private:
  Leader& leader_;
  ForwardEncoder encoder_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;  // [process - 1]
};

Leader::Leader(Member& member, std::chrono::milliseconds silence) : member_(member) {
  for (std::size_t p = 1; p < member_.control.size(); ++p)
    control_.push_back(std::make_unique<Inbox>(member_.control[p], silence));
  for (ReplicaLinks& links : member_.replicas) ranks_.push_back(std::make_unique<LeaderRanks>(*this, member_, links));
  // A stopped process keeps its connections open. Shut them once it counts as failed, so that calls that wait for it
  // return.
  for (std::size_t p = 1; p < member_.control.size(); ++p) {
    control_[p - 1]->watch([this, p] {
      if (!control_[p - 1]->fate().silent) return;
      for (const ReplicaLinks& links : member_.replicas) links.steps[p].shut();
    });
  }
}

Leader::~Leader() {
  for (const auto& inbox : control_) inbox->watch({});
}

void Leader::finish() {
  for (std::size_t p = 1; p < member_.control.size(); ++p)
    static_cast<void>(member_.control[p].send(plain(Kind::done), net::within(kPatience)));
}

RemoteRanks& Leader::ranks(std::size_t replica) { return *ranks_.at(replica); }

void Leader::meet() { member_.replicas.front().mesh->meet(); }

void Leader::load(const EngineOrder& order) {
  try {
    // The followers serve the previous order until each of its engines has been ended.
    for (std::int32_t i = 0; i < loaded_; ++i) ranks_[static_cast<std::size_t>(i)]->tell(plain(Kind::end));
    loaded_ = order.replicas;
    tp_ = order.config.tp;
    const net::Bytes message = encode(order);
    for (std::int32_t i = 0; i < loaded_; ++i) ranks_[static_cast<std::size_t>(i)]->begin();
    for (std::size_t p = 1; p < member_.control.size(); ++p)
      if (!member_.control[p].send(message)) throw PeerFailed();
  } catch (const PeerFailed&) {
    check(true);
    throw;
  }
}

std::vector<std::string> Leader::wait() {
  std::vector<std::string> devices;
  try {
    for (const auto& inbox : control_) {
      const net::Bytes message = inbox->take(Kind::loaded);
      devices.push_back(Reader(message).text());
    }
    return devices;
  } catch (const PeerFailed&) {
    check(true);
    throw;
  }
}

void Leader::check(bool patient) const {
  // Poll: the reason may arrive on a connection other than the one that failed first.
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while ((look() || patient) && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kLookEvery);
}

std::vector<PeerFailure> Leader::fates(std::size_t process) const {
  std::vector<PeerFailure> all{control_[process - 1]->fate()};
  for (const auto& ranks : ranks_) all.push_back(ranks->fate(process));
  return all;
}

// Throws the reported reason, if there is one. Returns true if a process has begun to end but not given a reason yet. A
// failing process reports the reason on one connection and then closes all. A process that closes without a reason has
// died.
bool Leader::look() const {
  bool ending = false;
  for (std::size_t p = 1; p < member_.control.size(); ++p) {
    const std::vector<PeerFailure> all = fates(p);
    for (const PeerFailure& fate : all) {
      if (!fate.failure) continue;
      const std::string text = fmt::format("{}: {}", place(p), *fate.failure);
      if (fate.bad_input) throw InputError(text);
      throw RankFailed(text);
    }
    ending = ending || std::ranges::any_of(all, [](const PeerFailure& fate) { return fate.ended; });
    const bool gone = std::ranges::all_of(all, [](const PeerFailure& fate) { return fate.ended; });
    // A process that ended because another one failed is not the cause, so the search continues.
    const bool of_another = std::ranges::any_of(all, [](const PeerFailure& fate) { return fate.peer_failed; });
    if (gone && !of_another) throw RankFailed(fmt::format("{}: the process has died", place(p)));
  }
  return ending;
}

std::string Leader::place(std::size_t process) const {
  const int ranks = std::max(1, tp_ / member_.processes), first = static_cast<int>(process) * ranks;
  const std::string which =
      ranks == 1 ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, first + ranks - 1);
  return fmt::format("{} on {}", which, member_.hosts.at(process));
}

}  // namespace plimsoll::exec::group
