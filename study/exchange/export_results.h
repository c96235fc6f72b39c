// SPDX-License-Identifier: Apache-2.0
// Points of ours in the forms of other tools, so that their plots and reports read them (docs/import.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "study/exchange/import_results.h"

namespace plimsoll::study {

/// vllm: what `vllm bench serve --save-result --append-result` writes, an object a line. aiperf: what
/// profile_export_aiperf.json holds, one object a point, as lines too.
[[nodiscard]] std::span<const std::string_view> export_formats();

/// One JSON object a line, ended by a line break. Figures that a point lacks are left out. `format` is one of
/// export_formats().
[[nodiscard]] std::string exported_text(std::string_view format, const std::vector<ImportedPoint>& points);

}  // namespace plimsoll::study
