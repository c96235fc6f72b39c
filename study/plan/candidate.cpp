// SPDX-License-Identifier: Apache-2.0
#include "study/plan/candidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "model/error.h"
#include "study/run/resolve.h"

namespace plimsoll::study::plan {
namespace {

constexpr std::size_t kMaxCandidates = 1'000'000;
constexpr std::string_view kTp = "deployment.tp", kReplicas = "deployment.replicas",
                           kInstances = "deployment.instances", kHardware = "hardware",
                           kMaxRunning = "scheduler.max_running";
constexpr std::array<std::int32_t, 14> kAutoReplicas = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr std::int32_t kMaxAutoTp = 64;
// Axes that every name shows; other axes appear only if they vary.
constexpr std::array<std::string_view, 3> kInEveryName = {kHardware, kTp, kReplicas};

configs::Node number_node(std::int64_t value) { return setting_value(fmt::format("{}", value), "search"); }

template <class Range>
SearchAxis number_axis(std::string_view path, const Range& values) {
  SearchAxis axis{std::string(path), {}};
  for (const auto value : values) axis.values.push_back(number_node(value));
  return axis;
}

bool has_axis(const SearchSpec& search, std::string_view path) {
  return std::any_of(search.axes.begin(), search.axes.end(), [&](const SearchAxis& axis) { return axis.path == path; });
}

// Adds axes for what neither the search nor the study states: the search then finds their values.
std::vector<SearchAxis> all_axes(const Study& study, std::size_t index, const PointSpec& spec,
                                 const SearchSpec& search) {
  std::vector<SearchAxis> axes = search.axes;
  // An axis is added only where the user left the question open. Stated values are never varied.
  const bool states_tp = study.states(index, kTp) || spec.deployment.tp != 1 || spec.deployment.tp_is_max;
  if (!has_axis(search, kTp) && !states_tp) {
    std::vector<std::int32_t> degrees;
    for (std::int32_t tp = 1; tp <= kMaxAutoTp; tp *= 2) degrees.push_back(tp);
    axes.push_back(number_axis(kTp, degrees));  // degrees larger than an instance are removed below
  }
  const bool by_instance = !search.replicas_per_instance.empty() || !search.instance_counts.empty();
  if (!has_axis(search, kReplicas) && !by_instance && !study.states(index, kReplicas)) {
    axes.push_back(number_axis(kReplicas, kAutoReplicas));
  }
  return axes;
}

// A deployment listed twice would tie with itself.
void refuse_twice(const SearchAxis& axis) {
  std::set<std::string> seen;
  for (const configs::Node& value : axis.values) {
    if (!seen.insert(value.to_text()).second) value.fail(fmt::format("{} is listed twice", value.to_text()));
  }
}

// Divides before it multiplies, since the product of many axes may be beyond 64 bits.
std::size_t combinations(const std::vector<SearchAxis>& axes, const SearchSpec& search) {
  std::size_t count = std::max<std::size_t>(1, search.replicas_per_instance.size()) *
                      std::max<std::size_t>(1, search.instance_counts.size());
  for (const SearchAxis& axis : axes) {
    if (axis.values.size() > kMaxCandidates / count) {
      axis.values.front().fail(
          fmt::format("the search has more than {} combinations; expected fewer values", kMaxCandidates));
    }
    count *= axis.values.size();
  }
  for (const SearchAxis& axis : axes) refuse_twice(axis);
  return count;
}

class Builder {
 public:
  Builder(const Study& study, std::size_t index, Question& question)
      : study_(study), index_(index), question_(question) {
    axes_ = all_axes(study, index, question.spec, question.search);
    auto_tp_ = !has_axis(question.search, kTp) &&
               std::any_of(axes_.begin(), axes_.end(), [](const auto& a) { return a.path == kTp; });
  }

  void build() {
    const std::size_t count = combinations(axes_, question_.search);
    question_.candidates.reserve(count);
    std::vector<Setting> settings;
    add_axes(0, settings);
  }

 private:
  // All combinations, the last axis fastest: the order in which a reader would list them.
  void add_axes(std::size_t axis, std::vector<Setting>& settings) {
    if (axis == axes_.size()) {
      add_placements(settings);
      return;
    }
    for (const configs::Node& value : axes_[axis].values) {
      settings.emplace_back(axes_[axis].path, value);
      add_axes(axis + 1, settings);
      settings.pop_back();
    }
  }

