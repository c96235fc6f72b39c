// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/coarse_order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "gui/core/curve_lane.h"
#include "gui/core/text.h"
#include "study/run/curve_shape.h"

namespace plimsoll::gui {
namespace {

bool is_load(const std::string& key) {
  return key == "workload.concurrency" || key == "workload.rate" || key.starts_with("workload.load.");
}

// Returns the last word of a path; for a pool's key, also the pool.
QString short_key(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  QString word = qs(dot == std::string::npos ? key : key.substr(dot + 1)).replace(QChar(u'_'), QChar(u' '));
  for (const char* const pool : {"prefill", "decode"})
    if (key.starts_with(std::string("deployment.pools.") + pool + ".")) word.prepend(qs(pool) + QChar(u' '));
  return word;
}

// The part of a simulated point that refinement needs.
struct Sample {
  std::size_t index;
  double load, throughput, latency;
};

double latency_of(const sched::PointMetrics& m) { return m.latency_per_token.p90.value_or(m.latency.p90.value_or(0)); }

std::vector<Sample> samples_of(const std::vector<LanePoint>& seen, std::size_t curve) {
  std::vector<Sample> samples;
  for (const LanePoint& point : seen) {
    const auto& metrics = point.row.result.metrics;
    // Without a steady state the figures depend on the length of the run, so such points do not describe the curve.
    if (point.curve != curve || !metrics || metrics->steady.grows) continue;
    samples.push_back(
        {point.index, point.row.result.labels.load_value, metrics->output_tokens_per_s, latency_of(*metrics)});
  }
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.load < b.load; });
  return samples;
}

// Collects loads to add to one curve, without duplicates.
class Refiner {
 public:
  Refiner(std::size_t curve, bool whole, std::vector<Refinement>& out) : curve_(curve), whole_(whole), out_(out) {}
  void add(const Sample& base, double load) {
    if (whole_) load = std::round(load);
    const bool known =
        std::any_of(out_.begin(), out_.end(), [&](const Refinement& r) { return r.curve == curve_ && r.load == load; });
    if (load > 0 && !known) out_.push_back({base.index, curve_, load});
  }
  void between(const Sample& a, const Sample& b) {
    // Use the geometric mean, because loads usually grow by factors.
    const double middle = std::sqrt(a.load * b.load);
    const double load = whole_ ? std::round(middle) : middle;
    if (load > a.load && load < b.load) add(a, load);
  }

 private:
  std::size_t curve_;
  bool whole_;
  std::vector<Refinement>& out_;
};

void refine_curve(Refiner& refiner, const std::vector<Sample>& samples, double limit_s) {
  // The study sweeps no load: show the curve around its only one.
  if (samples.size() == 1) {
    for (const double factor : {0.125, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0})
      refiner.add(samples.front(), samples.front().load * factor);
    return;
  }
  std::vector<study::CurvePoint> shape;
  std::vector<double> loads, latencies;
  for (const Sample& s : samples) {
    shape.push_back({s.load, s.throughput, s.latency});
    loads.push_back(s.load);
    latencies.push_back(s.latency);
  }
  // Points are added on both sides of the knee, where the curve bends most.
  if (const auto bend = study::knee(shape)) {
    refiner.between(samples[*bend - 1], samples[*bend]);
    refiner.between(samples[*bend], samples[*bend + 1]);
  }
  if (limit_s <= 0) return;
  if (const auto crossing = study::first_crossing(loads, latencies, limit_s)) {
    refiner.between(samples[crossing->after], samples[crossing->after + 1]);
    // Also add the load where the straight line between the two points crosses the limit.
    refiner.add(samples[crossing->after], crossing->at);
  }
}

}  // namespace

std::vector<std::size_t> bisection_order(std::size_t n) {
  std::vector<std::size_t> order;
  if (n == 0) return order;
  order.push_back(0);
  if (n == 1) return order;
  order.push_back(n - 1);
  std::vector<std::pair<std::size_t, std::size_t>> gaps = {{0, n - 1}};
  for (std::size_t i = 0; i < gaps.size(); ++i) {  // breadth first, so the widest gaps come first
    const auto [low, high] = gaps[i];
    if (high - low < 2) continue;
    const std::size_t middle = (low + high + 1) / 2;
    order.push_back(middle);
    gaps.emplace_back(low, middle);
    gaps.emplace_back(middle, high);
  }
  return order;
}

CurveGrid curve_grid(const study::Study& study) {
  CurveGrid grid;
  const std::vector<std::string> keys = study.swept_keys();
  std::map<std::string, std::size_t> known;
  std::vector<std::vector<std::size_t>> members;
  for (std::size_t index = 0; index < study.point_count(); ++index) {
    const std::vector<study::Cell> values = study.swept_values(index);
    QString name;
    for (std::size_t k = 0; k < keys.size(); ++k) {
      if (is_load(keys[k])) continue;
      // The name of a model, machine or engine speaks for itself.
      const bool named = keys[k] == "model" || keys[k] == "hardware" || keys[k] == "engine";
      name += (name.isEmpty() ? QString() : QStringLiteral(", ")) +
              (named ? QString() : short_key(keys[k]) + QChar(u' ')) + qs(study::plain_text(values[k]));
    }
    const auto [place, fresh] = known.try_emplace(utf8(name), grid.names.size());
    if (fresh) {
      grid.names.push_back(name);
      members.emplace_back();
    }
    grid.curve_of.push_back(place->second);
    members[place->second].push_back(index);
  }
  std::size_t longest = 0;
  std::vector<std::vector<std::size_t>> orders;
  for (const auto& curve : members) {
    orders.push_back(bisection_order(curve.size()));
    longest = std::max(longest, curve.size());
  }
  // Take turns between the curves, so that all of them become visible at the same pace.
  for (std::size_t step = 0; step < longest; ++step) {
    for (std::size_t c = 0; c < members.size(); ++c) {
      if (step < members[c].size()) grid.order.push_back(members[c][orders[c][step]]);
    }
  }
  return grid;
}

std::vector<Refinement> refinements(const CurveGrid& grid, const std::vector<LanePoint>& seen, double limit_s) {
  std::vector<Refinement> out;
  for (std::size_t curve = 0; curve < grid.names.size(); ++curve) {
    const std::vector<Sample> samples = samples_of(seen, curve);
    if (samples.empty()) continue;
    const auto any =
        std::find_if(seen.begin(), seen.end(), [&](const LanePoint& p) { return p.index == samples.front().index; });
    Refiner refiner(curve, load::is_whole(any->row.result.labels.load().quantity), out);
    refine_curve(refiner, samples, limit_s);
  }
  return out;
}

}  // namespace plimsoll::gui
