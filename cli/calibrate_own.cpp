// SPDX-License-Identifier: Apache-2.0
// plimsoll calibrate --engine NAME --from FILES | --endpoint URL: a profile of the user's own engine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "calibration/own_fit.h"
#include "cli/calibration_ladder.h"
#include "cli/commands.h"
#include "cli/endpoint_points.h"
#include "cli/run_commands.h"
#include "cli/verb_parts.h"
#include "configs/quantity.h"
#include "study/output/write_file.h"
#include "study/run/digest.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

std::string digest_text(const std::vector<std::string>& files) {
  std::string all;
  for (const std::string& file : files) all += study::hex(study::digest_of_file(file));
  constexpr std::size_t kShown = 12;
  return study::hex(study::digest_of(all)).substr(0, kShown);
}

// Returns "a.csv, b.csv (data 3f2a…)", without folders, because their names may be private.
std::string data_text(std::vector<std::string> files) {
  std::sort(files.begin(), files.end());
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(fs::path(file).filename().string());
  constexpr std::size_t kListed = 4;
  const std::string listed = names.size() <= kListed ? fmt::format("{}", fmt::join(names, ", "))
                                                     : fmt::format("{} and {} others", names[0], names.size() - 1);
  return fmt::format("{} (data {})", listed, digest_text(files));
}

std::string only_model(const Parsed& parsed) {
  if (parsed.values.count("model") == 0) return {};
  const auto models = parsed.values["model"].as<std::vector<std::string>>();
  if (models.size() > 1) throw InputError("--model: found several; name the one model of the runs");
  return models.front();
}

std::optional<double> memory_option(const Parsed& parsed) {
  const std::string text = text_option(parsed, "memory");
  if (text.empty()) return {};
  try {
    return configs::Document::from_text("memory: " + text, "--memory").root().at("memory").as_bytes(1e6).value;
  } catch (const InputError& error) {
    throw InputError("--memory: " + error.text());
  }
}

// Sets the option's value in rows that state none. If the rows state several values, those with a value other than the
// option's are left out. If all state the same value, the option is another name for it.
void keep_rows_of(std::vector<validation::MeasuredPoint>& rows, const Parsed& parsed, const std::string& name,
                  std::vector<std::string>& warnings) {
  using Row = validation::MeasuredPoint;
  const std::pair<const char*, std::string Row::*> labels[] = {
      {"model", &Row::model}, {"hardware", &Row::hardware}, {"dtype", &Row::dtype}};
  for (const auto& [option, member] : labels) {
    const std::string stated = option == std::string_view("model") ? only_model(parsed) : text_option(parsed, option);
    if (stated.empty()) continue;
    const std::string id = configs::canonical_name(stated);
    const auto is_other = [&, member = member](const Row& row) {
      return !(row.*member).empty() && configs::canonical_name(row.*member) != id;
    };
    std::set<std::string> values;
    for (const Row& row : rows)
      if (!(row.*member).empty()) values.insert(row.*member);
    const std::size_t left_out = values.size() > 1 ? std::erase_if(rows, is_other) : 0;
    if (rows.empty())
      throw InputError(fmt::format("--{}: no run has '{}'; found {}", option, stated, fmt::join(values, ", ")));
    for (Row& row : rows) row.*member = stated;
    if (left_out > 0)
      warnings.push_back(fmt::format("{} run{} of another {} {} left out", left_out, left_out == 1 ? "" : "s", option,
                                     left_out == 1 ? "is" : "are"));
  }
  for (Row& row : rows) {
    if (row.hardware.empty()) row.hardware = name;  // fitted as well
    if (row.engine.empty()) row.engine = name;
    row.unusable = validation::problem_of(row);
    if (row.engine == name) row.engine.clear();
  }
}

struct Runs {
  std::vector<validation::MeasuredPoint> rows;
  std::vector<std::string> files, warnings;
};

Runs read_files(const Parsed& parsed, const std::string& name, Console& console) {
  Runs runs;
  runs.files = parsed.values["from"].as<std::vector<std::string>>();
  const auto maps =
      parsed.values.count("map") > 0 ? parsed.values["map"].as<std::vector<std::string>>() : std::vector<std::string>();
  study::ImportLabels labels{.model = only_model(parsed),
                             .hardware = text_option(parsed, "hardware"),
                             .engine = {},
                             .dtype = text_option(parsed, "dtype"),
                             .policy = {},
                             .tp = {},
                             .replicas = {}};
  constexpr std::int64_t kMostRanks = 4096;
  if (parsed.values.count("tp") > 0)
    labels.tp = static_cast<std::int32_t>(whole_option(parsed, "tp", {1, kMostRanks}, 1));
  for (const std::string& file : runs.files) {
    std::vector<std::string> notes;
    validation::MeasuredTable table = validation::read_runs(file, labels, maps, notes);
    for (const std::string& note : notes) console.note(fmt::format("{}: {}", file, note));
    std::move(table.points.begin(), table.points.end(), std::back_inserter(runs.rows));
  }
  keep_rows_of(runs.rows, parsed, name, runs.warnings);
  return runs;
}

