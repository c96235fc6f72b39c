// SPDX-License-Identifier: Apache-2.0
#include "exec/live/prompt_runner.h"

#include <algorithm>
#include <numeric>

#include "model/error.h"

namespace plimsoll::exec {
namespace {

constexpr std::size_t kMaxSequences = 256;                    // in a group
constexpr std::int64_t kMaxRows = 2048;                       // in a forward
constexpr std::int64_t kMaxLogits = std::int64_t{64} << 20U;  // logits that a forward returns: 256 MiB
constexpr double kGroupKv = 2.0 * 1024 * 1024 * 1024;         // KV bytes of a group, unless one sequence needs more

// Returns how many tokens of a sequence go through the model: all but the last generated one.
std::int64_t positions(const Prompt& prompt, const PromptRun& run) {
  return static_cast<std::int64_t>(prompt.tokens.size()) + std::max<std::int64_t>(0, run.generate - 1);
}
std::int64_t blocks_of(std::int64_t tokens, std::int32_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

// Returns the rows of a forward: fewer if the logits of every row are returned.
std::int64_t rows_of_forward(const EngineConfig& config, const PromptRun& run) {
  if (!run.on_logits) return kMaxRows;
  return std::clamp<std::int64_t>(kMaxLogits / config.architecture.shape.vocab, 1, kMaxRows);
}

// Returns the end of the longest group of prompts from `first` on that fit together.
std::size_t group_end(const std::vector<Prompt>& prompts, std::size_t first, const PromptRun& run,
                      const EngineConfig& config) {
  const double block =
      model::kv_bytes_per_token(config.architecture.shape, config.kv_dtype).value * config.block_tokens;
  double bytes = 0;
  std::size_t last = first;
  while (last < prompts.size() && last - first < kMaxSequences) {
    bytes += block * static_cast<double>(blocks_of(positions(prompts[last], run), config.block_tokens));
    if (last > first && bytes > kGroupKv) break;
    ++last;
  }
  return last;
}

class Group {
 public:
  // `first`: index of the group's first prompt among all.
  Group(Engine& engine, std::span<const Prompt> prompts, std::size_t first, const PromptRun& run)
      : engine_(engine),
        prompts_(prompts),
        first_(first),
        run_(run),
        tokens_(prompts.size()),
        done_(prompts.size()),
        blocks_(prompts.size()) {
    std::int32_t next = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      blocks_[i].resize(static_cast<std::size_t>(blocks_of(positions(prompts[i], run), engine.config().block_tokens)));
      std::iota(blocks_[i].begin(), blocks_[i].end(), next);
      next += static_cast<std::int32_t>(blocks_[i].size());
    }
  }

  [[nodiscard]] std::vector<std::vector<std::int32_t>>& tokens() { return tokens_; }

  // Both return whether to continue. forward_done is called with the number of rows of each forward.
  template <class Done>
  bool prefill(Done&& forward_done) {
    input_.all_logits = static_cast<bool>(run_.on_logits);
    while (true) {
      const std::int64_t rows = choose_spans();
      if (rows == 0) return true;
      engine_.run(input_, output_);
      take_prefill();
      if (!forward_done(rows)) return false;
    }
  }

  template <class Done>
  bool decode(Done&& forward_done) {
    input_.all_logits = false;
    input_.prefill.clear();
    for (std::int64_t step = 1; step < run_.generate; ++step) {
      input_.decode.clear();
      for (std::size_t i = 0; i < prompts_.size(); ++i) {
        DecodeRow row;
        row.token = tokens_[i].back();
        row.context = static_cast<std::int64_t>(prompts_[i].tokens.size()) + step - 1;
        row.blocks = blocks_[i];
        row.slot = static_cast<std::int32_t>(i);
        row.request = first_ + i;
        input_.decode.push_back(row);
      }
      engine_.run(input_, output_);
      for (std::size_t i = 0; i < prompts_.size(); ++i) tokens_[i].push_back(output_.tokens[i]);
      if (!forward_done(static_cast<std::int64_t>(prompts_.size()))) return false;
    }
    return true;
  }

 private:
  // A prompt is split only by --chunk, or if it is longer than a forward has rows.
  std::int64_t choose_spans() {
    const std::int64_t room = rows_of_forward(engine_.config(), run_);
    const std::int64_t piece = std::min(room, run_.chunk > 0 ? run_.chunk : room);
    input_.prefill.clear();
    chosen_.clear();
    std::int64_t rows = 0;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      const auto length = static_cast<std::int64_t>(prompts_[i].tokens.size());
      const std::int64_t take = std::min(piece, length - done_[i]);
      if (take == 0) continue;
      // A shorter prompt must not overtake one that has no room: forwards keep the order of the prompts.
      if (rows + take > room) break;
      PrefillRows span;
      span.tokens =
          std::span(prompts_[i].tokens).subspan(static_cast<std::size_t>(done_[i]), static_cast<std::size_t>(take));
      span.context = done_[i];
      span.blocks = blocks_[i];
      span.slot = static_cast<std::int32_t>(i);
      span.request = first_ + i;
      span.emits = run_.generate > 0 && done_[i] + take == length;
      input_.prefill.push_back(span);
      chosen_.push_back(i);
      rows += take;
    }
    return rows;
  }

