// SPDX-License-Identifier: Apache-2.0
#include "exec/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>

#include "exec/gpu_placement.h"
#include "exec/rank_runner.h"
#include "exec/rank_threads.h"
#include "exec/thread_communicator.h"
#include "model/error.h"
#include "model/memory_plan.h"

namespace plimsoll::exec {

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Returns which of the sampled rows are answers: one per emitting span and one per decode row.
std::vector<std::size_t> answers_of(const ForwardInput& input) {
  std::vector<std::size_t> answers;
  std::size_t sampled = 0;
  for (const PrefillRows& span : input.prefill) {
    const std::size_t rows = input.all_logits ? span.tokens.size() : (span.emits && !span.tokens.empty() ? 1 : 0);
    sampled += rows;
    if (span.emits && rows > 0) answers.push_back(sampled - 1);
  }
  for (std::size_t i = 0; i < input.decode.size(); ++i) answers.push_back(sampled++);
  return answers;
}

bool executes_cache(model::DType dtype) { return dtype == model::DType::fp32 || dtype == model::DType::bf16; }

EngineConfig checked(EngineConfig config) {
  if (!executes_weights(config.device, config.weight_dtype) || !executes_cache(config.kv_dtype))
    throw InputError(
        fmt::format("the executor runs weights in fp32 or bf16, on a CPU also in int8 or int4, and KV in "
                    "fp32 or bf16; found {} and {}",
                    model::name(config.weight_dtype), model::name(config.kv_dtype)));
  const std::string model = config.architecture.shape.id;
  if (const std::string problem = model::execution_problem(config.architecture); !problem.empty())
    throw InputError(fmt::format("{}: {}", model, problem));
  if (model::has_wide_qk_norm(config.architecture.shape) && config.tp > 1)
    throw InputError(fmt::format("{}: its norms cover the queries of all heads, so it is executed with tp 1, found {}",
                                 model, config.tp));
  if (const std::string problem = model::tp_problem(config.architecture.shape, config.tp); !problem.empty())
    throw InputError(fmt::format("{}: {}", model, problem));
  config.architecture.shape = model::stored_shape(config.architecture.shape, config.weight_dtype);
  return config;
}

}  // namespace

