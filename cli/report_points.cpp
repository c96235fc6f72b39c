// SPDX-License-Identifier: Apache-2.0
#include "cli/verb_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/error.h"
#include "study/output/points_page.h"
#include "study/output/table_view.h"

namespace plimsoll::cli {
namespace {

using Reasons = std::vector<std::pair<std::string, int>>;

// Returns each reason once, with the number of points to which it applies.
Reasons infeasible_reasons(const std::vector<study::PointResult>& points) {
  Reasons reasons;
  for (const study::PointResult& point : points) {
    if (point.metrics) continue;
    const auto found =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == point.infeasible; });
    if (found == reasons.end()) {
      reasons.emplace_back(point.infeasible, 1);
    } else {
      ++found->second;
    }
  }
  return reasons;
}

void report_infeasible(const std::vector<study::PointResult>& points, Console& console) {
  for (const auto& [reason, count] : infeasible_reasons(points)) {
    console.warn(fmt::format("{} of {} points are impossible: {}", count, points.size(), reason));
  }
}

// Returns the place in the study that makes the point impossible, or that of the workload if only the run showed it.
Where place_of(const study::Study& study, std::size_t index) {
  try {
    const study::ResolvedPoint point = study::resolve_point(study, index);
    return point.impossible ? point.impossible->where : study.point(index).places.workload;
  } catch (const InputError& error) {
    return error.where();
  }
}

// Throws InputError for a study in which every point is impossible, with the place of the first and some reasons.
[[noreturn]] void refuse_all(const study::Study& study, const std::vector<study::PointResult>& points) {
  constexpr std::size_t kShown = 3;
  const Reasons reasons = infeasible_reasons(points);
  std::string text = "no point of the sweep is possible: ";
  for (std::size_t i = 0; i < std::min(reasons.size(), kShown); ++i) text += (i > 0 ? "; " : "") + reasons[i].first;
  if (reasons.size() > kShown) text += fmt::format("; and {} other reasons", reasons.size() - kShown);
  throw InputError(place_of(study, points.front().index), text);
}

// Warns of points without requests: the warm-up is longer than the run, or no request arrives within the duration.
void report_empty(const std::vector<study::PointResult>& points, Console& console) {
  const auto is_empty = [](const study::PointResult& point) {
    return point.metrics &&
           point.metrics->requests_completed + point.metrics->requests_rejected + point.metrics->requests_timed_out ==
               0;
  };
  const auto count = std::count_if(points.begin(), points.end(), is_empty);
  if (count == 0) return;
  console.warn(
      fmt::format("{} of {} points measured no request: none was sent after the warm-up and within the duration", count,
                  points.size()));
}

void report_rejected(const std::vector<study::PointResult>& points, Console& console) {
  const auto count = std::count_if(points.begin(), points.end(), [](const study::PointResult& point) {
    return point.metrics && study::rejected_all(*point.metrics);
  });
  if (count > 0)
    console.warn(fmt::format("{} of {} points served no request: all were rejected; the notes of the points say why",
                             count, points.size()));
}

// Goes to standard error, because notes would be lost in a truncated or machine-read table.
void report_idle(const std::vector<study::PointResult>& points, Console& console) {
  std::set<std::string> notes;
  std::size_t idle = 0;
  for (const study::PointResult& point : points) {
    if (!point.metrics) continue;
    const std::string note = study::unused_gpus(point);
    idle += note.empty() ? 0 : 1;
    notes.insert(note);
  }
  notes.erase("");
  constexpr std::size_t kShown = 3;
  if (notes.size() > kShown) {
    console.note(fmt::format("{} points leave GPUs of their instances idle; their notes say which", idle));
    return;
  }
  for (const std::string& note : notes) console.note(note);
}

void report_estimates(const std::vector<study::PointResult>& points, Console& console) {
  std::set<std::string> reasons;
  for (const study::PointResult& point : points) {
    if (point.metrics && !point.extrapolates.empty()) reasons.insert(point.extrapolates);
  }
  for (const std::string& reason : reasons) console.note("estimated: " + reason);
}

// Prints one line per kind: the number of points, and the first one as an example.
void report_steadiness(const std::vector<study::PointResult>& points, Console& console) {
  for (const auto verdict : {sched::Steadiness::unstable, sched::Steadiness::too_short}) {
    const auto is_so = [&](const study::PointResult& p) {
      return p.metrics && p.metrics->steady.verdict == verdict && !study::rejected_all(*p.metrics);
    };
    const auto first = std::find_if(points.begin(), points.end(), is_so);
    if (first == points.end()) continue;
    const auto count = std::count_if(points.begin(), points.end(), is_so);
    const std::string text = study::steady_text(first->metrics->steady);
    console.note(points.size() == 1 ? text : fmt::format("{} of {} points: {}", count, points.size(), text));
  }
}

void print_points(const study::Study& study, const study::StudyResult& result, Format format, Console& console) {
  const std::vector<std::string> keys = study.swept_keys();
  switch (format) {
    case Format::table:
      console.print(study::points_table(study.title(), keys, result.points));
      print_curve(study::points_charts(study.title(), keys, result.points), console);
      return;
    case Format::csv: console.print(study::points_csv(keys, result.points)); return;
    case Format::json: console.print(study::points_json(keys, result.points)); return;
  }
}

}  // namespace

void print_curve(const std::vector<study::Chart>& charts, Console& console) {
  const std::optional<study::TextCanvas> canvas = Console::picture_size();
  if (charts.empty() || !canvas) return;
  const std::string picture = study::text_chart(charts.front(), *canvas);
  if (!picture.empty()) console.print('\n' + picture);
}

void note_recalled(const study::Study& study, const study::Outputs& outputs, const std::string& folder,
                   Console& console) {
  if (outputs.recalled() == 0) return;
  console.note(fmt::format("{} of {} points were already in {}/results.sqlite", outputs.recalled(), study.point_count(),
                           folder));
}

void report_points(const study::Study& study, const study::StudyResult& result, Format format, Console& console) {
  print_points(study, result, format, console);
  const bool none =
      std::none_of(result.points.begin(), result.points.end(), [](const auto& p) { return p.metrics.has_value(); });
  if (none && !result.cancelled) refuse_all(study, result.points);
  report_infeasible(result.points, console);
  report_empty(result.points, console);
  report_rejected(result.points, console);
  report_steadiness(result.points, console);
  report_idle(result.points, console);
  if (format != Format::table) report_estimates(result.points, console);
  if (result.cancelled)
    console.warn(fmt::format("interrupted: {} of {} points finished", result.points.size(), study.point_count()));
}

}  // namespace plimsoll::cli
