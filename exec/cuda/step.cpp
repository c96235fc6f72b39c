// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/step.h"

#include <algorithm>
#include <cstring>

#include "model/error.h"

namespace plimsoll::exec::cuda {

namespace {

// Assigns consecutive offsets to arrays, each aligned to 16 bytes.
class Offsets {
 public:
  explicit Offsets(const void* base) : base_(static_cast<const std::byte*>(base)) {}
  template <class T>
  const T* take(std::int64_t count) {
    const std::size_t at = bytes_;
    bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
    return base_ == nullptr ? nullptr : reinterpret_cast<const T*>(base_ + at);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const std::byte* base_;
  std::size_t bytes_ = 0;
};

StepView lay_out(const StepLayout& layout, Offsets& offsets) {
  StepView view;
  // A captured graph relies on this order: block tables, whose size varies, come last.
  view.sampling = offsets.take<DeviceSampling>(layout.sampled);
  view.cache_slot = offsets.take<std::int64_t>(layout.rows);
  view.sample_request = offsets.take<std::uint64_t>(layout.sampled);
  view.prefill = offsets.take<DeviceSequence>(layout.prefill);
  view.decode = offsets.take<DeviceSequence>(layout.decode);
  view.tiles = offsets.take<PrefillTile>(layout.tiles);
  view.parts = offsets.take<DecodePart>(layout.parts);
  view.token = offsets.take<std::int32_t>(layout.rows);
  view.token_slot = offsets.take<std::int32_t>(layout.rows);
  view.position = offsets.take<std::int32_t>(layout.rows);
  view.sampled = offsets.take<std::int32_t>(layout.sampled);
  view.sample_slot = offsets.take<std::int32_t>(layout.sampled);
  view.sample_position = offsets.take<std::int32_t>(layout.sampled);
  view.blocks = offsets.take<std::int32_t>(layout.blocks);
  return view;
}

// Copies to the caller's own memory, although views show it as const.
template <class T>
void copy(const std::vector<T>& from, const T* to) {
  if (!from.empty()) std::memcpy(const_cast<T*>(to), from.data(), from.size() * sizeof(T));
}

std::int32_t narrow(std::int64_t value) {
  PLIMSOLL_CHECK(value >= 0 && value <= INT32_MAX, "counts of a step fit in 32 bits");
  return static_cast<std::int32_t>(value);
}

// The context that dead rows state may exceed their blocks.
std::int64_t length_of(const SequenceRows& s, std::int64_t block_tokens) {
  return std::min(s.context + s.tokens, s.block_count * block_tokens);
}

DeviceSequence device_sequence(const SequenceRows& s, std::int64_t block_tokens) {
  return {.first_row = narrow(s.first_row),
          .rows = narrow(s.rows),
          .context = narrow(s.context),
          .first_block = narrow(s.first_block),
          .length = narrow(length_of(s, block_tokens)),
          .charged = narrow(s.charged)};
}

void copy_sequences(const std::vector<SequenceRows>& from, std::int64_t block_tokens, const DeviceSequence* to) {
  for (std::size_t i = 0; i < from.size(); ++i)
    const_cast<DeviceSequence*>(to)[i] = device_sequence(from[i], block_tokens);
}

}  // namespace

// A layout with a null base only counts bytes and forms no pointers.
std::size_t StepLayout::bytes() const {
  Offsets offsets(nullptr);
  static_cast<void>(lay_out(*this, offsets));
  return offsets.bytes();
}

StepView StepLayout::view(const void* base) const {
  Offsets offsets(base);
  return lay_out(*this, offsets);
}

std::vector<PrefillTile> cut_tiles(const RowTable& table, std::int32_t tile_rows) {
  std::vector<PrefillTile> tiles;
  for (std::size_t i = 0; i < table.prefill.size(); ++i) {
    for (std::int64_t first = 0; first < table.prefill[i].rows; first += tile_rows)
      tiles.push_back({static_cast<std::int32_t>(i), narrow(first)});
  }
  const auto keys = [&](const PrefillTile& tile) {
    const SequenceRows& s = table.prefill[static_cast<std::size_t>(tile.sequence)];
    return s.context + std::min<std::int64_t>(tile.first + tile_rows, s.tokens);
  };
  std::stable_sort(tiles.begin(), tiles.end(),
                   [&](const PrefillTile& a, const PrefillTile& b) { return keys(a) > keys(b); });
  return tiles;
}

DecodePlan plan_decodes(const RowTable& table, std::int64_t extra, std::int64_t smallest) {
  DecodePlan plan;
  std::int64_t all = 0;
  const auto keys = [&](const SequenceRows& s) { return std::max(length_of(s, table.block_tokens), s.charged); };
  for (const SequenceRows& s : table.decode) all += keys(s);
  // The parts of a row are at most keys / share + 1, so `extra` more than the rows are enough.
  const std::int64_t share = extra == 0 ? all + 1 : std::max(smallest, (all + extra - 1) / extra);
  std::int32_t used = 0;
  for (std::size_t i = 0; i < table.decode.size(); ++i) {
    const std::int64_t parts =
        std::clamp<std::int64_t>((keys(table.decode[i]) + share - 1) / share, 1, kMaxDecodeParts);
    plan.splits.push_back(narrow(parts));
    plan.first.push_back(used);
    if (parts > 1) used += narrow(parts);
    for (std::int32_t part = 0; part < parts; ++part) plan.parts.push_back({static_cast<std::int32_t>(i), part});
  }
  std::stable_sort(plan.parts.begin(), plan.parts.end(), [&](const DecodePart& a, const DecodePart& b) {
    const auto length = [&](const DecodePart& p) {
      const auto row = static_cast<std::size_t>(p.sequence);
      return keys(table.decode[row]) / plan.splits[row];
    };
    return length(a) > length(b);
  });
  if (!table.decode.empty()) plan.parts.resize(table.decode.size() + static_cast<std::size_t>(extra), {-1, 0});
  return plan;
}

StepLayout layout_of(const RowTable& table, const StepPlan& plan) {
  const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  return {.rows = table.rows,
          .sampled = count(table.sampled),
          .prefill = count(table.prefill),
          .decode = count(table.decode),
          .tiles = count(plan.tiles),
          .parts = count(plan.decode.parts),
          .blocks = count(table.blocks)};
}

void pack(const RowTable& table, const StepPlan& plan, const StepLayout& layout, void* base) {
  const StepView to = layout.view(base);
  for (std::size_t i = 0; i < table.sampling.size(); ++i) {
    const Sampling& s = table.sampling[i];
    const_cast<DeviceSampling*>(to.sampling)[i] = {s.seed, s.temperature, s.top_k, s.top_p, s.min_p};
  }
  copy(table.cache_slot, to.cache_slot);
  copy(table.sample_request, to.sample_request);
  copy_sequences(table.prefill, table.block_tokens, to.prefill);
  copy_sequences(table.decode, table.block_tokens, to.decode);
  for (std::size_t i = 0; i < plan.decode.splits.size(); ++i) {
    const_cast<DeviceSequence*>(to.decode)[i].splits = plan.decode.splits[i];
    const_cast<DeviceSequence*>(to.decode)[i].first_part = plan.decode.first[i];
  }
  copy(plan.tiles, to.tiles);
  copy(plan.decode.parts, to.parts);
  copy(table.token, to.token);
  copy(table.token_slot, to.token_slot);
  copy(table.position, to.position);
  copy(table.sampled, to.sampled);
  copy(table.sample_slot, to.sample_slot);
  copy(table.sample_position, to.sample_position);
  copy(table.blocks, to.blocks);
}

// Few buckets need few graphs; narrow buckets waste few padding rows. This is the compromise.
std::int64_t decode_bucket(std::int64_t rows) {
  for (const std::int64_t small : {1, 2, 4, 8}) {
    if (rows <= small) return small;
  }
  const std::int64_t step = rows <= 128 ? 8 : 64;
  return (rows + step - 1) / step * step;
}

}  // namespace plimsoll::exec::cuda
