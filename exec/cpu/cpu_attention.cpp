// SPDX-License-Identifier: Apache-2.0
// The CPU backend's attention: from queries, keys and values to attended rows, and how heads and rows are divided among
// threads.
#include <algorithm>
#include <cmath>

#include "exec/cpu/cpu_backend.h"
#include "exec/cpu/decode_parts.h"
#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

namespace {

// Query rows that share one pass over the keys: enough that reading the keys costs little compared with the products.
constexpr std::int64_t kTaskRows = 64;

// Returns the number of cached tokens that the blocks of a sequence actually hold.
std::int64_t tokens_there(const SequenceRows& sequence, std::int64_t block_tokens) {
  return std::min(sequence.context + sequence.tokens, sequence.block_count * block_tokens);
}

// The tokens [first, last) that a row attends to.
struct Range {
  std::int64_t first = 0, last = 0;
};
Range attended(const SequenceRows& sequence, std::int64_t position, std::int64_t window, std::int64_t block_tokens) {
  Range range;
  range.last = std::min(position + 1, tokens_there(sequence, block_tokens));
  if (window > 0) range.first = std::min(range.last, std::max<std::int64_t>(0, position + 1 - window));
  return range;
}

constexpr std::int32_t kBlockZero = 0;

}  // namespace

void CpuBackend::reserve_scratch() {
  const std::int64_t rows = std::max(kTaskRows, config_.rank.heads);
  // Also output for surplus attention, which is discarded.
  const auto output = static_cast<std::size_t>(config_.rank.heads * head_width_);
  const std::size_t floats = attention_scratch(kernels_, rows, head_width_) + output;
  for (HostMemory& memory : scratch_) memory = HostMemory(floats * sizeof(float), "attention");
}

const RopeTable& CpuBackend::rope_table(const model::Rope& rope) {
  auto table = std::find_if(ropes_.begin(), ropes_.end(), [&](const RopeTable& t) { return t.rope() == rope; });
  if (table == ropes_.end()) table = ropes_.emplace(table, rope);
  table->fill(table_->position, pool_);
  return *table;
}

// Rotation and storing are one pass: the row of queries, keys and values is in the cache only once.
void CpuBackend::rope_append(const RopeSpec& spec, std::int32_t layer) {
  const auto data = [](const Vector* v) { return v == nullptr ? nullptr : static_cast<const CpuVector*>(v)->data(); };
  const HeadRope query{.norm = spec.wide_norms ? nullptr : data(spec.q_norm),
                       .epsilon = spec.norm_epsilon,
                       .rotary_dim = spec.rope.rotary_dim,
                       .interleaved = spec.rope.interleaved};
  HeadRope key = query;
  key.norm = spec.wide_norms ? nullptr : data(spec.k_norm);
  const RopeTable& angles = rope_table(spec.rope);
  const std::int64_t heads = config_.rank.heads, kv_heads = config_.rank.kv_heads, d = shape_.head_dim;
  // Up to this many rows take less time on one thread than waking the team would.
  const std::int64_t alone = 16'384 / qkv_width_ + 1;
  const auto do_rows = [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* qkv = workspace_[Buffer::qkv] + row * qkv_width_;
      if (spec.bias != nullptr) kernels_.add(data(spec.bias), qkv_width_, qkv);
      if (spec.wide_norms) {
        kernels_.norm({.epsilon = spec.norm_epsilon, .weight = data(spec.q_norm)}, qkv, heads * d, qkv);
        kernels_.norm({.epsilon = spec.norm_epsilon, .weight = data(spec.k_norm)}, qkv + heads * d, kv_heads * d,
                      qkv + heads * d);
      }
      for (std::int64_t head = 0; head < heads + kv_heads; ++head) {
        kernels_.rope(head < heads ? query : key, angles.cosines(row), angles.sines(row), d, qkv + head * d);
      }
      append(qkv, row, layer);
    }
  };
  if (table_->rows <= alone)
    do_rows(0, 0, table_->rows);
  else
    pool_.parallel_for(table_->rows, do_rows);
}

void CpuBackend::append(const float* qkv, std::int64_t row, std::int32_t layer) {
  const std::int64_t slot = table_->cache_slot[static_cast<std::size_t>(row)];
  // A padding row is not written to the cache.
  if (slot < 0) return;
  const std::int64_t kv_heads = config_.rank.kv_heads, d = shape_.head_dim;
  const float* keys = qkv + config_.rank.heads * d;
  const float* values = keys + kv_heads * d;
  for (std::int64_t head = 0; head < kv_heads; ++head) {
    void* const to[] = {cache_.key_at(layer, head, slot), cache_.value_at(layer, head, slot)};
    const float* const from[] = {keys + head * d, values + head * d};
    for (int i = 0; i < 2; ++i) store(from[i], to[i], d);
  }
}

void CpuBackend::store(const float* from, void* to, std::int64_t count) const {
  if (cache_.bf16())
    kernels_.to_bf16(from, count, static_cast<std::uint16_t*>(to));
  else
    std::copy_n(from, count, static_cast<float*>(to));
}

