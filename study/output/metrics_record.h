// SPDX-License-Identifier: Apache-2.0
// A point's metrics as a line of text, for the store of results and for other processes. Every number is restored to
// the last bit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sched/metrics_collector.h"
#include "sched/run_result.h"

namespace plimsoll::study {

/// Returns the fields in a fixed order, separated by commas; blank: absent. Only the program that wrote it can read it.
[[nodiscard]] std::string metrics_record(const sched::PointMetrics& metrics);
/// Throws DeviceError for a text that metrics_record() did not write.
[[nodiscard]] sched::PointMetrics read_metrics_record(std::string_view text);

/// Formats the changes of a fleet as one line.
[[nodiscard]] std::string fleet_record(const std::vector<sched::FleetRow>& fleet);
/// Returns nullopt for a line that fleet_record() did not write.
[[nodiscard]] std::optional<std::vector<sched::FleetRow>> read_fleet_record(std::string_view line);

}  // namespace plimsoll::study
