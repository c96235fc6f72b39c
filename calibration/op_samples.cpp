// SPDX-License-Identifier: Apache-2.0
#include "calibration/op_samples.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "model/error.h"

namespace plimsoll::calibration {

namespace {

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::int64_t tokens_of(const GridForward& forward) {
  std::int64_t tokens = 0;
  for (const GridForward::Rows& r : forward.prefill) tokens += r.sequences * (r.context + r.new_tokens);
  for (const GridForward::Rows& r : forward.decode) tokens += r.sequences * (r.context + 1);
  return tokens;
}

// A forward whose sequences have separate block tables, so that caches help no more than they do in service.
class Inputs {
 public:
  Inputs(const exec::Engine& engine, const GridForward& forward)
      : block_tokens_(engine.config().block_tokens), vocab_(engine.config().architecture.shape.vocab) {
    for (const GridForward::Rows& r : forward.prefill)
      for (std::int64_t i = 0; i < r.sequences; ++i) add_prefill(r);
    for (const GridForward::Rows& r : forward.decode)
      for (std::int64_t i = 0; i < r.sequences; ++i) add_decode(r);
    PLIMSOLL_CHECK(next_block_ <= engine.config().kv_blocks, "the grid fits the pool");
  }
  [[nodiscard]] const exec::ForwardInput& input() const { return input_; }

 private:
  std::span<const std::int32_t> take(std::int64_t tokens) {
    auto& blocks = blocks_.emplace_back();
    for (std::int64_t covered = 0; covered < tokens; covered += block_tokens_) blocks.push_back(next_block_++);
    return blocks;
  }
  void add_prefill(const GridForward::Rows& r) {
    auto& tokens = tokens_.emplace_back(static_cast<std::size_t>(r.new_tokens));
    for (std::int32_t& token : tokens)
      token = static_cast<std::int32_t>(generator_() % static_cast<std::uint64_t>(vocab_));
    exec::PrefillRows span;
    span.tokens = tokens;
    span.context = r.context;
    span.blocks = take(r.context + r.new_tokens);
    span.slot = next_slot_++;
    span.emits = true;
    input_.prefill.push_back(span);
  }
  void add_decode(const GridForward::Rows& r) {
    exec::DecodeRow row;
    row.token = static_cast<std::int32_t>(generator_() % static_cast<std::uint64_t>(vocab_));
    row.context = r.context;
    row.blocks = take(r.context + 1);
    row.slot = next_slot_++;
    input_.decode.push_back(row);
  }

