// SPDX-License-Identifier: Apache-2.0
// plimsoll serve STUDY: serves the study's deployment as an HTTP endpoint.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/served_engines.h"
#include "cli/stated_study.h"
#include "configs/quantity.h"
#include "model/error.h"
#include "serve/serve.h"
#include "study/output/run_files.h"
#include "study/output/write_file.h"
#include "study/run/resolve.h"

namespace plimsoll::cli {
namespace {

constexpr std::int64_t kMaxServeThreads = 1024, kMaxPort = 65'535, kMaxConnections = 1'000'000,
                       kMaxBody = std::int64_t{1} << 30U;

Usage serve_usage() {
  Usage usage{
      .verb = "serve",
      .positional = "STUDY",
      .summary =
          "Serves the study's deployment as an OpenAI-compatible endpoint that answers with the simulated timing\n"
          "(docs/serve.md). The first line on standard output is its base URL. The answers' text is meaningless.\n"
          "With --backend, the model itself answers, under the study's scheduler.",
      .example =
          "  plimsoll serve configs/studies/cpu-demo.yaml --port 8000\n"
          "  plimsoll serve configs/studies/cpu-demo.yaml --backend cpu\n",
      .positional_required = false,
      .options = po::options_description("The server"),
      .without = {"format", "jobs", "stepwise"},
      .study_options = StudyOptions::points};
  auto add = usage.options.add_options();
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  add("backend", text("cpu|cuda"), "run the model on this device instead of simulating it");
  add("as-is", po::bool_switch(), "with --backend: serve here although the study names other hardware");
  add("threads", text("N"), "with --backend cpu: threads of all replicas together (default: one per core)");
  add("host", text("ADDRESS"), "address to listen on (default: 127.0.0.1, this machine alone)");
  add("port", text("N"), "port, 0: any free one (default: 8000)");
  add("speed", text("K"), "K times faster than the model (default: 1)");
  add("point", text("N"), "which point of a sweep, from 0");
  add("served-model-name", po::value<std::vector<std::string>>()->value_name("NAME"),
      "model name that requests may ask for; repeatable (default: any)");
  add("chars-per-token", text("N"), "characters of text that count as one token (default: 4)");
  add("api-key-env", text("NAME"), "environment variable with the key that clients must send");
  add("drain", text("TIME"), "after SIGTERM or Ctrl-C, time for open requests to end (default: 5 s)");
  add("max-requests", text("N"), "most open requests; further ones get 503 (default: 65536)");
  add("max-connections", text("N"), "most open connections (default: 16384)");
  add("max-body", text("BYTES"), "longest body of a request (default: 16777216)");
  return usage;
}

double positive_option(const Parsed& parsed, const std::string& name, double fallback) {
  if (parsed.values.count(name) == 0) return fallback;
  const std::string text = parsed.values[name].as<std::string>();
  const std::optional<double> value = configs::parse_number(text);
  if (!value || !(*value > 0) || *value > 1e6)
    throw InputError(fmt::format("--{}: found '{}', allowed: a number above 0, up to 1000000", name, text));
  return *value;
}

Seconds drain_option(const Parsed& parsed) {
  const std::string text = text_option(parsed, "drain", "5 s");
  const configs::Parsed time = configs::parse_quantity(text, configs::Dimension::seconds);
  const std::optional<double> value = time.value ? time.value : configs::parse_number(text);
  if (!value || *value < 0 || *value > 86'400)
    throw InputError(fmt::format("--drain: found '{}', allowed: a time such as 5 s, up to a day", text));
  return Seconds{*value};
}

std::string api_key(const Parsed& parsed) {
  const std::string name = text_option(parsed, "api-key-env");
  if (name.empty()) return {};
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0')
    throw InputError(fmt::format("--api-key-env: the environment variable {} is not set, or empty", name));
  return value;
}

// Points that differ only in their load are the same server.
std::size_t chosen_point(const Parsed& parsed, const study::Study& study) {
  const auto points = static_cast<std::int64_t>(study.point_count());
  if (parsed.values.count("point") > 0)
    return static_cast<std::size_t>(whole_option(parsed, "point", {0, points - 1}, 0));
  std::vector<std::string> keys = study.swept_keys();
  std::erase_if(keys, [](const std::string& key) { return key.starts_with("workload."); });
  if (keys.empty()) return 0;
  throw InputError(fmt::format("{} has {} points: one deployment can be served. State --set {}=…, or --point N",
                               study.file(), points, fmt::join(keys, "=… --set ")));
}

serve::ServeSettings read_settings(const Parsed& parsed) {
  serve::ServeSettings settings;
  settings.host = text_option(parsed, "host", settings.host);
  settings.port = static_cast<std::uint16_t>(whole_option(parsed, "port", {0, kMaxPort}, settings.port));
  settings.speed = positive_option(parsed, "speed", 1);
  settings.drain = drain_option(parsed);
  settings.service.chars_per_token = positive_option(parsed, "chars-per-token", 4);
  settings.service.api_key = api_key(parsed);
  settings.service.version = PLIMSOLL_VERSION;
  if (parsed.values.count("served-model-name") > 0)
    settings.service.served_names = parsed.values["served-model-name"].as<std::vector<std::string>>();
  settings.service.open_requests = static_cast<std::size_t>(whole_option(
      parsed, "max-requests", {1, kMaxConnections}, static_cast<std::int64_t>(settings.service.open_requests)));
  settings.limits.connections = static_cast<std::size_t>(whole_option(
      parsed, "max-connections", {1, kMaxConnections}, static_cast<std::int64_t>(settings.limits.connections)));
  settings.limits.body_bytes = static_cast<std::size_t>(
      whole_option(parsed, "max-body", {1, kMaxBody}, static_cast<std::int64_t>(settings.limits.body_bytes)));
  return settings;
}

// Records the events of a fixed fleet's runs in a file, so that simulate --replay can check the decisions.
void record_in(const std::string& folder, const study::Study& study, const study::ResolvedPoint& point,
               serve::ServeSettings& settings) {
  study::make_folder(folder);
  study::write_file(folder + "/study.yaml", study.resolved_yaml());
  if (point.scenario->life) return;
  const std::size_t points = study.point_count(), index = point.result.index;
  const auto replicas = static_cast<std::size_t>(point.scenario->replicas);
  settings.point = index;
  settings.events_file = folder + '/' + study::point_file_name("events", ".jsonl", points, index);
  for (std::size_t r = 0; r < replicas; ++r)
    settings.decision_files.push_back(folder + '/' + study::decisions_file_name(points, index, replicas, r));
}

void note_study(const load::Scenario& scenario, Console& console) {
  if (scenario.limits.timeout.count() > 0 && !scenario.limits.cancel_on_timeout)
    console.note(
        "limits.timeout belongs to the study's clients; a client that leaves cancels its request here, as with "
        "limits.cancel_on_timeout: true");
  if (std::holds_alternative<load::Script>(scenario.workload.load))
    throw InputError("a script states its own requests and steps, so it cannot be served: state another load");
}

// Real engines keep their own time, and learn the length of an answer only with its last token.
void refuse_options_of_simulations(const Parsed& parsed) {
  for (const char* const name : {"speed", "out"}) {
    const bool stated = std::string_view(name) == "out" ? !parsed.common.out.empty() : parsed.values.count(name) > 0;
    if (stated)
      throw InputError(fmt::format("--{} is for a simulated deployment: leave out --backend or --{}", name, name));
  }
}

void refuse_options_of_backends(const Parsed& parsed) {
  if (parsed.values["as-is"].as<bool>() || parsed.values.count("threads") > 0)
    throw InputError("--as-is and --threads belong to --backend: state --backend cpu");
}

constexpr const char* kCpuBackend = "--backend cpu";

MeasureSettings read_backend(Parsed& parsed) {
  MeasureSettings settings;
  settings.device = device_option(parsed, parsed.operand, "backend");
  // Reading the study may already query the GPU.
  if (settings.device == exec::DeviceKind::cuda) exec::require_gpu(kCpuBackend);
  settings.as_is = parsed.values["as-is"].as<bool>();
  settings.threads = static_cast<int>(whole_option(parsed, "threads", {1, kMaxServeThreads}, parsed.common.jobs));
  return settings;
}

void report(const serve::ServeSummary& done, Console& console) {
  console.note(
      fmt::format("served {} requests and {} output tokens in {:.1f} s; {} refused, {} cancelled by their clients, "
                  "{} cut off",
                  done.completed, done.output_tokens, done.seconds, done.refused, done.left, done.cut));
  if (done.steps == 0) return;
  const std::string late = fmt::format("{} steps, late by {:.3f} ms (median), {:.3f} ms (p99)", done.steps,
                                       1e3 * done.late_p50, 1e3 * done.late_p99);
  if (done.is_late)
    console.warn(late +
                 fmt::format("; {} of them by more than 1 ms and 2 % of the step, so the timing is not the model's. "
                             "Use a quieter machine, fewer requests or a lower --speed",
                             done.late_steps));
  else
    console.note(late);
}

}  // namespace

int run_serve(const Arguments& arguments, Console& console) {
  auto parsed = parse_arguments(serve_usage(), arguments, console);
  if (!parsed) return kDone;
  if (console.is_jsonl()) throw InputError("--progress jsonl: serve prints only its base URL on standard output");
  serve::ServeSettings settings = read_settings(*parsed);
  const bool real = parsed->values.count("backend") > 0;
  real ? refuse_options_of_simulations(*parsed) : refuse_options_of_backends(*parsed);
  const MeasureSettings backend = real ? read_backend(*parsed) : MeasureSettings{};
  const study::Study study = load_study(*parsed, console);
  const auto use = real ? study::ResolveFor::measurement : study::ResolveFor::simulation;
  const study::ResolvedPoint point = study::resolve_point(study, chosen_point(*parsed, study), use);
  point.require_possible();
  const load::Scenario& scenario = *point.scenario;
  note_study(scenario, console);
  settings.service.model = point.result.labels.model;
  settings.service.engine = point.result.labels.engine;
  settings.service.hardware = point.result.labels.hardware;
  settings.service.longest = study::longest_sequence(study.point(point.result.index));
  if (!parsed->common.out.empty()) {
    record_in(parsed->common.out, study, point, settings);
    if (scenario.life)
      console.warn("replicas come and go here: events.jsonl and decisions.txt are written for fixed fleets only");
  }
  std::optional<ServedEngines> engines;
  if (real) {
    engines.emplace(study, point, backend, console);
    engines->put_behind(settings);
  }
  settings.on_listening = [&](const std::string& url) {
    std::fprintf(stdout, "%s\n", url.c_str());
    std::fflush(stdout);
  };
  report(serve::serve(scenario, settings), console);
  return kDone;
}

}  // namespace plimsoll::cli