  // Replicas are stated directly, or as a number on each instance and a number of instances.
  void add_placements(const std::vector<Setting>& settings) {
    const SearchSpec& search = question_.search;
    if (search.replicas_per_instance.empty() && search.instance_counts.empty()) {
      add(settings, study_.point(index_, settings));
      return;
    }
    const PointSpec spec = study_.point(index_, settings);
    const std::int32_t degree =
        (spec.deployment.tp_is_max ? spec.hardware.count : spec.deployment.tp) * spec.deployment.pp;
    const std::vector<std::int32_t> densities =
        search.replicas_per_instance.empty() ? std::vector<std::int32_t>{0} : search.replicas_per_instance;
    const std::vector<std::int32_t> counts =
        search.instance_counts.empty() ? std::vector<std::int32_t>{1} : search.instance_counts;
    std::set<std::int32_t> seen;  // "max" may equal a number that is also listed
    for (const std::int32_t wanted : densities) {
      const std::int32_t density = wanted > 0 ? wanted : std::max(1, spec.hardware.count / degree);
      if (!seen.insert(density).second) continue;
      for (const std::int32_t instances : counts) place(settings, spec, density, instances);
    }
  }

  void place(std::vector<Setting> settings, PointSpec spec, std::int32_t density, std::int32_t instances) {
    spec.deployment.replicas = density * instances;
    spec.deployment.instances = instances;
    settings.emplace_back(kReplicas, number_node(spec.deployment.replicas));
    settings.emplace_back(kInstances, number_node(instances));
    add(settings, std::move(spec));
  }

  void add(const std::vector<Setting>& settings, PointSpec spec) {
    // Degrees that the search itself proposed are dropped in silence; stated ones are listed with the reason.
    if (auto_tp_ && std::int64_t{spec.deployment.tp} * spec.deployment.pp > spec.hardware.count) return;
    Candidate candidate;
    candidate.settings = settings;
    candidate.spec = std::move(spec);
    candidate.spec.search.reset();
    candidate.spec.replications = 1;  // the search replicates runs itself where needed
    if (candidate.spec.deployment.tp_is_max) candidate.spec.deployment.tp = candidate.spec.hardware.count;
    ResolvedPoint resolved = resolve_spec(candidate.spec);
    candidate.point = std::move(resolved.result);
    candidate.point.index = question_.candidates.size();
    const Deployment& d = candidate.spec.deployment;
    candidate.gpus = std::int64_t{d.tp} * d.pp * d.most_replicas();  // set for impossible candidates too
    candidate.name = name_of(candidate);
    candidate.family = families_.try_emplace(family_of(candidate), families_.size()).first->second;
    // Twins differ only in the limit of running requests. If no run reaches a limit, one run is valid for all.
    candidate.twins = twins_.try_emplace(twins_of(candidate, resolved), twins_.size()).first->second;
    const sched::PolicyConfig& policy = candidate.spec.policy;
    candidate.most_running = policy.max_running.value_or(sched::resolve_limits(policy).max_running);
    if (resolved.impossible)
      candidate.excluded = resolved.impossible->reason;
    else
      candidate.excluded = over_limit(candidate);
    if (!resolved.impossible) ++question_.feasible;
    question_.candidates.push_back(std::move(candidate));
  }

  template <class Test>
  [[nodiscard]] static std::string settings_text(const Candidate& candidate, Test counts) {
    std::string text;
    for (const auto& [path, value] : candidate.settings) {
      if (counts(path)) text += path + '=' + value.to_text() + '\n';
    }
    return text;
  }

  // A family is one kind of replica: its members differ in their number only, so capacities grow along it.
  [[nodiscard]] static std::string family_of(const Candidate& candidate) {
    return settings_text(candidate, [](const std::string& path) { return path != kReplicas && path != kInstances; });
  }

  // The limit matters before it is reached for batches that return as a whole, which wait to be filled, and for
  // numbered slots.
  [[nodiscard]] static std::string twins_of(const Candidate& candidate, const ResolvedPoint& resolved) {
    const sched::Traits traits = sched::traits_of(candidate.spec.policy);
    const bool alone = !resolved.scenario || !candidate.spec.deployment.is_fixed() || traits.returns_at_batch_end ||
                       traits.numbered_slots;
    const std::string text =
        settings_text(candidate, [&](const std::string& path) { return alone || path != kMaxRunning; });
    return alone ? text : fmt::format("{}{} blocks", text, resolved.scenario->kv.blocks);
  }

  [[nodiscard]] std::string over_limit(const Candidate& candidate) const {
    const SearchSpec& search = question_.search;
    const std::optional<double>& usd = candidate.point.usd_per_hour;
    if (search.max_usd_per_hour && usd && *usd > *search.max_usd_per_hour) {
      return fmt::format("{:.2f} USD/h are more than max_usd_per_hour: {:.2f}", *usd, *search.max_usd_per_hour);
    }
    if (search.max_gpus && candidate.gpus > *search.max_gpus) {
      return fmt::format("{} GPUs are more than max_gpus: {}", candidate.gpus, *search.max_gpus);
    }
    return {};
  }

