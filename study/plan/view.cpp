// SPDX-License-Identifier: Apache-2.0
#include "study/plan/view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "study/output/chart_axis.h"
#include "study/output/deployment_flags.h"
#include "study/output/table_view.h"
#include "study/plan/capacity.h"
#include "study/plan/explain.h"
#include "study/plan/pool_counts.h"
#include "study/plan/ranking.h"
#include "study/run/load_variation.h"

namespace plimsoll::study::plan {
namespace {

constexpr const char* kBlank = "-";

std::string number(double value, int digits = 4) { return std::isfinite(value) ? reader_number(value, digits) : "-"; }
std::string number(std::optional<double> value, int digits = 4) { return value ? number(*value, digits) : kBlank; }

std::string with_interval(const Estimate& e) {
  if (!std::isfinite(e.mean)) return "-";
  constexpr double kRounding = 1e-9;  // runs without randomness differ by this
  if (e.values < 2) return number(e.mean, 3);
  if (e.half_width <= kRounding * std::abs(e.mean)) return number(e.mean);
  return fmt::format("{} ± {}", number(e.mean), number(e.half_width, 2));
}

// Returns for example " (8.2 /s in the mean, 13 /s in its busiest 60 s)".
std::string peak_text(const load::LoadSpec& load) {
  const auto* const replay = std::get_if<load::TraceReplay>(&load);
  if (replay == nullptr || !replay->trace || !replay->trace->has_arrivals()) return {};
  constexpr double kMinute = 60, kShort = 10, kLong = 1200;  // seconds
  const auto& records = replay->trace->records;
  const double end = 1e-9 * static_cast<double>(records.back().arrival) / replay->rate_scale,
               window = end < kLong ? kShort : kMinute;
  if (!(end > kMinute)) return {};
  std::size_t most = 0, first = 0;
  for (std::size_t last = 0; last < records.size(); ++last) {
    while (static_cast<double>(records[last].arrival - records[first].arrival) >= 1e9 * window * replay->rate_scale)
      ++first;
    most = std::max(most, last + 1 - first);
  }
  return fmt::format(" ({} /s on average, {} /s in its busiest {} s)",
                     number(static_cast<double>(records.size()) / end, 3),
                     number(static_cast<double>(most) / window, 3), window);
}

std::string load_text(const Question& q) {
  const load::LoadSpec& load = q.spec.workload.load;
  const std::string kind(load::load_kind(load));
  if (kind == "script") return "a script";
  return fmt::format("{} {} {}{}", kind, number(load::load_value(load)), load_unit(load), peak_text(load));
}

std::string limits_text(const Question& q, const Answer& answer) {
  for (const std::size_t i : answer.order) {
    std::string text;
    for (const Check& check : answer.entries[i].standing.checks) {
      if (check.kind == CheckKind::queue) continue;
      text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", check.name,
                          check.at_least ? ">=" : "<=", limit_text(check.limit, check.unit));
    }
    return text.empty() ? "no SLO: any deployment that keeps up" : text;
  }
  return q.spec.slo.empty() ? "no SLO" : "the SLO of the study";
}

std::string question_text(const Question& q, const Answer& answer) {
  const std::string limits = limits_text(q, answer);
  const std::string load = load_text(q);
  switch (q.search.objective) {
    case Objective::cost:
      if (q.is_priced) return fmt::format("Least USD/h that carries {}; {}", load, limits);
      [[fallthrough]];
    case Objective::gpus: return fmt::format("Fewest {} that carry {}; {}", counted(q), load, limits);
    case Objective::latency: return fmt::format("Lowest p90 latency under {}; {}", load, limits);
    case Objective::throughput: return fmt::format("Most output tokens/s under {}; {}", load, limits);
    case Objective::cost_per_token:
      return fmt::format("Least {} a token, under the largest load of this kind: {}; {}",
                         q.is_priced ? "USD" : "GPU time", load::load_kind(q.spec.workload.load), limits);
    case Objective::capacity:
      return fmt::format("Largest load of this kind: {}; {}", load::load_kind(q.spec.workload.load), limits);
  }
  return {};
}

std::string counts_text(const Question& q, const Answer& answer) {
  std::size_t limits = 0, bounded = 0, confirmed = 0, waiting = 0, outranked = 0;
  for (std::size_t i = 0; i < answer.entries.size(); ++i) {
    const Stage stage = answer.entries[i].stage;
    limits += stage == Stage::excluded ? 1 : 0;
    bounded += stage == Stage::bounded ? 1 : 0;
    confirmed += stage == Stage::confirmed ? 1 : 0;
    outranked += stage == Stage::outranked ? 1 : 0;
    waiting += stage == Stage::waiting ? 1 : 0;
  }
  const std::size_t impossible = q.candidates.size() - q.feasible;
  std::string text = fmt::format("{} deployments: {} are impossible", q.candidates.size(), impossible);
  if (limits > impossible) text += fmt::format(", {} beyond the search's limits", limits - impossible);
  text += fmt::format(", {} cannot meet the SLO by their bounds, {} simulated, {} of them confirmed at {:g} %", bounded,
                      answer.order.size(), confirmed, 100 * q.search.confidence);
  if (outranked > 0) text += fmt::format(", {} left out as they cannot win", outranked);
  if (waiting > 0) text += fmt::format(", {} not reached", waiting);
  return text;
}

// The load of a trace is a factor on its speed. Returns the rate that results: " (19.7 requests/s on average)".
std::string rate_text(const load::LoadSpec& load, double scale) {
  const auto* const replay = std::get_if<load::TraceReplay>(&load);
  const auto rate = replay == nullptr ? std::nullopt : offered_rate(load);
  return rate ? fmt::format(" ({} requests/s on average)", number(*rate * scale / replay->rate_scale, 3))
              : std::string();
}

std::string capacity_lines(const Question& q, const Capacity& capacity) {
  const std::string unit(load_unit(q.spec.workload.load));
  if (capacity.is_open()) {
    return fmt::format("  carries     {} {}{} and more: this SLO does not limit the load\n", number(capacity.passing),
                       unit, rate_text(q.spec.workload.load, capacity.passing));
  }
  std::string text = fmt::format("  carries     {} {}{} within the SLO", with_interval(capacity.load), unit,
                                 rate_text(q.spec.workload.load, capacity.load.mean));
  const auto side = [&](const std::optional<sched::PointMetrics>& metrics) {
    if (!metrics) return std::string("more than full batches serve");
    const sched::PointMetrics* const run = &*metrics;
    const SloVerdict standing = standing_of(q.spec, std::span(&run, 1), q.search.confidence);
    return standing.checks.empty() ? std::string("keeps up") : check_text(standing.checks[standing.worst]);
  };
  text += fmt::format("; one run: {} {} passes ({})", number(capacity.passing), unit, side(capacity.at_passing));
  if (capacity.failing)
    text +=
        fmt::format(", {} {} is the next that fails ({})", number(*capacity.failing), unit, side(capacity.at_failing));
  return text + "\n";
}

std::string knee_line(const Question& q, const LoadCurve& curve) {
  if (curve.loads.empty()) return {};
  const std::string unit(load_unit(q.spec.workload.load));
  const auto shown = [&](const std::optional<double>& knee) {
    return knee ? fmt::format("{} {}", number(*knee, 3), unit) : std::string("none");
  };
  return fmt::format("  knees       {} by largest curvature, {} by the half-latency rule, {} by the SLO\n",
                     shown(curve.max_curvature), shown(curve.half_latency), shown(curve.slo));
}

std::string sensitivity_lines(const QuestionAnswer& f) {
  std::string text;
  for (const Sensitivity& s : f.answer.sensitivities) {
    std::string use = fmt::format("{} at {:.0f} % of {}", s.check, 100 * (s.at_least ? 1 / s.ratio : s.ratio),
                                  s.at_least ? "the least" : "its limit");
    if (!std::isfinite(s.ratio)) use = s.check + (s.at_least ? " is 0 there" : ": too many requests fail");
    if (s.check.empty() || s.check_kind == CheckKind::queue) use = s.ratio > 1 ? "the queue grows" : "keeps up";
    std::string winner = "the same answer";
    if (!s.winner)
      winner = "none of the nearest meets the SLO";
    else if (s.winner != f.answer.winner)
      winner = "then " + f.question.candidates[*s.winner].name;
    text += fmt::format("  {:<16} {} ({})\n", s.what, winner, use);
  }
  return text.empty() ? text : "If an assumption is 10 % off\n" + text;
}

// Describes paid capacity that is unused: GPUs without a replica, and the load that the replicas could carry beyond the
// study's.
std::string unused_line(const Question& q, const Candidate& candidate, const Entry& entry) {
  if (!candidate.spec.is_fixed()) return {};  // the cost follows the load
  const std::int64_t paid = paid_gpus(candidate);
  double used = static_cast<double>(candidate.gpus) / static_cast<double>(std::max<std::int64_t>(1, paid));
  std::vector<std::string> parts;
  if (candidate.gpus < paid) parts.push_back(fmt::format("{} of {} GPUs have no replica", paid - candidate.gpus, paid));
  const bool limited = entry.capacity && !entry.capacity->is_open() && !finds_load(q.search.objective);
  const double carries = limited ? entry.capacity->load.mean : 0, load = load::load_value(q.spec.workload.load);
  if (carries > load) {
    used *= load / carries;
    parts.push_back(fmt::format("{:.0f} % of its capacity is not used", 100 * (1 - load / carries)));
  }
  if (parts.empty()) return {};
  std::string text =
      fmt::format("  idle        {:.0f} % of what is paid: {}", 100 * (1 - used), fmt::join(parts, ", "));
  if (candidate.point.usd_per_hour)
    text += fmt::format("; {} USD/h", number(*candidate.point.usd_per_hour * (1 - used), 3));
  return text + "\n";
}

std::string interval_text(const Check& check, double confidence) {
  constexpr double kRounding = 1e-9;
  const Estimate& e = check.value;
  if (e.values < 2 || e.half_width <= kRounding * std::abs(e.mean)) return {};
  const bool in_ms = check.unit == "s" && e.mean < 1;  // as in check_text()
  const std::string unit = in_ms ? "ms" : check.unit;
  return fmt::format(" (± {}{}{} at {:g} %)", number(e.half_width * (in_ms ? 1e3 : 1), 2), unit.empty() ? "" : " ",
                     unit, 100 * confidence);
}

// Returns whether the check limits the time between tokens although batches return as a whole.
bool does_not_apply(const PointSpec& spec, const Check& check) {
  return sched::traits_of(spec.policy).returns_at_batch_end && check.kind == CheckKind::between_tokens;
}

std::string checks_text(const QuestionAnswer& f, const Candidate& candidate, const SloVerdict& s) {
  std::string text;
  for (const Check& check : s.checks) {
    if (check.kind == CheckKind::queue) continue;
    text += does_not_apply(candidate.spec, check)
                ? fmt::format("  {:<11} {} does not apply: a batch returns as a whole\n", "meets", check.name)
                : fmt::format("  {:<11} {}{}\n", "meets", check_text(check),
                              interval_text(check, f.question.search.confidence));
  }
  return text;
}

std::string one_pool_text(const QuestionAnswer& f, const OnePool& other, const Entry& winner) {
  const auto compared = [](double factor, const char* more, const char* less) {
    const double percent = 100 * std::abs(factor - 1);
    return fmt::format("{:.{}f} % {}", percent, percent < 10 ? 1 : 0, factor >= 1 ? more : less);
  };
  if (!other.carries) return "does not keep the SLO: " + other.entry.verdict;
  if (!other.entry.capacity) {
    const double mine = other.entry.standing.latency_p90.mean, its = winner.standing.latency_p90.mean;
    return fmt::format("has a p90 latency of {} s, {}", number(mine), compared(mine / its, "longer", "shorter"));
  }
  if (other.entry.capacity->is_open()) return "carries any load of this kind";
  const double mine = other.entry.capacity->load.mean;
  const std::string text =
      fmt::format("carries {} {}", with_interval(other.entry.capacity->load), load_unit(f.question.spec.workload.load));
  if (!winner.capacity || winner.capacity->is_open() || !(winner.capacity->load.mean > 0)) return text;
  return text + ", " + compared(mine / winner.capacity->load.mean, "more", "less");
}

// Returns lines on how many replicas the pools need without any waiting, and on what one pool would carry instead.
std::string pool_lines(const QuestionAnswer& f, const Candidate& winner, const Entry& entry) {
  if (!f.answer.pools) return {};
  const PoolFindings& found = *f.answer.pools;
  const PoolCounts counts = counts_of(winner.spec);
  std::string text;
  const double p = found.need.prefill, d = found.need.decode;
  if (!finds_load(f.question.search.objective) && (p > 0 || d > 0)) {
    const auto known = [](double need) { return need > 0 ? number(need) : std::string("?"); };
    text += fmt::format("  needs       {} prefill + {} decode replicas if batches are always full and nothing waits; ",
                        known(p), known(d));
    const auto more = [](std::optional<double> beyond) { return beyond ? number(*beyond, 3) : std::string("?"); };
    text += fmt::format("queueing and the SLO need {} + {} more\n", more(beyond_need(p, counts.prefill)),
                        more(beyond_need(d, counts.decode)));
    if (counts.prefill < p && has_local_prefills(winner.spec))
      text += "              fewer prefill replicas suffice: decode replicas compute prompts too\n";
    else if (counts.prefill < p || counts.decode < d)
      text += "              fewer replicas suffice: larger steps are more efficient here than the bound assumes\n";
  }
  for (const OnePool& other : found.one_pool) {
    const bool gpus = other.equal == OnePool::Equal::gpus;
    const std::string equal = gpus ? fmt::format("{} GPUs{}", winner.gpus, other.also_money ? ", as much money" : "")
                                   : fmt::format("{} USD/h", number(winner.point.usd_per_hour));
    text += fmt::format("  one pool    for {}: {} {}\n", equal, other.candidate.name, one_pool_text(f, other, entry));
  }
  if (!found.not_compared.empty()) text += "  one pool    is not compared: " + found.not_compared + "\n";
  return text;
}

std::string winner_text(const QuestionAnswer& f) {
  const std::size_t w = *f.answer.winner;
  const Entry& entry = f.answer.entries[w];
  const Candidate& candidate = f.question.candidates[w];
  std::string text = "Answer: " + candidate.name + "\n";
  const SloVerdict& s = entry.standing;
  if (const auto usd = cost_of(candidate, s)) {
    text += fmt::format("  cost        {} USD/h ({}); {} USD a million output tokens, {} a million tokens in all\n",
                        number(*usd), candidate.spec.hardware.price_note,
                        number(usd_per_million(usd, s.output_tokens_per_s.mean)),
                        number(usd_per_million(usd, s.total_tokens_per_s.mean)));
  }
  text += checks_text(f, candidate, s);
  const std::string part = entry.metrics ? largest_part(*entry.metrics) : std::string();
  const std::string_view things = counted(f.question);
  text += fmt::format("  p90 latency {} s, {} output tokens/s on {} {}{}\n", with_interval(s.latency_p90),
                      number(s.output_tokens_per_s.mean), candidate.gpus,
                      candidate.gpus == 1 ? things.substr(0, things.size() - 1) : things,
                      part.empty() ? part : "; " + part);
  if (s.instances.values > 0)
    text += fmt::format("  uses        {} instances on average, at most {}\n", with_interval(s.instances),
                        candidate.point.instances);
  if (entry.capacity)
    text += capacity_lines(f.question, *entry.capacity);
  else if (!ends_somewhere(f.question.spec))
    text += "  carries     any load of this kind: this SLO does not limit the load\n";
  text += pool_lines(f, candidate, entry);
  text += unused_line(f.question, candidate, entry);
  text += knee_line(f.question, f.answer.curve);
  std::string ties;
  for (const std::size_t i : f.answer.order) {
    if (f.answer.entries[i].ties) ties += (ties.empty() ? "" : "; ") + f.question.candidates[i].name;
  }
  if (!ties.empty()) text += "  ties with   " + ties + "\n";
  if (!candidate.point.extrapolates.empty()) text += "  estimated   " + candidate.point.extrapolates + "\n";
  return text;
}

std::string carries_text(const Entry& e) {
  if (!e.capacity) return kBlank;
  if (e.capacity->is_open()) return e.capacity->confirmed ? "no limit" : kBlank;
  if (e.capacity->confirmed) return with_interval(e.capacity->load);
  return e.capacity_at_most ? "≤ " + number(*e.capacity_at_most, 3) : kBlank;
}

std::vector<std::string> table_row(const QuestionAnswer& f, std::size_t place) {
  const std::size_t i = f.answer.order[place];
  const Entry& e = f.answer.entries[i];
  const Candidate& c = f.question.candidates[i];
  const double per_gpu = e.standing.output_tokens_per_s.mean / static_cast<double>(std::max<std::int64_t>(1, c.gpus));
  std::vector<std::string> row = {e.ties ? "=" : fmt::format("{}", place + 1),
                                  c.name,
                                  number(cost_of(c, e.standing)),
                                  number(usd_per_million(cost_of(c, e.standing), e.standing.output_tokens_per_s.mean)),
                                  fmt::format("{}", c.gpus),
                                  with_interval(e.standing.latency_p90),
                                  number(e.standing.output_tokens_per_s.mean),
                                  number(per_gpu, 3)};
  if (finds_load(f.question.search.objective)) row.push_back(carries_text(e));
  row.emplace_back(e.on_frontier ? "*" : "");
  row.push_back(e.verdict);
  return row;
}

// Returns places in the ranking: the best on each instance type, then the rest.
std::vector<std::size_t> best_of_each_first(const QuestionAnswer& f) {
  std::set<std::string> seen;
  std::vector<std::size_t> places, rest;
  for (std::size_t place = 0; place < f.answer.order.size(); ++place) {
    const bool is_first = seen.insert(label_of(f.question.candidates[f.answer.order[place]])).second;
    (is_first ? places : rest).push_back(place);
  }
  places.insert(places.end(), rest.begin(), rest.end());
  return places;
}

}  // namespace

