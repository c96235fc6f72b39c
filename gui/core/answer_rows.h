// SPDX-License-Identifier: GPL-3.0-or-later
// What each drawn curve carries within every limit. The answer card, the copied text and the views that answer the same
// question all show these rows, so they agree.
#pragma once

#include <QStringList>

#include "gui/core/footprint.h"
#include "gui/core/slo_answer.h"
#include "gui/core/workbench.h"

namespace plimsoll::gui {

struct AnswerRow {
  DrawnCurve drawn;                 // valid as Workbench::drawn()
  std::optional<SloAnswer> answer;  // none: nothing has been simulated, or the scenario is invalid
  QString verdict;                  // ✓ carried, ? not certain, ✗ not carried, … not simulated yet
  QString load;                     // "about 590 clients"; empty if none is carried
  QString limited_by;               // the limit that ends the range, or what the nearest load misses
  QString margin;                   // what the 90 % band says; empty without an SLO
  std::optional<Footprint> footprint;
  std::optional<double> tokens_per_s_per_gpu;
  QStringList warnings;              // "estimated", "2 points unstable", "7 GPUs idle"
  std::int64_t requests_needed = 0;  // for a verdict, if the run is too short to tell; 0: it is not
};

/// Returns a row for each drawn curve. Without a limit, a row has the load with the highest throughput. With `bands`,
/// rows also say what the 90 % band confirms.
[[nodiscard]] std::vector<AnswerRow> answer_rows(const Workbench& bench, const DrawnLimit& drawn, bool bands = true);
/// Returns the row that carries the load at the least cost; if prices are not known, that with the most tokens/s. A
/// certain answer comes before a cheaper one whose run is too short to be certain. nullptr if no curve carries any
/// load.
[[nodiscard]] const AnswerRow* best_row(const std::vector<AnswerRow>& rows);
/// Returns the row that would be the best if it were certain; nullptr if it is the best, or there is none.
[[nodiscard]] const AnswerRow* possibly_better_row(const std::vector<AnswerRow>& rows);
/// Returns "tp 4 may be cheaper: 0.5 USD/M tokens, but its run is too short to tell".
[[nodiscard]] QString possibly_better_words(const AnswerRow& row);
/// Returns a row as a sentence: "✓ about 590 clients, 13 400 tokens/s, 0.78 USD/M tokens; limited by p99 ITL".
[[nodiscard]] QString answer_words(const AnswerRow& row);
/// Returns true if a drawn scenario has an SLO or a line is drawn.
[[nodiscard]] bool has_limit(const Workbench& bench, const DrawnLimit& drawn);

}  // namespace plimsoll::gui
