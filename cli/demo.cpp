// SPDX-License-Identifier: Apache-2.0
// plimsoll demo: what ./plimsoll does without arguments.
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_commands.h"
#include "validation/demonstration.h"

namespace plimsoll::cli {

int run_demo(const Arguments& arguments, Console& console) {
  const Usage usage{.verb = "demo",
                    .positional = "",
                    .summary = "Simulates the JumpStart study (Llama 2 7B on ml.p4d.24xlarge by TP degree) and prints it beside the\n"
                               "published figures. Writes points.csv and a picture into --out (default out/jumpstart-7b-p4d).",
                    .example = "  plimsoll demo\n",
                    .positional_required = false,
                    .options = po::options_description("Demonstration")};
  const auto parsed = parse_arguments(usage, arguments);
  if (!parsed) return kDone;
  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  validation::DemonstrationSettings settings;
  if (!parsed->common.out.empty()) settings.folder = parsed->common.out;
  settings.jobs = parsed->common.jobs;
  settings.control = &control;
  const auto catalogue = std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  console.print(validation::demonstrate(catalogue, settings));
  return control.cancelled() ? kInterrupted : kDone;
}

}  // namespace plimsoll::cli
