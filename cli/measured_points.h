// SPDX-License-Identifier: Apache-2.0
// Runs the points of a study on the real executor: checks which can run, loads engines and labels the results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/options.h"
#include "cli/pool_process.h"
#include "exec/engine.h"
#include "exec/group/leader.h"
#include "exec/live/live_engines.h"
#include "exec/weights/open_model.h"
#include "load/scenario.h"
#include "study/run/run_study.h"

namespace plimsoll::cli {

/// Returns the device of --`option` (cpu, cuda). Without the option, returns the device of the engine that the study in
/// `file` states; `file` may be empty. If the options name this project's engine for another device, replaces it by the
/// one for the returned device. Throws InputError for other names.
[[nodiscard]] exec::DeviceKind device_option(Parsed& parsed, const std::string& file, const char* option = "device");

/// How to measure the points of a study on this machine.
struct MeasureSettings {
  exec::DeviceKind device = exec::DeviceKind::cpu;
  bool as_is = false;  // measure here, whatever hardware the study names
  bool trace_ops = false;
  int threads = 0;    // CPU threads per process; 0: one per core
  int processes = 1;  // started by mpirun: each has its share of every replica's ranks
};

/// Op times of one replica's engine, in order.
struct ReplicaTraces {
  std::int32_t first_rank = 0;  // ranks are numbered across all replicas
  std::vector<exec::OpTrace> ops;
};

/// Returns ops.csv (docs/measure.md): every op of a traced run with its measured and its predicted time. Predicts with
/// the scenario's accelerator and engine. Steps count from 1.
[[nodiscard]] std::string ops_csv(std::span<const ReplicaTraces> replicas, const load::Scenario& scenario);

class MeasuredPoints {
 public:
  MeasuredPoints(const study::Study& study, const MeasureSettings& settings, Console& console)
      : study_(study), settings_(settings), console_(console) {}

  /// Checks all points; call it before loading. Throws InputError for the first point that the executor cannot run, and
  /// DeviceError if a GPU is needed and none is present.
  void check() const;
  /// Checks one point, all of whose ranks are in this process. `instead` is the option to suggest, which needs no GPU.
  void check_only(std::size_t index, std::string_view instead) const;
  /// Loads the engines of a point that has been checked. They stay until this object is gone. Throws InputError and
  /// DeviceError.
  /// For points with one pool.
  [[nodiscard]] exec::LiveEngines& engines(const study::PointResult& point, const load::Scenario& scenario);
  /// With settings.processes > 1, call before the first run: sets their leader, which must outlive this object.
  void lead(exec::group::Leader& leader) { leader_ = &leader; }
  /// Returns the largest number of replicas of any point.
  [[nodiscard]] std::int32_t most_replicas() const;
  /// Measures a point (study::RunPoint). If a device fails, `stopped` is set and failure() says why.
  [[nodiscard]] sim::RunResult run(const study::PointResult& point, const load::Scenario& scenario,
                                   const sim::RunOptions& options);
  /// Adds to a result that it was measured, and on what hardware.
  void label(study::PointResult& point) const;

  /// Returns the transfers of a scenario at the speed that was measured when its engines were loaded; nullopt without
  /// pools.
  [[nodiscard]] std::optional<load::TransferConfig> measured_transfer(const load::Scenario& scenario) const;

  /// Returns the name of the executor's profile on a device, such as "plimsoll-cpu".
  [[nodiscard]] static const char* engine_name(exec::DeviceKind device);
  /// Returns why the device failed; empty if it has not.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Returns ops.csv of the point that ran last, with trace_ops.
  [[nodiscard]] const std::string& ops() const { return ops_; }

 private:
  void check_point(const study::PointSpec& spec) const;
  void check_pools(const study::PointSpec& spec) const;
  void check_points(std::size_t first, std::size_t end, std::string_view instead) const;
  void check_processes(const study::PointSpec& spec) const;
  void check_pool(const study::PointSpec& spec, std::int64_t blocks) const;
  void check_hardware(const study::PointSpec& spec) const;
  void load(const study::PointSpec& spec, const load::Scenario& scenario);
  void start_prefill_pool(exec::EngineConfig config, const study::PointSpec& spec, const load::Scenario& prefill);
  void make_engines(const exec::EngineConfig& config, const study::PointSpec& spec, std::int32_t replicas,
                    const exec::WeightSource& weights);
  void name_failure();
  void check_gpu(const study::PointSpec& spec) const;
  /// Returns a note if ranks share too few GPUs with --as-is; without it, throws InputError then.
  [[nodiscard]] std::string check_gpus(const study::PointSpec& spec) const;
  [[nodiscard]] std::string gpus_label(std::int32_t tp, std::int32_t replicas) const;
  [[nodiscard]] exec::PromptSource prompts_of(const study::PointSpec& spec) const;
  [[nodiscard]] std::string machine() const;
  void collect_ops(const load::Scenario& scenario);

  /// Points with equal values can use the same loaded engines.
  struct Loaded {
    std::string model, weights;
    std::uint64_t seed = 0;  // of random weights
    std::int32_t tp = 1, replicas = 1;
    model::DType weight_dtype = {}, kv_dtype = {};
    std::int64_t kv_blocks = 0, step_rows = 0;
    std::int32_t block_tokens = 0, sequences = 0;
    std::int32_t prefill_replicas = 0;  // in another process
    std::int64_t prefill_blocks = 0, prefill_rows = 0;
    bool operator==(const Loaded&) const = default;
  };

  const study::Study& study_;
  MeasureSettings settings_;
  Console& console_;
  exec::group::Leader* leader_ = nullptr;
  std::unique_ptr<exec::LiveEngines> engines_;
  std::unique_ptr<PoolProcess> prefill_;  // with pools
  exec::group::KvPath path_;              // from it to this process
  exec::LiveReplicas replicas_;           // the devices of both
  std::optional<Loaded> loaded_;          // identifies the loaded engines, which equal points reuse
  std::string failure_, ops_;
};

}  // namespace plimsoll::cli
