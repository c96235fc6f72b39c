// SPDX-License-Identifier: Apache-2.0
#include "cli/stated_study.h"

#include <fmt/format.h>

#include "cli/this_machine.h"
#include "model/error.h"
#include "study/file/read_point.h"

namespace plimsoll::cli {
namespace {

study::Study read_study(const Parsed& parsed, const study::Overrides& overrides,
                        const std::shared_ptr<const configs::Catalogue>& catalogue, Console& console) {
  const bool stated = parsed.study_options != StudyOptions::none && states_study(parsed);
  if (parsed.operand.empty() && !stated)
    throw InputError("missing STUDY, or --model, --hardware and --rate instead; see --help");
  if (!stated) return {parsed.operand, overrides, catalogue};
  if (!parsed.operand.empty()) {
    std::vector<std::string> notes;
    study::Study study(document_with_options(parsed.operand, parsed, catalogue, notes), parsed.operand, overrides,
                       catalogue);
    for (const std::string& note : notes) console.note(note);
    return study;
  }
  const StatedStudy whole = stated_study(parsed, catalogue);
  for (const std::string& note : whole.notes) console.note(note);
  return {document_of(whole), kCommandLine, overrides, catalogue};
}

}  // namespace

study::Study load_study(const Parsed& parsed, Console& console) {
  study::Overrides overrides = parsed.common.set;
  if (parsed.common.seed) overrides.emplace_back("seed", fmt::format("{}", *parsed.common.seed));
  const auto catalogue = std::make_shared<configs::Catalogue>();
  catalogue->set_machine_probe(probe_machine);
  study::Study study = read_study(parsed, overrides, catalogue, console);
  if (!parsed.pools) study::refuse_pools(study, parsed.verb);
  const bool runs = parsed.study_options != StudyOptions::memory;
  for (const std::string& note : study.notes(runs)) console.note(note);
  return study;
}

}  // namespace plimsoll::cli