TextTable ranking_table(const QuestionAnswer& f, std::size_t rows) {
  TextTable table{
      .header = {{"rank", "deployment", "USD/h", "USD/M out", "GPUs", "p90 latency s", "tokens/s", "per GPU"}},
      .rows = {},
      .left = 2};
  if (finds_load(f.question.search.objective))
    table.header[0].push_back(fmt::format("carries {}", load_unit(f.question.spec.workload.load)));
  table.header[0].emplace_back("front");
  table.header[0].emplace_back("why it does not win");
  const std::vector<std::size_t> places = best_of_each_first(f);
  for (std::size_t row = 0; row < std::min(rows, places.size()); ++row) table.rows.push_back(table_row(f, places[row]));
  return table;
}

namespace {

std::string table_text(const QuestionAnswer& f, std::size_t rows) {
  std::string text = text_table(ranking_table(f, rows));
  if (f.answer.order.size() > rows) {
    text += fmt::format("… and {} more; --rows N shows N, --format csv and --out DIR have all\n",
                        f.answer.order.size() - rows);
  }
  return text + "front: no other simulated deployment has lower latency, more tokens/s a GPU and lower cost at once\n";
}

}  // namespace

std::optional<double> cost_of(const Candidate& candidate, const SloVerdict& standing) {
  const std::optional<double>& whole = candidate.point.usd_per_hour;
  if (!whole || standing.instances.values == 0) return whole;
  if (!candidate.spec.prefill || !candidate.point.prefill_usd_per_hour)
    return *whole / candidate.point.instances * standing.instances.mean;
  Candidate priced = candidate;
  priced.rent = *whole;
  priced.prefill_rent = *candidate.point.prefill_usd_per_hour;
  return rent_of(priced, standing.instances.mean, standing.prefill_instances.mean);
}