int thread_count(const EngineConfig& config) {
  if (config.threads > 0) return config.threads;
  if (config.tuning && config.tuning->threads > 0) return config.tuning->threads;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

bool executes_weights(DeviceKind device, model::DType dtype) {
  const bool integer = dtype == model::DType::int8 || dtype == model::DType::int4;
  return executes_cache(dtype) || (integer && device == DeviceKind::cpu);
}

struct Engine::State {
  struct Pending {
    std::vector<std::size_t> answers;
    bool all_logits = false, ready = false;
    ForwardOutput output;
  };

  State(const EngineConfig& c, const WeightSource& source, RemoteRanks* r)
      : config(checked(c)),
        remote(r),
        share(r == nullptr ? RankShare{0, c.tp} : r->share(c.tp)),
        threads(share.count),
        watch{r} {
    source.check(c.architecture);
    if (const std::string problem = split_problem(config.architecture, config.weight_dtype, source, config.tp);
        !problem.empty())
      throw InputError(fmt::format("{}: {}", config.architecture.shape.id, problem));
    if (config.device == DeviceKind::cpu)
      check_host_memory();
    else
      places = place_ranks(remote == nullptr ? config.communicator : CommunicatorKind::nccl, share.count,
                           config.first_device);
    ranks.resize(static_cast<std::size_t>(share.count));
    explained([&] {
      make_communicators();
      if (remote != nullptr) remote->watch([this] { abort(); });
      threads.on_all([&](int i) { load(i, source); }, [this] { abort(); });
    });
  }
  // If a rank of another process failed, throw its own error and not PeerFailed.
  template <class Work>
  void explained(const Work& work) {
    try {
      work();
    } catch (const PeerFailed&) {
      if (remote != nullptr) remote->explain();
      throw;
    }
  }

  // Check before loading, and report the sizes. The KV cache is only mapped; blocks use memory when touched: start().
  void check_host_memory() {
    const EngineMemory need = engine_memory(config);
    const std::optional<double> there = config.host_memory > 0 ? std::optional(config.host_memory) : available_memory();
    const double total = (need.weights + need.workspace) * share.count;
    if (!there) return;
    if (total > *there)
      throw DeviceError(fmt::format(
          "out of memory: {} needs {:.2f} GiB for weights and {:.2f} GiB for activations, {:.2f} GiB are available",
          config.architecture.shape.id, need.weights * share.count / kGiB, need.workspace * share.count / kGiB,
          *there / kGiB));
    const double block = need.kv * share.count / static_cast<double>(std::max<std::int64_t>(1, config.kv_blocks));
    if (block > 0) touchable_blocks = static_cast<std::int64_t>((*there - total) / block);
  }

  void make_communicators() {
    if (config.tp == 1) return;
    if (remote != nullptr)
      communicators = remote->communicators(config, places.devices);
    else if (config.device == DeviceKind::cpu)
      communicators = make_thread_group(config.tp);
    else
      communicators = make_cuda_group(places.kind, places.devices);
  }

  // Loads rank share.first + i.
  void load(int i, const WeightSource& source) {
    const auto r = static_cast<std::size_t>(i);
    BackendConfig b;
    b.architecture = config.architecture;
    b.rank = model::rank_shape(config.architecture.shape, config.tp);
    b.weight_dtype = config.weight_dtype;
    b.kv_dtype = config.kv_dtype;
    b.kv_blocks = config.kv_blocks;
    b.block_tokens = config.block_tokens;
    b.sequences = config.sequences;
    b.step_rows = config.step_rows;
    b.graphs = config.graphs;
    b.poison = config.poison;
    b.tuning = config.tuning;
    if (config.device == DeviceKind::cuda)
      b.ranks_on_device = static_cast<int>(std::count(places.devices.begin(), places.devices.end(), places.devices[r]));
    Communicator* communicator = communicators.empty() ? nullptr : communicators[r].get();
    auto backend = config.device == DeviceKind::cpu ? make_cpu_backend(b, communicator, threads_of(i))
                                                    : make_cuda_backend(b, communicator, places.devices[r]);
    ranks[r] = std::make_unique<RankRunner>(config, share.first + i, std::move(backend), source);
  }

  // Divides the cores among the ranks; the first ranks take the remainder.
  [[nodiscard]] int threads_of(int i) const {
    const int all = thread_count(config);
    return std::max(1, all / share.count + (i < all % share.count ? 1 : 0));
  }

  void abort() {
    for (const auto& communicator : communicators) communicator->abort();
  }

  void start(const ForwardInput& input) {
    check_blocks(input);
    pending.push_back({answers_of(input), input.all_logits, false, {}});
    if (remote != nullptr) remote->start(input);
    threads.on_all([&](int rank) { ranks[static_cast<std::size_t>(rank)]->start(input); }, [this] { abort(); });
    if (config.device == DeviceKind::cpu) collect(pending.back());  // on the CPU, the forward has already run
  }

  // Refuses a block beyond the available memory; otherwise the kernel would kill the process without a message.
  void check_blocks(const ForwardInput& input) const {
    if (touchable_blocks < 0) return;
    const auto check = [this](std::span<const std::int32_t> blocks) {
      for (const std::int32_t block : blocks) {
        if (block < touchable_blocks) continue;
        throw DeviceError(
            fmt::format("out of memory: the KV cache of {} blocks has outgrown the {:.1f} GiB that were available; "
                        "lower scheduler.kv_blocks",
                        config.kv_blocks,
                        static_cast<double>(touchable_blocks) * engine_memory(config).kv * share.count /
                            static_cast<double>(config.kv_blocks) / kGiB));
      }
    };
    for (const PrefillRows& span : input.prefill) check(span.blocks);
    for (const DecodeRow& row : input.decode) check(row.blocks.empty() ? row.blocks : row.blocks.last(1));
  }

  void finish(ForwardOutput& output) {
    PLIMSOLL_CHECK(!pending.empty(), "a forward was started");
    if (!pending.front().ready) collect(pending.front());
    output = std::move(pending.front().output);
    pending.pop_front();
  }

  void collect(Pending& forward) {
    tokens.resize(ranks.size());
    logits.resize(ranks.size());
    threads.on_all(
        [&](int rank) {
          const auto r = static_cast<std::size_t>(rank);
          ranks[r]->finish(tokens[r], logits[r]);
        },
        [this] { abort(); });
    forward.ready = true;
    forward.output.tokens.clear();
    for (const std::size_t i : forward.answers) forward.output.tokens.push_back(tokens[0][i]);
    forward.output.logits.clear();
    if (!forward.all_logits) return;
    join_logits(forward.output.logits);
    forward.output.experts = ranks[0]->take_experts();
    if (remote != nullptr) remote->add_logits(forward.output.logits);
  }

  // Joins the logits of the ranks and drops the rows that pad the vocabulary. Columns of other processes are 0.
  void join_logits(std::vector<float>& out) const {
    const auto vocab = static_cast<std::size_t>(config.architecture.shape.vocab);
    const auto part = static_cast<std::size_t>(ranks[0]->rank_shape().vocab_rows);
    const std::size_t rows = tokens[0].size();
    out.assign(rows * vocab, 0.0F);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const std::size_t first = (static_cast<std::size_t>(share.first) + r) * part;
      if (first >= vocab) break;
      const std::size_t count = std::min(part, vocab - first);
      for (std::size_t row = 0; row < rows; ++row)
        std::copy_n(logits[r].data() + row * part, count, out.data() + row * vocab + first);
    }
  }

  // Returns the part of a block that belongs to rank share.first + i.
  template <class Byte>
  [[nodiscard]] std::span<Byte> part_of(std::span<Byte> block, std::size_t i) const {
    const auto part = static_cast<std::size_t>(ranks[0]->backend().bytes_per_block());
    return block.subspan((static_cast<std::size_t>(share.first) + i) * part, part);
  }

  EngineConfig config;
  RemoteRanks* remote;  // null if all ranks are in this process
  RankShare share;      // ranks in this process
  RankPlaces places;    // GPU of each rank
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<RankRunner>> ranks;
  RankThreads threads;  // after the members that the threads use, so that they end first
  std::deque<Pending> pending;
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<float>> logits;
  std::vector<OpTrace> all_traces;
  std::int64_t touchable_blocks = -1;  // blocks that fit the available memory; -1 if unknown

  struct Watch {  // destroyed before the members that abort() uses
    RemoteRanks* remote;
    ~Watch() {
      if (remote != nullptr) remote->watch({});
    }
  } watch;
};

