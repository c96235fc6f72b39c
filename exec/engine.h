// SPDX-License-Identifier: Apache-2.0
// The model of one replica on its devices: TP ranks, weights and KV cache. Runs forwards; knows nothing of requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <filesystem>
#include "exec/backend.h"
#include "exec/forward_device.h"
#include "exec/remote_ranks.h"
#include "exec/weights/weights.h"
#include "model/architecture.h"
#include "model/op_list.h"

namespace plimsoll::exec {

enum class DeviceKind : std::uint8_t { cpu, cuda };
/// The configuration of a replica of the executor; the same on all its ranks.
struct EngineConfig {
  model::Architecture architecture;
  DeviceKind device = DeviceKind::cpu;
  CommunicatorKind communicator = CommunicatorKind::automatic;
  std::int32_t first_device = 0;  // GPU of the first rank of this process
  std::int32_t tp = 1;
  model::DType weight_dtype = model::DType::bf16, kv_dtype = model::DType::bf16;  // fp32 or bf16; executes_weights()
  std::int64_t kv_blocks = 0;
  std::int32_t block_tokens = 16;
  std::int32_t sequences = 256;
  std::int64_t step_rows = 2048;
  int threads = 0;                              // CPU: total for this process's ranks; 0 for one per core
  std::optional<model::CpuTuning> tuning = {};  // CPU: this machine's; by the sizes of its caches if not stated
  double host_memory = 0;                       // CPU: bytes that this engine may allocate; 0 for all available memory
  bool graphs = true, poison = false;
};

/// Returns the threads of a process that has the machine's cores to itself: as stated, as tuned, or one per core.
[[nodiscard]] int thread_count(const EngineConfig& config);

/// Returns whether the executor runs weights of this type on a device: fp32 and bf16, on a CPU also int8 and int4.
[[nodiscard]] bool executes_weights(DeviceKind device, model::DType dtype);

/// One executed op, with Engine::trace_ops.
struct OpTrace {
  std::int64_t step = 0;
  std::int32_t rank = 0, layer = -1;  // -1: before or after the layers
  model::Op op;
  double measured_s = 0;
};

/// All ranks of one replica. Forwards are started and finished in the same order by one thread.
class Engine final : public ForwardDevice {
 public:
  /// Loads the weights, or draws random ones. Before it loads anything, it throws InputError for a model that cannot
  /// run in this configuration, and DeviceError if the device is missing or its memory too small. With `remote`, which
  /// must outlive the engine, the engine is this process's part of a group, and all processes must construct theirs at
  /// the same time.
  Engine(const EngineConfig& config, const WeightSource& weights, RemoteRanks* remote = nullptr);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Runs one forward and blocks until it has ended. Throws DeviceError; the engine is unusable after that.
  void run(const ForwardInput& input, ForwardOutput& output);
  /// The same in two halves, so that the host can prepare a forward while the device works. At most two forwards may be
  /// in flight; finish() blocks until the oldest has ended.
  void start(const ForwardInput& input) override;
  void finish(ForwardOutput& output) override;

  [[nodiscard]] std::vector<std::int64_t> recorded_decodes(std::int64_t rows) const override;
  [[nodiscard]] std::vector<std::int64_t> tuned_rows(std::int64_t rows) const override;

  /// Wakes ranks that wait for others. May be called on any thread.
  void abort();

  /// Records every op from now on. Each op is then waited for, and graphs must be off.
  void trace_ops();
  [[nodiscard]] std::vector<OpTrace>& traces();

  /// Swapping: copies a block of all ranks to or from host memory; of this process's ranks if it does not lead.
  [[nodiscard]] std::int64_t bytes_per_block() const override;
  void read_block(std::int32_t block, std::span<std::byte> host) override;
  void write_block(std::int32_t block, std::span<const std::byte> host) override;

  [[nodiscard]] std::string description() const;
  /// Returns Backend::note() of one rank.
  [[nodiscard]] std::string note() const;
  /// Returns the description of one rank's device.
  [[nodiscard]] std::string device() const;
  [[nodiscard]] const EngineConfig& config() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bytes that an engine of this configuration needs on each device: weights, KV cache, workspace.
struct EngineMemory {
  double weights = 0, kv = 0, workspace = 0;
};
[[nodiscard]] EngineMemory engine_memory(const EngineConfig& config);

/// Returns the bytes that can be allocated without swapping: the kernel's MemAvailable, or less if a control group (a
/// container, a batch job) has a lower limit. File pages of the group count as available. nullopt if the kernel does
/// not report it. `root` is the folder that holds /proc and /sys.
[[nodiscard]] std::optional<double> available_memory(const std::filesystem::path& root = "/");

}  // namespace plimsoll::exec
