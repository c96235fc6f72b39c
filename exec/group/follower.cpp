// SPDX-License-Identifier: Apache-2.0
#include "exec/group/follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "exec/group/messages.h"
#include "exec/live/live_engines.h"
#include "model/error.h"

namespace plimsoll::exec::group {

namespace {

constexpr std::size_t kInFlight = 2;  // the same number as on the leader
constexpr std::size_t kHeading = 64;  // bytes; upper bound for everything but the logits in an answer
// The longest wait for a forward while the next message may arrive; a longer wait would start the next forward late.
// Each time it has passed, the follower looks for a failure.
constexpr std::chrono::milliseconds kUnwatched{50};
constexpr std::chrono::milliseconds kBeat{1000};

/// The ranks of one replica that other processes hold, as this follower sees them.
class FollowerRanks final : public MemberRanks {
 public:
  using MemberRanks::MemberRanks;
  // A follower that waits for a GPU reads no messages. This watch detects that the leader is gone.
  void watch(std::function<void()> abort) override {
    watch_.reset();
    if (abort) watch_.emplace(links_.steps.front(), std::move(abort));
  }
  void explain() override {}
  void start(const ForwardInput&) override {}
  void add_logits(std::span<float>) override {}
  void trace() override {}
  void add_traces(std::span<const OpTrace>, std::vector<OpTrace>&) override {}
  void read_block(std::int32_t, std::span<std::byte>) override {}
  void write_block(std::int32_t, std::span<const std::byte>) override {}

 private:
  std::optional<net::EndWatch> watch_;
};

class FollowerPart final : public GroupPart {
 public:
  explicit FollowerPart(Member& member) : member_(member) {
    for (ReplicaLinks& links : member_.replicas) ranks_.push_back(std::make_unique<FollowerRanks>(member_, links));
  }
  [[nodiscard]] RemoteRanks& ranks(std::size_t replica) override { return *ranks_.at(replica); }
  void meet() override { member_.replicas.front().mesh->meet(); }
  [[nodiscard]] int local() const override { return member_.local; }
  [[nodiscard]] int locals() const override { return member_.locals; }

 private:
  Member& member_;
  std::vector<std::unique_ptr<FollowerRanks>> ranks_;
};

// Executes the leader's messages for one engine.
class Steps {
 public:
  Steps(const net::Link& leader, Engine& engine, RankShare share) : leader_(leader), engine_(engine), share_(share) {}

  bool serve() {
    while (true) {
      // Complete a forward only while no message is waiting. Otherwise read the message first, so that the next forward
      // starts early.
      while (in_flight_.size() > 0 && !leader_.wait(net::within(kUnwatched))) finish();
      const std::optional<net::Bytes> message = leader_.receive();
      if (!message) return false;
      Reader in(*message);
      if (in.kind() == Kind::forward) {
        start(in);
        continue;
      }
      while (!in_flight_.empty()) finish();
      // All forwards are complete here, because every other message applies to the state after them.
      if (in.kind() == Kind::end) return true;
      between_forwards(in);
    }
  }

 private:
  void start(Reader& in) {
    if (in_flight_.size() == kInFlight) finish();
    const ForwardInput& input = decoder_.decode(in);
    engine_.start(input);
    in_flight_.push_back(input.all_logits);
    // The leader waits for the logits, so answer before reading the next message.
    while (input.all_logits && !in_flight_.empty()) finish();
  }

  void finish() {
    engine_.finish(output_);
    if (in_flight_.front()) answer_logits();
    in_flight_.pop_front();
  }

  void between_forwards(Reader& in) {
    switch (in.kind()) {
      case Kind::trace: engine_.trace_ops(); return;
      case Kind::fetch_traces: answer_traces(); return;
      case Kind::read_block: read_block(in); return;
      case Kind::write_block: write_block(in); return;
      default: throw DeviceError("the leader sent an unexpected message");
    }
  }

  // Answers with this process's columns of the vocabulary, for all rows.
  void answer_logits() {
    const auto vocabulary = static_cast<std::size_t>(engine_.config().architecture.shape.vocab);
    const auto part = static_cast<std::size_t>(
        model::rank_shape(engine_.config().architecture.shape, engine_.config().tp).vocab_rows);
    const std::size_t first = std::min(vocabulary, static_cast<std::size_t>(share_.first) * part);
    const std::size_t columns = std::min(vocabulary - first, static_cast<std::size_t>(share_.count) * part);
    const std::size_t rows = output_.logits.size() / vocabulary;
    const std::size_t bytes = rows * columns * sizeof(float);
    if (bytes > net::Link::kMaxLength - kHeading) {
      throw DeviceError(
          fmt::format("all logits of {} rows take {} bytes, a message holds at most {}: request fewer rows", rows,
                      bytes, net::Link::kMaxLength - kHeading));
    }
    Writer out(Kind::logits);
    out.whole(rows);
    out.whole(first);
    out.whole(columns);
    for (std::size_t row = 0; row < rows; ++row)
      out.raw(std::as_bytes(std::span(output_.logits).subspan(row * vocabulary + first, columns)));
    tell(out);
  }

  void answer_traces() {
    std::vector<OpTrace>& traces = engine_.traces();
    Writer out(Kind::times);
    out.number(share_.first);
    // Sends only the times: the leader ran the same ops in the same order.
    out.number(share_.count);
    for (const OpTrace& trace : traces) out.f64(trace.measured_s);
    traces.clear();
    tell(out);
  }

