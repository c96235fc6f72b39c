// SPDX-License-Identifier: Apache-2.0
#include "exec/group/engine_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <sstream>
#include <thread>

#include "exec/live/live_engines.h"
#include "model/error.h"

namespace plimsoll::exec::group {

namespace {

constexpr std::chrono::seconds kComeWithin{30}, kLoadWithin{600};
constexpr std::size_t kMessageBytes = std::size_t{64} << 20U;  // of KV
constexpr std::string_view kControl = "control", kSteps = "steps", kBlocks = "blocks";

[[noreturn]] void has_died() { throw DeviceError("the process of the prefill pool has died"); }

// Returns the answer, or throws what the other process reports instead.
net::Bytes answer_of(const net::Link& link, Kind kind, net::Deadline until = net::kNever) {
  std::optional<net::Bytes> message = link.receive(net::Link::kMaxLength, until);
  if (!message) has_died();
  Reader in(*message);
  if (in.kind() == Kind::failed) {
    const bool bad_input = in.byte() != 0;
    const std::string text = "the prefill pool: " + in.text();
    if (bad_input) throw InputError(text);
    throw DeviceError(text);
  }
  if (in.kind() != kind) throw DeviceError("the process of the prefill pool sent an unexpected message");
  return std::move(*message);
}

net::Bytes reason(const char* text, bool bad_input) {
  Writer out(Kind::failed);
  out.byte(bad_input ? 1 : 0);
  out.text(text);
  return out.bytes();
}

}  // namespace

// ---- the process that measures ------------------------------------------------------------------------------

class EngineProcess::RemoteEngine final : public ForwardDevice {
 public:
  net::Link steps, blocks;
  std::int64_t block_bytes = 0;

  void start(const ForwardInput& input) override { tell(steps, encoder_.encode(input)); }
  void finish(ForwardOutput& output) override {
    const net::Bytes message = answer_of(steps, Kind::tokens);
    Reader in(message);
    output.tokens.resize(in.count());
    for (std::int32_t& token : output.tokens) token = in.number32();
    in.end();
  }
  [[nodiscard]] std::int64_t bytes_per_block() const override { return block_bytes; }
  void read_block(std::int32_t block, std::span<std::byte> host) override { send_blocks(std::span(&block, 1), host); }
  void write_block(std::int32_t block, std::span<const std::byte> host) override {
    Writer out(Kind::write_block);
    out.number(block);
    out.raw(host);
    tell(steps, out.bytes());
  }
  void send_blocks(std::span<const std::int32_t> all, std::span<std::byte> host) override {
    const auto bytes = static_cast<std::size_t>(block_bytes);
    const std::size_t most = std::max<std::size_t>(1, kMessageBytes / bytes);
    for (std::size_t first = 0; first < all.size(); first += most) {
      const auto part = all.subspan(first, std::min(most, all.size() - first));
      Writer out(Kind::send_blocks);
      out.whole(part.size());
      for (const std::int32_t block : part) out.number(block);
      tell(blocks, out.bytes());
      const net::Bytes message = answer_of(blocks, Kind::blocks);
      Reader in(message);
      std::ranges::copy(in.raw(part.size() * bytes), host.subspan(first * bytes).begin());
      in.end();
    }
  }

