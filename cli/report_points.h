// SPDX-License-Identifier: Apache-2.0
// Reports the points that a command ran: results on standard output, notes and warnings on standard error.
#pragma once

#include "cli/console.h"
#include "cli/options.h"
#include "study/output/svg_chart.h"
#include "study/run/run_study.h"

namespace plimsoll::cli {

/// Prints the first of the charts if standard output is a terminal.
void print_curve(const std::vector<study::Chart>& charts, Console& console);

/// Throws InputError if no point of the study can exist.
void report_points(const study::Study& study, const study::StudyResult& result, Format format, Console& console);

}  // namespace plimsoll::cli
