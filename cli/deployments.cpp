// SPDX-License-Identifier: Apache-2.0
// Options for manifests of deployments: --from-deployment of init, --schemas of plan and simulate.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/stated_study.h"
#include "cli/this_machine.h"
#include "cli/verb_parts.h"
#include "model/error.h"
#include "study/deploy/deployment_manifests.h"
#include "study/file/cell.h"

namespace plimsoll::cli {
namespace {

using configs::Document;

// A sweep over the load belongs to the load; any other would change the deployment.
void copy_sweep(const configs::Node& sweep, Document& study) {
  constexpr std::array<std::string_view, 4> kOfLoad = {"workload", "limits", "slo", "seed"};
  for (const configs::Item& item : sweep.items()) {
    const std::string top = item.key.substr(0, item.key.find('.'));
    if (std::find(kOfLoad.begin(), kOfLoad.end(), top) == kOfLoad.end())
      throw InputError(item.key_where,
                       fmt::format("found a sweep of '{}', which is no part of the load; remove it", item.key));
  }
  study.set("sweep", sweep);
}

// Takes the load of another study: everything that does not describe a deployment.
void copy_load(const std::string& file, const std::shared_ptr<const configs::Catalogue>& catalogue, Document& study) {
  const Document other = Document::from_text(study::Study(file, {}, catalogue).resolved_yaml(), file);
  for (const std::string_view key : {"study", "workload", "limits", "slo", "seed", "replications", "script_step"})
    if (const auto value = other.root().find(key)) study.set(key, *value);
  if (const auto sweep = other.root().find("sweep")) copy_sweep(*sweep, study);
}

}  // namespace

void add_deployment_options(po::options_description& options) {
  auto add = options.add_options();
  add("from-deployment", po::value<std::string>()->value_name("FILE"),
      "read the deployment from a manifest; the load is that of --workload-of or of options");
  add("workload-of", po::value<std::string>()->value_name("STUDY"), "a study whose load, limits and SLO are taken");
}

std::string study_of_deployment(const Parsed& parsed, Console& console) {
  const auto catalogue = std::make_shared<configs::Catalogue>();
  catalogue->set_machine_probe(probe_machine);
  const std::string file = text_option(parsed, "from-deployment"), hardware = text_option(parsed, "hardware");
  Document study =
      study::deploy::read_deployment(file, catalogue, hardware.empty() ? hardware : study::json_quoted(hardware));
  if (const std::string other = text_option(parsed, "workload-of"); !other.empty()) copy_load(other, catalogue, study);
  std::vector<std::string> notes;
  study = with_options(std::move(study), parsed, catalogue, notes);
  for (const std::string& note : notes) console.note(note);
  if (!study.root().has("workload"))
    throw InputError(
        "a manifest states no load: add --workload-of STUDY, or for example --rate 4 --input 1000 --output 300");
  static_cast<void>(study::Study(study, file, {}, catalogue));  // checks every value
  return fmt::format("# The deployment of {}, read by `plimsoll init --from-deployment`.\n{}", file, study.dump());
}

void add_schema_option(po::options_description& options) {
  options.add_options()("schemas", po::value<std::string>()->value_name("DIR"),
                        "checks the manifests with JSON schemas: deployment-apps-v1.json, values.schema.json ...");
}

std::string schema_folder(const Parsed& parsed) {
  const std::string folder = text_option(parsed, "schemas");
  if (!folder.empty() && parsed.common.out.empty())
    throw InputError("--schemas checks the manifests in --out DIR: state that folder");
  return folder;
}

}  // namespace plimsoll::cli
