// SPDX-License-Identifier: Apache-2.0
// `hardware: this-machine`: the results of `plimsoll calibrate` on this machine, or two numbers from a probe if there
// are none.
//
// Ranks that share a CPU get a share of its cores and of its bandwidth. So a machine has one accelerator for each
// number of ranks that was calibrated. Values for other numbers are derived and marked as such.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <optional>
#include "configs/yaml_document.h"
#include "model/accelerator.h"
#include "model/cpu_tuning.h"
#include "model/engine_profile.h"

namespace plimsoll::configs {

/// The calibration of one device of this machine, or what a probe found.
struct ThisMachine {
  struct Share {
    std::int32_t ranks = 1;                                 // ranks that work concurrently
    model::DType dtype = model::DType::bf16;                // type of weights and KV cache
    std::shared_ptr<const model::Accelerator> accelerator;  // the share of one of these ranks
    std::shared_ptr<const model::Interconnect> interconnect =
        nullptr;  // all-reduces of these ranks; null: the machine's
  };
  std::string description;  // "AMD EPYC, 2 threads, AVX-512"
  std::int32_t cores = 1;
  std::vector<Share> shares;  // by dtype, then by ascending ranks from 1
  std::shared_ptr<const model::Interconnect> interconnect;
  std::shared_ptr<const model::EngineProfile> engine;  // host times; null: the catalogue's
  // Mean rates of all cores during calibration, in bytes/s and flop/s, on a quiet machine. 0: unknown.
  double read_bandwidth = 0, multiply_add = 0;
};

/// Returns the share of one of `ranks` ranks (TP ranks of all replicas) with weights of this type. fp16 runs as bf16.
/// If the number or type was not calibrated, it uses the next smaller number, or another type, with peaks and bandwidth
/// divided, and marks the result as not calibrated.
[[nodiscard]] ThisMachine::Share share_of(const ThisMachine& machine, std::int32_t ranks,
                                          model::DType dtype = model::DType::bf16);

/// Returns what distinguishes this kind of machine: processor, instruction sets, cores, memory. Usable as a file name.
[[nodiscard]] std::string machine_fingerprint();
/// Returns $XDG_DATA_HOME/plimsoll, or its default: what calibrations write.
[[nodiscard]] std::string data_folder();
/// Returns the file with the calibration of a device ("cpu", "cuda"):
/// $XDG_DATA_HOME/plimsoll/<fingerprint>-<device>.yaml.
[[nodiscard]] std::string machine_file(const std::string& device);

/// The version of machine files. Other versions are refused.
inline constexpr std::int64_t kMachineFileVersion = 2;
/// Reads a machine file. Throws InputError for another version, for another machine, and where the readers of
/// accelerators and engines do.
[[nodiscard]] ThisMachine read_this_machine(const Document& document);

/// Throws InputError for an unknown key or a value out of range.
[[nodiscard]] model::CpuTuning read_tuning(const Node& node);
/// Returns the tuning as the value of the key: lines that begin with `pad`.
[[nodiscard]] std::string tuning_yaml(const model::CpuTuning& tuning, const std::string& pad);
/// Returns the tuning in a machine file; none if it has none. Throws as read_this_machine().
[[nodiscard]] std::optional<model::CpuTuning> tuning_of(const Document& document);
/// Returns the tuning of this machine's calibration; none without one.
[[nodiscard]] std::optional<model::CpuTuning> calibrated_tuning();

}  // namespace plimsoll::configs
