// SPDX-License-Identifier: Apache-2.0
// A study file (docs/study-file.md). It is read once. Each point of its sweep is the file with the swept values
// inserted, so a point obeys exactly the rules of a file, and the file need be valid only together with its sweep.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "configs/catalogue.h"
#include "configs/yaml_document.h"
#include "load/scenario.h"
#include "load/workload.h"
#include "model/accelerator.h"
#include "model/engine_profile.h"
#include "model/llm_shape.h"
#include "sched/metrics_collector.h"
#include "sched/policy_config.h"
#include "sched/router.h"
#include "study/file/cell.h"
#include "study/file/trace_store.h"

namespace plimsoll::study {

/// Places in the study file, for error messages of later checks.
struct Places {
  Where pools, prefill, decode, transfer;  // with pools for prefill and decode
  Where study, model, hardware, dtype, tp, replicas, instances, autoscaling, failures, scheduler, engine, workload;
};

/// The machine of a point: one kind of instance with its accelerators and its price.
struct Hardware {
  std::string label;                                        // an instance's name, or "accelerator x count"
  std::shared_ptr<const model::Accelerator> accelerator;    // null: not stated (allowed only for constant engines)
  std::int32_t count = 1;                                   // number of accelerators per instance
  std::shared_ptr<const model::Interconnect> interconnect;  // null: unknown
  std::optional<double> usd_per_hour;                       // per instance
  std::string price_note;                                   // "on demand, us-east-1, 2026-07"
  std::string price_date;  // month of the catalogue's price: "2026-07"; empty: no price, or the user's
  std::shared_ptr<const configs::ThisMachine> this_machine;  // null: the hardware is not this machine
};

/// How many replicas run, and over how many accelerators each is split.
struct Deployment {
  std::int32_t tp = 1, pp = 1, replicas = 1;
  std::int32_t ep = 1;     // groups of the tp ranks that hold different experts
  bool tp_is_max = false;  // "max": all accelerators of an instance
  sched::RouterKind router = sched::RouterKind::least_outstanding;
  sched::RouterOptions router_options = {};
  std::optional<std::int32_t> instances;
  std::optional<sched::AutoscalingConfig> autoscaling;  // if set, `replicas` is the number at the start
  load::FailureConfig failures;
  /// Returns whether the same replicas serve throughout the run.
  [[nodiscard]] bool is_fixed() const { return !autoscaling && failures.mean_between == 0; }
  /// Returns the largest number of replicas at any time.
  [[nodiscard]] std::int32_t most_replicas() const {
    return autoscaling ? std::max(replicas, autoscaling->max) : replicas;
  }
};

/// One axis of a `plan` search: a path into the file and its values, as written.
struct SearchAxis {
  std::string path;  // "deployment.tp"
  std::vector<configs::Node> values;
};

/// What `plan` optimises; all but capacity and throughput are minimised.
enum class Objective : std::uint8_t { cost, capacity, gpus, latency, throughput, cost_per_token };

/// The `search` block (docs/study-file.md). A missing axis keeps the study's own value.
struct SearchSpec {
  std::vector<SearchAxis> axes;
  std::vector<std::int32_t> replicas_per_instance, instance_counts;  // used instead of replicas; 0: as many as fit
  std::optional<double> max_usd_per_hour;
  std::optional<std::int64_t> max_gpus;
  Objective objective = Objective::cost;
  double confidence = 0.95;
  // With pools for prefill and decode:
  bool finds_split = false;          // `split: auto`: how many of `totals` compute prompts
  std::vector<std::int32_t> totals;  // replicas of both pools together; empty: chosen by the search
  std::optional<Where> pool_key;     // the first key that is valid only with pools
};

/// All values of one point's study. Names are looked up, but nothing is derived.
struct PointSpec {
  std::string name;
  std::shared_ptr<const model::LlmShape> shape;  // null: not stated (allowed only for constant engines)
  std::string model_name;                        // for the catalogue: a name, or the full path of a file
  std::string model_stated;                      // as spelt in the study
  bool model_is_file = false;                    // the model is a config.json or its folder, not a name
  model::DType weight_dtype = model::DType::fp16, kv_dtype = model::DType::fp16;
  Hardware hardware;
  std::shared_ptr<const model::EngineProfile> engine;
  std::string engine_name;  // as written; an alias may mean another version
  model::FrontEnd front_end = model::FrontEnd::none;
  Deployment deployment;
  sched::PolicyConfig policy;
  std::string scheduler_problem;               // contradictory limits that the product refuses at start-up; empty: none
  std::optional<double> free_memory_fraction;  // of what the weights leave (TensorRT-LLM); multiplies the KV pool
  load::WorkloadSpec workload;
  Seconds warmup{0};
  load::ClientLimits limits;
  sched::Slo slo;
  std::int32_t replications = 1;
  std::string weights, prompts;  // for the executor: full file paths; empty: generated from the seed
  std::optional<SearchSpec> search;
  Places places;
  std::vector<std::string> notes;       // settings that are accepted but have no effect
  std::vector<std::string> load_notes;  // the same for settings of the load
  /// The prefill pool; null: one pool. With two pools, all other members describe the decode pool.
  std::shared_ptr<const PointSpec> prefill;
  bool in_pools = false;  // this is one of two pools
  load::TransferConfig transfer;
  bool transfer_stated = false;  // the bandwidth is the study's, not our estimate
  load::LocalPrefill local_prefill;
  /// Returns whether the same replicas serve throughout the run, in all pools.
  [[nodiscard]] bool is_fixed() const { return deployment.is_fixed() && (!prefill || prefill->deployment.is_fixed()); }
};

/// One swept key with its values, in the order of the file.
struct SweptKey {
  std::string path;  // as written: "workload.concurrency"
  std::vector<configs::Node> values;
};

/// A path and the value to insert there into a point's file.
using Setting = std::pair<std::string, configs::Node>;
/// Parses `yaml` as a value for `path`; errors name `origin` as the source.
[[nodiscard]] configs::Node setting_value(const std::string& yaml, const std::string& origin);

/// A point written as a study file of its own.
struct PointFile {
  std::string yaml;
  std::vector<std::string> files;  // existing files that it names: traces, a model's config.json …
};

using Overrides = std::vector<std::pair<std::string, std::string>>;  // path, value as YAML

class Study {
 public:
  /// Reads and checks a study; tries every value of its sweep once. Throws InputError with file:line:column.
  Study(const std::string& file, const Overrides& overrides, std::shared_ptr<const configs::Catalogue> catalogue);

