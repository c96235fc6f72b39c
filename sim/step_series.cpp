// SPDX-License-Identifier: Apache-2.0
#include "sim/step_series.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::sim {

namespace {
constexpr std::int64_t kDirect = 4;  // sums of up to this many terms are added directly
// A cell is 1/8 of the context long. Even next to a crossover of a p-norm, the nearest singularity of the cost in the
// complex plane is then several cell lengths away. The 5-node rule's error falls like the tenth power of that distance.
constexpr double kCellFraction = 8;
constexpr double kShortFraction = 64;  // for cells at most this fraction of the context three nodes are enough
}  // namespace

std::int64_t StepSeries::cell() const {
  if (growth_ <= 0) return sched::kForever;
  return std::max(kDirect, static_cast<std::int64_t>(context_ / (kCellFraction * growth_)));
}

// Calls visit(j, weight) such that the weighted sum of g(j) equals the sum of g over 0 … n-1 for polynomials up to the
// rule's degree. Nodes and weights follow from the even central moments m2, m4, m6, m8 (per point) of n equidistant
// points.
template <class Visit>
void StepSeries::each_node(std::int64_t n, Visit&& visit) const {
  const auto count = static_cast<double>(n);
  if (n <= kDirect) {
    for (std::int64_t j = 0; j < n; ++j) visit(static_cast<double>(j), 1.0);
    return;
  }
  if (growth_ <= 0) {
    visit(0.0, count);
    return;
  }
  const double middle = (count - 1) / 2, q = count * count;
  const double m2 = (q - 1) / 12, m4 = m2 * (3 * q - 7) / 20;
  // A cell that is short compared with the context needs only the 3-node rule, exact up to the fifth degree. The weight
  // of the outer nodes follows from the second and fourth moment.
  if (growth_ * count * kShortFraction <= context_) {
    const double s = std::sqrt(m4 / m2), w = 0.5 * count * m2 / (s * s);
    visit(middle - s, w);
    visit(middle, count - 2 * w);
    visit(middle + s, w);
    return;
  }
  // The 5-node rule. In u = x^2, its outer nodes are the roots of the orthogonal polynomial u^2 + b u + c.
  const double m6 = m2 * (3 * q * q - 18 * q + 31) / 112;
  const double m8 = m2 * (5 * q * q * q - 55 * q * q + 239 * q - 381) / 960;
  const double det = m2 * m6 - m4 * m4;
  const double b = (m4 * m6 - m2 * m8) / det, c = (m4 * m8 - m6 * m6) / det;
  const double root = std::sqrt(b * b / 4 - c);
  const double u1 = -b / 2 + root, u2 = -b / 2 - root;
  const double w1 = 0.5 * (m4 - u2 * m2) / (u1 * (u1 - u2)) * count;
  const double w2 = 0.5 * (u1 * m2 - m4) / (u2 * (u1 - u2)) * count;
  const double s1 = std::sqrt(u1), s2 = std::sqrt(u2);
  visit(middle - s1, w1);
  visit(middle - s2, w2);
  visit(middle, count - 2 * (w1 + w2));
  visit(middle + s2, w2);
  visit(middle + s1, w1);
}

// Remembers the sums: they are needed first for the end of a piece and later for its measurements.
const StepSeries::Sums& StepSeries::sums(std::int64_t n) const {
  if (sums_.steps == n) return sums_;
  sums_ = {.steps = n, .total = 0, .moment1 = 0, .moment2 = 0, .parts = {}};
  each_node(n, [this](double j, double weight) {
    const model::TimeParts parts = curve_->parts(context_ + growth_ * j, windowed_ + windowed_growth_ * j);
    const double f = weight * parts.total();
    sums_.total += f;
    sums_.moment1 += j * f;
    sums_.moment2 += j * j * f;
    sums_.parts += parts * weight;
  });
  return sums_;
}

std::int64_t StepSeries::steps_within(double span, std::int64_t n, double& elapsed) const {
  elapsed = 0;
  if (n <= 0 || span < first_) return 0;
  // Step times grow slowly: estimate from the time of the middle step, then correct step by step.
  const auto most = static_cast<double>(n);
  const double upper = first_ > 0 ? std::min(span / first_, most) : most;
  const double middle = at(upper / 2);
  std::int64_t steps = std::clamp<std::int64_t>(static_cast<std::int64_t>(middle > 0 ? span / middle : most), 1, n);
  elapsed = sum(steps);
  while (steps > 0 && elapsed > span) elapsed -= at(static_cast<double>(--steps));
  while (steps < n && span - elapsed >= first_) {
    const double next = at(static_cast<double>(steps));
    if (elapsed + next > span) break;
    elapsed += next;
    ++steps;
  }
  return steps;
}

void StepSeries::measure(std::int64_t n, sched::StepsTime& time) const {
  const Sums& all = sums(n);
  time.steps = n;
  time.first = first_;
  time.total = all.total;
  time.moment1 = all.moment1;
  time.moment2 = all.moment2;
  time.parts = all.parts;
}

// Step times of a piece never fall, so all steps between two steps of one bin are in that bin. A piece therefore costs
// a few evaluations instead of one per step.
void StepSeries::add_gaps(std::int64_t n, std::int64_t weight, double total, sched::HistogramShare& histogram) const {
  if (n < 2) return;
  if (growth_ <= 0) {
    histogram.add(first_, weight * (n - 1));
    return;
  }
  const double low = at(1), high = n == 2 ? low : at(static_cast<double>(n - 1));
  if (!(low > 0)) {
    for (std::int64_t j = 1; j < n; ++j) histogram.add(at(static_cast<double>(j)), weight);
    return;
  }
  const std::int32_t low_bin = sched::LogHistogram::bin_of(low);
  const std::int32_t high_bin = n == 2 ? low_bin : sched::LogHistogram::bin_of(high);
  histogram.add_to_bin(low_bin, 0, (total - first_) * static_cast<double>(weight));  // the sum of all of them
  add_bins({1, low_bin}, {n - 1, high_bin}, weight, histogram);
}

StepSeries::BinnedStep StepSeries::binned(std::int64_t step) const {
  return {step, sched::LogHistogram::bin_of(at(static_cast<double>(step)))};
}

void StepSeries::add_bins(BinnedStep low, BinnedStep high, std::int64_t weight,
                          sched::HistogramShare& histogram) const {
  // Times are monotone: if both ends fall into the same bin, so do all steps between them.
  if (low.bin == high.bin) {
    histogram.add_to_bin(low.bin, weight * (high.step - low.step + 1), 0);
    return;
  }
  if (high.step - low.step == 1) {
    histogram.add_to_bin(low.bin, weight, 0);
    histogram.add_to_bin(high.bin, weight, 0);
    return;
  }
  // Halves the range until both ends share a bin.
  const std::int64_t middle = low.step + (high.step - low.step) / 2;
  add_bins(low, binned(middle), weight, histogram);
  add_bins(binned(middle + 1), high, weight, histogram);
}

}  // namespace plimsoll::sim
