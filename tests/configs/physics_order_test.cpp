// SPDX-License-Identifier: Apache-2.0
// Predictions follow the order of the data sheets: unless measured otherwise, a better accelerator or fewer bits are
// never slower.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "configs/catalogue.h"
#include "model/forward_cost.h"
#include "model/kernel_file.h"

namespace plimsoll::configs {
namespace {

using model::DType;

// Factor that counts as a tie: tables are interpolated, with errors of 2 to 7 % (docs/kernel-tables.md).
constexpr double kTie = 1.05;

/// Measured kernels and links that are slower than those of a worse accelerator or of a type with more bits. Each entry
/// has the table, the type, the largest factor, and the row where it was found.
struct Measured {
  const char* table;  // of kernels, or an interconnect
  DType type;
  double most;
  const char* row;
};
constexpr Measured kMeasured[] = {
    {"h100-sxm", DType::bf16, 1.30, "experts 3072 x 1536, 8 of 256, over 8 ranks: 64 tokens (slower than A100)"},
    {"h100-sxm", DType::fp8, 1.95, "products 576 x 1536: 4096 rows; experts 2048 x 1408, 6 of 64: 4096 tokens"},
    {"h100-sxm", DType::int4, 3.05, "experts 4096 x 14336, 2 of 8 (int4_wo): 4096 tokens"},
    {"h100-sxm", DType::mxfp4, 2.25, "experts 4096 x 1536, 8 of 128 (w4a16_mxfp4): 4096 tokens"},
    {"h200-sxm", DType::bf16, 1.15, "products 1024 x 3072 over 4 ranks: 1 row (slower than H100)"},
    {"h200-sxm", DType::fp8, 1.65, "products 576 x 1536: 4096 rows and more"},
    {"h200-sxm", DType::int4, 3.10, "experts 4096 x 14336, 2 of 8 (int4_wo): 4096 tokens"},
    {"h200-sxm", DType::mxfp4, 2.15, "experts 6144 x 2560, 8 of 160 (w4a16_mxfp4): 4096 tokens"},
    {"b200-sxm", DType::bf16, 1.30,
     "vLLM_custom_graph all-reduce of 512 KiB over 8 ranks; experts 6144 x 16384, 2 of 8"},
    {"b200-sxm", DType::fp8, 1.80, "products 576 x 1536: 4096 rows; experts 2880 x 2880, 4 of 32: 4096 tokens"},
    {"b200-sxm", DType::nvfp4, 1.45, "products 576 x 1536: 1 row; experts 3072 x 1536, 8 of 256: 8 tokens"},
    {"b200-sxm", DType::int4, 4.60, "experts 2880 x 2880, 4 of 32 (int4_wo): 4096 tokens"},
    {"b200-sxm", DType::mxfp4, 3.50, "experts 4096 x 1536, 8 of 128 (w4a16_mxfp4): 4096 tokens"},
    {"l40s", DType::bf16, 1.60, "experts 5120 x 8192, 1 of 128: 64 tokens"},
    {"l40s", DType::fp8, 2.75, "products 896 x 4864: 4096 rows; experts 2688 x 1856, 6 of 128: 160 tokens"},
    // Fitted to serving runs, in which products and links differ from those measured on other PCIe machines.
    {"pcie-g5", DType::bf16, 1.85, "all-reduces of A10G over 4 and 8 ranks"},
};
static_assert(std::size(kMeasured) <= 20);

const Catalogue& compared() {
  static const Catalogue kCatalogue(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  return kCatalogue;
}

std::vector<std::string> names_of(std::string_view kind) {
  std::vector<std::string> names;
  for (const Listing& listing : compared().list(kind)) names.push_back(listing.name);
  return names;
}

struct Machine {
  std::shared_ptr<const model::Accelerator> accelerator;
  std::shared_ptr<const model::Interconnect> link;  // null if none
  std::string table;                                // whose measured kernels it uses; its own name if none
};

const std::vector<Machine>& machines() {
  static const std::vector<Machine> kMachines = [] {
    std::vector<Machine> all;
    for (const std::string& name : names_of("accelerators")) {
      const auto a = compared().accelerator(name);
      all.push_back({a, a->default_interconnect.empty() ? nullptr : compared().interconnect(a->default_interconnect),
                     a->kernels ? a->kernels->head().accelerator : name});
    }
    return all;
  }();
  return kMachines;
}

/// Compares data sheets: whether bandwidth, peaks and link of `a` are all at least as high as those of `b`.
bool is_at_least(const Machine& a, const Machine& b, DType type) {
  const auto wide = [](const Machine& m) { return std::max(m.accelerator->fp16.value, m.accelerator->bf16.value); };
  const auto link = [](const Machine& m) { return m.link ? m.link->unidirectional.value : 0; };
  return a.accelerator->memory_bandwidth >= b.accelerator->memory_bandwidth && wide(a) >= wide(b) &&
         matmul_peak(*a.accelerator, type) >= matmul_peak(*b.accelerator, type) && link(a) >= link(b);
}

/// Returns whether `a` has fewer bits than `b` and the same arithmetic: weight-only types compute in 16 bits; fp8 and
/// nvfp4 have their own units.
bool is_narrower(DType a, DType b, const model::Accelerator& accelerator) {
  if (model::bytes_per_element(a) >= model::bytes_per_element(b)) return false;
  if (model::bytes_per_element(b) == 2) return true;
  return a == DType::nvfp4 && b == DType::fp8 && accelerator.fp4.value > 0;
}

/// Decode steps by rows, and prompts by tokens. The rows are not only those of the captured graphs.
constexpr std::int64_t kRows[] = {1, 6, 24, 64, 200};
constexpr std::int64_t kPrompts[] = {200, 2048, 6000};

/// Returns the seconds of decode steps of kRows at 1024 tokens of context, and of prompts of kPrompts. Empty if the
/// machine cannot run the model.
std::vector<double> steps(const model::LlmShape& shape, const Machine& m, std::int32_t tp, DType type) {
  static const auto kEngine = compared().engine("vllm-0.12")->profile;
  if (!(matmul_peak(*m.accelerator, type).value > 0) || (tp > 1 && !m.link)) return {};
  if (shape.heads % tp != 0 || (shape.kv_heads % tp != 0 && tp % shape.kv_heads != 0)) return {};
  model::ForwardCost cost({.shape = &shape,
                           .accelerator = m.accelerator.get(),
                           .interconnect = tp > 1 ? m.link.get() : nullptr,
                           .engine = kEngine.get(),
                           .weight_dtype = type,
                           .kv_dtype = DType::fp16,
                           .tp = tp,
                           .pp = 1});
  std::vector<double> times;
  const double context = shape.sliding_window > 0 ? std::min(1024.0, static_cast<double>(shape.sliding_window)) : 1024;
  for (const std::int64_t rows : kRows) {
    const auto r = static_cast<double>(rows);
    times.push_back(cost.decode_curve(rows).time(1024 * r, context * r));
  }
  for (const std::int64_t tokens : kPrompts) {
    const model::PrefillSpan prompt{.new_tokens = tokens, .context = 0};
    model::ForwardWork work;
    work.prefill = {&prompt, 1};
    work.sampled = 1;
    times.push_back(cost.forward(work).total());
  }
  return times;
}

double slower_by(const std::vector<double>& better, const std::vector<double>& worse) {
  double most = 1;
  for (std::size_t i = 0; i < std::min(better.size(), worse.size()); ++i) most = std::max(most, better[i] / worse[i]);
  return most;
}

// Returns whether measurements explain the order: kernels of the better machine or type, or the link of one of them.
bool is_measured(double factor, const Machine& better, const Machine& worse, DType type) {
  return std::any_of(std::begin(kMeasured), std::end(kMeasured), [&](const Measured& m) {
    const auto links = [&](const Machine& machine) { return machine.link && machine.link->id == m.table; };
    const bool involved = better.table == m.table || links(better) != links(worse);
    return involved && (m.type == type || m.type == DType::bf16) && factor <= m.most;
  });
}

constexpr DType kTypes[] = {DType::bf16, DType::fp8, DType::int8, DType::int4, DType::nvfp4, DType::mxfp4};
constexpr std::int32_t kDegrees[] = {1, 2, 4, 8};

/// The steps of all machines with one model, TP degree and type.
struct Case {
  std::string model;
  std::int32_t tp = 1;
  DType type = DType::bf16;
  std::vector<std::vector<double>> times;  // by machine

  [[nodiscard]] std::string text() const { return model + ", TP " + std::to_string(tp) + ", " + model::name(type); }
};

// All models, TP degrees and types: some 2 000 cases, priced in a few seconds.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = [] {
    std::vector<Case> all;
    for (const std::string& name : names_of("models")) {
      const auto shape = compared().model(name);
      for (const std::int32_t tp : kDegrees) {
        for (const DType type : kTypes) {
          Case& c = all.emplace_back(Case{name, tp, type, {}});
          for (const Machine& m : machines()) c.times.push_back(steps(*shape, m, tp, type));
        }
      }
    }
    return all;
  }();
  return kCases;
}

TEST(PhysicsOrder, ABetterAcceleratorIsNotSlower) {
  for (const Case& c : cases()) {
    for (std::size_t a = 0; a < c.times.size(); ++a) {
      for (std::size_t b = 0; b < c.times.size(); ++b) {
        const Machine &better = machines()[a], &worse = machines()[b];
        if (a == b || !is_at_least(better, worse, c.type)) continue;
        const double factor = slower_by(c.times[a], c.times[b]);
        EXPECT_TRUE(factor <= kTie || is_measured(factor, better, worse, c.type))
            << c.text() << ": " << better.accelerator->id << " takes " << factor << " times as long as "
            << worse.accelerator->id;
      }
    }
  }
}

TEST(PhysicsOrder, FewerBitsAreNotSlower) {
  for (const Case& wide : cases()) {
    for (const Case& narrow : cases()) {
      if (narrow.model != wide.model || narrow.tp != wide.tp) continue;
      for (std::size_t i = 0; i < machines().size(); ++i) {
        const Machine& machine = machines()[i];
        if (!is_narrower(narrow.type, wide.type, *machine.accelerator)) continue;
        const double factor = slower_by(narrow.times[i], wide.times[i]);
        EXPECT_TRUE(factor <= kTie || is_measured(factor, machine, machine, narrow.type))
            << narrow.text() << " on " << machine.accelerator->id << " takes " << factor << " times as long as "
            << model::name(wide.type);
      }
    }
  }
}

// A regression: estimates of PCIe cards once beat a measured card that is better in every respect.
TEST(PhysicsOrder, CardsOnPcieAreNotFasterThanTheMeasuredOnes) {
  const auto machine = [](const char* name) {
    return *std::find_if(machines().begin(), machines().end(),
                         [&](const Machine& m) { return m.accelerator->id == name; });
  };
  const auto mixtral = compared().model("mixtral-8x7b-v0.1"), llama = compared().model("llama-3.1-70b");
  EXPECT_LE(slower_by(steps(*mixtral, machine("h100-sxm"), 1, DType::int4),
                      steps(*mixtral, machine("h100-pcie"), 1, DType::int4)),
            1);
  EXPECT_LE(slower_by(steps(*llama, machine("l40s"), 8, DType::bf16), steps(*llama, machine("l4"), 8, DType::bf16)), 1);
}

}  // namespace
}  // namespace plimsoll::configs
