// SPDX-License-Identifier: GPL-3.0-or-later
// Opened and dropped files: their kind, and the requests.csv and timeline.json that a run of `measure` or `simulate`
// has written for a point.
#pragma once

#include <QByteArray>
#include <string>
#include <vector>

#include <QString>
#include "sim/simulate.h"

namespace plimsoll::gui {

/// The requests and steps of one point of a run.
struct RunFiles {
  std::vector<sim::RequestRow> requests;
  std::vector<sim::StepRow> steps;  // empty without a timeline.json
};

/// Reads the files of point `index` of the run in `folder`. Throws InputError with file and line if they cannot be
/// read.
[[nodiscard]] RunFiles read_run_files(const std::string& folder, std::size_t index);
/// Returns true if this point has a requests.csv.
[[nodiscard]] bool has_run_files(const std::string& folder, std::size_t index);

/// Parses the text of a requests.csv; `file` is used in messages.
[[nodiscard]] std::vector<sim::RequestRow> parse_requests(const QByteArray& text, const std::string& file);
/// Parses the text of a timeline.json. Counters at the time of a step become part of that step.
[[nodiscard]] std::vector<sim::StepRow> parse_timeline(const QByteArray& text, const std::string& file);

enum class FileKind : unsigned char { session, study, table, trace, model, unknown_json };

/// Returns the whole text. Throws InputError if it exceeds 16 MiB or cannot be read.
[[nodiscard]] std::string read_text(const QString& file);
/// Returns true for a compressed file, which can only be a trace; its text is not examined.
[[nodiscard]] bool is_packed(const QString& file);
[[nodiscard]] FileKind kind_of(const QString& file, const std::string& text);

}  // namespace plimsoll::gui
