// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>

#include <unistd.h>

#include "exec/cpu/attention_probe.h"
#include "exec/cpu/integer_linear.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/packed_linear.h"
#include "exec/cpu/probes.h"

namespace plimsoll::exec {

namespace {

// A layer of a model with some billion weights; more copies of it than the last-level cache holds.
constexpr std::int64_t kColumns = 2048, kRows = 2048;
constexpr std::size_t kLeastBytes = std::size_t{64} << 20U;
// Rows of the products that are timed: one row, one tile, a few tiles and many with any set of kernels.
constexpr std::array<std::int64_t, 4> kBatches = {1, 4, 16, 64};
constexpr std::size_t kOneTile = 2;  // batches of one tile: they choose what to prefetch
constexpr double kClearly = 0.98;    // of the default's time: less is no noise
// Instructions that round activations to bf16 must be this much faster for some batch, and are at most as much slower
// for any.
constexpr double kWorthRounding = 0.9;

// What may be chosen for a product; the default comes first.
std::vector<model::CpuBlocking> choices(const model::CpuBlocking& standard, std::size_t batch) {
  std::vector<model::CpuBlocking> all{standard};
  for (const bool far : {false, true}) {
    model::CpuBlocking choice = standard;
    choice.far = far;
    if (batch < kOneTile) {
      for (const std::int64_t ahead : {0, 256, 512, 1024, 2048, 4096, 8192, 16384}) {
        choice.ahead = ahead;
        all.push_back(choice);
      }
      continue;
    }
    for (const std::int64_t tiles : {8, 16}) {
      choice.tiles = tiles;
      if (batch == kOneTile && tiles > standard.tiles) continue;  // it has only a few tiles
      for (choice.depth = 256; choice.depth <= 2048; choice.depth *= 2) all.push_back(choice);
    }
  }
  return all;
}

model::CpuBlocking& part(model::CpuBlockings& blockings, std::size_t batch) {
  model::CpuBlocking* const parts[kBatches.size()] = {&blockings.one, &blockings.tile, &blockings.few, &blockings.many};
  return *parts[batch];
}

// Returns whether cores run two threads each.
bool has_sibling_threads() {
  std::ifstream file("/sys/devices/system/cpu/smt/active");
  int active = 0;
  return static_cast<bool>(file >> active) && active == 1;
}

// Copies of a layer's weights, and the products with them.
class Layer {
 public:
  // More copies than `held` bytes.
  Layer(const ProductKernels& kernels, ThreadPool& pool, std::size_t held)
      : bytes_(2.0 * kColumns * kRows), copies_(copies_of(bytes_, held)) {
    floats_.emplace(kernels, spec(), true, fill(), pool);
    multiplier_.emplace(pool);
  }
  Layer(const IntegerKernels& kernels, ThreadPool& pool, std::size_t held, int bits)
      : bytes_(kColumns * kRows * (bits / 8.0 + 2.0 / model::kLoadGroup)), copies_(copies_of(bytes_, held)) {
    LinearSpec integers = spec();
    // Stored integers, because rounding floats would take longer than the probe.
    integers.integers = {.format = {.bits = bits, .group = model::kLoadGroup}, .fill = integer_fill};
    integers_.emplace(kernels, integers, bits, fill(), pool);
    integer_multiplier_.emplace(kernels, pool);
  }

  // Computes on another team from now on.
  void move_to(ThreadPool& pool) { multiplier_.emplace(pool); }

  // Returns the seconds of one product with the next copy.
  double shot(const model::CpuBlocking& blocking, std::int64_t rows) {
    x_.resize(static_cast<std::size_t>(rows * kColumns), 0.5F);
    y_.resize(static_cast<std::size_t>(rows * kRows));
    const ProductRows product{.copy = next_++ % copies_, .x = x_.data(), .y = y_.data(), .rows = rows};
    const model::CpuBlockings all{.one = blocking, .tile = blocking, .few = blocking, .many = blocking};
    if (floats_)
      multiplier_->use(all);
    else
      integer_multiplier_->use(all);
    const auto start = ProbeClock::now();
    if (floats_)
      multiplier_->run(*floats_, {&product, 1}, nullptr, false);
    else
      integer_multiplier_->run(*integers_, {&product, 1}, nullptr, false);
    return seconds_since(start);
  }
  [[nodiscard]] double bytes() const { return bytes_; }

 private:
  static std::int64_t copies_of(double bytes, std::size_t held) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(held) / bytes));
  }
  [[nodiscard]] LinearSpec spec() const { return {.n = kRows, .k = kColumns, .copies = copies_}; }
  static FillRows fill() {
    return [](std::int64_t, std::int64_t row, std::int64_t rows, float* out) {
      for (std::int64_t i = 0; i < rows * kColumns; ++i) out[i] = static_cast<float>((row + i) & 127) * 1e-3F;
    };
  }
  static void integer_fill(std::int64_t, std::int64_t row, std::int64_t rows, const IntegerRows& out) {
    for (std::int64_t i = 0; i < rows * kColumns; ++i) out.q[i] = static_cast<std::int8_t>((row + i) & 7);
    std::fill_n(out.scale, rows * kColumns / model::kLoadGroup, 1e-3F);
    std::fill_n(out.zero, rows * kColumns / model::kLoadGroup, std::int16_t{0});
  }
  double bytes_;
  std::int64_t copies_, next_ = 0;
  std::optional<PackedLinear> floats_;
  std::optional<IntegerLinear> integers_;
  std::optional<Multiplier> multiplier_;
  std::optional<IntegerMultiplier> integer_multiplier_;
  std::vector<float> x_, y_;
};

