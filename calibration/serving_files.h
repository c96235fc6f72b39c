// SPDX-License-Identifier: Apache-2.0
// The catalogue files that a serving fit changes: its values go in as YAML, and come out as the profile, accelerator
// and link that the files then describe, or as the files' text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "configs/catalogue.h"
#include "configs/yaml_document.h"
#include "study/file/study.h"

namespace plimsoll::calibration {

struct ServingModel;

/// What the files with one set of values describe; null: not touched by the fit.
struct ServingParts {
  std::shared_ptr<const model::EngineProfile> engine;
  std::map<std::string, std::shared_ptr<const model::Accelerator>> accelerators;
  std::map<std::string, std::shared_ptr<const model::Interconnect>> links;
  bool bands = false;  // simulated points get bands
  /// Puts them in the place of those of the same name.
  void replace_in(study::PointSpec& spec) const;
};

/// On what, when and by which command a fit was made, and how far off it was.
struct Provenance {
  std::string what, errors;
  std::string ranges;  // YAML of `calibrated_for`
  struct Group {
    model::TimeUncertainty uncertainty;
    std::string source;
  };
  std::map<model::Beyond, Group> groups;  // `uncertainty_beyond`
};

class ServingFiles {
 public:
  ServingFiles(const ServingModel& model, const configs::Catalogue& catalogue);
  [[nodiscard]] ServingParts parts(const std::vector<double>& values) const;
  /// By path below the catalogue's root: "engines/tgi-1.1.yaml".
  [[nodiscard]] std::map<std::string, std::string> texts(const std::vector<double>& values,
                                                         const model::TimeUncertainty& uncertainty,
                                                         const Provenance& provenance) const;

 private:
  [[nodiscard]] std::map<std::string, configs::Document> documents(const std::vector<double>& values) const;
  const ServingModel& model_;
  std::map<std::string, configs::Document> base_;  // "engines/tgi-1.1"
};

/// An all-reduce over PCIe through the host that moves large messages at `gigabytes_per_s`, as the YAML of one curve:
/// the shape, latencies and the slower segment for small messages, is that of NCCL between L40S on PCIe 4.
[[nodiscard]] std::string pcie_curve_text(int ranks, double gigabytes_per_s);

}  // namespace plimsoll::calibration
