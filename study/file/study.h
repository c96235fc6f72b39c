// SPDX-License-Identifier: Apache-2.0
// A study file (docs/study-file.md): read once, then each point of its sweep is the file with the swept values put in
// their places. A point therefore obeys exactly the rules of a file, and the file need only be valid together with its
// sweep.
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

/// Places in the study for the messages of later checks.
struct Places {
  Where study, model, hardware, dtype, tp, replicas, instances, autoscaling, failures, scheduler, engine, workload;
};

struct Hardware {
  std::string label;                                        // an instance's name, or "accelerator x count"
  std::shared_ptr<const model::Accelerator> accelerator;    // null: not stated, which only a constant engine allows
  std::int32_t count = 1;                                   // accelerators of one instance
  std::shared_ptr<const model::Interconnect> interconnect;  // null: none is known
  std::optional<double> usd_per_hour;                       // of one instance
  std::string price_note;                                   // "on demand, us-east-1, 2026-07"
  std::string price_date;  // "2026-07", of the catalogue's price; empty: none, or the user's own
  std::shared_ptr<const configs::ThisMachine> this_machine;  // null: some other hardware
};

struct Deployment {
  std::int32_t tp = 1, pp = 1, replicas = 1;
  bool tp_is_max = false;  // "max": all accelerators of an instance
  sched::RouterKind router = sched::RouterKind::least_outstanding;
  std::optional<std::int32_t> instances;
  std::optional<sched::AutoscalingConfig> autoscaling;  // then `replicas` are there at the start
  load::FailureConfig failures;
  [[nodiscard]] bool is_fixed() const { return !autoscaling && failures.mean_between == 0; }
  /// The largest number of replicas at one time.
  [[nodiscard]] std::int32_t most_replicas() const {
    return autoscaling ? std::max(replicas, autoscaling->max) : replicas;
  }
};

/// One thing that `plan` varies: a path into the file and its values, as written.
struct SearchAxis {
  std::string path;  // "deployment.tp"
  std::vector<configs::Node> values;
};

enum class Objective : std::uint8_t { cost, capacity, gpus, latency, throughput, cost_per_token };

/// The `search` block (docs/study-file.md); a missing axis keeps the study's own value.
struct SearchSpec {
  std::vector<SearchAxis> axes;
  std::vector<std::int32_t> replicas_per_instance, instance_counts;  // instead of replicas; 0: as many as fit
  std::optional<double> max_usd_per_hour;
  std::optional<std::int64_t> max_gpus;
  Objective objective = Objective::cost;
  double confidence = 0.95;
};

/// All values of one point's study, with names looked up but nothing derived yet.
struct PointSpec {
  std::string name;
  std::shared_ptr<const model::LlmShape> shape;  // null: not stated, which only a constant engine allows
  std::string model_name;                        // as the catalogue takes it: a name, or the full name of a file
  std::string model_stated;                      // as the study spells it
  bool model_is_file = false;                    // a config.json or its folder, not a name
  model::DType weight_dtype = model::DType::fp16, kv_dtype = model::DType::fp16;
  Hardware hardware;
  std::shared_ptr<const model::EngineProfile> engine;
  std::string engine_name;  // as written: an alias may name another version
  model::FrontEnd front_end = model::FrontEnd::none;
  Deployment deployment;
  sched::PolicyConfig policy;
  std::string scheduler_problem;               // limits that the product refuses at start-up; empty: none
  std::optional<double> free_memory_fraction;  // of the memory left by weights (TensorRT-LLM); multiplies the KV pool
  load::WorkloadSpec workload;
  Seconds warmup{0};
  load::ClientLimits limits;
  sched::Slo slo;
  std::int32_t replications = 1;
  std::string weights, prompts;  // for the executor: full names of files; empty: drawn from the seed
  std::optional<SearchSpec> search;
  Places places;
  std::vector<std::string> notes;       // settings that were accepted but have no effect
  std::vector<std::string> load_notes;  // the same of the load
};

/// One swept key with its values, in file order.
struct SweptKey {
  std::string path;  // as written: "workload.concurrency"
  std::vector<configs::Node> values;
};

/// A value put into a point's file at a path.
using Setting = std::pair<std::string, configs::Node>;
/// `yaml` as a value for `path`; errors name `origin`.
[[nodiscard]] configs::Node setting_value(const std::string& yaml, const std::string& origin);

/// A point as a file of its own.
struct PointFile {
  std::string yaml;
  std::vector<std::string> files;  // those that it names and that exist: traces, a model's config.json …
};

using Overrides = std::vector<std::pair<std::string, std::string>>;  // path, YAML value

class Study {
 public:
  /// Reads and checks a study: every value of its sweep is tried once. Throws InputError with file:line:column.
  Study(const std::string& file, const Overrides& overrides, std::shared_ptr<const configs::Catalogue> catalogue);

  /// The same from a document; `file` is its name in messages; relative paths start from its folder.
  Study(configs::Document document, const std::string& file, const Overrides& overrides,
        std::shared_ptr<const configs::Catalogue> catalogue);

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::string title() const;
  /// Notes on values in other spellings or without effect, in the study and its first point. Those on the load are
  /// left out where it does not matter.
  [[nodiscard]] std::vector<std::string> notes(bool of_load = true) const;
  [[nodiscard]] std::size_t point_count() const { return points_; }
  [[nodiscard]] std::vector<std::string> swept_keys() const;
  /// The swept values of a point; the last key runs fastest.
  [[nodiscard]] std::vector<Cell> swept_values(std::size_t index) const;
  /// Reads one point, with some settings overridden. Throws InputError. Thread-safe.
  [[nodiscard]] PointSpec point(std::size_t index, std::span<const Setting> settings = {}) const;
  [[nodiscard]] PointFile point_file(std::size_t index, std::span<const Setting> settings = {}) const;
  /// Whether a point's file has a value at this path.
  [[nodiscard]] bool states(std::size_t index, std::string_view path) const;
  [[nodiscard]] const configs::Catalogue& catalogue() const { return *catalogue_; }
  /// The file with the overrides applied and its file names made absolute: running it again gives the same points.
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
  configs::Document document_;  // with its sweep
  configs::Document base_;      // without
  std::vector<SweptKey> sweep_;
  std::vector<std::string> notes_;
  std::size_t points_ = 1;
};

}  // namespace plimsoll::study