// Returns the profile to start from: --like, else the engine that the runs name.
std::string like_of(const Parsed& parsed, const Runs& runs, const configs::Catalogue& catalogue) {
  const std::string like = text_option(parsed, "like");
  if (!like.empty()) return calibration::shipped_engine(catalogue, like);
  for (const validation::MeasuredPoint& row : runs.rows) {
    if (row.engine.empty()) continue;
    if (const auto id = catalogue.identifier("engines", row.engine); id && catalogue.ships("engines", *id)) return *id;
    // Servers state "vLLM 0.16.0".
    const std::size_t space = row.engine.find(' ');
    const std::string version = space == std::string::npos ? "" : row.engine.substr(space + 1);
    if (const std::string id = calibration::engine_of_server(catalogue, row.engine.substr(0, space), version);
        !id.empty())
      return id;
  }
  throw InputError(
      "--like: the runs name no engine of the catalogue; state which one yours resembles (plimsoll list "
      "engines)");
}

std::string command_text(const Parsed& parsed, const std::string& name, const std::string& like) {
  return fmt::format("plimsoll calibrate --engine {} --like {} {}", name, like,
                     names_endpoint(parsed) ? "--endpoint URL" : "--from FILES");
}

// Writes all files or none: both are complete before the first one is renamed into place.
void write_profile(const std::map<std::string, std::string>& files, const std::string& folder, Console& console) {
  std::vector<std::unique_ptr<study::PendingFile>> pending;
  for (const auto& [path, text] : files) {
    const std::string file = folder + "/" + path;
    study::make_folder(fs::path(file).parent_path().string());
    pending.push_back(std::make_unique<study::PendingFile>(file, text));
  }
  for (const auto& file : pending) file->commit();
  for (const auto& [path, text] : files) console.print(fmt::format("written to {}/{}\n", folder, path));
}

// Says which runs were fitted and which were held out.
std::string split_text(const std::string& like, const calibration::OwnRuns& runs) {
  const std::size_t out = runs.held_out().size();
  return fmt::format(
      "like {}; {} runs are fitted, {} {} held out: every {}th configuration in the order of model, hardware, lengths "
      "and load\n",
      like, runs.fitted().size(), out, out == 1 ? "is" : "are", calibration::kFolds);
}

// Says how a study names the fitted profile.
std::string usage_text(const calibration::OwnFit& fit, const std::string& name, const std::string& out) {
  std::string text = fmt::format("in a study: engine: {}", name);
  if (!fit.accelerator.empty()) text += fmt::format(", hardware: {{accelerator: {}, count: 1}}", fit.accelerator);
  if (!out.empty()) text += fmt::format("; verbs read it with --catalogue {}", out);
  return text;
}

// Rejects options of other fits and of the other source of runs, which would have no effect.
void refuse_without_effect(const Parsed& parsed) {
  if (names_endpoint(parsed) && parsed.values.count("from") > 0)
    throw InputError("--from and --endpoint exclude each other: the runs come from files or from a server");
  for (const char* const option : {"ranks", "device", "hold-out", "source", "export"})
    if (parsed.values.count(option) > 0)
      throw InputError(fmt::format("--{} has no effect on a profile of your own (--engine)", option));
  if (parsed.values["halves"].as<bool>())
    throw InputError("--halves has no effect on a profile of your own (--engine)");
  for (const char* const option : {"users", "input", "output", "seconds"})
    if (!names_endpoint(parsed) && parsed.values.count(option) > 0)
      throw InputError(fmt::format("--{} is for the ladder of runs on a server: state it with --endpoint", option));
  if (names_endpoint(parsed) && parsed.values.count("map") > 0)
    throw InputError("--map is for files: state them with --from");
}

std::string profile_folder(const Parsed& parsed) {
  return parsed.common.out.empty() ? configs::Catalogue::user_folder() : parsed.common.out;
}

// Runs a ladder on the server, or reads the files. Sets what the runs tell about the engine. Returns nullopt if the
// user interrupts the ladder.
std::optional<Runs> obtain_runs(const Parsed& parsed, const configs::Catalogue& catalogue, Console& console,
                                calibration::OwnEngine& engine) {
  if (names_endpoint(parsed)) {
    const Ladder ladder{
        .name = engine.name, .model = only_model(parsed), .folder = profile_folder(parsed) + "/runs/" + engine.name};
    LadderRuns measured = run_ladder(ladder, parsed, catalogue, console);
    if (measured.interrupted) return {};
    engine.like = measured.like;
    engine.server = measured.server;
    engine.pool_tokens = measured.pool_tokens;
    engine.block_tokens = measured.block_tokens;
    engine.max_running = measured.slots;
    return Runs{.rows = std::move(measured.rows), .files = {measured.file}, .warnings = {}};
  }
  Runs runs = read_files(parsed, engine.name, console);
  engine.like = like_of(parsed, runs, catalogue);
  std::vector<std::string> names = {engine.name, engine.like};
  if (const std::string like = text_option(parsed, "like"); !like.empty())
    names.push_back(configs::canonical_name(like));
  runs.rows = calibration::runs_of_engine(std::move(runs.rows), names, runs.warnings);
  engine.max_running = calibration::common_max_running(runs.rows);
  return runs;
}

}  // namespace

