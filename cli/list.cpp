// SPDX-License-Identifier: Apache-2.0
// plimsoll list KIND: the names that studies may use.
#include <fmt/format.h>

#include <array>

#include "cli/commands.h"
#include "cli/options.h"
#include "configs/catalogue.h"
#include "sched/policy_config.h"
#include "sched/router.h"
#include "study/file/cell.h"
#include "study/output/table_view.h"
#include "traces/reader.h"

namespace plimsoll::cli {
namespace {

constexpr std::array<std::string_view, 8> kKinds = {"models",   "accelerators", "interconnects", "instances",
                                                    "engines",  "policies",     "routers",       "formats"};

template <class Names>
std::vector<configs::Listing> bare(const Names& names) {
  std::vector<configs::Listing> listings;
  for (const std::string_view name : names) listings.push_back({std::string(name), {}});
  return listings;
}

std::vector<configs::Listing> listings_of(const std::string& kind) {
  if (kind == "routers") return bare(sched::router_names());
  if (kind == "formats") return bare(traces::trace_formats());
  if (kind == "policies") {
    std::vector<configs::Listing> listings = bare(sched::policy_names());
    for (configs::Listing& listing : listings)
      listing.description = sched::policy_info(*sched::policy_from_name(listing.name)).description;
    return listings;
  }
  return configs::Catalogue().list(kind);
}

std::string text_of(const std::vector<configs::Listing>& listings, Format format) {
  if (format == Format::csv) {
    std::string text = "name,description\n";
    for (const auto& listing : listings) text += study::csv_line({listing.name, listing.description});
    return text;
  }
  if (format == Format::json) {
    std::string text = "[";
    for (const auto& listing : listings) {
      text += fmt::format("{}\n {{\"name\":{},\"description\":{}}}", text.size() > 1 ? "," : "",
                          study::json_quoted(listing.name), study::json_quoted(listing.description));
    }
    return text + "\n]\n";
  }
  std::size_t width = 0;
  for (const auto& listing : listings) width = std::max(width, listing.name.size());
  std::string text;
  for (const auto& listing : listings) {
    text += listing.description.empty() ? listing.name + '\n' : fmt::format("{:<{}}  {}\n", listing.name, width, listing.description);
  }
  return text;
}

}  // namespace

int run_list(const Arguments& arguments, Console& console) {
  const Usage usage{.verb = "list",
                    .positional = "KIND",
                    .summary = fmt::format("Lists the names that studies may use; KIND is one of {}.", fmt::join(kKinds, ", ")),
                    .example = "  plimsoll list instances\n",
                    .positional_required = true,
                    .options = {},
                    .without = {"set", "out", "jobs", "seed", "stepwise"}};
  const auto parsed = parse_arguments(usage, arguments, console);
  if (!parsed) return kDone;
  const std::string& kind = parsed->operand;
  if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) {
    const std::string_view near = configs::nearest(kind, kKinds);
    throw InputError(fmt::format("list: found '{}'{}, allowed: {}", kind,
                                 near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), fmt::join(kKinds, ", ")));
  }
  console.print(text_of(listings_of(kind), parsed->common.format));
  return kDone;
}

}  // namespace plimsoll::cli
