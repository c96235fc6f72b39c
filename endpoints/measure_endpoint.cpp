// SPDX-License-Identifier: Apache-2.0
#include "endpoints/measure_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "model/error.h"

namespace plimsoll::endpoints {
namespace {

constexpr double kShortPart = 0.01, kLateQuantile = 0.99, kLatePart = 0.05, kLateLeast = 1e-3, kPromptError = 0.01;

// The server counts as one replica: how it distributes requests internally is not visible.
load::Scenario as_one(load::Scenario scenario) {
  scenario.replicas = 1;
  scenario.router = sched::RouterKind::round_robin;
  scenario.life.reset();
  scenario.kv.prefix_caching = true;  // so that the clients pass on which prefixes are shared
  return scenario;
}

double milliseconds(double seconds) { return 1e3 * seconds; }

double mean_of(const std::vector<EndpointFigures::Row>& rows, std::optional<double> ServerState::*field) {
  double sum = 0;
  std::int64_t count = 0;
  for (const EndpointFigures::Row& row : rows) {
    if (!(row.state.*field)) continue;
    sum += *(row.state.*field);
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

// Figures known only to a scheduler come from the server's /metrics; those missing there stay NaN and print blank.
void fill_from_outside(sched::PointMetrics& metrics, const std::vector<EndpointFigures::Row>& states) {
  metrics.batch_mean = mean_of(states, &ServerState::running);
  metrics.queue_mean = mean_of(states, &ServerState::waiting);
  metrics.kv_used_mean = mean_of(states, &ServerState::kv_use);
  metrics.kv_used_peak = metrics.kv_used_mean;
  for (const EndpointFigures::Row& row : states)
    metrics.kv_used_peak = std::max(metrics.kv_used_peak, row.state.kv_use.value_or(0));
  // A server does not report these, so they are unknown.
  for (double* const unknown : {&metrics.kv_wasted_mean, &metrics.time_weights_s, &metrics.time_kv_s,
                                &metrics.time_compute_s, &metrics.time_allreduce_s, &metrics.time_host_s,
                                &metrics.time_queue_s, &metrics.time_preempt_s, &metrics.time_other_s})
    *unknown = std::numeric_limits<double>::quiet_NaN();
  if (!states.empty() && states.back().state.preemptions && states.front().state.preemptions)
    metrics.preemptions =
        std::llround(std::max(0.0, *states.back().state.preemptions - *states.front().state.preemptions));
}

}  // namespace

std::string misfit(const ServerFacts& facts, std::int64_t longest) {
  if (!facts.max_model_len || longest <= *facts.max_model_len) return {};
  return fmt::format("the study has requests of {} tokens, the server allows {} (max_model_len)", longest,
                     *facts.max_model_len);
}

EndpointPoint measure_point(const load::Scenario& scenario, Server& server, const Prompts& prompts,
                            const sched::RunOptions& options) {
  if (std::holds_alternative<load::Script>(scenario.workload.load))
    throw InputError("a script runs on its own clock and cannot be measured on a server");
  const load::Scenario one = as_one(scenario);
  sched::MetricsCollector measurements(one.slo, one.warmup, false);
  measurements.bound_memory();
  EndpointPoint point;
  std::optional<Prompts> own;  // of the replication in progress
  const load::MakeRunner make = [&](std::uint64_t replication, const sched::RunOptions&) {
    own = prompts.salted(replication);
    auto run = std::make_unique<EndpointRun>(server, *own, point.figures,
                                             server.facts().simulated ? one.drift : load::OutputDrift{});
    if (one.limits.retries > 0) run->expect_retries();
    return run;
  };
  point.run = load::run_replications(one, options, measurements, make);
  if (point.run.stopped) return point;
  point.run.metrics = measurements.metrics();
  fill_from_outside(point.run.metrics, point.figures.states);
  return point;
}

std::string states_csv(const EndpointFigures& figures) {
  const auto cell = [](const std::optional<double>& value) { return value ? fmt::format(",{}", *value) : ","; };
  std::string text = "time_s,running,waiting,kv_use,preemptions,prefix_queries,prefix_hits\n";
  for (const EndpointFigures::Row& row : figures.states) {
    const ServerState& state = row.state;
    text += fmt::format("{:.3f}", row.time) + cell(state.running) + cell(state.waiting) + cell(state.kv_use) +
            cell(state.preemptions) + cell(state.prefix_queries) + cell(state.prefix_hits) + '\n';
  }
  return text;
}

bool are_short(const EndpointFigures& figures) {
  return static_cast<double>(figures.early_ends) > kShortPart * static_cast<double>(figures.completed);
}

std::string counts_text(const EndpointFigures& figures) {
  const auto kinds = std::count_if(figures.counts.begin(), figures.counts.end(), [](auto count) { return count > 0; });
  std::string text;
  for (std::size_t kind = 0; kind < figures.counts.size(); ++kind) {
    if (figures.counts.at(kind) == 0) continue;
    if (!text.empty()) text += "; ";
    text += name(static_cast<TokenCount>(kind));
    if (kinds > 1) text += fmt::format(" x {}", figures.counts.at(kind));
  }
  return text;
}

std::vector<std::string> warnings(const EndpointPoint& point) {
  const EndpointFigures& figures = point.figures;
  std::vector<std::string> out;
  if (are_short(figures))
    out.push_back(fmt::format("short_answers: {} of {} answers ended before the length that was asked for",
                              figures.early_ends, figures.completed));
  const double late = figures.lateness.quantile(kLateQuantile);
  const double allowed = std::max(kLateLeast * figures.speed, kLatePart * point.run.metrics.ttft.p50.value_or(0));
  if (late > allowed)
    out.push_back(fmt::format("client_limited: the client sent {:.1f} ms late at p99, more than {:.1f} ms",
                              milliseconds(late), milliseconds(allowed)));
  if (figures.prompt_error > kPromptError)
    out.push_back(
        fmt::format("prompt_lengths: prompts differ from the study's by up to {:.1f} %", 100 * figures.prompt_error));
  if (figures.unintended_hits > 0)
    out.push_back(
        fmt::format("prefix_hits: {} prompts were found in the server's prefix cache, although the workload "
                    "shares none",
                    figures.unintended_hits));
  if (!figures.first_complaint.empty())
    out.push_back("first_error: the server's first refusal or failure: " + figures.first_complaint);
  return out;
}

}  // namespace plimsoll::endpoints
