// SPDX-License-Identifier: Apache-2.0
// A point's metrics as a line of text, for the store of results and for other processes: every number is restored to
// the last bit.
#pragma once

#include <string>
#include <string_view>

#include "sched/metrics_collector.h"

namespace plimsoll::study {

/// The fields in a fixed order, separated by commas; blank: absent. Only the program that wrote it understands it.
[[nodiscard]] std::string metrics_record(const sched::PointMetrics& metrics);
/// Throws DeviceError for a text that is not one of metrics_record.
[[nodiscard]] sched::PointMetrics read_metrics_record(std::string_view text);

}  // namespace plimsoll::study
