// SPDX-License-Identifier: Apache-2.0
// A device for tests whose "model" is a hash chain: each token depends on all tokens before it, read back from the KV
// blocks. A wrong block, context or token changes the output, and the right output is easy to compute.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "exec/forward_device.h"
#include "model/error.h"

namespace plimsoll::exec::testing {

inline constexpr std::int32_t kVocabulary = 50'000;

inline std::uint64_t chain(std::uint64_t before, std::int32_t token) {
  std::uint64_t x = (before + 0x9e3779b97f4a7c15ULL) ^ (static_cast<std::uint64_t>(token) * 0xbf58476d1ce4e5b9ULL);
  x = (x ^ (x >> 29U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 32U);
}
inline std::int32_t answer(std::uint64_t state) { return static_cast<std::int32_t>(state % kVocabulary); }

/// Returns the device's output after `prompt`, alone and undisturbed.
inline std::vector<std::int32_t> continuation(std::span<const std::int32_t> prompt, std::size_t tokens) {
  std::uint64_t state = 0;
  for (const std::int32_t token : prompt) state = chain(state, token);
  std::vector<std::int32_t> out;
  while (out.size() < tokens) {
    out.push_back(answer(state));
    state = chain(state, out.back());
  }
  return out;
}

class ChainDevice final : public ForwardDevice {
 public:
  ChainDevice(std::int64_t blocks, std::int32_t block_tokens, std::int32_t sequences)
      : block_tokens_(block_tokens),
        kv_(static_cast<std::size_t>(blocks * block_tokens)),
        slots_(static_cast<std::size_t>(sequences), -1) {}

  void start(const ForwardInput& input) override {
    if (--forwards_to_failure == 0) throw DeviceError("the device is gone");
    if (in_flight_.size() >= 2) throw std::logic_error("more than two forwards in flight");
    in_flight_.emplace_back();
    std::vector<std::int32_t>& tokens = in_flight_.back();
    for (const PrefillRows& span : input.prefill) {
      std::uint64_t state = walk(span.blocks, span.context);
      for (std::size_t i = 0; i < span.tokens.size(); ++i)
        state = write(span.blocks, span.context + static_cast<std::int64_t>(i), state, span.tokens[i]);
      if (span.emits) tokens.push_back(remember(span.slot, answer(state)));
    }
    for (const DecodeRow& row : input.decode) {
      if (row.dead) {
        tokens.push_back(-7);
        continue;
      }
      const std::int32_t token = row.token >= 0 ? row.token : slots_.at(static_cast<std::size_t>(row.slot));
      tokens.push_back(
          remember(row.slot, answer(write(row.blocks, row.context, walk(row.blocks, row.context), token))));
    }
    ++forwards;
    std::int64_t prefilled = 0;
    for (const PrefillRows& span : input.prefill) prefilled += static_cast<std::int64_t>(span.tokens.size());
    most_prefilled = std::max(most_prefilled, prefilled);
    prefills.insert(prefilled);
    if (prefilled == 0) ++decodes[input.decode.size()];
    most_in_flight = std::max(most_in_flight, in_flight_.size());
  }
  void finish(ForwardOutput& output) override {
    if (while_it_runs) while_it_runs();
    output.tokens = in_flight_.front();
    in_flight_.pop_front();
  }
  [[nodiscard]] std::vector<std::int64_t> recorded_decodes(std::int64_t rows) const override {
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : buckets) {
      sizes.push_back(size);
      if (size >= rows) break;
    }
    return sizes;
  }
  [[nodiscard]] std::vector<std::int64_t> tuned_rows(std::int64_t rows) const override {
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : tuned) {
      sizes.push_back(size);
      if (size >= rows) break;
    }
    return sizes;
  }
  [[nodiscard]] std::int64_t bytes_per_block() const override { return block_tokens_ * std::int64_t{sizeof(Entry)}; }
  void read_block(std::int32_t block, std::span<std::byte> host) override {
    std::memcpy(host.data(), &kv_[place(block)], host.size());
    std::fill_n(kv_.begin() + static_cast<std::ptrdiff_t>(place(block)), block_tokens_, Entry{});  // must be restored
  }
  // Unlike a block that is swapped out, one that is sent stays.
  void send_blocks(std::span<const std::int32_t> blocks, std::span<std::byte> host) override {
    const auto bytes = static_cast<std::size_t>(bytes_per_block());
    for (std::size_t i = 0; i < blocks.size(); ++i)
      std::memcpy(host.subspan(i * bytes).data(), &kv_[place(blocks[i])], bytes);
  }
  void write_block(std::int32_t block, std::span<const std::byte> host) override {
    std::memcpy(&kv_[place(block)], host.data(), host.size());
  }

  std::int64_t forwards = 0, most_prefilled = 0;
  std::map<std::size_t, int> decodes;    // number of forwards without prefill, by their number of rows
  std::set<std::int64_t> prefills;       // tokens of the forwards with prefill, and 0
  std::vector<std::int64_t> buckets;     // sizes that it claims to record
  std::vector<std::int64_t> tuned;       // numbers of rows at which it claims to time products
  std::int64_t forwards_to_failure = 0;  // if > 0, the number of the forward that fails
  std::size_t most_in_flight = 0;
  std::function<void()> while_it_runs;  // called by finish() before the forward ends

 private:
  struct Entry {
    std::uint64_t state = 0;
    std::int32_t token = -1, position = -1;
  };

  [[nodiscard]] std::size_t place(std::int32_t block) const {
    return static_cast<std::size_t>(block) * static_cast<std::size_t>(block_tokens_);
  }
  [[nodiscard]] Entry& entry(std::span<const std::int32_t> blocks, std::int64_t position) {
    return kv_.at(place(blocks[static_cast<std::size_t>(position / block_tokens_)]) +
                  static_cast<std::size_t>(position % block_tokens_));
  }
  /// Returns the state after `context` cached tokens; checks that each of them follows from those before it.
  std::uint64_t walk(std::span<const std::int32_t> blocks, std::int64_t context) {
    std::uint64_t state = 0;
    for (std::int64_t p = 0; p < context; ++p) {
      const Entry& e = entry(blocks, p);
      state = chain(state, e.token);
      if (e.position != p || e.state != state)
        ADD_FAILURE() << "position " << p << " of " << context << " is not what was written";
    }
    return state;
  }
  std::uint64_t write(std::span<const std::int32_t> blocks, std::int64_t position, std::uint64_t state,
                      std::int32_t token) {
    state = chain(state, token);
    entry(blocks, position) = {state, token, static_cast<std::int32_t>(position)};
    return state;
  }
  std::int32_t remember(std::int32_t slot, std::int32_t token) {
    if (slot >= 0) slots_.at(static_cast<std::size_t>(slot)) = token;
    return token;
  }

  std::int32_t block_tokens_;
  std::vector<Entry> kv_;
  std::vector<std::int32_t> slots_;
  std::deque<std::vector<std::int32_t>> in_flight_;
};

}  // namespace plimsoll::exec::testing