void add_own_options(po::options_description& options) {
  auto add = options.add_options();
  add("like", po::value<std::string>()->value_name("NAME"),
      "with --engine: the profile that yours resembles (default: the engine of the runs or the server)");
  add("hardware", po::value<std::string>()->value_name("NAME"),
      "hardware of the runs: an instance, or \"ACCELERATOR x COUNT\"; fitted if the catalogue lacks it");
  add("fit-hardware", po::bool_switch(), "fit an accelerator even if the catalogue has the hardware");
  add("memory", po::value<std::string>()->value_name("SIZE"), "memory of fitted hardware, as in 80GB");
  add("tp", po::value<std::string>()->value_name("N"), "tensor-parallel degree of the runs (default: 1)");
  add("map", po::value<std::vector<std::string>>()->value_name("FIGURE=COLUMN[:UNIT]"),
      "the column of a figure in other tools' tables, as for import");
  add("users", po::value<std::string>()->value_name("N"),
      "with --endpoint: the most users of the ladder of runs (default: 32)");
  add("input", po::value<std::string>()->value_name("N,N"),
      "with --endpoint: prompt lengths of the ladder (default: 128,512)");
  add("output", po::value<std::string>()->value_name("N,N"),
      "with --endpoint: answer lengths of the ladder (default: 16,64)");
  add_server_options(options);
}

std::string stated_own_option(const Parsed& parsed) {
  po::options_description own;
  add_own_options(own);
  for (const auto& option : own.options()) {
    const std::string name = option->long_name();
    if (parsed.values.count(name) > 0 && !parsed.values[name].defaulted()) return name;
  }
  return {};
}

bool fits_own_engine(const Parsed& parsed) {
  const bool own = names_endpoint(parsed) || parsed.values.count("from") > 0;
  if (own) return true;
  if (const std::string option = stated_own_option(parsed); !option.empty())
    throw InputError(fmt::format("--{} is for runs of your own: state them with --from or --endpoint", option));
  return false;
}

int calibrate_own(const Parsed& parsed, Console& console, const std::string& date) {
  refuse_without_effect(parsed);
  const std::string name = parsed.values["engine"].as<std::string>();
  auto catalogue = std::make_shared<configs::Catalogue>();
  calibration::check_own_name(name, *catalogue);
  calibration::OwnEngine engine{.name = name,
                                .like = {},
                                .fit_hardware = parsed.values["fit-hardware"].as<bool>(),
                                .memory_bytes = memory_option(parsed),
                                .pool_tokens = {},
                                .block_tokens = {},
                                .max_running = {},
                                .server = {},
                                .data = {},
                                .date = date,
                                .command = {}};
  const std::optional<Runs> obtained = obtain_runs(parsed, *catalogue, console, engine);
  if (!obtained) return kInterrupted;
  Runs runs = *obtained;
  engine.data = data_text(runs.files);
  engine.command = command_text(parsed, name, engine.like);
  calibration::OwnRuns own = calibration::own_runs(std::move(runs.rows));
  own.warnings.insert(own.warnings.begin(), runs.warnings.begin(), runs.warnings.end());
  for (const std::string& warning : own.warnings) console.warn(warning);
  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  try {
    const calibration::OwnFit fit = calibration::fit_own(
        engine, own, catalogue,
        {.jobs = parsed.common.jobs, .control = &control, .progress = [&](const std::string& text) {
           console.note(text);
         }});
    for (const std::string& warning : fit.warnings) console.warn(warning);
    console.print(split_text(engine.like, own) + calibration::own_report(fit));
    write_profile(fit.files, profile_folder(parsed), console);
    console.object("fit", fmt::format("\"engine\":{},\"like\":{},\"runs\":{},\"held_out\":{},{}",
                                      study::json_quoted(name), study::json_quoted(engine.like), own.fitted().size(),
                                      own.held_out().size(), calibration::own_fit_members(fit)));
    console.note(usage_text(fit, name, parsed.common.out));
  } catch (const calibration::ServingCancelled&) {
    console.warn("interrupted: nothing is written");
    return kInterrupted;
  }
  return kDone;
}

}  // namespace plimsoll::cli
