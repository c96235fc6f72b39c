// SPDX-License-Identifier: GPL-3.0-or-later
// The limits of a scenario's SLO as rows of a table. The SLO line of the curves is one of them, so that form, curves
// and planner judge by the same limits.
#pragma once

#include <QString>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gui/core/session.h"
#include "gui/core/slo_answer.h"

namespace plimsoll::gui {

class Workbench;

/// A limit: its key in the study's `slo`, and its value as written there ("20 ms").
struct SloRow {
  std::string key, limit;
  bool operator==(const SloRow&) const = default;
};

/// What a row can limit. The key of a latency is a statistic and this name: "p90_" + "ttft".
struct SloQuantity {
  const char *name, *label, *unit;  // unit: of a bare number in the form; empty: the number alone
  const char* usual;                // limit of a new row
  bool statistic = true;            // whether it has a mean and percentiles
  bool at_least = false;            // the limit is a minimum
};
[[nodiscard]] std::span<const SloQuantity> slo_quantities();
/// Returns the quantity of a key; nullptr for an unknown one.
[[nodiscard]] const SloQuantity* slo_quantity(const std::string& key);
/// Returns the statistic of a key, such as "p90" or "mean"; empty for quantities without.
[[nodiscard]] std::string slo_statistic(const std::string& key);
/// Returns the key that limits a metric of the curves: "p90_ttft" for ttft_p90_s. Empty if a study cannot limit it.
[[nodiscard]] std::string slo_key(const Metric& metric);

/// Returns the scenario's limits in the order of the study. The line replaces the limit on its metric, or follows the
/// others. A value of `slo` that is not a map gives no rows.
[[nodiscard]] std::vector<SloRow> slo_rows(const Scenario& scenario, const ViewState& view);
/// Returns the rows as the study's `slo`, less a margin as in DrawnLimit.
[[nodiscard]] std::string slo_yaml(const std::vector<SloRow>& rows, double margin = 0);
/// Returns "p90 TTFT ≤ 1 s", less the margin.
[[nodiscard]] QString slo_row_words(const SloRow& row, double margin = 0);
/// Makes the rows the SLO of the current scenario and moves the line to the limit on its metric. A bare number gets the
/// quantity's unit. Throws InputError for an invalid or repeated limit; then nothing has changed.
void set_slo_rows(SessionState& state, std::vector<SloRow> rows);
/// Moves the line. If the scenario states a limit on its metric, that limit moves with it; a line at 0 removes it.
void move_slo_line(SessionState& state, double value);
/// Shows another metric on the vertical axis. A line on the former one stays as a limit of the scenario.
void choose_y(SessionState& state, const std::string& metric);

/// How far a point is from the limits.
struct SloStanding {
  std::optional<study::PointLabels> at;           // the point; nullopt if nothing has been simulated
  bool selected = false;                          // by the user; else the point on which the answer rests
  std::vector<std::optional<PointLimit>> limits;  // one per row
  std::optional<double> attainment;               // fraction of requests within the limits on single requests
};
/// Returns the standing of the selected point; without one, of the point that carries most within the limits.
[[nodiscard]] SloStanding slo_standing(const Workbench& bench, const std::vector<SloRow>& rows);

}  // namespace plimsoll::gui