  void take_prefill() {
    const auto vocabulary = static_cast<std::size_t>(engine_.config().architecture.shape.vocab);
    std::span<const float> logits = output_.logits;
    std::size_t answer = 0;
    if (run_.on_experts) take_experts();
    for (std::size_t s = 0; s < chosen_.size(); ++s) {
      const PrefillRows& span = input_.prefill[s];
      const std::size_t i = chosen_[s];
      if (run_.on_logits) {
        const std::size_t values = span.tokens.size() * vocabulary;
        run_.on_logits(first_ + i, span.context, logits.first(values));
        logits = logits.subspan(values);
      }
      done_[i] += static_cast<std::int64_t>(span.tokens.size());
      if (span.emits) tokens_[i].push_back(output_.tokens[answer++]);
    }
    PLIMSOLL_CHECK(answer == output_.tokens.size() && logits.empty(),
                   "a forward returns exactly the requested tokens "
                   "and logits");
  }

  // The forward's rows are those of its spans, one after the other.
  void take_experts() {
    for (RowExperts& chosen : output_.experts) {
      for (std::size_t s = 0; s < chosen_.size(); ++s) {
        const std::int64_t rows = std::ssize(input_.prefill[s].tokens);
        if (chosen.row < rows) {
          chosen.row += input_.prefill[s].context;
          run_.on_experts(first_ + chosen_[s], chosen);
          break;
        }
        chosen.row -= rows;
      }
    }
  }

  Engine& engine_;
  std::span<const Prompt> prompts_;
  std::size_t first_;
  const PromptRun& run_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<std::int64_t> done_;  // tokens with KV
  std::vector<std::vector<std::int32_t>> blocks_;
  std::vector<std::size_t> chosen_;
  ForwardInput input_;
  ForwardOutput output_;
};

}  // namespace

void make_room(const std::vector<Prompt>& prompts, const PromptRun& run, EngineConfig& config) {
  std::int64_t longest = 1;
  for (const Prompt& prompt : prompts) longest = std::max(longest, positions(prompt, run));
  config.block_tokens = run.block_tokens > 0 ? run.block_tokens : static_cast<std::int32_t>(longest);
  config.kv_blocks = 1;
  std::size_t most = 1;
  for (std::size_t first = 0; first < prompts.size();) {
    const std::size_t last = group_end(prompts, first, run, config);
    std::int64_t blocks = 0;
    for (std::size_t i = first; i < last; ++i) blocks += blocks_of(positions(prompts[i], run), config.block_tokens);
    config.kv_blocks = std::max(config.kv_blocks, blocks);
    most = std::max(most, last - first);
    first = last;
  }
  config.sequences = static_cast<std::int32_t>(most);
  config.step_rows = std::min(rows_of_forward(config, run), static_cast<std::int64_t>(most) * longest);
}

std::vector<std::vector<std::int32_t>> run_prompts(Engine& engine, const std::vector<Prompt>& prompts,
                                                   const PromptRun& run) {
  std::vector<std::vector<std::int32_t>> tokens(prompts.size());
  std::int64_t total = 0, done = 0;
  for (const Prompt& prompt : prompts) total += positions(prompt, run);
  const auto forward_done = [&](std::int64_t rows) {
    done += rows;
    return !run.on_progress || run.on_progress(static_cast<double>(done) / static_cast<double>(total));
  };
  for (std::size_t first = 0; first < prompts.size();) {
    const std::size_t last = group_end(prompts, first, run, engine.config());
    Group group(engine, std::span(prompts).subspan(first, last - first), first, run);
    const bool whole = group.prefill(forward_done) && group.decode(forward_done);
    std::move(group.tokens().begin(), group.tokens().end(), tokens.begin() + static_cast<std::ptrdiff_t>(first));
    if (!whole) break;
    first = last;
  }
  return tokens;
}

}  // namespace plimsoll::exec