  /// The same for a parsed document. `file` is its name in messages; relative paths start from that file's folder.
  Study(configs::Document document, const std::string& file, const Overrides& overrides,
        std::shared_ptr<const configs::Catalogue> catalogue);

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::string title() const;
  /// Returns notes on values in other spellings or without effect, in the study and its first point. Notes on the load
  /// are left out if `of_load` is false.
  [[nodiscard]] std::vector<std::string> notes(bool of_load = true) const;
  [[nodiscard]] std::size_t point_count() const { return points_; }
  [[nodiscard]] std::vector<std::string> swept_keys() const;
  /// Returns the swept values of a point; the last key varies fastest.
  [[nodiscard]] std::vector<Cell> swept_values(std::size_t index) const;
  /// Reads one point, with `settings` applied on top. Throws InputError. Thread-safe.
  [[nodiscard]] PointSpec point(std::size_t index, std::span<const Setting> settings = {}) const;
  /// Returns one point as a file of its own, with the existing files that it names.
  [[nodiscard]] PointFile point_file(std::size_t index, std::span<const Setting> settings = {}) const;
  /// Returns whether a point's file has a value at this path.
  [[nodiscard]] bool states(std::size_t index, std::string_view path) const;
  [[nodiscard]] const configs::Catalogue& catalogue() const { return *catalogue_; }
  /// Returns the file with the overrides applied and file names made absolute: it gives the same points again.
  [[nodiscard]] std::string resolved_yaml() const;

 private:
  [[nodiscard]] configs::Document document_with(const std::vector<std::size_t>& choice,
                                                std::span<const Setting> settings = {}) const;
  [[nodiscard]] PointSpec point_with(const std::vector<std::size_t>& choice) const;
  [[nodiscard]] std::vector<std::size_t> choice_of(std::size_t index) const;
  void settle_hardware();
  void read_sweep();
  void read_models();
  void try_every_value() const;
  [[nodiscard]] std::optional<double> common_drift() const;

  std::string file_;
  std::shared_ptr<const configs::Catalogue> catalogue_;
  std::shared_ptr<TraceStore> traces_;
  configs::Document document_;  // including its sweep
  configs::Document base_;      // without the sweep
  std::vector<SweptKey> sweep_;
  std::vector<std::string> notes_;
  std::size_t points_ = 1;
};

}  // namespace plimsoll::study