  // Returns the block data of this process's ranks, concatenated in order of rank.
  [[nodiscard]] std::span<std::byte> own_part() {
    block_.resize(static_cast<std::size_t>(engine_.bytes_per_block()));
    const std::size_t each = block_.size() / static_cast<std::size_t>(engine_.config().tp);
    return std::span(block_).subspan(static_cast<std::size_t>(share_.first) * each,
                                     static_cast<std::size_t>(share_.count) * each);
  }

  void read_block(Reader& in) {
    const std::span<std::byte> own = own_part();
    engine_.read_block(in.number32(), block_);
    Writer out(Kind::block);
    out.raw(own);
    tell(out);
  }

  void write_block(Reader& in) {
    const auto block = in.number32();
    const std::span<std::byte> own = own_part();
    std::ranges::copy(in.raw(own.size()), own.begin());
    in.end();
    engine_.write_block(block, block_);
  }

  void tell(const Writer& out) const {
    if (!leader_.send(out.bytes())) throw PeerFailed();
  }

  const net::Link& leader_;
  Engine& engine_;
  RankShare share_;
  ForwardDecoder decoder_;
  std::deque<bool> in_flight_;  // whether the forward returns all logits
  ForwardOutput output_;
  net::Bytes block_;
};

// Ends this process's part of a group: reports the reason to the leader and closes all connections. Until then, sends
// heartbeats.
class FailureNotice {
 public:
  explicit FailureNotice(Member& member)
      : member_(member), beating_([this](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          // A separate thread sends heartbeats, because the work may block on a GPU or load for minutes.
          while (!wake_.wait_for(lock, stop, kBeat, [&stop] { return stop.stop_requested(); }))
            static_cast<void>(control().send(plain(Kind::alive)));
        }) {}

  /// Sends on the connection that also carries the heartbeats.
  bool tell(const net::Bytes& message) {
    const std::lock_guard lock(mutex_);
    return control().send(message);
  }

  /// Runs the work. If it throws, sends the reason to the leader on `link` and closes all connections.
  template <class Work>
  bool guard(const net::Link& link, const Work& work) {
    try {
      return work();
    } catch (const PeerFailed&) {
      leave(link, plain(Kind::peer_failed));
    } catch (const InputError& error) {
      leave(link, reason(error.what(), true));
    } catch (const std::bad_alloc&) {
      leave(link, reason("out of memory", false));
    } catch (const std::exception& error) {
      leave(link, reason(error.what(), false));
    }
    return false;
  }

 private:
  static net::Bytes reason(const char* text, bool bad_input) {
    Writer out(Kind::failed);
    out.byte(bad_input ? 1 : 0);
    out.text(text);
    return out.bytes();
  }
  // Send the reason before closing, because the leader notices a closed mesh connection immediately.
  void leave(const net::Link& link, const net::Bytes& message) {
    const std::lock_guard lock(mutex_);
    static_cast<void>(link.send(message));
    for (ReplicaLinks& links : member_.replicas) links.mesh->abort();
    for (const ReplicaLinks& links : member_.replicas) links.steps.front().shut();
    control().shut();
  }
  [[nodiscard]] const net::Link& control() const { return member_.control.front(); }

  Member& member_;
  std::mutex mutex_;  // serialises sends
  std::condition_variable_any wake_;
  std::jthread beating_;  // last member, because the thread uses those above
};

}  // namespace

bool serve_steps(const net::Link& leader, Engine& engine, RankShare share) {
  return Steps(leader, engine, share).serve();
}

bool follow(Member& member, const OpenOrder& open) {
  const net::Link& control = member.control.front();
  FollowerPart part(member);
  FailureNotice farewell(member);
  while (const std::optional<net::Bytes> message = control.receive()) {
    if (*message == plain(Kind::done)) return true;
    std::unique_ptr<LiveEngines> engines;
    EngineOrder order;
    const bool loaded = farewell.guard(control, [&] {
      order = decode_order(*message);
      if (order.replicas < 1 || static_cast<std::size_t>(order.replicas) > member.replicas.size())
        throw DeviceError("the order has more replicas than there are connections");
      OpenModel model = open(order);
      order.config.architecture = model.architecture;
      engines = std::make_unique<LiveEngines>(order.config, order.replicas, *model.weights, &part);
      Writer loaded_on(Kind::loaded);
      loaded_on.text(engines->engine(0).device());
      return farewell.tell(loaded_on.bytes());
    });
    if (!loaded) return false;
    std::vector<std::jthread> threads;
    const bool served = farewell.guard(control, [&] {  // std::jthread throws if the system has no threads left
      for (std::size_t i = 0; i < engines->size(); ++i) {
        // One thread per replica, as on the leader. Failures are reported on that replica's connection.
        threads.emplace_back([&, i] {
          const net::Link& leader = member.replicas[i].steps.front();
          farewell.guard(leader,
                         [&] { return serve_steps(leader, engines->engine(i), part.ranks(i).share(order.config.tp)); });
        });
      }
      return true;
    });
    threads.clear();  // joins them
    if (!served) return false;
  }
  return false;
}

}  // namespace plimsoll::exec::group
