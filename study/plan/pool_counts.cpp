// SPDX-License-Identifier: Apache-2.0
#include "study/plan/pool_counts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "study/file/read_point.h"
#include "study/plan/answer.h"
#include "study/run/rate_bound.h"

namespace plimsoll::study::plan {
namespace {

constexpr std::string_view kPrefill = "deployment.pools.prefill.replicas", kDecode = "deployment.pools.decode.replicas";
constexpr std::array<std::int32_t, 13> kAutoTotals = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr std::array<std::int32_t, 14> kAutoCounts = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};

// Returns the values of an axis and removes it; empty if there is none.
std::vector<std::int32_t> take(std::vector<SearchAxis>& axes, std::string_view path) {
  std::vector<std::int32_t> out;
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const SearchAxis& a) { return a.path == path; });
  if (found == axes.end()) return out;
  for (const configs::Node& value : found->values) {
    out.push_back(static_cast<std::int32_t>(value.as_integer(1, kMaxReplicas)));
    if (std::count(out.begin(), out.end(), out.back()) > 1) value.fail(value.to_text() + " is listed twice");
  }
  axes.erase(found);
  return out;
}

std::int32_t whole(double replicas) {
  return static_cast<std::int32_t>(std::clamp(std::ceil(replicas), 1.0, static_cast<double>(kMaxReplicas)));
}

// Returns totals from the fewest replicas that may suffice to twice that. Small totals are listed one by one, since
// there queueing decides; larger ones in steps of a few percent.
std::vector<std::int32_t> totals_around(std::int32_t least) {
  constexpr std::int32_t kEach = 16, kParts = 40, kBeyond = 8;
  std::vector<std::int32_t> totals;
  for (std::int32_t n = least; n <= std::min(2 * least + kBeyond, kMaxReplicas);
       n += n < least + kEach ? 1 : std::max(1, n / kParts))
    totals.push_back(n);
  return totals;
}

}  // namespace

PoolCounts counts_of(const PointSpec& spec) {
  return {spec.prefill ? spec.prefill->deployment.replicas : 0, spec.deployment.replicas};
}

PoolCountAxis::PoolCountAxis(const Study& study, std::size_t index, const SearchSpec& search,
                             std::vector<SearchAxis>& axes)
    : prefill_(take(axes, kPrefill)),
      decode_(take(axes, kDecode)),
      totals_(search.totals),
      finds_load_(finds_load(search.objective)) {
  const PointSpec spec = study.point(index);
  const PoolCounts stated = counts_of(spec);
  const bool states_prefill = study.states(index, kPrefill), states_decode = study.states(index, kDecode);
  varies_ = true;
  if (search.finds_split) {
    if (totals_.empty() && states_prefill && states_decode) totals_.push_back(stated.total());
    return;
  }
  if (prefill_.empty() && decode_.empty() && !states_prefill && !states_decode) return;  // a split
  const bool listed = prefill_.size() + decode_.size() > 0;
  varies_ = listed || !states_prefill || !states_decode;
  const auto settle = [](std::vector<std::int32_t>& counts, bool is_stated, std::int32_t value) {
    if (!counts.empty()) return;
    if (is_stated)
      counts.push_back(value);
    else
      counts.assign(kAutoCounts.begin(), kAutoCounts.end());
  };
  settle(prefill_, states_prefill, stated.prefill);
  settle(decode_, states_decode, stated.decode);
}

std::vector<PoolCounts> PoolCountAxis::pairs_for(const PointSpec& spec) const {
  if (prefill_.empty()) return splits(spec);
  std::vector<PoolCounts> pairs;
  for (const std::int32_t p : prefill_)
    for (const std::int32_t d : decode_) pairs.push_back({p, d});
  return pairs;
}

std::vector<PoolCounts> PoolCountAxis::splits(const PointSpec& spec) const {
  std::vector<std::int32_t> totals = totals_;
  PoolCounts least{1, 1};
  if (totals.empty()) {
    // The load determines the totals only if the study gives no number. Then splits that cannot carry the load are not
    // listed.
    const std::optional<PoolNeed> need = finds_load_ ? std::nullopt : RateBound().need(spec);
    totals.assign(kAutoTotals.begin(), kAutoTotals.end());
    if (need && need->decode > 0) {
      least = {has_local_prefills(spec) ? 1 : whole(need->prefill / rate_margin(*spec.prefill)),
               whole(need->decode / rate_margin(spec))};
      totals = totals_around(least.total());
    }
  }
  std::vector<PoolCounts> pairs;
  for (const std::int32_t total : totals)
    for (std::int32_t p = least.prefill; p <= total - least.decode; ++p) pairs.push_back({p, total - p});
  return pairs;
}

}  // namespace plimsoll::study::plan