Engine::Engine(const EngineConfig& config, const WeightSource& weights, RemoteRanks* remote)
    : state_(std::make_unique<State>(config, weights, remote)) {}
Engine::~Engine() = default;

void Engine::run(const ForwardInput& input, ForwardOutput& output) {
  start(input);
  finish(output);
}

void Engine::start(const ForwardInput& input) {
  state_->explained([&] { state_->start(input); });
}
void Engine::finish(ForwardOutput& output) {
  state_->explained([&] { state_->finish(output); });
}
void Engine::abort() { state_->abort(); }

std::vector<std::int64_t> Engine::recorded_decodes(std::int64_t rows) const {
  const Backend& backend = state_->ranks[0]->backend();
  std::vector<std::int64_t> sizes;
  if (!backend.replays_decodes()) return sizes;
  do sizes.push_back(backend.padded_decode_rows(sizes.empty() ? 1 : sizes.back() + 1));
  while (sizes.back() < rows);
  return sizes;
}

std::vector<std::int64_t> Engine::tuned_rows(std::int64_t rows) const {
  const Backend& backend = state_->ranks[0]->backend();
  std::vector<std::int64_t> sizes;
  if (backend.tuned_rows(1) == 0) return sizes;
  do sizes.push_back(backend.tuned_rows(sizes.empty() ? 1 : sizes.back() + 1));
  while (sizes.back() < rows);
  return sizes;
}

void Engine::trace_ops() {
  PLIMSOLL_CHECK(!state_->config.graphs, "ops inside a CUDA graph cannot be traced");
  for (const auto& rank : state_->ranks) rank->trace();
  if (state_->remote != nullptr) state_->explained([&] { state_->remote->trace(); });
}

std::vector<OpTrace>& Engine::traces() {
  std::vector<OpTrace> first;  // the ops of rank 0, from which other processes' traces are rebuilt
  if (state_->remote != nullptr) first = state_->ranks[0]->traces();
  for (const auto& rank : state_->ranks) {
    std::vector<OpTrace>& own = rank->traces();
    state_->all_traces.insert(state_->all_traces.end(), own.begin(), own.end());
    own.clear();
  }
  if (state_->remote != nullptr) state_->explained([&] { state_->remote->add_traces(first, state_->all_traces); });
  return state_->all_traces;
}

std::int64_t Engine::bytes_per_block() const {
  return state_->config.tp * state_->ranks[0]->backend().bytes_per_block();
}

void Engine::read_block(std::int32_t block, std::span<std::byte> host) {
  if (state_->remote != nullptr) state_->explained([&] { state_->remote->read_block(block, host); });
  for (std::size_t i = 0; i < state_->ranks.size(); ++i)
    state_->ranks[i]->backend().read_block(block, state_->part_of(host, i).data());
}

void Engine::write_block(std::int32_t block, std::span<const std::byte> host) {
  if (state_->remote != nullptr) state_->explained([&] { state_->remote->write_block(block, host); });
  for (std::size_t i = 0; i < state_->ranks.size(); ++i)
    state_->ranks[i]->backend().write_block(block, state_->part_of(host, i).data());
}

std::string Engine::note() const { return state_->ranks[0]->backend().note(); }

std::string Engine::device() const { return state_->ranks[0]->backend().description(); }

std::string Engine::description() const {
  std::string text = device();
  const int tp = state_->config.tp;
  if (tp > 1) text += fmt::format(", {} ranks", tp);
  if (tp > state_->share.count) text += fmt::format(" in {} processes", tp / state_->share.count);
  return text;
}

const EngineConfig& Engine::config() const { return state_->config; }

}  // namespace plimsoll::exec
