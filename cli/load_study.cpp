// SPDX-License-Identifier: Apache-2.0
#include "cli/load_study.h"

#include <fmt/format.h>

namespace plimsoll::cli {

study::Study load_study(const Parsed& parsed, Console& console) {
  study::Overrides overrides = parsed.common.set;
  if (parsed.common.seed) overrides.emplace_back("seed", fmt::format("{}", *parsed.common.seed));
  const auto catalogue = std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  study::Study study(parsed.operand, overrides, catalogue);
  for (const std::string& note : study.point(0).notes) console.note(note);
  return study;
}

}  // namespace plimsoll::cli