  [[nodiscard]] std::string name_of(const Candidate& candidate) const {
    const Deployment& d = candidate.spec.deployment;
    const std::string hardware = candidate.spec.hardware.label.empty() ? "machine" : candidate.spec.hardware.label;
    std::string name = fmt::format("{} x {}: tp {}, {} replica{}", hardware, candidate.point.instances, d.tp,
                                   d.replicas, d.replicas == 1 ? "" : "s");
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const std::string& path = axes_[i].path;
      // Names show what distinguishes a candidate: axes with one value are the same for all.
      const bool shown = std::find(kInEveryName.begin(), kInEveryName.end(), path) != kInEveryName.end();
      if (shown || axes_[i].values.size() == 1) continue;
      const std::string value = candidate.settings[i].second.to_text();
      const std::string key = path.substr(path.rfind('.') + 1);
      name += key == "policy" || key == "dtype" || key == "router" ? ", " + value : fmt::format(", {} {}", key, value);
    }
    return name;
  }

  const Study& study_;
  std::size_t index_;
  Question& question_;
  std::vector<SearchAxis> axes_;
  std::map<std::string, std::size_t> families_, twins_;
  bool auto_tp_ = false;
};

// Returns the instance types in the search, each with one of its candidates.
std::map<std::string, const Candidate*> types_of(const Question& question) {
  std::map<std::string, const Candidate*> types;
  for (const Candidate& c : question.candidates) {
    if (c.excluded.empty()) types.emplace(c.spec.hardware.label, &c);
  }
  return types;
}

bool asks_for_cost(Objective objective) {
  return objective == Objective::cost || objective == Objective::cost_per_token;
}

constexpr std::string_view kHowToPrice = "state usd_per_hour in hardware, or prices: {gpu_hour: 2.5}";

void need_price(const Candidate& candidate, std::string_view what) {
  if (candidate.point.usd_per_hour) return;
  throw InputError(candidate.spec.places.hardware, fmt::format("{} needs the price of {}, and none is known: {}", what,
                                                               candidate.spec.hardware.label, kHowToPrice));
}

// One's own machines need no price if nothing else is compared with them.
void settle_prices(Question& question) {
  const std::map<std::string, const Candidate*> types = types_of(question);
  const bool costs = asks_for_cost(question.search.objective);
  for (const auto& [label, candidate] : types) {
    if (question.search.max_usd_per_hour) need_price(*candidate, "max_usd_per_hour");
    if (costs && types.size() > 1) need_price(*candidate, "a search for the least cost over several kinds of hardware");
    question.is_priced = question.is_priced && candidate->point.usd_per_hour.has_value();
  }
  for (Candidate& c : question.candidates)
    c.rent = question.is_priced ? c.point.usd_per_hour.value_or(0) : static_cast<double>(c.gpus);
  if (costs && !question.is_priced) {
    question.notes.push_back(
        fmt::format("no price of {} is known: the cost is counted in GPUs; {}", types.begin()->first, kHowToPrice));
  }
}

// Notes prices of different months, because prices may have changed in between.
void note_dates(Question& question) {
  std::map<std::string, std::vector<std::string>> labels;  // by price date
  for (const auto& [label, candidate] : types_of(question)) {
    if (!candidate->spec.hardware.price_date.empty()) labels[candidate->spec.hardware.price_date].push_back(label);
  }
  if (labels.size() < 2) return;
  std::vector<std::string> parts;
  for (const auto& [date, of] : labels) parts.push_back(fmt::format("{} of {}", fmt::join(of, ", "), date));
  question.notes.push_back(fmt::format("prices of different dates are compared: {}", fmt::join(parts, "; ")));
}

}  // namespace

Question make_question(const Study& study, std::size_t index) {
  Question question{
      .study = &study, .index = index, .search = {}, .spec = study.point(index), .candidates = {}, .notes = {}};
  question.search = question.spec.search.value_or(SearchSpec{});
  Builder(study, index, question).build();
  settle_prices(question);
  note_dates(question);
  return question;
}

std::int64_t paid_gpus(const Candidate& candidate) {
  return candidate.point.gpus == 0 ? candidate.gpus
                                   : std::int64_t{candidate.point.instances} * candidate.point.gpus_per_instance;
}

// Numbers within names compare by value, so that "tp 16" follows "tp 8".
bool name_before(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      std::uint64_t x = 0, y = 0;
      const auto* const a_end = std::from_chars(a.data(), a.data() + a.size(), x).ptr;
      const auto* const b_end = std::from_chars(b.data(), b.data() + b.size(), y).ptr;
      if (x != y) return x < y;
      a.remove_prefix(static_cast<std::size_t>(a_end - a.data()));
      b.remove_prefix(static_cast<std::size_t>(b_end - b.data()));
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

}  // namespace plimsoll::study::plan
