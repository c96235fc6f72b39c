// SPDX-License-Identifier: Apache-2.0
#include "cli/served_engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "exec/live/live_run.h"
#include "exec/live/stepped_workers.h"
#include "exec/live/token_requests.h"
#include "model/error.h"

namespace plimsoll::cli {

namespace {

namespace fs = std::filesystem;

exec::Sampling sampling_of(const serve::TokenCall& call) {
  constexpr double kGreedy = 1e-5;  // as in vLLM: dividing logits by less would exceed f32
  return {.temperature = call.temperature < kGreedy ? 0.0F : static_cast<float>(call.temperature),
          .seed = call.seed,
          .top_k = call.top_k,
          .top_p = static_cast<float>(call.top_p),
          .min_p = static_cast<float>(call.min_p)};
}

/// What the workers of a run use. A base class, because the run refers to it.
struct RunWorkers {
  RunWorkers(const exec::LiveReplicas& replicas, const load::Scenario& scenario, const serve::RunParts& parts)
      : workers(replicas.devices, exec::builder_config(scenario, replicas.sequences), requests,
                {.starts = [&clock = parts.clock] { clock.restart(); },
                 .wait = [&parts_clock = parts.clock,
                          &server = parts.server](Nanos until) { server.run_until(parts_clock.at(until)); },
                 .wake = [&server = parts.server] { server.post([&server] { server.wake(); }); }}) {}

  exec::TokenRequests requests;
  exec::SteppedWorkers workers;
};

/// A live run whose requests come from a server's clients. A request's length is known only with its last token.
class EngineRun final : private RunWorkers, public exec::LiveRun, public serve::ServedRun {
 public:
  EngineRun(const exec::LiveReplicas& replicas, const load::Scenario& scenario, const sched::RunOptions& options,
            const serve::RunParts& parts)
      : RunWorkers(replicas, scenario, parts),
        LiveRun(scenario, options, RunWorkers::workers),
        parts_(parts),
        notes_(scenario, parts) {}

  [[nodiscard]] load::ReplicaRunner& runner() override { return *this; }
  [[nodiscard]] sched::Tok cached(serve::ClientId client) const override { return notes_.cached(client); }

  // The run continues without requests until it is stopped.
  [[nodiscard]] bool in_flight() const override { return !ends_ || LiveRun::in_flight(); }
  void end_plans() override {
    ends_ = true;
    LiveRun::end_plans();
  }
  [[nodiscard]] bool looks_up(Nanos now) override { return LiveRun::looks_up(now) && look(now); }

  [[nodiscard]] std::optional<sched::ReqId> arrive(std::size_t slot, const sched::NewRequest& request,
                                                   Nanos now) override {
    const std::optional<sched::ReqId> id = LiveRun::arrive(slot, request, now);
    if (!id) return id;
    const serve::TokenCall& call = *parts_.arrivals.call(request.client).tokens;
    requests.add(request.serial, {call.prompt, sampling_of(call)});
    ids_[request.serial] = *id;
    notes_.arrived(request.client);
    return id;
  }

  void decide(std::size_t slot, Nanos now) override {
    LiveRun::decide(slot, now);
    if (busy(slot)) notes_.decided(slot, replica(slot));
  }

  void left(std::size_t slot, const std::vector<sched::FinishedAttempt>& ended) override {
    LiveRun::left(slot, ended);
    for (const sched::FinishedAttempt& request : ended) {
      requests.erase(request.serial);
      ids_.erase(request.serial);
    }
  }

 protected:
  // A client that has left gets no tokens; its request is cancelled when the step has ended.
  void step_ran(const exec::StepReport& report) override {
    for (const auto& [serial, token] : RunWorkers::workers.take_tokens(report.replica)) {
      const auto found = ids_.find(serial);
      if (found == ids_.end()) continue;
      const auto client = parts_.arrivals.client_of(report.replica, found->second, serial);
      if (!client || !parts_.listener.took(*client, token)) continue;
      sched::Replica& scheduler = replica(report.replica);
      scheduler.set_output(found->second, scheduler.requests().generated(found->second) + 1);
    }
  }
  void step_done(const exec::StepReport& report) override {
    notes_.ended(report.replica, replica(report.replica), report.span.end);
  }

