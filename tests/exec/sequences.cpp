// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/sequences.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "model/error.h"

namespace plimsoll::exec {

Tokens random_tokens(std::uint64_t seed, std::size_t count, std::int32_t vocab) {
  std::mt19937_64 generator(seed);
  Tokens tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(generator() % static_cast<std::uint64_t>(vocab));
  return tokens;
}

EngineConfig tiny_config(const model::Architecture& architecture, std::int32_t tp) {
  EngineConfig config;
  config.architecture = architecture;
  config.tp = tp;
  config.weight_dtype = config.kv_dtype = model::DType::fp32;
  config.kv_blocks = 64;
  config.sequences = 16;
  config.step_rows = 64;
  config.threads = 2;
  config.poison = true;
  return config;
}

Sequences::Sequences(Engine& engine) : engine_(engine), free_(static_cast<std::size_t>(engine.config().kv_blocks)) {
  std::iota(free_.begin(), free_.end(), 0);
  std::shuffle(free_.begin(), free_.end(), std::mt19937_64(7));
}

void Sequences::cover(Sequence& sequence, std::int64_t tokens) {
  const std::int64_t size = engine_.config().block_tokens;
  while (static_cast<std::int64_t>(sequence.blocks.size()) * size < tokens) {
    PLIMSOLL_CHECK(!free_.empty(), "the test's pool is large enough");
    sequence.blocks.push_back(free_.back());
    free_.pop_back();
  }
}

std::vector<std::vector<float>> Sequences::prefill(const std::vector<Tokens>& prompts, std::int64_t chunk) {
  const auto first = sequences_.size();
  const auto vocab = static_cast<std::size_t>(engine_.config().architecture.shape.vocab);
  std::vector<std::vector<float>> logits(prompts.size());
  for (const Tokens& prompt : prompts) {
    Sequence sequence;
    sequence.tokens = prompt;
    sequence.slot = static_cast<std::int32_t>(sequences_.size());
    cover(sequence, static_cast<std::int64_t>(prompt.size()));
    sequences_.push_back(sequence);
  }
  while (true) {
    ForwardInput input;
    input.all_logits = true;
    std::vector<std::size_t> in_batch, ends;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      Sequence& s = sequences_[first + i];
      const auto left = static_cast<std::int64_t>(prompts[i].size()) - s.context;
      if (left == 0) continue;
      const std::int64_t count = chunk > 0 ? std::min(chunk, left) : left;
      PrefillRows span;
      span.tokens = std::span(s.tokens).subspan(static_cast<std::size_t>(s.context), static_cast<std::size_t>(count));
      span.context = s.context;
      span.blocks = s.blocks;
      span.slot = s.slot;
      span.emits = count == left;
      input.prefill.push_back(span);
      in_batch.push_back(i);
      if (span.emits) ends.push_back(i);
    }
    if (input.prefill.empty()) return logits;
    ForwardOutput output;
    engine_.run(input, output);
    // The logits hold one row per token of the batch, span after span.
    std::size_t row = 0;
    for (std::size_t b = 0; b < in_batch.size(); ++b) {
      const std::size_t rows = input.prefill[b].tokens.size();
      const auto from = output.logits.begin() + static_cast<std::ptrdiff_t>(row * vocab);
      auto& to = logits[in_batch[b]];
      to.insert(to.end(), from, from + static_cast<std::ptrdiff_t>(rows * vocab));
      sequences_[first + in_batch[b]].context += static_cast<std::int64_t>(rows);
      row += rows;
    }
    for (std::size_t e = 0; e < ends.size(); ++e) sequences_[first + ends[e]].last = output.tokens[e];
  }
}

std::vector<Tokens> Sequences::decode(std::int64_t steps) {
  std::vector<Tokens> out(sequences_.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i].push_back(sequences_[i].last);
  for (std::int64_t step = 1; step < steps; ++step) {
    ForwardInput input;
    for (Sequence& s : sequences_) {
      cover(s, s.context + 1);
      DecodeRow row;
      row.context = s.context;
      row.slot = s.slot;
      row.blocks = s.blocks;
      input.decode.push_back(row);
    }
    ForwardOutput output;
    engine_.run(input, output);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].push_back(output.tokens[i]);
      ++sequences_[i].context;
    }
  }
  return out;
}

std::vector<sched::FinishedAttempt> run_steps(LiveReplica& live, StepBuilder& builder) {
  std::vector<sched::FinishedAttempt> all;
  for (Nanos now = 0; live.decide(now); ++now) {
    const StepOrder order = live.make_order();
    builder.begin(order);
    for (std::size_t f = 0; f < order.forwards.size(); ++f) {
      builder.start(order, 0, f);
      builder.finish();
    }
    builder.end_step();
    live.complete({now, now + 1});
    for (const sched::FinishedAttempt& ended : live.replica().ended()) {
      live.ended(ended);
      all.push_back(ended);
    }
    live.replica().ended().clear();
  }
  return all;
}

}  // namespace plimsoll::exec
