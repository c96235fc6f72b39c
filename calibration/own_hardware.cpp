// SPDX-License-Identifier: Apache-2.0
#include "calibration/own_hardware.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "configs/quantity.h"
#include "model/error.h"
#include "sched/policy_table.h"
#include "study/file/study.h"
#include "study/run/resolve.h"
#include "validation/compare.h"

namespace plimsoll::calibration {
namespace {

using validation::MeasuredPoint;

constexpr double kGiga = 1e9, kTera = 1e12, kMega = 1e6;

struct Named {
  std::string name;  // of an accelerator or an instance, without the count
  int count = 0;     // 0: not stated
};

Named named(const std::string& hardware) {
  const std::size_t times = hardware.find(" x ");
  if (times == std::string::npos) return {hardware, 0};
  const std::optional<double> count = configs::parse_number(hardware.substr(times + 3));
  constexpr double kMost = 65536;
  if (!count || *count < 1 || *count > kMost || *count != std::floor(*count))
    throw InputError(fmt::format("hardware: found '{}', expected \"ACCELERATOR x COUNT\"", hardware.substr(0, 60)));
  return {hardware.substr(0, times), static_cast<int>(*count)};
}

// Returns the accelerator in the catalogue; empty if there is none. this-machine does not count. An accelerator from an
// earlier fit of the same name does not count either, so it is fitted again.
std::string accelerator_of(const Named& hardware, const OwnEngine& engine, const configs::Catalogue& catalogue) {
  if (configs::canonical_name(hardware.name) == "this-machine") return {};
  if (catalogue.has_instance(hardware.name)) return catalogue.instance(hardware.name)->accelerator;
  const std::string id = catalogue.identifier("accelerators", hardware.name).value_or("");
  return id == engine.name && !catalogue.ships("accelerators", id) ? "" : id;
}

template <class Visit>
void for_each_run(const OwnRuns& runs, const Visit& visit) {
  for (const validation::MeasuredTable& table : runs.tables)
    for (const MeasuredPoint& p : table.points) visit(p);
}

// An unknown machine: it has generic efficiencies, so the fitted peak and bandwidth are effective values.
configs::Document unknown_accelerator(const std::string& name, const configs::Catalogue& catalogue) {
  configs::Document draft = configs::Document::from_text(
      "memory: 1000000 GB\nmemory_bandwidth: 1000 GB/s\nfp32: 100 TFLOP/s\nfp16: 100 TFLOP/s\nbf16: 100 TFLOP/s\n"
      "fp8: 100 TFLOP/s\nint8: 100 TFLOP/s\ninterconnect: pcie-gen5\ncalibrated: true\n"
      "source: \"fitted to runs of an engine; nothing else is known of it\"\n",
      "fitted " + name);
  const configs::Document estimates = configs::Document::from_file(catalogue.root() + "/estimates.yaml");
  draft.set("efficiency", estimates.root().at("efficiency"));
  return draft;
}

// The catalogue's accelerator without its measured kernels, which are not fitted.
configs::Document known_accelerator(const std::string& id, const configs::Catalogue& catalogue) {
  configs::Document draft = catalogue.document("accelerators", id);
  for (const char* const key : {"kernels", "own_kernels", "aliases"})
    if (draft.root().has(key)) draft.remove(key);
  if (!draft.root().has("efficiency")) {
    const configs::Document estimates = configs::Document::from_file(catalogue.root() + "/estimates.yaml");
    draft.set("efficiency", estimates.root().at("efficiency"));
  }
  draft.set("calibrated", "true", Where{"fitted " + id, 0, 0});
  return draft;
}

study::PointSpec spec_of(const MeasuredPoint& point, const std::shared_ptr<const configs::Catalogue>& catalogue) {
  try {
    return study::Study(configs::Document::from_text(validation::study_text({&point}), "study"), "study", {}, catalogue)
        .point(0);
  } catch (const InputError& error) {
    throw InputError(point.where, error.where().file == "study" ? error.text() : error.what());
  }
}

// Lower bounds derived from the runs: the bandwidth at which steps read their weights, and the FLOP/s at which prompts
// were computed.
struct Least {
  double bytes_per_s = 0, flops = 0;
};

Least least_of(const MeasuredPoint& p, const study::PointSpec& spec) {
  Least least;
  if (!spec.shape) return least;
  const double weights = model::weight_bytes_per_rank(*spec.shape, spec.weight_dtype, p.tp, 1).value;
  const double work = 2 * model::active_weight_count(*spec.shape) / p.tp;
  const double active = model::active_weight_count(*spec.shape) / model::weight_count(*spec.shape);
  if (p.tpot_mean_s) least.bytes_per_s = active * weights / *p.tpot_mean_s;
  if (p.ttft_mean_s) least.flops = work * static_cast<double>(p.input_tokens) / *p.ttft_mean_s;
  if (p.output_tokens_per_s) {
    const double tokens = *p.output_tokens_per_s * (1 + static_cast<double>(p.input_tokens) / mean_output(p));
    least.flops = std::max(least.flops, work * tokens / p.replicas);
  }
  return least;
}

// Makes a number to fit from a figure of the accelerator: adds its file and its path there. The path is also its name.
ServingNumber number(const OwnHardware& hardware, FitNumber figure, const std::string& unit) {
  ServingNumber n;
  n.number = std::move(figure);
  n.file = "accelerators/" + hardware.name;
  n.path = n.number.name;
  n.unit = unit;
  return n;
}

// The efficiency of a server's attention kernels may differ greatly from that of its matrix products.
void add_efficiencies(OwnHardware& hardware) {
  const configs::Node efficiency = hardware.draft.root().at("efficiency");
  constexpr double kSpread = 0.5, kLow = 0.002, kHigh = 0.98;
  const auto add = [&](const std::string& op, const std::string& key, double low, double high) {
    const double prior = efficiency.at(op).at(key).as_number();
    hardware.numbers.push_back(number(hardware, {"efficiency." + op + "." + key, prior, kSpread, low, high}, ""));
  };
  if (hardware.is_known) add("gemm", "compute", kLow, kHigh);
  add("gemm", "memory", kLow, kHigh);
  // On a processor, arithmetic and reads may not overlap at all: p is then 1.
  constexpr double kSum = 1, kMaximum = 16;
  if (!hardware.is_known) add("gemm", "p", kSum, kMaximum);
  add("decode_attention", "memory", kLow, kHigh);
  add("prefill_attention", "compute", kLow, kHigh);
}

void add_peaks(OwnHardware& hardware, const Least& least) {
  const configs::Node gemm = hardware.draft.root().at("efficiency").at("gemm");
  // Measured times include host times and queueing, so the hardware is faster than the bounds.
  constexpr double kOwnPart = 1.3, kSpread = 1, kFarthest = 1000;
  const double bandwidth = std::max(1e8, least.bytes_per_s) * kOwnPart / gemm.at("memory").as_number() / kGiga;
  const double peak = std::max(1e9, least.flops) * kOwnPart / gemm.at("compute").as_number() / kTera;
  constexpr double kSlowest = 1e-3;  // GB/s, TFLOP/s: the catalogue refuses smaller figures
  const auto add = [&](const char* path, double prior, const char* unit) {
    const double low = std::max(kSlowest, prior / kFarthest);
    hardware.numbers.push_back(number(hardware, {path, prior, kSpread, low, prior * kFarthest}, unit));
  };
  add("memory_bandwidth", bandwidth, "GB/s");
  add("bf16", peak, "TFLOP/s");
  hardware.numbers.back().also = {"fp16", "fp32", "fp8", "int8"};
}

// Returns the memory that leaves `tokens` in the KV pool of one replica of a run.
double memory_for(double tokens, const MeasuredPoint& run, const OwnHardware& hardware,
                  const std::shared_ptr<configs::Catalogue>& catalogue) {
  configs::Document draft = hardware.draft;
  double memory = spec_of(run, catalogue).hardware.accelerator->memory.value;
  // A profile's limits, and with them the activations, may depend on the memory. So the run is read again with each.
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    draft.set("memory", fmt::format("{:.0f} B", memory), Where{"fitted " + hardware.name, 0, 0});
    catalogue->add_entry("accelerators", hardware.name, draft);
    const model::MemoryPlan plan = study::point_memory(spec_of(run, catalogue));
    const double fraction = plan.budget.value / plan.visible.value;
    memory -= (plan.kv.value - tokens * plan.kv_per_token.value) / fraction;
  }
  catalogue->add_entry("accelerators", hardware.name, hardware.draft);
  return memory;
}

// Sets the memory of unknown hardware: as stated by the user, else as derived from the server's KV pool, else as needed
// for all users at once.
void set_memory(OwnHardware& hardware, const OwnEngine& engine, const OwnRuns& runs,
                const std::shared_ptr<configs::Catalogue>& catalogue) {
  const Where where{"fitted " + hardware.name, 0, 0};
  double bytes = engine.memory_bytes.value_or(0);
  if (!engine.memory_bytes) {
    constexpr double kRoom = 1.25;
    for_each_run(runs, [&](const MeasuredPoint& row) {
      MeasuredPoint p = row;
      p.hardware = hardware.label_of(row);
      p.engine = engine.name;
      double users = p.load_kind == "closed_loop" ? p.load_value / p.replicas : 1;
      // Numbered slots share the pool equally, whether they are used or not.
      const sched::PolicyConfig policy = spec_of(p, catalogue).policy;
      if (sched::traits_of(policy).numbered_slots)
        users = std::max(users, static_cast<double>(sched::resolve_limits(policy).max_running));
      const double needed = kRoom * users * static_cast<double>(p.input_tokens + p.output_tokens);
      bytes = std::max(bytes, memory_for(engine.pool_tokens.value_or(needed), p, hardware, catalogue));
    });
    hardware.warnings.push_back(
        engine.pool_tokens
            ? fmt::format("memory: {:.3g} GB, enough for the KV pool that the server states", bytes / kGiga)
            : fmt::format(
                  "the memory of {} is not known: {:.3g} GB are assumed, enough for the sequences of all users; state "
                  "it with --memory",
                  hardware.name, bytes / kGiga));
  }
  hardware.draft.set("memory", fmt::format("{:.0f} MB", std::ceil(bytes / kMega)), where);
}

std::vector<std::pair<std::string, int>> counts_of(const OwnRuns& runs, const configs::Catalogue& catalogue) {
  std::vector<std::pair<std::string, int>> counts;
  for_each_run(runs, [&](const MeasuredPoint& p) {
    const Named hardware = named(p.hardware);
    if (hardware.count == 0 && catalogue.has_instance(hardware.name))
      counts.emplace_back(p.hardware, catalogue.instance(hardware.name)->count);
  });
  return counts;
}

}  // namespace

