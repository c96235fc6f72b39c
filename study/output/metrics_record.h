// SPDX-License-Identifier: Apache-2.0
// A point's metrics as a line of text, for the store of results and for other processes: every number is restored to
// the last bit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sched/metrics_collector.h"
#include "sched/run_result.h"

namespace plimsoll::study {

/// The fields in a fixed order, separated by commas; blank: absent. Only the program that wrote it understands it.
[[nodiscard]] std::string metrics_record(const sched::PointMetrics& metrics);
/// Throws DeviceError for a text that is not one of metrics_record.
[[nodiscard]] sched::PointMetrics read_metrics_record(std::string_view text);

/// How a fleet changed, as one line.
[[nodiscard]] std::string fleet_record(const std::vector<sched::FleetRow>& fleet);
/// nullopt for a line that is not one of fleet_record.
[[nodiscard]] std::optional<std::vector<sched::FleetRow>> read_fleet_record(std::string_view line);

}  // namespace plimsoll::study
