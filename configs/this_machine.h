// SPDX-License-Identifier: Apache-2.0
// `hardware: this-machine`: what `plimsoll calibrate` measured here, or a probe's two numbers until then.
//
// Ranks that share a CPU get a share of its cores and of its bandwidth, so a machine has an accelerator for every
// number of ranks that was calibrated; a number in between is derived and says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "configs/yaml_document.h"
#include "model/accelerator.h"
#include "model/engine_profile.h"

namespace plimsoll::configs {

struct ThisMachine {
  struct Share {
    std::int32_t ranks = 1;                                             // that work at the same time
    model::DType dtype = model::DType::bf16;                            // of weights and KV cache
    std::shared_ptr<const model::Accelerator> accelerator;              // of one of them
    std::shared_ptr<const model::Interconnect> interconnect = nullptr;  // its all-reduces; null: the machine's
  };
  std::string description;  // "AMD EPYC, 2 threads, AVX-512"
  std::int32_t cores = 1;
  std::vector<Share> shares;  // by dtype, then ascending ranks beginning with 1
  std::shared_ptr<const model::Interconnect> interconnect;
  std::shared_ptr<const model::EngineProfile> engine;  // its host times; null: the catalogue's
  // Mean rates of all cores when it was calibrated, bytes/s and flop/s: what a quiet machine gives. 0: not known.
  double read_bandwidth = 0, multiply_add = 0;
};

/// What one of `ranks` ranks (TP ranks of all replicas) gets with weights of this type. fp16 runs as bf16. Numbers and
/// types that were not calibrated come from the next smaller number, or another type, with peaks and bandwidth divided,
/// and are no longer called calibrated.
[[nodiscard]] ThisMachine::Share share_of(const ThisMachine& machine, std::int32_t ranks,
                                          model::DType dtype = model::DType::bf16);

/// What tells this kind of machine from another: processor, instruction sets, cores, memory. Usable as a file name.
[[nodiscard]] std::string machine_fingerprint();
/// Where calibration of a device ("cpu", "cuda") is kept: $XDG_DATA_HOME/plimsoll/<fingerprint>-<device>.yaml.
[[nodiscard]] std::string machine_file(const std::string& device);

/// The version of machine files; others are refused.
inline constexpr std::int64_t kMachineFileVersion = 2;
/// Reads a machine file. Throws InputError for another version or another machine, and as the readers of accelerators
/// and engines do.
[[nodiscard]] ThisMachine read_this_machine(const Document& document);

}  // namespace plimsoll::configs
