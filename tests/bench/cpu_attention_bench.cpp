// SPDX-License-Identifier: Apache-2.0
// Decode attention over pages on this CPU, as a fraction of the read bandwidth, which is probed in between. The best of
// 20 repetitions of each counts. The cache takes 256 MiB: 8 times the last-level cache of a usual server.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "exec/cpu/decode_parts.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/probes.h"

namespace plimsoll::exec {
namespace {

constexpr std::int64_t kBlockTokens = 16;
constexpr std::int64_t kPool = 256 << 20;

struct Heads {
  std::int64_t kv, group, head_dim;
  [[nodiscard]] std::int64_t row() const { return kv * group * head_dim; }
};

// A bf16 cache for several layers and `sequences` sequences of `context` tokens each, whose blocks are in random order.
class PagedCache {
 public:
  PagedCache(Heads heads, std::int64_t sequences, std::int64_t context)
      : heads_(heads),
        blocks_each_((context + kBlockTokens - 1) / kBlockTokens),
        block_stride_(heads.kv * kBlockTokens * heads.head_dim),
        part_(sequences * blocks_each_ * block_stride_),
        layers_(std::max<std::int64_t>(1, kPool / (4 * part_))),
        memory_(static_cast<std::size_t>(4 * layers_ * part_) + attention_padding(heads.head_dim), "a cache") {
    auto* at = reinterpret_cast<std::uint16_t*>(memory_.data());
    for (std::int64_t i = 0; i < 2 * layers_ * part_; ++i) at[i] = static_cast<std::uint16_t>(0x3c00 + i * 7 % 251);
    for (std::int64_t i = 0; i < sequences * blocks_each_; ++i) order_.push_back(static_cast<std::int32_t>(i));
    std::shuffle(order_.begin(), order_.end(), std::mt19937(1));
  }
  [[nodiscard]] std::int64_t layers() const { return layers_; }
  [[nodiscard]] double bytes() const { return 4.0 * static_cast<double>(layers_ * part_); }

  void place(AttentionTask& task, std::int64_t layer, std::int64_t sequence, std::int64_t head) const {
    task.keys = memory_.data() + 2 * (2 * layer * part_ + head * kBlockTokens * heads_.head_dim);
    task.head_stride = kBlockTokens * heads_.head_dim;
    task.value_offset = part_;
    task.block_stride = block_stride_;
    task.blocks = order_.data() + sequence * blocks_each_;
    task.block_tokens = kBlockTokens;
    task.bf16 = true;
  }

 private:
  Heads heads_;
  std::int64_t blocks_each_, block_stride_, part_, layers_;
  HostMemory memory_;
  std::vector<std::int32_t> order_;
};

void BM_DecodeAttention(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const Heads heads{state.range(1), state.range(2), state.range(3)};
  const std::int64_t sequences = state.range(4), context = state.range(5), first = 0;
  const KernelSet& kernels = select_kernels();
  ThreadPool pool(threads);
  Probe probe(kernels, pool, kPool);
  const PagedCache cache(heads, sequences, context);
  const std::vector<float> q(static_cast<std::size_t>(sequences * heads.row()), 0.1F), zeros(4096);
  std::vector<float> out(q.size());
  std::vector<HostMemory> scratch;
  for (int i = 0; i < threads; ++i)
    scratch.emplace_back(
        attention_scratch(kernels, std::max<std::int64_t>(64, heads.kv * heads.group), heads.head_dim) * sizeof(float),
        "scratch");
  const std::int64_t parts = decode_parts({.rows = sequences, .heads = heads.kv, .queries = heads.group}, threads,
                                          model::CpuTuning{}.decode_parts)
                                 .heads;
  const auto attend = [&](std::int64_t layer, int thread, std::int64_t item) {
    const std::int64_t sequence = item / parts, part = item % parts, head = heads.kv * part / parts;
    const std::int64_t offset = sequence * heads.row() + head * heads.group * heads.head_dim;
    AttentionTask task;
    cache.place(task, layer, sequence, head);
    task.q = q.data() + offset;
    task.out = out.data() + offset;
    task.q_stride = task.out_stride = heads.row();
    task.positions = 1;
    task.heads = heads.kv * (part + 1) / parts - head;
    task.group = heads.group;
    task.head_dim = heads.head_dim;
    task.scale = 1 / std::sqrt(static_cast<float>(heads.head_dim));
    task.first = &first;
    task.last = &context;
    task.wrap = context;
    task.zeros = zeros.data();
    task.scratch = scratch[static_cast<std::size_t>(thread)].as<float>();
    kernels.attention(task);
  };
  double best = 1e9, bandwidth = 0;
  for (auto _ : state) {
    bandwidth = std::max(bandwidth, probe.read_once());
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t layer = 0; layer < cache.layers(); ++layer)
      pool.for_each(sequences * parts, [&](int thread, std::int64_t item) { attend(layer, thread, item); });
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, took);
    state.SetIterationTime(took);
  }
  state.counters["GB_per_s"] = 1e-9 * cache.bytes() / best;
  state.counters["probe_GB_per_s"] = 1e-9 * bandwidth;
  state.counters["of_read_bandwidth"] = cache.bytes() / best / bandwidth;
}

void attention_shapes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t threads : {1, 2}) {
    bench->Args({threads, 8, 1, 128, 8, 2048});
    bench->Args({threads, 8, 2, 64, 16, 2048});
    bench->Args({threads, 8, 4, 128, 8, 2048});
    bench->Args({threads, 8, 2, 64, 128, 128});
  }
}
BENCHMARK(BM_DecodeAttention)
    ->ArgNames({"threads", "kv_heads", "group", "head_dim", "sequences", "context"})
    ->Apply(attention_shapes)
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll::exec