class Tuner {
 public:
  Tuner(const KernelSet& kernels, const TunerSettings& settings)
      : kernels_(kernels),
        settings_(settings),
        bytes_(std::min(std::max(2 * last_level_cache(), kLeastBytes), settings.most_bytes)),
        pool_(settings.cores),
        probe_(kernels, pool_, bytes_) {
    result_.tuning = tuning_for(cache_sizes(), kernels.rows);
    const std::size_t kinds = 3 + runnable_pairs(kernels).size();
    contest_seconds_ = settings.seconds / static_cast<double>(kinds * kBatches.size() + 1);
  }

  TunedMachine run() {
    tune_floats();
    const IntegerKernels& integers = *runnable_integers(kernels_).front();
    for (const int bits : {8, 4}) {
      Layer layer(integers, pool_, bytes_, bits);
      model::CpuBlockings& blockings = bits == 8 ? result_.tuning.integers : result_.tuning.int4;
      keep(contest(layer, blockings), layer, bits == 8 ? "int8" : "int4", blockings);
    }
    if (pool_.threads() > 1) tune_attention();
    name_limits();
    return std::move(result_);
  }

 private:
  // The fastest choice for each batch.
  struct Winners {
    std::array<model::CpuBlocking, kBatches.size()> blocking;
    std::array<double, kBatches.size()> seconds{}, standard{};
  };

  // f32 instructions, unless those of pairs are worth it: kWorthRounding.
  void tune_floats() {
    model::CpuBlockings standard = result_.tuning.floats;
    std::optional<Layer> layer(std::in_place, static_cast<const ProductKernels&>(kernels_), pool_, bytes_);
    Winners best = contest(*layer, standard);
    tune_threads(*layer, best);
    const char* name = "bf16 in f32";
    for (const ProductKernels* pairs : runnable_pairs(kernels_)) {
      const auto& names = model::kBf16ProductNames;
      const auto place = std::find(names.begin(), names.end(), pairs->name) - names.begin();
      const auto products = static_cast<model::Bf16Products>(place);
      if (&select_bf16_products(kernels_, products) != pairs) continue;  // PLIMSOLL_CPU_ISA names another set
      layer.emplace(*pairs, pool_, bytes_);
      const Winners found = contest(*layer, standard);
      double least = 1, most = 0;
      for (std::size_t i = 0; i < kBatches.size(); ++i) {
        least = std::min(least, found.seconds[i] / best.seconds[i]);
        most = std::max(most, found.seconds[i] / best.seconds[i]);
      }
      if (least > kWorthRounding || most > 2 - kWorthRounding) continue;
      best = found;
      name = pairs->name;
      result_.tuning.bf16 = products;
    }
    keep(best, *layer, name, result_.tuning.floats);
  }

  // Half the threads, one for each core, if they are faster. Two threads of a core share its caches and units.
  void tune_threads(Layer& layer, const Winners& best) {
    if (!has_sibling_threads() || pool_.threads() < 4) return;
    constexpr int kTurn = 8;
    ThreadPool half(pool_.threads() / 2);
    std::array<double, kBatches.size()> all{}, fewer{};
    all.fill(std::numeric_limits<double>::infinity());
    fewer = all;
    const auto start = ProbeClock::now();
    do {
      for (auto* const team : {&all, &fewer}) {
        layer.move_to(team == &all ? pool_ : half);
        for (std::size_t i = 0; i < kBatches.size(); ++i)
          for (int j = 0; j < kTurn; ++j) (*team)[i] = std::min((*team)[i], layer.shot(best.blocking[i], kBatches[i]));
      }
    } while (seconds_since(start) < contest_seconds_);
    layer.move_to(pool_);
    double ratio = 1;
    for (std::size_t i = 0; i < kBatches.size(); ++i) ratio *= fewer[i] / all[i];
    if (ratio < kClearly) result_.tuning.threads = half.threads();
  }

  // The parts of decode attention for each thread: fewer start fewer tasks and leave more heads together, more let
  // threads end at the same time. One sequence and several count alike.
  void tune_attention() {
    const int standard = result_.tuning.decode_parts;
    const std::array<int, 5> choices = {standard, 1, 2, 8, 16};
    constexpr std::array<std::int64_t, 3> kSequences = {1, 3, AttentionProbe::kMostSequences};
    AttentionProbe attention(kernels_, pool_, bytes_);
    std::array<std::array<double, kSequences.size()>, choices.size()> best{};
    for (auto& times : best) times.fill(std::numeric_limits<double>::infinity());
    take_turns([&] {
      for (std::size_t i = 0; i < choices.size(); ++i)
        for (std::size_t j = 0; j < kSequences.size(); ++j)
          best[i][j] = std::min(best[i][j], attention.shot(kSequences[j], choices[i]));
    });
    for (std::size_t i = 1; i < choices.size(); ++i) {
      double gain = 1;
      for (std::size_t j = 0; j < kSequences.size(); ++j) gain *= best[0][j] / best[i][j];
      gain = std::pow(gain, 1.0 / kSequences.size());
      if (gain * kClearly <= 1 || gain <= result_.parts_gain) continue;
      result_.parts_gain = gain;
      result_.tuning.decode_parts = choices[i];
    }
  }

