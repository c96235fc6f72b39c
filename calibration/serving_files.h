// SPDX-License-Identifier: Apache-2.0
// The catalogue files that a serving fit changes. Values are inserted as YAML. The result is either the profile,
// accelerator and link that the files then describe, or the text of the files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "configs/catalogue.h"
#include "configs/yaml_document.h"
#include "study/file/study.h"
#include "validation/measured_points.h"

namespace plimsoll::calibration {

struct ServingModel;
struct ServingNumber;

/// Returns a value with its number's unit, as files hold it.
[[nodiscard]] std::string value_text(const ServingNumber& number, double value);
/// Returns the entries of `uncertainty` as YAML.
[[nodiscard]] std::string factors_text(const model::TimeUncertainty& uncertainty);

/// The entries described by the files with one set of values; null if the fit does not change them.
struct ServingParts {
  std::shared_ptr<const model::EngineProfile> engine;
  std::map<std::string, std::shared_ptr<const model::Accelerator>> accelerators;
  std::map<std::string, std::shared_ptr<const model::Interconnect>> links;
  bool bands = false;  // simulated points get uncertainty bands
  /// Replaces the entries of the same name in `spec`.
  void replace_in(study::PointSpec& spec) const;
};

/// The data, date, command and errors of a fit.
struct Provenance {
  std::string what, errors;
  std::string ranges;  // YAML for `calibrated_for`
  struct Group {
    model::TimeUncertainty uncertainty;
    std::string source;
  };
  std::map<model::Beyond, Group> groups;  // YAML for `uncertainty_beyond`
};

class ServingFiles {
 public:
  ServingFiles(const ServingModel& model, const configs::Catalogue& catalogue);
  [[nodiscard]] ServingParts parts(const std::vector<double>& values) const;
  /// Returns the files, keyed by path below the catalogue's root: "engines/tgi-1.1.yaml".
  [[nodiscard]] std::map<std::string, std::string> texts(const std::vector<double>& values,
                                                         const model::TimeUncertainty& uncertainty,
                                                         const Provenance& provenance) const;

 private:
  [[nodiscard]] std::map<std::string, configs::Document> documents(const std::vector<double>& values) const;
  const ServingModel& model_;
  std::map<std::string, configs::Document> base_;  // "engines/tgi-1.1"
};

/// Returns the YAML of an all-reduce curve over PCIe through the host that moves large messages at `gigabytes_per_s`.
/// Its shape (latencies, and the slower segment for small messages) is that of NCCL between L40S on PCIe 4.
[[nodiscard]] std::string pcie_curve_text(int ranks, double gigabytes_per_s);

/// A measured run, and the point that simulates it.
struct FittedRun {
  const validation::MeasuredPoint* row = nullptr;
  const study::PointSpec* spec = nullptr;
};

/// Returns the text in quotation marks, without characters that would end them.
[[nodiscard]] std::string quoted_yaml(std::string text);

/// Returns "0.12.0" for "vllm 0.12.0 fp8": the last word that begins with a digit and has a point; empty: there is
/// none.
[[nodiscard]] std::string version_of(const std::string& source);

/// Returns YAML with the versions that the runs state. For each family of models and pair of types, it has a group with
/// the smallest and largest value of every quantity.
[[nodiscard]] std::string ranges_text(const std::vector<FittedRun>& runs);

}  // namespace plimsoll::calibration
