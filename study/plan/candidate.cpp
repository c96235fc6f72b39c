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
#include "study/plan/pool_counts.h"
#include "study/run/resolve.h"

namespace plimsoll::study::plan {
namespace {

constexpr std::size_t kMaxCandidates = 1'000'000;
constexpr std::string_view kTp = "deployment.tp", kReplicas = "deployment.replicas",
                           kInstances = "deployment.instances", kHardware = "hardware",
                           kMaxRunning = "scheduler.max_running", kPrefillTp = "deployment.pools.prefill.tp",
                           kDecodeTp = "deployment.pools.decode.tp",
                           kPrefillReplicas = "deployment.pools.prefill.replicas",
                           kDecodeReplicas = "deployment.pools.decode.replicas";
constexpr std::array<std::int32_t, 14> kAutoReplicas = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr std::int32_t kMaxAutoTp = 64;
// Axes that every name shows; other axes appear only if they vary.
constexpr std::array<std::string_view, 7> kInEveryName = {kHardware,
                                                          kTp,
                                                          kReplicas,
                                                          kPrefillTp,
                                                          kDecodeTp,
                                                          "deployment.pools.prefill.hardware",
                                                          "deployment.pools.decode.hardware"};

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

SearchAxis degrees_axis(std::string_view path) {
  std::vector<std::int32_t> degrees;
  for (std::int32_t tp = 1; tp <= kMaxAutoTp; tp *= 2) degrees.push_back(tp);
  return number_axis(path, degrees);  // degrees larger than an instance are removed below
}

// Returns the axes of pools, except for their numbers of replicas (PoolCountAxis). Without hardware, all degrees are 1.
std::vector<SearchAxis> pool_axes(const Study& study, std::size_t index, const PointSpec& spec,
                                  const SearchSpec& search) {
  std::vector<SearchAxis> axes = search.axes;
  const auto open = [&](std::string_view path, const PointSpec& pool) {
    const bool is_stated = study.states(index, kTp) || study.states(index, path) || pool.deployment.tp != 1 ||
                           pool.deployment.tp_is_max || !pool.hardware.accelerator;
    if (!is_stated && !has_axis(search, kTp) && !has_axis(search, path)) axes.push_back(degrees_axis(path));
  };
  open(kPrefillTp, *spec.prefill);
  open(kDecodeTp, spec);
  return axes;
}

// Adds axes for what neither the search nor the study states: the search then finds their values.
std::vector<SearchAxis> all_axes(const Study& study, std::size_t index, const PointSpec& spec,
                                 const SearchSpec& search) {
  if (spec.prefill) return pool_axes(study, index, spec, search);
  std::vector<SearchAxis> axes = search.axes;
  // An axis is added only where the user left the question open. Stated values are never varied.
  const bool states_tp = study.states(index, kTp) || spec.deployment.tp != 1 || spec.deployment.tp_is_max;
  if (!has_axis(search, kTp) && !states_tp) axes.push_back(degrees_axis(kTp));
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
    if (question.spec.prefill) counts_.emplace(study, index, question.search, axes_);
    const auto is_proposed = [&](std::string_view path) {
      return !has_axis(question.search, path) &&
             std::any_of(axes_.begin(), axes_.end(), [&](const auto& a) { return a.path == path; });
    };
    auto_tp_ = is_proposed(question.spec.prefill ? kDecodeTp : kTp);
    auto_prefill_tp_ = is_proposed(kPrefillTp);
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
    if (counts_) {
      add_pool_counts(settings);
      return;
    }
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

  // Reads the file once for all numbers of replicas of one kind, unless other settings depend on these numbers.
  void add_pool_counts(const std::vector<Setting>& settings) {
    const PointSpec spec = study_.point(index_, settings);
    if (!spec.prefill || is_too_wide(spec) || !counts_->varies()) {
      add(settings, spec);
      return;
    }
    const std::vector<PoolCounts> pairs = counts_->pairs_for(spec);
    if (pairs.size() > kMaxCandidates - question_.candidates.size())
      throw InputError(spec.places.pools,
                       fmt::format("the search has more than {} combinations; expected fewer values", kMaxCandidates));
    const bool reads_each =
        spec.hardware.this_machine || spec.prefill->hardware.this_machine || spec.front_end != model::FrontEnd::none;
    for (const PoolCounts& counts : pairs) {
      std::vector<Setting> all = settings;
      all.emplace_back(kPrefillReplicas, count_node(counts.prefill));
      all.emplace_back(kDecodeReplicas, count_node(counts.decode));
      if (reads_each) {
        add(all, study_.point(index_, all));
        continue;
      }
      PointSpec some = spec;
      PointSpec prefill = *spec.prefill;
      some.deployment.replicas = counts.decode;
      prefill.deployment.replicas = counts.prefill;
      some.prefill = std::make_shared<const PointSpec>(std::move(prefill));
      add(all, std::move(some));
    }
  }

  // Parsed once for each number: a search has many of them.
  [[nodiscard]] const configs::Node& count_node(std::int32_t count) {
    auto at = count_nodes_.find(count);
    if (at == count_nodes_.end()) at = count_nodes_.emplace(count, number_node(count)).first;
    return at->second;
  }

  // Returns whether a degree exceeds the instance. Degrees that the search proposed are then dropped silently; degrees
  // that the user stated are listed with the reason.
  [[nodiscard]] bool is_too_wide(const PointSpec& spec) const {
    const auto beyond = [](const PointSpec& pool) {
      return std::int64_t{pool.deployment.tp} * pool.deployment.pp > pool.hardware.count;
    };
    return (auto_tp_ && beyond(spec)) || (auto_prefill_tp_ && spec.prefill && beyond(*spec.prefill));
  }

  static std::int64_t gpus_of(const PointSpec& spec) {
    const Deployment& d = spec.deployment;
    return std::int64_t{d.tp} * d.pp * d.most_replicas() + (spec.prefill ? gpus_of(*spec.prefill) : 0);
  }

  // Removes what the search does itself, such as replications.
  static void settle(PointSpec& spec) {
    spec.search.reset();
    spec.replications = 1;  // the search replicates runs itself where needed
    if (spec.deployment.tp_is_max) spec.deployment.tp = spec.hardware.count;
    if (!spec.prefill) return;
    PointSpec prefill = *spec.prefill;
    settle(prefill);
    spec.prefill = std::make_shared<const PointSpec>(std::move(prefill));
  }

  void place(std::vector<Setting> settings, PointSpec spec, std::int32_t density, std::int32_t instances) {
    spec.deployment.replicas = density * instances;
    spec.deployment.instances = instances;
    settings.emplace_back(kReplicas, number_node(spec.deployment.replicas));
    settings.emplace_back(kInstances, number_node(instances));
    add(settings, std::move(spec));
  }

  void add(const std::vector<Setting>& settings, PointSpec spec) {
    if (is_too_wide(spec)) return;
    Candidate candidate;
    candidate.settings = settings;
    candidate.spec = std::move(spec);
    settle(candidate.spec);
    ResolvedPoint resolved = resolve_spec(candidate.spec);
    candidate.point = std::move(resolved.result);
    candidate.point.index = question_.candidates.size();
    candidate.gpus = gpus_of(candidate.spec);  // set for impossible candidates too
    candidate.name = name_of(candidate);
    candidate.family = families_.try_emplace(family_of(candidate), families_.size()).first->second;
    // Twins differ only in the limit on running requests. A run that never reaches its limit is valid for all twins
    // with limits at least as large as its peak.
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

  // A family has one kind of replica. Its members differ only in their number of replicas, so capacities grow with it.
  [[nodiscard]] static std::string family_of(const Candidate& candidate) {
    return settings_text(candidate, [](const std::string& path) {
      return path != kReplicas && path != kInstances && path != kPrefillReplicas && path != kDecodeReplicas;
    });
  }

  // For batches that return as a whole, which wait until they are full, and for numbered slots, the limit matters even
  // if it is never reached.
  [[nodiscard]] static std::string twins_of(const Candidate& candidate, const ResolvedPoint& resolved) {
    const sched::Traits traits = sched::traits_of(candidate.spec.policy);
    const bool alone = !resolved.scenario || candidate.spec.prefill || !candidate.spec.is_fixed() ||
                       traits.returns_at_batch_end || traits.numbered_slots;
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

  // "p5.48xlarge x 2: prefill 2 x tp 2 + decode 3 x tp 4"; degrees only if there is hardware.
  [[nodiscard]] static std::string pools_name(const Candidate& candidate) {
    const auto pool = [](const PointSpec& spec) {
      const Deployment& d = spec.deployment;
      return spec.hardware.accelerator ? fmt::format("{} x tp {}", d.replicas, d.tp) : fmt::format("{}", d.replicas);
    };
    const PointSpec &decode = candidate.spec, &prefill = *decode.prefill;
    const std::string counts = fmt::format("prefill {} + decode {}", pool(prefill), pool(decode));
    const std::int32_t all = candidate.point.instances, of_prefill = candidate.point.prefill_instances;
    const std::string &a = prefill.hardware.label, &b = decode.hardware.label;
    if (a.empty() && b.empty()) return counts;
    if (a == b) return fmt::format("{} x {}: {}", a, all, counts);
    return fmt::format("{} x {} + {} x {}: {}", a.empty() ? "machine" : a, of_prefill, b.empty() ? "machine" : b,
                       all - of_prefill, counts);
  }

  [[nodiscard]] std::string name_of(const Candidate& candidate) const {
    const Deployment& d = candidate.spec.deployment;
    const std::string hardware = candidate.spec.hardware.label.empty() ? "machine" : candidate.spec.hardware.label;
    std::string name = candidate.spec.prefill
                           ? pools_name(candidate)
                           : fmt::format("{} x {}: tp {}, {} replica{}", hardware, candidate.point.instances, d.tp,
                                         d.replicas, d.replicas == 1 ? "" : "s");
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const std::string& path = axes_[i].path;
      // Names show what distinguishes a candidate: axes with one value are the same for all.
      const bool shown = std::find(kInEveryName.begin(), kInEveryName.end(), path) != kInEveryName.end();
      if (shown || axes_[i].values.size() == 1) continue;
      const std::string value = candidate.settings[i].second.to_text();
      std::string key = path.substr(path.rfind('.') + 1);
      for (const std::string_view pool : {"prefill", "decode"})
        if (path.starts_with(fmt::format("deployment.pools.{}.", pool))) key = fmt::format("{} {}", pool, key);
      name += key == "policy" || key == "dtype" || key == "router" ? ", " + value : fmt::format(", {} {}", key, value);
    }
    return name;
  }

  const Study& study_;
  std::size_t index_;
  Question& question_;
  std::vector<SearchAxis> axes_;
  std::map<std::string, std::size_t> families_, twins_;
  std::map<std::int32_t, configs::Node> count_nodes_;
  std::optional<PoolCountAxis> counts_;  // of pools
  bool auto_tp_ = false, auto_prefill_tp_ = false;
};

// Returns the instance types in the search, each with one of its candidates.
std::map<std::string, const Candidate*> types_of(const Question& question) {
  std::map<std::string, const Candidate*> types;
  for (const Candidate& c : question.candidates) {
    if (c.excluded.empty()) types.emplace(label_of(c), &c);
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
                                                               label_of(candidate), kHowToPrice));
}

void settle_rent(const Question& question, Candidate& c) {
  c.rent = question.is_priced ? c.point.usd_per_hour.value_or(0) : static_cast<double>(c.gpus);
  if (!c.spec.prefill) return;
  const Deployment& d = c.spec.prefill->deployment;
  c.prefill_rent = question.is_priced ? c.point.prefill_usd_per_hour.value_or(0)
                                      : static_cast<double>(std::int64_t{d.tp} * d.pp * d.most_replicas());
}

// A user's own machines need no price unless they are compared with others.
void settle_prices(Question& question) {
  const std::map<std::string, const Candidate*> types = types_of(question);
  const bool costs = asks_for_cost(question.search.objective);
  for (const auto& [label, candidate] : types) {
    if (question.search.max_usd_per_hour) need_price(*candidate, "max_usd_per_hour");
    if (costs && types.size() > 1) need_price(*candidate, "a search for the least cost over several kinds of hardware");
    question.is_priced = question.is_priced && candidate->point.usd_per_hour.has_value();
  }
  for (Candidate& c : question.candidates) settle_rent(question, c);
  if (costs && !question.is_priced && !types.empty()) {
    question.notes.push_back(
        counted(question) == "GPUs"
            ? fmt::format("no price of {} is known: the cost is counted in GPUs; {}", types.begin()->first, kHowToPrice)
            : "rates state no hardware: the cost is counted in replicas");
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

const std::string& label_of(const Candidate& candidate) {
  return candidate.spec.prefill ? candidate.point.labels.hardware : candidate.spec.hardware.label;
}

std::string_view counted(const Question& question) {
  const PointSpec& spec = question.spec;
  return spec.prefill && !spec.hardware.accelerator && !spec.prefill->hardware.accelerator ? "replicas" : "GPUs";
}

std::int64_t paid_gpus(const Candidate& candidate) {
  if (candidate.point.gpus == 0) return candidate.gpus;
  if (candidate.spec.prefill)  // the two pools may stand on different instances
    return std::int64_t{candidate.point.prefill_instances} * candidate.spec.prefill->hardware.count +
           std::int64_t{candidate.point.instances - candidate.point.prefill_instances} * candidate.spec.hardware.count;
  return std::int64_t{candidate.point.instances} * candidate.point.gpus_per_instance;
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