  std::int32_t block_tokens_, vocab_, next_block_ = 0, next_slot_ = 0;
  std::mt19937_64 generator_{1};
  std::vector<std::vector<std::int32_t>> tokens_, blocks_;
  exec::ForwardInput input_;
};

// Writes the whole pool: pages never written all map to one page of zeros, which stays in every cache.
void fill_pool(exec::Engine& engine) {
  std::vector<std::byte> block(static_cast<std::size_t>(engine.bytes_per_block()));
  std::mt19937_64 generator(2);
  // Use values that are small positive numbers both as f32 and as bf16: the upper byte is that of 2^-7 … 2^-4.
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = static_cast<std::byte>(i % 2 == 1 ? 0x3c + generator() % 2 : generator() % 256);
  for (std::int32_t b = 0; b < engine.config().kv_blocks; ++b) engine.write_block(b, block);
}

using Shape = std::tuple<model::OpKind, std::string_view, std::int64_t, std::int64_t, std::int64_t, double>;
Shape shape_of(const model::Op& op) { return {op.kind, model::name(op.id), op.m, op.n, op.k, op.context}; }

// Merges the entries of an op over the ranks: the mean time. For an all-reduce it takes the shortest time, because the
// other ranks waited for the last one.
std::vector<exec::OpTrace> over_ranks(const std::vector<exec::OpTrace>& traces) {
  std::map<std::tuple<std::int64_t, std::int32_t, Shape>, std::pair<exec::OpTrace, int>> merged;
  for (const exec::OpTrace& trace : traces) {
    const auto [place, fresh] = merged.try_emplace({trace.step, trace.layer, shape_of(trace.op)}, trace, 1);
    if (fresh) continue;
    auto& [sum, count] = place->second;
    if (trace.op.kind == model::OpKind::all_reduce)
      sum.measured_s = std::min(sum.measured_s, trace.measured_s);
    else
      sum.measured_s += trace.measured_s;
    ++count;
  }
  std::vector<exec::OpTrace> out;
  for (auto& [place, entry] : merged) {
    if (entry.first.op.kind != model::OpKind::all_reduce) entry.first.measured_s /= entry.second;
    out.push_back(entry.first);
  }
  return out;
}

bool stopped(const BenchmarkSettings& settings) {
  if (settings.control == nullptr) return false;
  settings.control->check_in();
  return settings.control->cancelled();
}

}  // namespace

std::vector<GridForward> benchmark_grid(const BenchmarkSettings& settings, std::int64_t kv_tokens) {
  std::vector<GridForward> grid;
  const auto add = [&](GridForward forward) {
    // Leave room for rounding up to whole blocks: at most 64 sequences, 16 tokens a block.
    if (tokens_of(forward) + 64 * 16 < kv_tokens) grid.push_back(std::move(forward));
  };
  if (settings.coarse) {
    for (const std::int64_t batch : {1, 2, 4, 8, 16, 32})
      for (const std::int64_t context : {15, 255, 1023}) add({.prefill = {}, .decode = {{batch, 1, context}}});
    for (const std::int64_t chunk : {16, 64, 128, 256}) add({.prefill = {{1, chunk, 0}}, .decode = {}});
    return grid;
  }
  // Attention needs all contexts. The batch sizes in between are for products, whose time jumps when another tile of
  // rows is needed.
  for (const std::int64_t batch : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64})
    for (std::int64_t context = 15; context < settings.most_context; context = 4 * context + 3)
      add({.prefill = {}, .decode = {{batch, 1, context}}});
  for (const std::int64_t batch : {5, 7, 10, 14, 15, 18, 20, 28, 29, 40, 42, 43, 56, 57})
    add({.prefill = {}, .decode = {{batch, 1, 255}}});
  for (const std::int64_t chunk : {8, 16, 32, 64, 100, 128, 192, 256, 384, 512, 1024, 2048}) {
    if (chunk > settings.most_rows) break;
    for (const std::int64_t past : {0, 128, 512, 2048})
      if (past + chunk <= settings.most_context) add({.prefill = {{1, chunk, past}}, .decode = {}});
  }
  return grid;
}

std::vector<GridForward> held_out_forwards(const BenchmarkSettings& settings, std::int64_t kv_tokens) {
  std::mt19937_64 generator(11);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::vector<GridForward> forwards;
  const std::size_t wanted = settings.coarse ? 6 : 30;
  while (forwards.size() < wanted) {
    GridForward forward;
    const std::int64_t rows = draw(0, 40);
    for (std::int64_t done = 0; done < rows;) {
      const std::int64_t sequences = std::min(rows - done, draw(1, 8));
      forward.decode.push_back({sequences, 1, draw(4, settings.most_context / 2)});
      done += sequences;
    }
    if (rows == 0 || draw(0, 2) == 0)
      forward.prefill.push_back(
          {1, draw(5, settings.most_rows * 3 / 4), draw(0, 1) * draw(1, settings.most_context / 4)});
    // Draw again if the forward does not fit into the cache.
    if (tokens_of(forward) + 64 * 16 < kv_tokens) forwards.push_back(std::move(forward));
  }
  return forwards;
}

namespace {

constexpr int kMaxRepeats = 50;  // per forward

// Decides how often a forward is repeated: usually at least three times. If the total time is already spent, as on a
// machine that is busy with other work, it is only once.
class Pace {
 public:
  Pace(double seconds, std::size_t forwards) : seconds_(seconds), forwards_(static_cast<double>(forwards)) {}
  [[nodiscard]] double seconds_each() const { return seconds_ / forwards_; }
  [[nodiscard]] int least_repeats() const {
    constexpr int kForAMedian = 3;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return spent.count() > seconds_ ? 1 : kForAMedian;
  }