std::optional<double> usd_per_million(std::optional<double> usd_per_hour, double tokens_per_s) {
  if (!usd_per_hour || !(tokens_per_s > 0)) return {};
  return *usd_per_hour / 3600.0 / tokens_per_s * 1e6;
}

std::vector<DeployFile> deploy_files_of(const Candidate& candidate) {
  if (candidate.spec.prefill) return {};  // one file cannot start both pools
  const Deployment& d = candidate.spec.deployment;
  const auto one_line = [](std::string text) {  // a line break would end the comment
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return text;
  };
  std::string head =
      fmt::format("# {}\n# Start {} of these: {} instance{} of {}, tp {} each.\n", one_line(candidate.name), d.replicas,
                  candidate.point.instances, candidate.point.instances == 1 ? "" : "s",
                  one_line(candidate.spec.hardware.label), d.tp);
  if (d.replicas > candidate.point.instances)
    head += "# Those on one instance need GPUs (CUDA_VISIBLE_DEVICES) and a port of their own each.\n";
  if (candidate.spec.model_is_file && !candidate.spec.model_stated.starts_with('/'))
    head += "# The model's path is relative to the study's folder.\n";
  std::vector<DeployFile> files = deploy_files(candidate.spec);
  for (DeployFile& file : files) file.text.insert(0, head);
  return files;
}

