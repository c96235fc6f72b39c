// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "study/plan/capacity.h"
#include "study/plan/search.h"
#include "study/run/resolve.h"

namespace plimsoll::study::plan {
namespace {

using configs::Document;
using configs::Node;

constexpr std::string_view kPools = "deployment.pools", kLocal = "deployment.local_prefill";

/// A kind of machine that one of the pools uses, as the study states it.
struct Machine {
  std::optional<Node> hardware, engine;
  PointSpec spec;  // of that pool
};

class Comparison {
 public:
  Comparison(const Question& question, const Trials& trials, std::size_t winner)
      : question_(question), trials_(trials), winner_(question.candidates[winner]) {}

  PoolFindings run() {
    PoolFindings out;
    if (const auto need = RateBound().need(winner_.spec)) out.need = *need;
    if (!winner_.spec.hardware.accelerator || !winner_.spec.prefill->hardware.accelerator) {
      out.not_compared = "a pool described by rates cannot do the work of the other pool";
      return out;
    }
    if (std::holds_alternative<load::Script>(question_.spec.workload.load)) return out;
    using Equal = OnePool::Equal;
    add(out, Equal::gpus, [this](const PointSpec& spec) { return winner_.gpus / degree(spec); });
    if (!question_.is_priced) return out;
    add(out, Equal::money, [this](const PointSpec& spec) {
      if (!spec.hardware.usd_per_hour || *spec.hardware.usd_per_hour <= 0) return std::int64_t{0};
      constexpr double kRounding = 1e-9;
      const double instances = std::floor(winner_.rent / *spec.hardware.usd_per_hour + kRounding);
      return static_cast<std::int64_t>(instances) * std::max(std::int64_t{1}, spec.hardware.count / degree(spec));
    });
    return out;
  }

 private:
  static std::int64_t degree(const PointSpec& spec) { return std::int64_t{spec.deployment.tp} * spec.deployment.pp; }

  // Returns the settings of one pool on this machine, with the settings that both pools share.
  [[nodiscard]] std::vector<Setting> settings_on(const Machine& machine, std::int32_t tp) const {
    std::vector<Setting> settings;
    for (const Setting& s : winner_.settings)
      if (!s.first.starts_with(kPools) && s.first != kLocal) settings.push_back(s);
    const auto set = [&](std::string_view path, const Node& value) { settings.emplace_back(std::string(path), value); };
    set(kPools, setting_value("none", "plan"));
    if (machine.hardware) set("hardware", *machine.hardware);
    if (machine.engine) set("engine", *machine.engine);
    set("deployment.tp", setting_value(fmt::format("{}", tp), "plan"));
    return settings;
  }

  [[nodiscard]] std::vector<Machine> machines() const {
    const Document file = Document::from_text(question_.study->point_file(question_.index, winner_.settings).yaml,
                                              question_.study->file());
    const Node pools = file.root().at("deployment").at("pools");
    std::vector<Machine> out;
    for (const auto& [name, spec] : {std::pair("decode", &winner_.spec), {"prefill", winner_.spec.prefill.get()}}) {
      if (!out.empty() && out.front().spec.hardware.label == spec->hardware.label) continue;
      const Node pool = pools.at(name);
      out.push_back({pool.find("hardware"), pool.find("engine"), *spec});
    }
    return out;
  }

  // Returns the TP degrees to try: those of the pools, and all powers of two within an instance.
  [[nodiscard]] std::set<std::int32_t> degrees_on(const Machine& machine) const {
    std::set<std::int32_t> degrees{winner_.spec.deployment.tp, winner_.spec.prefill->deployment.tp};
    for (std::int32_t tp = 1; tp <= machine.spec.hardware.count; tp *= 2) degrees.insert(tp);
    return degrees;
  }

  template <class Replicas>
  [[nodiscard]] std::vector<Candidate> candidates(const Replicas& replicas_of) const {
    std::vector<Candidate> out;
    for (const Machine& machine : machines()) {
      for (const std::int32_t tp : degrees_on(machine)) {
        std::vector<Setting> settings = settings_on(machine, tp);
        PointSpec spec = question_.study->point(question_.index, settings);
        const std::int64_t replicas = replicas_of(spec);
        if (replicas < 1 || degree(spec) > spec.hardware.count) continue;
        spec.deployment.replicas = static_cast<std::int32_t>(replicas);
        settings.emplace_back("deployment.replicas", setting_value(fmt::format("{}", replicas), "plan"));
        out.push_back(candidate(std::move(spec), std::move(settings), out.size()));
      }
    }
    return out;
  }

  [[nodiscard]] Candidate candidate(PointSpec spec, std::vector<Setting> settings, std::size_t index) const {
    Candidate c;
    spec.search.reset();
    spec.replications = 1;
    ResolvedPoint resolved = resolve_spec(spec);
    const std::int32_t replicas = spec.deployment.replicas;
    c.point = std::move(resolved.result);
    c.point.index = index;
    c.name = fmt::format("{} x {}: tp {}, {} replica{}", spec.hardware.label, c.point.instances, spec.deployment.tp,
                         replicas, replicas == 1 ? "" : "s");
    c.gpus = degree(spec) * replicas;
    c.family = c.twins = index;
    c.rent = question_.is_priced ? c.point.usd_per_hour.value_or(0) : static_cast<double>(c.gpus);
    if (resolved.impossible) c.excluded = resolved.impossible->reason;
    c.settings = std::move(settings);
    c.spec = std::move(spec);
    return c;
  }

  // Runs a separate search among these settings.
  template <class Replicas>
  void add(PoolFindings& out, OnePool::Equal equal, const Replicas& replicas_of) const {
    Question question = question_;
    question.candidates = candidates(replicas_of);
    if (question.candidates.empty()) return;
    question.spec = question.candidates.front().spec;
    question.search.objective = ends_somewhere(question.spec) ? Objective::capacity : Objective::latency;
    const auto same = std::find_if(out.one_pool.begin(), out.one_pool.end(), [&](const OnePool& known) {
      return std::any_of(question.candidates.begin(), question.candidates.end(),
                         [&](const Candidate& c) { return known.candidate.name == c.name; });
    });
    if (same != out.one_pool.end()) {  // whole instances of one kind: equal GPUs cost equal money
      same->also_money = true;
      return;
    }
    TrialSettings settings = trials_.settings();
    settings.spread = {};  // other processes know only the candidates of the study's own question
    settings.on_progress = {};
    settings.on_first = {};
    Trials trials(question, settings);
    Answer answer = find_best(question, trials, {.examine_winner = false});
    if (answer.cancelled) throw Cancelled{};
    const std::size_t best = answer.winner.value_or(answer.order.empty() ? 0 : answer.order.front());
    out.one_pool.push_back({.equal = equal,
                            .also_money = false,
                            .carries = answer.winner.has_value(),
                            .candidate = question.candidates[best],
                            .entry = answer.entries[best]});
  }

  const Question& question_;
  const Trials& trials_;
  const Candidate& winner_;
};

}  // namespace

PoolFindings compare_with_one_pool(const Question& question, const Trials& trials, std::size_t winner) {
  return Comparison(question, trials, winner).run();
}

}  // namespace plimsoll::study::plan