 private:
  double seconds_, forwards_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Repeats one forward for some time and returns the median of each op shape.
std::vector<OpSample> trace_forward(exec::Engine& engine, const GridForward& forward, const Pace& pace) {
  const Inputs inputs(engine, forward);
  exec::ForwardOutput output;
  engine.run(inputs.input(), output);  // warm-up, not measured
  engine.traces().clear();
  const auto start = std::chrono::steady_clock::now();
  const int least = pace.least_repeats();
  for (int repeat = 1; repeat <= kMaxRepeats; ++repeat) {
    engine.run(inputs.input(), output);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (repeat >= least && spent.count() > pace.seconds_each()) break;
  }
  std::map<Shape, std::pair<model::Op, std::vector<double>>> times;
  for (const exec::OpTrace& trace : over_ranks(engine.traces())) {
    auto& entry = times[shape_of(trace.op)];
    entry.first = trace.op;
    entry.second.push_back(trace.measured_s);
  }
  engine.traces().clear();
  std::vector<OpSample> samples;
  for (auto& [shape, entry] : times)
    samples.push_back({entry.first, median(entry.second), static_cast<std::int64_t>(entry.second.size())});
  return samples;
}

double time_forward(exec::Engine& engine, const GridForward& forward, const Pace& pace) {
  const Inputs inputs(engine, forward);
  exec::ForwardOutput output;
  // The first run is not timed, as it allocates memory and fills caches.
  engine.run(inputs.input(), output);
  std::vector<double> times;
  double spent = 0;
  const auto least = static_cast<std::size_t>(pace.least_repeats());
  while (times.size() < least || (times.size() < kMaxRepeats && spent < pace.seconds_each())) {
    const auto start = std::chrono::steady_clock::now();
    engine.run(inputs.input(), output);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count());
    spent += took.count();
  }
  return median(times);
}

}  // namespace

std::vector<OpSample> measure_ops(exec::Engine& engine, const std::vector<GridForward>& grid,
                                  const BenchmarkSettings& settings) {
  std::map<Shape, std::pair<OpSample, std::vector<double>>> merged;
  const Pace pace(settings.seconds, grid.size());
  bool filled = false;
  for (std::size_t i = 0; i < grid.size() && !stopped(settings); ++i) {
    const std::string group = settings.key + " ops " + std::to_string(i);
    const std::vector<OpSample>* const known = settings.store == nullptr ? nullptr : settings.store->find(group);
    // Skip this if the store already has every sample.
    if (known == nullptr && !filled) {
      fill_pool(engine);
      filled = true;
    }
    const std::vector<OpSample> samples = known != nullptr ? *known : trace_forward(engine, grid[i], pace);
    if (known == nullptr && settings.store != nullptr) settings.store->add(group, samples);
    for (const OpSample& sample : samples) {
      auto& [first, times] = merged.try_emplace(shape_of(sample.op), sample, std::vector<double>{}).first->second;
      // Several forwards contain ops of the same shape. Each forward counts as one sample, with all its repeats.
      if (!times.empty()) first.repeats += sample.repeats;
      times.push_back(sample.seconds);
    }
    if (settings.progress)
      settings.progress(static_cast<double>(i + 1) / static_cast<double>(grid.size()), known != nullptr);
  }
  std::vector<OpSample> out;
  for (auto& [shape, entry] : merged) {
    out.push_back(entry.first);
    out.back().seconds = median(entry.second);
  }
  return out;
}

std::vector<ForwardSample> measure_forwards(exec::Engine& engine, const std::vector<GridForward>& forwards,
                                            const BenchmarkSettings& settings) {
  std::vector<ForwardSample> samples;
  const Pace pace(settings.seconds, forwards.size());
  bool filled = false;
  for (std::size_t i = 0; i < forwards.size() && !stopped(settings); ++i) {
    const std::string group = settings.key + " forward " + std::to_string(i);
    const std::optional<double> known = settings.store == nullptr ? std::nullopt : settings.store->find_time(group);
    if (!known && !filled) {
      fill_pool(engine);
      filled = true;
    }
    const double seconds = known ? *known : time_forward(engine, forwards[i], pace);
    if (!known && settings.store != nullptr) settings.store->add_time(group, "forward", seconds);
    samples.push_back({forwards[i], seconds});
    if (settings.progress)
      settings.progress(static_cast<double>(i + 1) / static_cast<double>(forwards.size()), known.has_value());
  }
  return samples;
}

}  // namespace plimsoll::calibration
