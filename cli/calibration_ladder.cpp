// SPDX-License-Identifier: Apache-2.0
#include "cli/calibration_ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "calibration/ladder.h"
#include "calibration/own_fit.h"
#include "cli/endpoint_points.h"
#include "configs/quantity.h"
#include "study/file/study.h"
#include "study/output/write_file.h"

namespace plimsoll::cli {
namespace {

using calibration::Rung;

std::vector<std::int64_t> lengths_option(const Parsed& parsed, const char* name, const std::string& fallback) {
  const std::string text = text_option(parsed, name, fallback);
  std::vector<std::int64_t> values;
  constexpr double kMost = 1e7;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::optional<double> value = configs::parse_number(text.substr(at, end - at));
    if (!value || *value < 1 || *value > kMost || *value != static_cast<double>(static_cast<std::int64_t>(*value)))
      throw InputError(
          fmt::format("--{}: found '{}', expected numbers of tokens, as in {}", name, text.substr(0, 40), fallback));
    values.push_back(static_cast<std::int64_t>(*value));
    at = end + 1;
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::vector<Rung> rungs_of(const Parsed& parsed, const endpoints::ServerFacts& facts) {
  constexpr std::int64_t kMostUsers = 4096, kUsers = 32;
  const std::int64_t most = whole_option(parsed, "users", {1, kMostUsers}, kUsers);
  std::vector<std::int64_t> inputs = lengths_option(parsed, "input", "128,512"),
                            outputs = lengths_option(parsed, "output", "16,64");
  const bool stated = parsed.values.count("input") + parsed.values.count("output") > 0;
  // A server with a low limit on sequence length gets shorter requests.
  while (!stated && facts.max_model_len && inputs.back() + outputs.back() > *facts.max_model_len && inputs[0] > 8)
    for (std::int64_t& input : inputs) input /= 2;
  std::vector<Rung> rungs = calibration::ordered_rungs(most, inputs, outputs);
  if (rungs.size() < calibration::kFewestRuns)
    throw InputError(fmt::format("--users, --input and --output: the ladder has {} run{}, at least {} are needed",
                                 rungs.size(), rungs.size() == 1 ? "" : "s", calibration::kFewestRuns));
  return rungs;
}

std::string study_text(const Ladder& ladder, const Parsed& parsed, const LadderRuns& server,
                       const std::vector<Rung>& rungs) {
  constexpr std::int64_t kMostRanks = 4096;
  const std::int64_t tp = whole_option(parsed, "tp", {1, kMostRanks}, 1);
  // The hardware does not matter to a measurement; it has room for every load. Block sizes are those of the server.
  std::string text = fmt::format(
      "study: ladder of {0}\nmodel: \"{1}\"\nengine: {2}\nhardware: {{accelerator: {{name: {0}, memory: 100 TB, "
      "bandwidth: 1 TB/s, peak: {{bf16: 100 TFLOP/s, fp32: 100 TFLOP/s, fp8: 100 TFLOP/s, int8: 100 TFLOP/s}}}}, "
      "count: {3}, interconnect: pcie-gen5}}\ndeployment: {{tp: {3}}}\n",
      ladder.name, ladder.model, server.like, tp);
  if (server.pool_tokens && server.block_tokens)
    text += fmt::format("scheduler: {{kv_blocks: {:.0f}, block_size: {}}}\n",
                        *server.pool_tokens / static_cast<double>(*server.block_tokens), *server.block_tokens);
  if (const std::string dtype = text_option(parsed, "dtype"); !dtype.empty()) text += "dtype: " + dtype + "\n";
  const auto workload = [](const Rung& rung) {
    return fmt::format(
        "{{load: {{closed_loop: {{concurrency: {}}}}}, lengths: {{input: {}, output: {}}}, requests: {}}}", rung.users,
        rung.input, rung.output, rung.requests());
  };
  text += "workload: " + workload(rungs.front()) + "\nsweep:\n  workload:\n";
  for (const Rung& rung : rungs) text += "  - " + workload(rung) + "\n";
  return text;
}

// Returns the engine of the catalogue that --like names, or that the server reports.
std::string like_of(const Parsed& parsed, const endpoints::ServerFacts& facts, const configs::Catalogue& catalogue) {
  const std::string stated = text_option(parsed, "like");
  if (!stated.empty()) return calibration::shipped_engine(catalogue, stated);
  const std::string like = calibration::engine_of_server(catalogue, facts.engine, facts.version);
  if (like.empty())
    throw InputError(
        fmt::format("--like: the server is {}, which the catalogue does not have; state which engine it "
                    "resembles (plimsoll list engines)",
                    facts.label()));
  return like;
}

void set_model(Ladder& ladder, const endpoints::ServerFacts& facts, const configs::Catalogue& catalogue) {
  if (ladder.model.empty()) ladder.model = facts.model;
  if (ladder.model.empty()) throw InputError("--model: the server does not say which model it serves; state it");
  try {
    (void)catalogue.model(ladder.model, Where{"--model", 0, 0});
  } catch (const InputError& error) {
    throw InputError("--model: " + error.text());
  }
  ladder.model = catalogue.identifier("models", ladder.model).value_or(ladder.model);
  const auto breaks = [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; };
  if (std::any_of(ladder.model.begin(), ladder.model.end(), breaks))
    throw InputError("--model: a path with quotation marks, backslashes or line breaks cannot be used");
}

}  // namespace

LadderRuns run_ladder(const Ladder& given, const Parsed& parsed, const configs::Catalogue& catalogue,
                      Console& console) {
  Ladder ladder = given;
  (void)rungs_of(parsed, {});  // wrong options are refused before anything is sent
  const endpoints::ServerFacts facts = ask_server(parsed, console);
  LadderRuns out;
  out.server = facts.label();
  out.like = like_of(parsed, facts, catalogue);
  out.slots = facts.slots;
  set_model(ladder, facts, catalogue);
  if (facts.state.kv_blocks && facts.state.block_tokens) {
    out.block_tokens = static_cast<std::int64_t>(*facts.state.block_tokens);
    // Servers also count blocks that no request can use.
    const std::string& policy = catalogue.engine(out.like)->profile->scheduler_policy;
    const auto unusable =
        sched::policy_info(sched::policy_from_name(policy).value_or(sched::PolicyConfig{}.policy)).unusable_blocks;
    out.pool_tokens = (*facts.state.kv_blocks - static_cast<double>(unusable)) * *facts.state.block_tokens;
  }
  const std::vector<Rung> rungs = rungs_of(parsed, facts);
  const study::Study study(configs::Document::from_text(study_text(ladder, parsed, out, rungs), "ladder"), "ladder", {},
                           std::make_shared<const configs::Catalogue>());
  EndpointPoints points(study, parsed, console);
  constexpr std::int64_t kLeast = 10, kMost = 86'400, kSeconds = 900;
  const auto seconds = static_cast<double>(whole_option(parsed, "seconds", {kLeast, kMost}, kSeconds));
  const auto fewer_users = [](const Rung& a, const Rung& b) { return a.users < b.users; };
  console.note(fmt::format("like {}; a ladder of {} runs of 1 to {} users, for about {:.0f} s at most", out.like,
                           rungs.size(), std::max_element(rungs.begin(), rungs.end(), fewer_users)->users, seconds));
  console.end_within(seconds);
  calibration::LadderBudget budget(rungs, seconds);
  bool over = false;
  const auto start = std::chrono::steady_clock::now();
  points.limit_by([&](std::size_t index) {
    const bool fits =
        budget.fits(index, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    over = over || !fits;
    return fits;
  });
  study::make_folder(ladder.folder);
  const study::StudyResult result = measure_points(study,
                                                   {.folder = ladder.folder,
                                                    .requests = false,
                                                    .decisions = false,
                                                    .timeline = false,
                                                    .resumable = true,
                                                    .stepwise = false},
                                                   points, console);
  if (!points.failure().empty()) throw DeviceError(points.failure());
  out.interrupted = result.cancelled;
  if (out.interrupted) return out;
  if (over) console.note(fmt::format("out of time: {} of {} runs are measured", result.points.size(), rungs.size()));
  out.file = ladder.folder + "/points.csv";
  out.rows = validation::read_measured(out.file).points;
  const std::string hardware = text_option(parsed, "hardware", ladder.name);
  for (validation::MeasuredPoint& row : out.rows) {
    row.model = ladder.model;
    row.hardware = hardware;
    row.unusable = validation::problem_of(row);
  }
  return out;
}

}  // namespace plimsoll::cli