std::string OwnHardware::label_of(const MeasuredPoint& point) const {
  int count = named(point.hardware).count;
  for (const auto& [label, instance_count] : counts)
    if (label == point.hardware) count = instance_count;
  return fmt::format("{} x {}", name, count > 0 ? count : std::max(1, point.tp * point.replicas));
}

std::optional<OwnHardware> own_hardware(const OwnEngine& engine, const OwnRuns& runs,
                                        const std::shared_ptr<configs::Catalogue>& shared) {
  configs::Catalogue& catalogue = *shared;
  std::set<std::string> known, unknown;
  for_each_run(runs, [&](const MeasuredPoint& p) {
    const Named hardware = named(p.hardware);
    const std::string id = accelerator_of(hardware, engine, catalogue);
    (id.empty() ? unknown : known).insert(id.empty() ? hardware.name : id);
  });
  if (unknown.empty() && !engine.fit_hardware) return {};
  std::set<std::string> all = known;
  all.insert(unknown.begin(), unknown.end());
  if (all.size() > 1)
    throw InputError(
        fmt::format("an accelerator can be fitted to the runs of one accelerator only, found {}; state --hardware "
                    "with one of them",
                    fmt::join(all, ", ")));
  if (catalogue.ships("accelerators", engine.name))
    throw InputError(
        fmt::format("--engine: '{}' is an accelerator of the catalogue, and hardware is fitted as well; "
                    "give your profile another name",
                    engine.name));
  const Where where{"fitted " + engine.name, 0, 0};
  OwnHardware hardware{.draft = known.empty() ? unknown_accelerator(engine.name, catalogue)
                                              : known_accelerator(*known.begin(), catalogue),
                       .numbers = {},
                       .warnings = {},
                       .name = engine.name,
                       .is_known = !known.empty(),
                       .counts = counts_of(runs, catalogue)};
  hardware.draft.set("name", '"' + engine.name + '"', where);
  add_efficiencies(hardware);
  if (!known.empty()) return hardware;
  const std::string& stated = *unknown.begin();
  const bool is_name = stated != engine.name && configs::canonical_name(stated) != "this-machine" &&
                       stated.find_first_of("\"\\[],{}\n") == std::string::npos;
  if (is_name) hardware.draft.set("aliases", "[\"" + configs::canonical_name(stated) + "\"]", where);
  catalogue.add_entry("accelerators", engine.name, hardware.draft);
  catalogue.add_entry("engines", engine.name, catalogue.document("engines", engine.like));
  Least least;
  bool several = false;
  for_each_run(runs, [&](const MeasuredPoint& row) {
    MeasuredPoint p = row;
    p.hardware = hardware.label_of(row);
    p.engine = engine.name;
    several = several || p.tp > 1;
    const Least one = least_of(p, spec_of(p, shared));
    least.bytes_per_s = std::max(least.bytes_per_s, one.bytes_per_s);
    least.flops = std::max(least.flops, one.flops);
  });
  add_peaks(hardware, least);
  set_memory(hardware, engine, runs, shared);
  if (several) hardware.warnings.push_back("the link between accelerators is unknown: PCIe 5 is assumed");
  return hardware;
}

}  // namespace plimsoll::calibration