 private:
  serve::RunParts parts_;
  serve::StepNotes notes_;
  std::unordered_map<std::uint64_t, sched::ReqId> ids_;  // of live requests, by serial; only for look-ups
  bool ends_ = false;
};

// Returns the folder of a model's files; empty for a model of the catalogue.
fs::path folder_of(const study::PointSpec& spec) {
  const std::string& name = !spec.weights.empty() ? spec.weights : spec.model_is_file ? spec.model_name : std::string();
  const fs::path path(name);
  std::error_code error;
  return name.empty() || fs::is_directory(path, error) ? path : path.parent_path();
}

}  // namespace

ServedEngines::ServedEngines(const study::Study& study, const study::ResolvedPoint& point,
                             const MeasureSettings& settings, Console& console)
    : study_(study),
      point_(point),
      spec_(study.point(point.result.index)),
      device_(settings.device),
      console_(console),
      points_(study, settings, console) {
  check_point();
  points_.check_only(point.result.index, "--backend cpu");
}

void ServedEngines::check_point() const {
  const load::Scenario& scenario = *point_.scenario;
  const Where& place = spec_.places.study;
  if (scenario.life)
    throw InputError(place, "--backend serves only fixed fleets: no deployment.autoscaling, no deployment.failures");
  if (scenario.pools) throw InputError(place, "--backend serves one pool: pools for prefill and decode are simulated");
  if (scenario.kv.prefix_caching && scenario.kv.in_slots)
    throw InputError(place, fmt::format("policy {} keeps prompts in its slots, which only the simulator does; serve "
                                        "with scheduler.prefix_caching: false",
                                        sched::name(scenario.policy.policy)));
  if (scenario.policy.reserve &&
      (*scenario.policy.reserve == sched::Reserve::oracle || *scenario.policy.reserve == sched::Reserve::pow2))
    throw InputError(place,
                     "scheduler.reserve needs the true length of an answer, which a real engine learns with its "
                     "last token; allowed: max_len, request_cap");
}

// A model without a tokenizer can be tried by every client, but its text means nothing.
std::shared_ptr<const serve::Vocabulary> ServedEngines::vocabulary(double chars_per_token) {
  const auto size = static_cast<std::int32_t>(spec_.shape->vocab);
  const fs::path folder = folder_of(spec_);
  std::error_code error;
  if (folder.empty() || !fs::exists(folder / "tokenizer.json", error)) {
    const std::string text = fmt::format(
        "{} has no tokenizer.json: text counts as {:g} characters per token, and answers are meaningless words",
        folder.empty() ? spec_.shape->id : folder.string(), chars_per_token);
    spec_.weights.empty() ? console_.note(text) : console_.warn(text);
    return std::make_shared<serve::Vocabulary>(size, chars_per_token);
  }
  text::ModelText text = text::read_model_text(folder.string());
  if (!text.chat) console_.note(fmt::format("{} has no chat template: chats are refused", folder.string()));
  if (text.ends.empty()) console_.warn(fmt::format("{} names no end token: answers end at their cap", folder.string()));
  try {
    return std::make_shared<serve::Vocabulary>(std::move(text), size);
  } catch (const InputError& problem) {
    throw InputError({.file = folder.string()}, problem.text());
  }
}

void ServedEngines::put_behind(serve::ServeSettings& settings) {
  const load::Scenario& scenario = *point_.scenario;
  serve::ServiceSettings& service = settings.service;
  service.backend = device_ == exec::DeviceKind::cuda ? "cuda" : "cpu";
  service.engine = MeasuredPoints::engine_name(device_);
  service.filters = device_ == exec::DeviceKind::cpu || scenario.tp == 1;
  service.seed = spec_.workload.seed;
  if (const std::int64_t positions = spec_.shape->max_position; positions > 0)
    service.longest = std::min(service.longest, positions);
  service.vocabulary = vocabulary(service.chars_per_token);
  const exec::LiveReplicas& replicas = points_.engines(point_.result, scenario).replicas();
  exec::warm_up(scenario, replicas, exec::PromptSource(spec_.workload.seed, spec_.shape->vocab));
  settings.make_run = [&replicas](const load::Scenario& served, const sched::RunOptions& options,
                                  const serve::RunParts& parts) {
    return std::make_unique<EngineRun>(replicas, served, options, parts);
  };
}

}  // namespace plimsoll::cli
