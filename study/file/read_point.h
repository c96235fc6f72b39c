// SPDX-License-Identifier: Apache-2.0
// One point's file: names looked up in the catalogue, values checked, nothing derived yet.
#pragma once

#include <span>
#include <string_view>

#include "study/file/study.h"

namespace plimsoll::study {

/// The keys of a study file.
[[nodiscard]] std::span<const std::string_view> study_keys();

[[nodiscard]] PointSpec read_point(const configs::Node& root, const configs::Catalogue& catalogue, TraceStore& traces);

}  // namespace plimsoll::study
