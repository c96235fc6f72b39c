// SPDX-License-Identifier: Apache-2.0
// plimsoll list KIND: lists the names that studies may use.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/commands.h"
#include "cli/options.h"
#include "configs/catalogue.h"
#include "sched/policy_config.h"
#include "sched/router.h"
#include "study/file/cell.h"
#include "study/run/point_result.h"
#include "traces/reader.h"

namespace plimsoll::cli {
namespace {

constexpr std::array<std::string_view, 8> kKinds = {"models",  "accelerators", "interconnects", "instances",
                                                    "engines", "policies",     "routers",       "formats"};

template <class Names>
std::vector<configs::Listing> bare(const Names& names) {
  std::vector<configs::Listing> listings;
  for (const std::string_view name : names) listings.push_back({std::string(name), {}});
  return listings;
}

std::vector<configs::Listing> listings_of(const std::string& kind, const configs::Catalogue& catalogue) {
  if (kind == "routers") {
    std::vector<configs::Listing> listings = bare(sched::router_names());
    for (std::size_t i = 0; i < listings.size(); ++i)
      listings[i].description = sched::router_info(static_cast<sched::RouterKind>(i)).description;
    return listings;
  }
  if (kind == "formats") return bare(traces::trace_formats());
  if (kind == "policies") {
    std::vector<configs::Listing> listings = bare(sched::policy_names());
    for (configs::Listing& listing : listings)
      listing.description = sched::policy_info(*sched::policy_from_name(listing.name)).description;
    return listings;
  }
  return catalogue.list(kind);
}

/// The named figures of one entry; all entries of a kind have the same ones.
struct Figures {
  std::vector<std::string> names;
  std::vector<study::Cell> cells;
  void add(const char* name, study::Cell cell) {
    names.emplace_back(name);
    cells.push_back(std::move(cell));
  }
};

// A peak of 0 means that it is not supported or not known.
study::Cell known(double value) { return study::number_cell(value > 0 ? std::optional(value) : std::nullopt); }

Figures model_figures(const model::LlmShape& shape) {
  Figures figures;
  figures.add("parameters", model::weight_count(shape));
  figures.add("active_parameters", model::active_weight_count(shape));
  figures.add("layers", std::int64_t{shape.layers});
  figures.add("hidden", std::int64_t{shape.hidden});
  figures.add("heads", std::int64_t{shape.heads});
  figures.add("kv_heads", std::int64_t{shape.kv_heads});
  figures.add("max_position", std::int64_t{shape.max_position});
  figures.add("kv_bytes_per_token_fp16", model::kv_bytes_per_token(shape, model::DType::fp16).value);
  figures.add("hf_id", shape.hf_id);
  return figures;
}

Figures accelerator_figures(const model::Accelerator& accelerator) {
  Figures figures;
  figures.add("memory_bytes", accelerator.memory_visible.value);
  figures.add("memory_bytes_per_s", accelerator.memory_bandwidth.value);
  figures.add("fp16_flops_per_s", known(accelerator.fp16.value));
  figures.add("bf16_flops_per_s", known(accelerator.bf16.value));
  figures.add("fp8_flops_per_s", known(accelerator.fp8.value));
  figures.add("int8_ops_per_s", known(accelerator.int8.value));
  figures.add("interconnect", accelerator.default_interconnect);
  figures.add("calibrated", accelerator.calibrated);
  return figures;
}

Figures instance_figures(const configs::Instance& instance) {
  const auto price = instance.price();
  Figures figures;
  figures.add("cloud", instance.cloud);
  figures.add("accelerator", instance.accelerator);
  figures.add("count", std::int64_t{instance.count});
  figures.add("interconnect", instance.interconnect);
  figures.add("usd_per_hour", study::number_cell(price ? std::optional(price->usd_per_hour) : std::nullopt));
  figures.add("price_date", price ? price->date : std::string());
  figures.add("sagemaker_usd_per_hour",
              study::number_cell(instance.sagemaker ? std::optional(instance.sagemaker->usd_per_hour) : std::nullopt));
  return figures;
}

Figures engine_figures(const model::EngineProfile& profile) {
  Figures figures;
  figures.add("policy", profile.scheduler_policy);
  figures.add("calibrated", profile.calibrated);
  figures.add("calibrated_on", profile.calibrated_on);
  figures.add("host_times", profile.times_from());
  return figures;
}

Figures figures_of(const std::string& kind, const std::string& name, const configs::Catalogue& catalogue) {
  if (kind == "models") return model_figures(*catalogue.model(name));
  if (kind == "accelerators") return accelerator_figures(*catalogue.accelerator(name));
  if (kind == "instances") return instance_figures(*catalogue.instance(name));
  if (kind == "engines") return engine_figures(*catalogue.engine(name)->profile);
  return {};
}

std::string csv_of(const std::string& kind, const std::vector<configs::Listing>& listings,
                   const configs::Catalogue& catalogue) {
  std::string text;
  for (const auto& listing : listings) {
    const Figures figures = figures_of(kind, listing.name, catalogue);
    if (text.empty()) {
      std::vector<std::string> columns = {"name", "description"};
      columns.insert(columns.end(), figures.names.begin(), figures.names.end());
      text = study::csv_header(columns);
    }
    std::vector<study::Cell> row = {listing.name, listing.description};
    row.insert(row.end(), figures.cells.begin(), figures.cells.end());
    text += study::csv_line(row);
  }
  return text;
}

std::string json_of(const std::string& kind, const std::vector<configs::Listing>& listings,
                    const configs::Catalogue& catalogue) {
  std::string text = "[";
  for (const auto& listing : listings) {
    const Figures figures = figures_of(kind, listing.name, catalogue);
    const std::string members = study::json_members(figures.names, figures.cells);
    text += fmt::format("{}\n {{\"name\":{},\"description\":{}{}{}}}", text.size() > 1 ? "," : "",
                        study::json_quoted(listing.name), study::json_quoted(listing.description),
                        members.empty() ? "" : ",", members);
  }
  return text + "\n]\n";
}

// Wraps words to lines of at most `width` bytes; a longer word gets a line of its own.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return lines;
}

std::string table_of(const std::vector<configs::Listing>& listings) {
  constexpr std::size_t kWidth = 118;
  std::size_t width = 0;
  for (const auto& listing : listings) width = std::max(width, listing.name.size());
  std::string text;
  for (const auto& listing : listings) {
    std::string name = listing.name;
    for (const std::string& line : wrapped(listing.description, kWidth - width - 2)) {
      text += line.empty() ? name + '\n' : fmt::format("{:<{}}  {}\n", name, width, line);
      name.clear();
    }
  }
  return text;
}

}  // namespace

int run_list(const Arguments& arguments, Console& console) {
  const Usage usage{
      .verb = "list",
      .positional = "KIND",
      .summary = fmt::format("Lists the names that studies may use. KIND is one of\n{}.", fmt::join(kKinds, ", ")),
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
                                 near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                                 fmt::join(kKinds, ", ")));
  }
  const configs::Catalogue catalogue;
  switch (parsed->common.format) {
    case Format::table: console.print(table_of(listings_of(kind, catalogue))); break;
    case Format::csv: console.print(csv_of(kind, listings_of(kind, catalogue), catalogue)); break;
    case Format::json: console.print(json_of(kind, listings_of(kind, catalogue), catalogue)); break;
  }
  return kDone;
}

}  // namespace plimsoll::cli
