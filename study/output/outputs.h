// SPDX-License-Identifier: Apache-2.0
// The folder of a run (docs/study-file.md, "Outputs"): report.html, points.csv, infeasible.csv, study.yaml, and for
// each point what was asked for: requests, decisions (of live runs with their events), timeline. Every file is written
// whole or not at all. Finished points are also kept in results.sqlite, from which a run that was ended continues.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "study/file/study.h"
#include "study/run/point_keys.h"
#include "study/run/result_store.h"
#include "study/run/run_study.h"

namespace plimsoll::study {

struct OutputChoice {
  std::string folder;  // empty: no files
  bool requests = false, decisions = false, timeline = false;
  bool resumable = false;        // keep results.sqlite
  bool stepwise = false;         // of the run: its results differ in the last digits
  std::string measured_on = {};  // the server of a measured run; its results are not those of a simulation
};

class Outputs {
 public:
  /// Makes the folder, opens its store if there is to be one, and writes study.yaml. Throws InputError or DeviceError.
  Outputs(const Study& study, OutputChoice choice);
  /// What an earlier run measured at this point, if all files of the point are there; adds to the point why that lay
  /// beyond measured kernels. Any number of threads at once.
  [[nodiscard]] std::optional<sched::PointMetrics> recall(PointResult& point);
  /// The files of one point, then its place in the store; called as points finish.
  void add(const FinishedPoint& point);
  /// The files of a point whose run was cut short, with what they hold.
  void add_unfinished(const FinishedPoint& point) const;
  /// Call now and then while points run: commits finished points to disk.
  void tick();
  /// report.html, points.csv and, where some point cannot exist, infeasible.csv.
  void finish(const StudyResult& result);
  /// "written to DIR: report.html, points.csv, …"; after finish(). Empty: there is no folder.
  [[nodiscard]] std::string written_text() const;
  /// How many points were recalled.
  [[nodiscard]] std::size_t recalled() const { return recalled_; }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return choice_.folder + '/' + name; }
  [[nodiscard]] Digest key_of(std::size_t index) const;
  [[nodiscard]] bool has_files(std::size_t index, std::size_t replicas) const;
  void remove_leftovers() const;
  void write_fleet(const PointResult& point) const;
  void write_files(const FinishedPoint& point) const;
  const Study& study_;
  OutputChoice choice_;
  std::unique_ptr<ResultStore> store_;
  std::unique_ptr<PointKeys> keys_;
  std::atomic<std::size_t> recalled_{0};
  bool infeasible_ = false;  // infeasible.csv was written
};

}  // namespace plimsoll::study
