// SPDX-License-Identifier: Apache-2.0
// This machine, as far as the programs that run here can tell without calibration.
#pragma once

#include <string>

#include "configs/catalogue.h"
#include "configs/this_machine.h"

namespace plimsoll::cli {

/// "AMD EPYC 9R14 x 2 threads".
[[nodiscard]] std::string processor_name();

/// Replaces a missing calibration: a probe of a second or two of reads and multiply-adds ("cpu"), or the catalogue's
/// figures of the GPU that is found ("cuda"). Throws DeviceError where there is no such device, InputError for a GPU
/// that the catalogue does not know.
[[nodiscard]] configs::ThisMachine probe_machine(const std::string& device);

/// "NVIDIA H200 (sm_90)": the first GPU. Throws DeviceError with what is missing where there is none.
[[nodiscard]] std::string gpu_description(const configs::Catalogue& catalogue);

}  // namespace plimsoll::cli
