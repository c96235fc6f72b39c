// SPDX-License-Identifier: Apache-2.0
// The folder of a run (docs/study-file.md, "Outputs"): points.csv, infeasible.csv, study.yaml, and for each point what was
// asked for: requests, decisions, timeline. Every file is written whole or not at all.
#pragma once

#include <string>
#include <vector>

#include "study/run_study.h"
#include "study/study.h"

namespace plimsoll::study {

struct OutputChoice {
  std::string folder;                  // empty: no files
  bool requests = false, decisions = false, timeline = false;
};

class Outputs {
 public:
  /// Makes the folder and writes study.yaml. Throws InputError or DeviceError.
  Outputs(const Study& study, OutputChoice choice);
  /// The files of one point; called as points finish.
  void add(const FinishedPoint& point) const;
  /// points.csv and, where some point cannot exist, infeasible.csv.
  void finish(const StudyResult& result) const;

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return choice_.folder + '/' + name; }
  const Study& study_;
  OutputChoice choice_;
};

}  // namespace plimsoll::study
