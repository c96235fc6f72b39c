// SPDX-License-Identifier: Apache-2.0
// Independent pieces of work on all cores.
#pragma once

#include <cstddef>
#include <functional>

#include "study/run/run_control.h"

namespace plimsoll::study {

/// Calls `work` with 0 … count-1, started in this order, on `jobs` threads (0: one per core), until all are done or
/// `control` (may be null) says cancel. What a piece throws stops the others and is thrown here: of several, that of
/// the first piece.
void run_pieces(std::size_t count, int jobs, RunControl* control, const std::function<void(std::size_t)>& work);

}  // namespace plimsoll::study
