// SPDX-License-Identifier: Apache-2.0
// Predictions beside measurements: every filled cell of a table is simulated as it was measured, and compared.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/catalogue.h"
#include "study/run/point_result.h"
#include "study/run/run_control.h"
#include "validation/error_summary.h"
#include "validation/measured_points.h"

namespace plimsoll::study {
class Study;
}

namespace plimsoll::validation {

/// One compared figure. `predicted` is absent where the point cannot exist in the model (then `reason` says why) or
/// where it would be unstable.
struct Comparison {
  const MeasuredPoint* point = nullptr;  // in the tables that were compared
  std::string table, metric, reason, extrapolates;
  double measured = 0;
  std::optional<double> predicted, low, high;  // low, high: 90 % band
  double kv_used = 0;                          // of the predicted run: mean share of the KV pool in use
  /// Means a request that sum to the predicted mean latency, seconds, in the order of time_part_name().
  std::array<double, 8> time_parts{};
  [[nodiscard]] std::optional<double> relative_error() const {
    return predicted ? std::optional(*predicted / measured - 1) : std::nullopt;
  }
  /// Whether the band contains the measured value; nullopt without a band.
  [[nodiscard]] std::optional<bool> is_in_band() const {
    if (!predicted || (!low && !high)) return {};
    return (!low || measured >= *low) && (!high || measured <= *high);
  }
};

/// "weights", "KV reads", "compute", "all-reduce", "host", "queue", "preemption", "other".
[[nodiscard]] const char* time_part_name(std::size_t part);

struct CompareSettings {
  int jobs = 0;  // 0: one per core
  study::RunControl* control = nullptr;
  std::vector<std::pair<std::string, std::string>> set;  // --set path=value, applied to every configuration
};

/// In the order of the tables; the tables must outlive the result. Throws InputError for a row with an unknown
/// name.
[[nodiscard]] std::vector<Comparison> compare(const std::vector<MeasuredTable>& tables,
                                              std::shared_ptr<const configs::Catalogue> catalogue,
                                              const CompareSettings& settings);

/// The same for the points.csv of a study that was run: its rows are the study's points, in order. So loads, settings
/// and lengths that a row does not state are known. Throws InputError where the rows are not those of the study.
[[nodiscard]] std::vector<Comparison> compare_with_study(const MeasuredTable& table, const study::Study& study,
                                                         const CompareSettings& settings);

/// The same for points that have been simulated already: every row of the table with the point of its TP degree,
/// replicas and load value; rows without a point are left out.
[[nodiscard]] std::vector<Comparison> match(const MeasuredTable& table, const std::vector<study::PointResult>& points);

/// Appends every measured figure of a row beside that of the simulated point.
void append_comparisons(const MeasuredTable& table, const MeasuredPoint& row, const study::PointResult& point,
                        std::vector<Comparison>& out);
/// Puts another simulation of the same row in the place of the prediction.
void set_prediction(const study::PointResult& point, Comparison& comparison);

/// The study file of one configuration, with the load's values of all given rows as its sweep.
[[nodiscard]] std::string study_text(const std::vector<const MeasuredPoint*>& rows);

/// Comparisons without a prediction are counted as missing.
[[nodiscard]] ErrorSummary summarise(const std::vector<const Comparison*>& comparisons);

}  // namespace plimsoll::validation