 private:
  static void tell(const net::Link& link, const net::Bytes& message) {
    if (!link.send(message)) has_died();
  }
  ForwardEncoder encoder_;
};

EngineProcess::EngineProcess(const EngineOrder& order, const Start& start) : kv_blocks_(order.config.kv_blocks) {
  net::Lobby lobby({"127.0.0.1"});
  start(lobby.meeting());
  auto guest = lobby.next(net::within(kComeWithin));
  if (!guest || !guest->message.starts_with(kControl))
    throw DeviceError("the process of the prefill pool did not start");
  control_ = std::move(guest->link);
  if (!control_.send(encode(order))) has_died();
  const net::Bytes message = answer_of(control_, Kind::loaded, net::within(kLoadWithin));
  Reader in(message);
  description_ = in.text();
  const std::int64_t bytes = in.number();
  in.end();
  connect(lobby, static_cast<std::size_t>(order.replicas));
  for (const auto& engine : engines_) {
    engine->block_bytes = bytes;
    devices_.push_back(engine.get());
  }
}

// The other process connects two links for each engine.
void EngineProcess::connect(net::Lobby& lobby, std::size_t replicas) {
  for (std::size_t i = 0; i < replicas; ++i) engines_.push_back(std::make_unique<RemoteEngine>());
  for (std::size_t links = 0; links < 2 * replicas; ++links) {
    auto guest = lobby.next(net::within(kComeWithin));
    if (!guest) has_died();
    std::istringstream words(guest->message);
    std::string what;
    std::size_t replica = replicas;
    words >> what >> replica;
    if (replica >= replicas || (what != kSteps && what != kBlocks)) throw DeviceError("an unexpected connection");
    (what == kSteps ? engines_[replica]->steps : engines_[replica]->blocks) = std::move(guest->link);
  }
}

EngineProcess::~EngineProcess() {
  static_cast<void>(control_.send(plain(Kind::done), net::within(kComeWithin)));
  for (const auto& engine : engines_) {
    engine->steps.shut();
    engine->blocks.shut();
  }
  control_.shut();
}

// The time per byte and the fixed time follow from the smallest and a large read. Each is repeated, and the fastest
// repetition counts.
KvPath EngineProcess::measure_path() {
  constexpr int kTurns = 7;
  constexpr std::size_t kLarge = std::size_t{8} << 20U;
  RemoteEngine& engine = *engines_.front();
  const auto bytes = static_cast<std::size_t>(engine.block_bytes);
  const auto seconds = [&](std::size_t count) {
    std::vector<std::int32_t> blocks(count);
    for (std::size_t i = 0; i < count; ++i)
      blocks[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(kv_blocks_));
    std::vector<std::byte> host(count * bytes);
    double best = 1e9;
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto start = std::chrono::steady_clock::now();
      engine.send_blocks(blocks, host);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  };
  const std::size_t many = std::max<std::size_t>(2, kLarge / bytes);
  const double one = seconds(1), all = seconds(many);
  const double rate = static_cast<double>((many - 1) * bytes) / std::max(1e-9, all - one);
  return {.launch_s = std::max(0.0, one - static_cast<double>(bytes) / rate), .bandwidth = rate};
}

// ---- the process that has the engines -----------------------------------------------------------------------

namespace {

std::int32_t read_block_number(Reader& in, const Engine& engine) {
  const std::int32_t block = in.number32();
  if (block < 0 || block >= engine.config().kv_blocks) throw DeviceError("a block that the engine does not have");
  return block;
}

// Executes the orders for one engine. Throws what the engine throws.
void serve_forwards(const net::Link& link, Engine& engine) {
  ForwardDecoder decoder;
  ForwardOutput output;
  while (const std::optional<net::Bytes> message = link.receive()) {
    Reader in(*message);
    if (in.kind() == Kind::write_block) {
      const std::int32_t block = read_block_number(in, engine);
      engine.write_block(block, in.raw(static_cast<std::size_t>(engine.bytes_per_block())));
      continue;
    }
    if (in.kind() != Kind::forward) throw DeviceError("an unexpected message instead of a forward");
    engine.run(decoder.decode(in), output);
    Writer out(Kind::tokens);
    out.whole(output.tokens.size());
    for (const std::int32_t token : output.tokens) out.number(token);
    if (!link.send(out.bytes())) return;
  }
}

// Sends KV while the engine's forwards run, which do not write blocks that are being sent.
void serve_blocks(const net::Link& link, Engine& engine) {
  const auto bytes = static_cast<std::size_t>(engine.bytes_per_block());
  std::vector<std::int32_t> blocks;
  net::Bytes host;
  while (const std::optional<net::Bytes> message = link.receive(kMessageBytes)) {
    Reader in(*message);
    if (in.kind() != Kind::send_blocks) throw DeviceError("an unexpected message instead of blocks to send");
    blocks.resize(in.count());
    for (std::int32_t& block : blocks) block = read_block_number(in, engine);
    host.resize(blocks.size() * bytes);
    engine.send_blocks(blocks, host);
    Writer out(Kind::blocks);
    out.raw(host);
    if (!link.send(out.bytes())) return;
  }
}

template <class Work>
bool guard(const net::Link& link, const Work& work) {
  try {
    work();
    return true;
  } catch (const InputError& error) {
    static_cast<void>(link.send(reason(error.what(), true)));
  } catch (const std::exception& error) {
    static_cast<void>(link.send(reason(error.what(), false)));
  }
  return false;
}

net::Link introduce(const net::Meeting& meeting, std::string_view what, std::size_t replica) {
  net::Link link = net::reach(meeting);
  if (!link.is_open() || !link.send(fmt::format("{} {} {}", meeting.token, what, replica)))
    throw DeviceError("the process that started the engines cannot be reached");
  return link;
}

struct Lane {
  net::Link steps, blocks;
};

// Ends the threads that read the lanes, whatever ends the scope.
struct ShutLanes {
  const std::vector<Lane>& lanes;
  ~ShutLanes() {
    for (const Lane& lane : lanes) {
      lane.steps.shut();
      lane.blocks.shut();
    }
  }
};

void serve_all(LiveEngines& engines, const std::vector<Lane>& lanes, const net::Link& control, bool& ended) {
  std::vector<std::jthread> threads;
  const ShutLanes shut{lanes};  // goes before the threads, which are joined: a thread may fail to start
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    Engine& engine = engines.engine(i);
    threads.emplace_back(
        [&lane = lanes[i], &engine] { guard(lane.steps, [&] { serve_forwards(lane.steps, engine); }); });
    threads.emplace_back(
        [&lane = lanes[i], &engine] { guard(lane.blocks, [&] { serve_blocks(lane.blocks, engine); }); });
  }
  const std::optional<net::Bytes> message = control.receive();
  ended = message && *message == plain(Kind::done);
}

}  // namespace

bool serve_engines(const net::Meeting& meeting, const OpenOrder& open, const std::optional<model::CpuTuning>& tuning) {
  const net::Link control = introduce(meeting, kControl, 0);
  const std::optional<net::Bytes> message = control.receive();
  if (!message) return false;
  bool ended = false;
  guard(control, [&] {
    EngineOrder order = decode_order(*message);
    OpenModel model = open(order);
    order.config.architecture = model.architecture;
    order.config.tuning = tuning;
    LiveEngines engines(order.config, order.replicas, *model.weights);
    Writer loaded(Kind::loaded);
    loaded.text(engines.engine(0).description());
    loaded.number(engines.engine(0).bytes_per_block());
    if (!control.send(loaded.bytes())) return;
    std::vector<Lane> lanes;
    for (std::size_t i = 0; i < engines.size(); ++i)
      lanes.push_back({introduce(meeting, kSteps, i), introduce(meeting, kBlocks, i)});
    serve_all(engines, lanes, control, ended);
  });
  return ended;
}

}  // namespace plimsoll::exec::group