// Returns the reason of the cheapest candidate that is possible but beyond the search's own limits; else any reason.
std::string why_excluded(const QuestionAnswer& f) {
  const std::vector<Entry>& entries = f.answer.entries;
  const auto usd = [&](std::size_t i) {
    return f.question.candidates[i].point.usd_per_hour.value_or(std::numeric_limits<double>::infinity());
  };
  std::optional<std::size_t> nearest;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].reason.find("are more than max_") == std::string::npos) continue;
    if (!nearest || usd(i) < usd(*nearest)) nearest = i;
  }
  if (nearest)
    return fmt::format("all deployments are beyond the search's limits; nearest: {}: {}",
                       f.question.candidates[*nearest].name, entries[*nearest].reason);
  return entries.empty()
             ? "the search contains no deployment"
             : "no deployment is possible, e.g. " + f.question.candidates.front().name + ": " + entries.front().reason;
}

std::string nearest_text(const QuestionAnswer& f) {
  if (f.answer.order.empty()) return why_excluded(f);
  const std::size_t nearest = f.answer.order.front();
  return fmt::format("nearest: {}: {}", f.question.candidates[nearest].name, f.answer.entries[nearest].verdict);
}

std::string answer_text(const QuestionAnswer& f) {
  std::string text = f.question.study->title() + "\n" + question_text(f.question, f.answer) + "\n" +
                     counts_text(f.question, f.answer) + "\n";
  for (const std::string& note : f.question.notes) text += "note: " + note + "\n";
  text += "\n";
  if (f.answer.winner) {
    text += winner_text(f) + "\n" + sensitivity_lines(f) + "\n";
  } else {
    text += (f.answer.cancelled ? "No answer yet: the search was cancelled\n" : "Nothing meets the SLO: ") +
            (f.answer.cancelled ? std::string() : nearest_text(f) + "\n") + "\n";
  }
  return text;
}

std::string finding_text(const QuestionAnswer& f, std::size_t rows) {
  std::string text = answer_text(f);
  if (!f.answer.order.empty()) text += table_text(f, rows);
  if (!f.answer.winner) return text;
  for (const DeployFile& file : deploy_files_of(f.question.candidates[*f.answer.winner])) {
    text += fmt::format("\nDeploy with {} ({} in --out):\n{}", file.product, file.name, file.text);
  }
  return text;
}

}  // namespace plimsoll::study::plan
