// SPDX-License-Identifier: Apache-2.0
// What a command says about the points it ran: the result on standard output, and what is odd about them.
#pragma once

#include "cli/console.h"
#include "cli/options.h"
#include "study/output/svg_chart.h"
#include "study/run/run_study.h"

namespace plimsoll::cli {

/// The first of the charts, where standard output is a terminal.
void print_curve(const std::vector<study::Chart>& charts, Console& console);

/// Throws InputError if no point of the study can exist.
void report_points(const study::Study& study, const study::StudyResult& result, Format format, Console& console);

}  // namespace plimsoll::cli
