// SPDX-License-Identifier: Apache-2.0
// The output folder of a run (docs/study-file.md, "Outputs"): report.html, points.csv, infeasible.csv, study.yaml, and
// for each point the requested files: requests, decisions (for live runs also events), timeline. Every file is written
// completely or not at all. Finished points are also stored in results.sqlite, so that an interrupted run can continue.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "study/file/study.h"
#include "study/run/point_keys.h"
#include "study/run/result_store.h"
#include "study/run/run_study.h"

namespace plimsoll::study {

/// What a run writes, and where.
struct OutputChoice {
  std::string folder;  // empty: no files
  bool requests = false, decisions = false, timeline = false;
  bool resumable = false;        // keep results.sqlite
  bool stepwise = false;         // the run makes no leaps; its results differ in the last digits
  std::string measured_on = {};  // the server of a measured run; its results differ from those of a simulation
};

class Outputs {
 public:
  /// Makes the folder, opens its store if there is one, and writes study.yaml. Throws InputError or DeviceError.
  Outputs(const Study& study, OutputChoice choice);
  /// Returns the metrics of an earlier run of this point, if the point's files are unchanged since then; else nullopt.
  /// Adds the stored reason why the point is an extrapolation, if there is one. Thread-safe.
  [[nodiscard]] std::optional<sched::PointMetrics> recall(PointResult& point);
  /// Writes the files of one point, then stores it as finished; called as points finish.
  void add(const FinishedPoint& point);
  /// Writes the files of a point whose run was cut short, with the data recorded so far.
  void add_unfinished(const FinishedPoint& point) const;
  /// Commits finished points to disk. Call from time to time while points run.
  void tick();
  /// Writes report.html, points.csv and, if some points are impossible, infeasible.csv.
  void finish(const StudyResult& result);
  /// Returns "written to DIR: report.html, points.csv, …"; call after finish(). Empty if there is no folder.
  [[nodiscard]] std::string written_text() const;
  /// Returns how many points were recalled.
  [[nodiscard]] std::size_t recalled() const { return recalled_; }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return choice_.folder + '/' + name; }
  [[nodiscard]] Digest key_of(std::size_t index) const;
  [[nodiscard]] bool has_file(std::string_view line) const;
  void remove_leftovers() const;
  void write_fleet(const PointResult& point) const;
  std::string write_files(const FinishedPoint& point) const;
  const Study& study_;
  OutputChoice choice_;
  std::unique_ptr<ResultStore> store_;
  std::unique_ptr<PointKeys> keys_;
  std::atomic<std::size_t> recalled_{0};
  bool infeasible_ = false;  // whether infeasible.csv was written
};

}  // namespace plimsoll::study
