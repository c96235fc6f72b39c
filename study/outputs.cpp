// SPDX-License-Identifier: Apache-2.0
#include "study/outputs.h"

#include <cstdio>

#include "study/cell.h"
#include "study/run_files.h"
#include "study/write_file.h"

namespace plimsoll::study {

Outputs::Outputs(const Study& study, OutputChoice choice) : study_(study), choice_(std::move(choice)) {
  if (choice_.folder.empty()) return;
  make_folder(choice_.folder);
  write_file(path("study.yaml"), study.resolved_yaml());
}

void Outputs::add(const FinishedPoint& point) const {
  if (choice_.folder.empty() || !point.result.metrics) return;
  const std::size_t points = study_.point_count(), index = point.result.index;
  if (choice_.requests) write_file(path(point_file_name("requests", ".csv", points, index)), requests_csv(point.run.requests));
  if (choice_.timeline) {
    write_file(path(point_file_name("timeline", ".json", points, index)), timeline_json(point.run.steps, study_.title()));
  }
  if (!choice_.decisions) return;
  const std::size_t replicas = point.run.logs.size();
  for (std::size_t r = 0; r < replicas; ++r) {
    write_file(path(decisions_file_name(points, index, replicas, r)), point.run.logs[r]);
  }
}

void Outputs::finish(const StudyResult& result) const {
  if (choice_.folder.empty()) return;
  const std::vector<std::string> keys = study_.swept_keys();
  write_file(path("points.csv"), points_csv(keys, result.points));
  std::vector<std::string> columns = keys;
  columns.emplace_back("reason");
  std::string text = csv_header(columns);
  bool any = false;
  for (const PointResult& point : result.points) {
    if (point.metrics) continue;
    std::vector<Cell> row = point.swept;
    row.emplace_back(point.infeasible);
    text += csv_line(row);
    any = true;
  }
  if (any) {
    write_file(path("infeasible.csv"), text);
  } else {
    std::remove(path("infeasible.csv").c_str());  // of an earlier run
  }
}

}  // namespace plimsoll::study
