// SPDX-License-Identifier: Apache-2.0
// plimsoll init: writes a study file with comments, from the options that simulate, plan and memory also accept.
#include <fmt/format.h>
#include <filesystem>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/stated_study.h"
#include "cli/this_machine.h"
#include "cli/verb_parts.h"
#include "model/error.h"
#include "study/file/cell.h"
#include "study/file/study.h"
#include "study/output/write_file.h"

namespace plimsoll::cli {
namespace {

Usage init_usage() {
  Usage usage{.verb = "init",
              .positional = "FILE",
              .summary =
                  "Writes a study file with a comment on every key, to FILE or standard output. Values that no\n"
                  "option states get defaults, and a note says so. The study can be run as it is: plimsoll simulate "
                  "FILE.\n"
                  "--from-deployment reads the deployment from a manifest instead: of Docker Compose, llm-d, Dynamo or "
                  "the\n"
                  "vLLM production stack (docs/deployments.md).",
              .example =
                  "  plimsoll init --model llama-3.1-70b --hardware 8xh100 --rate 4 --slo p99_ttft=1s,p99_tpot=50ms "
                  "study.yaml\n"
                  "  plimsoll init --from-deployment out/plan/deploy/llm-d.yaml --workload-of out/plan/winner.yaml "
                  "study.yaml\n",
              .positional_required = false,
              .options = po::options_description("From a deployment"),
              .without = {"set", "format", "jobs", "seed", "progress", "stepwise"},
              .study_options = StudyOptions::file_of_its_own};
  add_deployment_options(usage.options);
  return usage;
}

// Writes the study to `file`, or to standard output if that is empty.
int deliver(const std::string& text, const std::string& file, Console& console) {
  if (file.empty()) {
    console.print(text);
    return kDone;
  }
  std::error_code error;
  if (std::filesystem::exists(file, error))
    throw InputError(fmt::format("'{}' already exists; name another file", file));
  study::write_file(file, text);
  console.note(fmt::format("written to {0}; next: plimsoll simulate {0}", file));
  return kDone;
}

// File names in a study are relative to the study's folder.
void name_from(const std::string& study, StatedStudy& stated, const Parsed& parsed) {
  for (StatedValue& value : stated.values) {
    if (!names_trace(value)) continue;
    const std::filesystem::path folder = std::filesystem::absolute(study).parent_path();
    value.yaml = study::json_quoted(std::filesystem::proximate(text_option(parsed, "trace"), folder).string());
  }
}

}  // namespace

int run_init(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(init_usage(), arguments, console);
  if (!parsed) return kDone;
  const std::string& file = parsed->operand.empty() ? parsed->common.out : parsed->operand;
  if (parsed->values.count("from-deployment") > 0) return deliver(study_of_deployment(*parsed, console), file, console);
  if (parsed->values.count("workload-of") > 0) throw InputError("--workload-of needs --from-deployment");
  const auto catalogue = std::make_shared<configs::Catalogue>();
  catalogue->set_machine_probe(probe_machine);
  StatedStudy stated = stated_study(*parsed, catalogue);
  static_cast<void>(
      study::Study(document_of(stated), kCommandLine, {}, catalogue));  // checks every value, and names its option
  for (const std::string& note : stated.notes) console.note(note);
  if (!file.empty()) name_from(file, stated, *parsed);
  return deliver(commented_study(stated, file.empty() ? "study.yaml" : file), file, console);
}

}  // namespace plimsoll::cli
