// SPDX-License-Identifier: GPL-3.0-or-later
// What a run left behind of one point, read back: requests.csv and timeline.json of `measure` or `simulate`.
#pragma once

#include <QByteArray>
#include <string>
#include <vector>

#include "sim/simulate.h"

namespace plimsoll::gui {

struct RunFiles {
  std::vector<sim::RequestRow> requests;
  std::vector<sim::StepRow> steps;  // empty without a timeline.json
};

/// Of point `index` of the run in `folder`. Throws InputError with the file and line where they cannot be read.
[[nodiscard]] RunFiles read_run_files(const std::string& folder, std::size_t index);
/// Whether there is a requests.csv of this point.
[[nodiscard]] bool has_run_files(const std::string& folder, std::size_t index);

/// The text of a requests.csv; `file` stands in messages.
[[nodiscard]] std::vector<sim::RequestRow> parse_requests(const QByteArray& text, const std::string& file);
[[nodiscard]] std::vector<sim::StepRow> parse_timeline(const QByteArray& text, const std::string& file);

}  // namespace plimsoll::gui
