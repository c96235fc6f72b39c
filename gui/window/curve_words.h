// SPDX-License-Identifier: GPL-3.0-or-later
// Texts about the drawn curves: tooltips, the basis of the figures, failures, and the load carried within the SLO.
#pragma once

#include <QString>
#include <vector>

#include "gui/core/answer_rows.h"

namespace plimsoll::gui {

/// Returns which figures are estimates and why, without details in brackets; empty if none is.
[[nodiscard]] QString validity_text(const Workbench& bench);
/// Returns a few lines of text about a point.
[[nodiscard]] QString point_tip(const PointRow& row, const QString& name, const QString& kind);
/// Returns a line for each invalid scenario, and for each curve and kind of failure.
[[nodiscard]] std::vector<QString> failure_notes(const Workbench& bench);
/// Returns, for each drawn curve, the highest load within every limit of its study and the drawn one, the cost, and the
/// limit that is reached there. A load between two points is where the drawn line crosses the limit; the text then says
/// "about". Empty without a limit.
[[nodiscard]] QString limit_answer(const Workbench& bench, const DrawnLimit& drawn, bool bands = true);
/// Returns all limits that limit_answer() judges by: "p99 ITL ≤ 50 ms, p90 TTFT ≤ 20 ms". Scenarios with other limits
/// are named. With a margin, the limits are less that margin, and the text says so.
[[nodiscard]] QString limits_text(const Workbench& bench, const DrawnLimit& drawn);
/// Returns the metric's label as it stands within a sentence: "mean TPOT", "p95 latency".
[[nodiscard]] QString in_sentence(const Metric& metric);

}  // namespace plimsoll::gui
