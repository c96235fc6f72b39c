// SPDX-License-Identifier: Apache-2.0
// Facts about this machine that need no calibration.
#pragma once

#include <string>

#include "configs/catalogue.h"
#include "configs/this_machine.h"

namespace plimsoll::cli {

/// Returns for example "AMD EPYC 9R14 x 2 threads".
[[nodiscard]] std::string processor_name();

/// Returns a substitute for a missing calibration. For "cpu" it measures reads and multiply-adds for a second or two;
/// for "cuda" it takes the catalogue's figures of the GPU that is present. Throws DeviceError if there is no such
/// device, InputError for a GPU that the catalogue does not know.
[[nodiscard]] configs::ThisMachine probe_machine(const std::string& device);

/// Returns the first GPU: "NVIDIA H200 (sm_90)". If there is none, throws DeviceError that says what is missing.
[[nodiscard]] std::string gpu_description(const configs::Catalogue& catalogue);

}  // namespace plimsoll::cli
