// SPDX-License-Identifier: Apache-2.0
#include "cli/load_study.h"

#include <fmt/format.h>

#include "cli/this_machine.h"

namespace plimsoll::cli {

study::Study load_study(const Parsed& parsed, Console& console) {
  study::Overrides overrides = parsed.common.set;
  if (parsed.common.seed) overrides.emplace_back("seed", fmt::format("{}", *parsed.common.seed));
  const auto catalogue = std::make_shared<configs::Catalogue>(configs::Catalogue::default_root());
  catalogue->set_machine_probe(probe_machine);
  study::Study study(parsed.operand, overrides, catalogue);
  for (const std::string& note : study.point(0).notes) console.note(note);
  return study;
}

}  // namespace plimsoll::cli