AttentionTask CpuBackend::attention_task(const SequenceRows& sequence, const AttentionSpec& spec,
                                         std::int64_t head) const {
  AttentionTask task;
  task.q_stride = qkv_width_;
  task.group = group_;
  task.head_dim = head_width_;
  if (spec.sinks != nullptr) task.sinks = static_cast<const CpuVector*>(spec.sinks)->data() + head * group_;
  const model::Architecture& a = config_.architecture;
  task.scale = a.attention_scale > 0 ? static_cast<float>(a.attention_scale)
                                     : 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
  task.cap = static_cast<float>(a.attention_cap);
  task.q = workspace_[Buffer::qkv] + sequence.first_row * qkv_width_ + head * group_ * head_width_;
  task.keys = cache_.keys(spec.layer, head);
  task.value_offset = cache_.value_offset();
  task.head_stride = cache_.head_stride();
  task.block_stride = cache_.block_stride();
  task.blocks = sequence.block_count > 0 ? table_->blocks.data() + sequence.first_block : &kBlockZero;
  task.block_tokens = config_.block_tokens;
  // Padding reads existing tokens again, so it takes its time without needing blocks of its own.
  task.wrap = std::max<std::int64_t>(1, tokens_there(sequence, config_.block_tokens));
  task.bf16 = cache_.bf16();
  task.zeros = zeros_.data();
  // A task reads its queries before it writes, so latents may replace them.
  task.out_stride = config_.rank.heads * head_width_;
  task.out = workspace_[shape_.mla ? Buffer::qkv : Buffer::attended] + sequence.first_row * task.out_stride +
             head * group_ * head_width_;
  return task;
}

void CpuBackend::prefill_attention(const AttentionSpec& spec, std::size_t index) {
  const SequenceRows& sequence = table_->prefill[index];
  first_.resize(static_cast<std::size_t>(sequence.rows));
  last_.resize(first_.size());
  for (std::int64_t i = 0; i < sequence.rows; ++i) {
    const std::int64_t position = table_->position[static_cast<std::size_t>(sequence.first_row + i)];
    const Range range = attended(sequence, position, spec.window, config_.block_tokens);
    first_[static_cast<std::size_t>(i)] = range.first;
    last_[static_cast<std::size_t>(i)] = range.last;
  }
  // One task is a chunk of positions of one KV head: its queries share each pass over the keys.
  const std::int64_t positions = std::max<std::int64_t>(1, kTaskRows / group_);
  const std::int64_t chunks = (sequence.rows + positions - 1) / positions, heads = kv_heads_;
  pool_.for_each(chunks * heads, [&](int thread, std::int64_t item) {
    // The last rows see the most keys. Start with them, so that no thread begins a long task at the end.
    const std::int64_t first = (chunks - 1 - item / heads) * positions;
    AttentionTask task = attention_task(sequence, spec, item % heads);
    task.positions = std::min(positions, sequence.rows - first);
    task.q += first * task.q_stride;
    task.out += first * task.out_stride;
    task.first = first_.data() + first;
    task.last = last_.data() + first;
    task.scratch = scratch(thread);
    kernels_.attention(task);
  });
}

void CpuBackend::decode_attention(const AttentionSpec& spec) {
  const auto rows = static_cast<std::int64_t>(table_->decode.size());
  if (rows == 0) return;
  const DecodeParts parts =
      decode_parts({.rows = rows, .heads = kv_heads_, .queries = group_}, pool_.threads(), tuning_.decode_parts);
  pool_.for_each(rows * parts.heads * parts.queries, [&](int thread, std::int64_t item) {
    const SequenceRows& sequence = table_->decode[static_cast<std::size_t>(item / (parts.heads * parts.queries))];
    const std::int64_t position = table_->position[static_cast<std::size_t>(sequence.first_row)];
    const Range range = attended(sequence, position, spec.window, config_.block_tokens);
    const std::int64_t part = item / parts.queries % parts.heads, heads = kv_heads_;
    const std::int64_t first_head = heads * part / parts.heads, last_head = heads * (part + 1) / parts.heads;
    // A part is a range of KV heads, and of each head's queries.
    const std::int64_t share = item % parts.queries;
    const std::int64_t first_query = group_ * share / parts.queries, last_query = group_ * (share + 1) / parts.queries;
    AttentionTask task = attention_task(sequence, spec, first_head);
    task.positions = 1;
    task.heads = last_head - first_head;
    task.group = last_query - first_query;
    task.q += first_query * task.head_dim;
    task.out += first_query * task.head_dim;
    if (task.sinks != nullptr) task.sinks += first_query;
    task.first = &range.first;
    task.last = &range.last;
    task.scratch = scratch(thread);
    kernels_.attention(task);
    const std::int64_t charged = spec.window > 0 ? std::min(spec.window, sequence.charged) : sequence.charged;
    attend_surplus(task, charged - (range.last - range.first), thread);
  });
}

// Static batches compute attention over their padding. The padding has no tokens of its own, so the sequence's tokens
// are read again from the start, repeatedly.
void CpuBackend::attend_surplus(const AttentionTask& task, std::int64_t tokens, int thread) {
  if (tokens <= 0) return;
  AttentionTask surplus = task;
  const std::int64_t first = 0;
  surplus.first = &first;
  surplus.last = &tokens;
  surplus.out = scratch(thread) + attention_scratch(kernels_, std::max(kTaskRows, config_.rank.heads), head_width_);
  kernels_.attention(surplus);
}

}  // namespace plimsoll::exec
