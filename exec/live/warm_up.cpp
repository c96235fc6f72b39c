// SPDX-License-Identifier: Apache-2.0
// Forwards that run before the clock starts. On a CPU they map pages and wake threads. A GPU times the kernels of a
// matrix product at the first forward of a number of rows, and records a decode forward as a graph at the second. To
// keep this out of the measurement, every size of decode forward that is recorded runs twice here, and a prefill of
// every number of rows at which products are timed runs once, up to the largest step of the scheduler.
#include <algorithm>
#include <chrono>

#include "exec/live/measure_point.h"
#include "exec/live/step_builder.h"

namespace plimsoll::exec {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMaxLength{1000}, kMaxRecording{30'000};  // limits per device
constexpr Tok kPrompt = 128;  // prompt tokens of the first row; the others have one token
constexpr std::int64_t kMaxWarmRows = 1024;
constexpr std::int64_t kUnstatedRows = 64;  // used if the study states no limit; runs seldom reach a product's default
constexpr std::int64_t kUnstatedPrefill = 2048;  // used if the study states no budget of a step

class WarmUp {
 public:
  WarmUp(const load::Scenario& scenario, const StepBuilderConfig& config, const PromptSource& prompts,
         ForwardDevice& device)
      : scenario_(scenario),
        builder_(config, prompts, device),
        device_(device),
        records_(!device.recorded_decodes(1).empty()),
        sizes_(device.recorded_decodes(wanted_rows())),
        end_(Clock::now() + (records_ ? kMaxRecording : kMaxLength)) {}

  void run() {
    if (records_) prefills();
    const std::int64_t rows = rows_for(most_decodes());
    if (rows == 0) return;
    if (!records_) {
      for (std::int64_t size = 1; size < rows; size *= 2) sizes_.push_back(size);
      sizes_.push_back(rows);
    }
    begin(rows);
    decode(rows);
  }

 private:
  [[nodiscard]] std::int64_t wanted_rows() const {
    std::int64_t rows = std::min(kMaxWarmRows, sched::resolve_limits(scenario_.policy).max_running);
    if (!records_ && !scenario_.policy.max_running) rows = std::min(rows, kUnstatedRows);
    if (const auto* closed = std::get_if<load::ClosedLoop>(&scenario_.workload.load))
      rows = std::min<std::int64_t>(rows, closed->concurrency);
    return rows;
  }
  // Returns the number of tokens that a row may generate.
  [[nodiscard]] Tok most_decodes() const { return records_ ? 2 * static_cast<Tok>(sizes_.size()) : 16; }

  [[nodiscard]] std::int64_t blocks_for(Tok tokens) const {
    return (tokens + scenario_.kv.block_tokens - 1) / scenario_.kv.block_tokens;
  }
  [[nodiscard]] bool fits_model(Tok tokens) const {
    return scenario_.shape->max_position <= 0 || tokens <= scenario_.shape->max_position;
  }
  /// Returns the rows that a batch may have; 0 if the pool or the model is too small for one.
  [[nodiscard]] std::int64_t rows_for(Tok decodes) const {
    if (!fits_model(kPrompt + decodes)) return 0;
    const std::int64_t room = (scenario_.kv.blocks - blocks_for(kPrompt + decodes)) / blocks_for(1 + decodes);
    return std::max<std::int64_t>(0, std::min(wanted_rows(), room));
  }

  void run_one(const StepOrder& order) {
    builder_.begin(order);
    builder_.start(order, 0, 0);
    builder_.finish();
    builder_.end_step();
  }

  static void add_prompt(StepOrder& order, ReqId id, Tok tokens) {
    order.changes.push_back(
        {.opens = true,
         .request = {.id = id, .serial = 0, .input = tokens, .prefix_hashes = {}, .hash_block_tokens = 0}});
    order.kv.push_back({.kind = sched::KvOp::Kind::grow, .id = id, .tokens = tokens});
    order.forwards[0].prefill.push_back({.id = id, .new_tokens = tokens, .context = 0, .emits = true});
  }

  // Runs one forward for every number of rows at which products are timed. The largest fills a step.
  void prefills() {
    const std::int64_t most = std::min(scenario_.policy.step_token_budget.value_or(kUnstatedPrefill),
                                       scenario_.kv.blocks * scenario_.kv.block_tokens);
    std::vector<std::int64_t> sizes = device_.tuned_rows(most);
    if (sizes.empty()) sizes.push_back(most);
    // The largest goes first: it allocates the memory that the others use.
    for (auto size = sizes.rbegin(); size != sizes.rend() && Clock::now() <= end_; ++size)
      prefill(std::min(*size, most));
  }

  // Runs prompts of `rows` tokens together, each as long as the model allows.
  void prefill(std::int64_t rows) {
    const std::int64_t position = scenario_.shape->max_position;
    const Tok longest = static_cast<Tok>(position > 0 ? std::min(rows, position) : rows);
    if (longest <= 0) return;
    StepOrder order, end;
    order.forwards.emplace_back();
    std::int64_t blocks = 0;
    ReqId id = 0;
    for (std::int64_t left = rows; left > 0; left -= longest, ++id) {
      const Tok tokens = static_cast<Tok>(std::min<std::int64_t>(left, longest));
      blocks += blocks_for(tokens);
      add_prompt(order, id, tokens);
      end.changes.push_back(
          {.opens = false,
           .request = {.id = id, .serial = 0, .input = 0, .prefix_hashes = {}, .hash_block_tokens = 0}});
    }
    if (blocks > scenario_.kv.blocks ||
        static_cast<std::int64_t>(id) > sched::resolve_limits(scenario_.policy).max_running)
      return;
    run_one(order);
    builder_.begin(end);
  }

  void begin(std::int64_t rows) {
    StepOrder order;
    order.forwards.emplace_back();
    // Only the first row needs a real prompt. One token each is enough for the others, and keeps the warm-up short.
    for (std::int64_t i = 0; i < rows; ++i) add_prompt(order, static_cast<ReqId>(i), i == 0 ? kPrompt : 1);
    run_one(order);
  }

  void decode(std::int64_t rows) {
    StepOrder order;
    order.forwards.emplace_back();
    std::vector<ReqId>& decode = order.forwards[0].decode;
    for (const std::int64_t size : sizes_) {
      const auto count = static_cast<std::size_t>(std::min(size, rows));
      while (decode.size() < count) decode.push_back(static_cast<ReqId>(decode.size()));
      // A graph is recorded at the second run of a size, so each size runs twice.
      for (int turn = 0; turn < (records_ ? 2 : 1); ++turn) {
        run_one(order);
        if (Clock::now() > end_) return;
      }
      if (size >= rows) return;
    }
  }

  const load::Scenario& scenario_;
  StepBuilder builder_;
  ForwardDevice& device_;
  bool records_;                     // whether the device records graphs of decode forwards
  std::vector<std::int64_t> sizes_;  // sizes of decode forwards, ascending
  Clock::time_point end_;
};

}  // namespace

void warm_up(const load::Scenario& scenario, const LiveReplicas& replicas, const PromptSource& prompts) {
  for (std::size_t i = 0; i < replicas.devices.size(); ++i) {
    const bool decodes = !scenario.pools || i < static_cast<std::size_t>(scenario.replicas);
    const load::Scenario& pool = decodes ? scenario : *scenario.pools->prefill;
    const StepBuilderConfig config = builder_config(pool, replicas.sequences, replicas.sampling);
    WarmUp(pool, config, prompts, *replicas.devices[i]).run();
  }
}

}  // namespace plimsoll::exec
