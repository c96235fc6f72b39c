// SPDX-License-Identifier: Apache-2.0
// Compares predictions with measurements: simulates every row of a table under the conditions of its measurement.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
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

/// One compared figure. `predicted` is empty if the point cannot run in the model (`reason` states why) or would be
/// unstable.
struct Comparison {
  const MeasuredPoint* point = nullptr;  // points into the tables that were compared
  std::string table, metric, reason, extrapolates;
  double measured = 0;
  std::optional<double> predicted, low, high;  // low, high: 90 % band
  double kv_used = 0;                          // mean share of the KV pool in use in the predicted run
  /// Mean seconds per request that add up to the predicted mean latency, in the order of time_part_name().
  std::array<double, 8> time_parts{};
  [[nodiscard]] std::optional<double> relative_error() const {
    return predicted ? std::optional(*predicted / measured - 1) : std::nullopt;
  }
  /// Returns whether the band contains the measured value; nullopt without a band.
  [[nodiscard]] std::optional<bool> is_in_band() const {
    if (!predicted || (!low && !high)) return {};
    return (!low || measured >= *low) && (!high || measured <= *high);
  }
};

/// Returns "weights", "KV reads", "compute", "all-reduce", "host", "queue", "preemption" or "other".
[[nodiscard]] const char* time_part_name(std::size_t part);

struct CompareSettings {
  int jobs = 0;  // 0 for one per core
  study::RunControl* control = nullptr;
  std::vector<std::pair<std::string, std::string>> set;  // --set path=value, applied to every configuration
};

/// Compares all rows in the order of the tables, which must outlive the result. Throws InputError for a row with an
/// unknown name.
[[nodiscard]] std::vector<Comparison> compare(const std::vector<MeasuredTable>& tables,
                                              std::shared_ptr<const configs::Catalogue> catalogue,
                                              const CompareSettings& settings);

/// Does the same for the points.csv of a study, whose rows are the study's points in order. The study then supplies
/// loads, settings and lengths that a row does not state. Throws InputError if the rows are not those of the study.
[[nodiscard]] std::vector<Comparison> compare_with_study(const MeasuredTable& table, const study::Study& study,
                                                         const CompareSettings& settings);

/// Does the same with points that are already simulated: compares every row of the table with the point of the same TP
/// degree, replicas and load value, and leaves out rows without such a point.
[[nodiscard]] std::vector<Comparison> match(const MeasuredTable& table, const std::vector<study::PointResult>& points);

/// Appends a comparison with the simulated point for every measured figure of a row.
void append_comparisons(const MeasuredTable& table, const MeasuredPoint& row, const study::PointResult& point,
                        std::vector<Comparison>& out);
/// Replaces the prediction by another simulation of the same row.
void set_prediction(const study::PointResult& point, Comparison& comparison);

/// Returns the study file of one configuration, which sweeps the load values of all given rows.
[[nodiscard]] std::string study_text(const std::vector<const MeasuredPoint*>& rows);

/// Summarises the errors. Comparisons without a prediction count as missing.
[[nodiscard]] ErrorSummary summarise(const std::vector<const Comparison*>& comparisons);

}  // namespace plimsoll::validation
