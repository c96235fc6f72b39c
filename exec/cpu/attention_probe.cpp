// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/attention_probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "exec/cpu/decode_parts.h"

namespace plimsoll::exec {

namespace {

constexpr std::int64_t kHeads = 8, kGroup = 4, kHeadDim = 128, kRow = kHeads * kGroup * kHeadDim;
constexpr std::int64_t kBlockTokens = 16, kLongest = 1024, kBlocks = kLongest / kBlockTokens;
constexpr std::int64_t kBlock = kHeads * kBlockTokens * kHeadDim;  // elements of keys
constexpr std::int64_t kPlane = AttentionProbe::kMostSequences * kBlocks * kBlock;
constexpr std::size_t kLayerBytes = 2 * kPlane * sizeof(std::uint16_t);

// 1, 1/2, 3/4, 1/4 of the longest, and again.
std::int64_t context_of(std::int64_t sequence) {
  constexpr std::int64_t kQuarters[] = {4, 2, 3, 1};
  return kLongest * kQuarters[sequence % 4] / 4;
}

}  // namespace

AttentionProbe::AttentionProbe(const KernelSet& kernels, ThreadPool& pool, std::size_t bytes)
    : kernels_(kernels),
      pool_(pool),
      layers_(std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / kLayerBytes))),
      cache_(static_cast<std::size_t>(layers_) * kLayerBytes + attention_padding(kHeadDim), "a probe of attention"),
      blocks_(static_cast<std::size_t>(kMostSequences * kBlocks)),
      q_(static_cast<std::size_t>(kMostSequences * kRow), 0.1F),
      out_(q_.size()),
      zeros_(attention_padding(kHeadDim) / sizeof(float)) {
  std::iota(blocks_.begin(), blocks_.end(), 0);
  pool_.parallel_for(layers_, [&](int, std::int64_t begin, std::int64_t end) {  // finite numbers in pages of their own
    std::memset(cache_.data() + begin * static_cast<std::int64_t>(kLayerBytes), 0x3c,
                static_cast<std::size_t>(end - begin) * kLayerBytes);
  });
  for (int i = 0; i < pool.threads(); ++i)
    scratch_.emplace_back(attention_scratch(kernels, kHeads * kGroup, kHeadDim) * sizeof(float), "attention");
}

void AttentionProbe::attend(std::int64_t sequence, std::int64_t first_head, std::int64_t heads, int thread) {
  const std::int64_t first = 0, last = context_of(sequence);
  const std::int64_t offset = sequence * kRow + first_head * kGroup * kHeadDim;
  AttentionTask task;
  task.q = q_.data() + offset;
  task.out = out_.data() + offset;
  task.q_stride = task.out_stride = kRow;
  task.positions = 1;
  task.heads = heads;
  task.group = kGroup;
  task.head_dim = kHeadDim;
  task.scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
  task.first = &first;
  task.last = &last;
  task.keys = cache_.as<std::uint16_t>() + 2 * layer_ * kPlane + first_head * kBlockTokens * kHeadDim;
  task.head_stride = kBlockTokens * kHeadDim;
  task.value_offset = kPlane;
  task.block_stride = kBlock;
  task.blocks = blocks_.data() + sequence * kBlocks;
  task.block_tokens = kBlockTokens;
  task.wrap = last;
  task.bf16 = true;
  task.zeros = zeros_.data();
  task.scratch = scratch_[static_cast<std::size_t>(thread)].as<float>();
  kernels_.attention(task);
}

double AttentionProbe::shot(std::int64_t sequences, int per_thread) {
  const std::int64_t parts =
      decode_parts({.rows = sequences, .heads = kHeads, .queries = kGroup}, pool_.threads(), per_thread).heads;
  const auto start = std::chrono::steady_clock::now();
  pool_.for_each(sequences * parts, [&](int thread, std::int64_t item) {
    const std::int64_t part = item % parts, head = kHeads * part / parts;
    attend(item / parts, head, kHeads * (part + 1) / parts - head, thread);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  layer_ = (layer_ + 1) % layers_;
  return took.count();
}

}  // namespace plimsoll::exec