  Winners contest(Layer& layer, model::CpuBlockings& standard) {
    Winners winners;
    for (std::size_t i = 0; i < kBatches.size(); ++i) {
      const std::vector<model::CpuBlocking> all = choices(part(standard, i), i);
      const std::vector<double> seconds = times(layer, kBatches[i], all);
      winners.standard[i] = seconds.front();
      const std::size_t best =
          static_cast<std::size_t>(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
      const std::size_t chosen = seconds[best] < kClearly * seconds.front() ? best : 0;
      winners.blocking[i] = all[chosen];
      winners.seconds[i] = seconds[chosen];
    }
    return winners;
  }

  // Returns the best time of each choice. They take turns with probes of the limits.
  std::vector<double> times(Layer& layer, std::int64_t rows, const std::vector<model::CpuBlocking>& all) {
    std::vector<double> best(all.size(), std::numeric_limits<double>::infinity());
    take_turns([&] {
      for (std::size_t i = 0; i < all.size(); ++i) best[i] = std::min(best[i], layer.shot(all[i], rows));
    });
    return best;
  }

  template <class Turn>
  void take_turns(const Turn& turn) {
    constexpr int kLeastRounds = 2;
    const auto start = ProbeClock::now();
    for (int round = 0; round < kLeastRounds || seconds_since(start) < contest_seconds_; ++round) {
      if (settings_.check_in) settings_.check_in();
      result_.read_bandwidth = std::max(result_.read_bandwidth, probe_.read_once());
      result_.multiply_add = std::max(result_.multiply_add, probe_.fma_once());
      turn();
    }
  }

  void keep(const Winners& winners, const Layer& layer, const std::string& name, model::CpuBlockings& blockings) {
    for (std::size_t i = 0; i < kBatches.size(); ++i) {
      part(blockings, i) = winners.blocking[i];
      const bool reads = i < kOneTile;
      const double work = reads ? layer.bytes() : 2.0 * kColumns * kRows * static_cast<double>(kBatches[i]);
      result_.products.push_back(
          {.name = name + ", " + std::to_string(kBatches[i]) + (kBatches[i] == 1 ? " row" : " rows"),
           .reads = reads,
           .fraction = work / winners.seconds[i],
           .chosen = winners.blocking[i],
           .gain = winners.standard[i] / winners.seconds[i]});
    }
  }

  // The limits are known only after the last product.
  void name_limits() {
    for (TunedProduct& product : result_.products)
      product.fraction /= product.reads ? result_.read_bandwidth : result_.multiply_add;
  }

  const KernelSet& kernels_;
  const TunerSettings& settings_;
  std::size_t bytes_;
  ThreadPool pool_;
  Probe probe_;
  double contest_seconds_ = 0;
  TunedMachine result_;
};

}  // namespace

TunedMachine tune_machine(const KernelSet& kernels, const TunerSettings& settings) {
  return Tuner(kernels, settings).run();
}

CacheSizes cache_sizes() {
  CacheSizes sizes;
  const auto read = [](int name, std::size_t& size) {
    if (const long bytes = ::sysconf(name); bytes > 0) size = static_cast<std::size_t>(bytes);
  };
  read(_SC_LEVEL1_DCACHE_SIZE, sizes.first);
  read(_SC_LEVEL2_CACHE_SIZE, sizes.second);
  read(_SC_LEVEL3_CACHE_SIZE, sizes.last);
  // Some virtual machines report a share of the last level that is smaller than the second.
  sizes.second = std::max(sizes.first, sizes.second);
  sizes.last = std::max(sizes.second, sizes.last);
  return sizes;
}

model::CpuTuning tuning_for(const CacheSizes& caches, int tile_rows) {
  constexpr std::int64_t kLeast = 128, kMost = 1024;  // beyond, loading and storing sums no longer counts
  model::CpuBlocking blocking;
  const std::int64_t row = static_cast<std::int64_t>(sizeof(float)) * blocking.tiles * tile_rows;
  std::int64_t depth = kMost;
  while (depth > kLeast && depth * row > static_cast<std::int64_t>(caches.second / 2)) depth /= 2;
  model::CpuBlockings blockings;
  for (std::size_t i = 0; i < kBatches.size(); ++i) part(blockings, i).depth = depth;
  model::CpuTuning tuning;
  tuning.floats = tuning.integers = tuning.int4 = blockings;
  return tuning;
}

model::CpuTuning default_tuning() { return tuning_for(cache_sizes(), select_kernels().rows); }

}  // namespace plimsoll::exec
