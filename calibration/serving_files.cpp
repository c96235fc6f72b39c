// SPDX-License-Identifier: Apache-2.0
#include "calibration/serving_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "calibration/serving_fit.h"
#include "model/error.h"

namespace plimsoll::calibration {
namespace {

// NCCL 2.27 between L40S (ai-dynamo/aiconfigurator, Apache-2.0) as two segments: latencies in microseconds, and the
// bandwidth of the first segment as a fraction of the second's.
struct PcieShape {
  int ranks;
  double first_us, second_us, first_share;
};
constexpr PcieShape kPcieShapes[] = {{2, 6.22, 23.2, 0.518}, {4, 11.06, 23.16, 0.861}, {8, 18.57, 111.8, 0.541}};

std::string kind_of(const std::string& file) { return file.substr(0, file.find('/')); }
std::string id_of(const std::string& file) { return file.substr(file.find('/') + 1); }

std::optional<configs::Node> node_at(const configs::Node& root, const std::string& path) {
  const std::size_t point = path.find('.');
  const std::optional<configs::Node> found = root.find(path.substr(0, point));
  return !found || point == std::string::npos ? found : node_at(*found, path.substr(point + 1));
}

}  // namespace

std::string value_text(const ServingNumber& n, double value) {
  return n.unit.empty() ? fmt::format("{:.5g}", value) : fmt::format("{:.5g} {}", value, n.unit);
}

std::string factors_text(const model::TimeUncertainty& u) {
  return fmt::format("decode: [{:.3f}, {:.3f}], prefill: [{:.3f}, {:.3f}]", u.decode_low, u.decode_high, u.prefill_low,
                     u.prefill_high);
}

std::string pcie_curve_text(int ranks, double gigabytes_per_s) {
  for (const PcieShape& shape : kPcieShapes) {
    if (shape.ranks != ranks) continue;
    return fmt::format(
        "{{ranks: {}, segments: [{{latency: {:.5g} us, bandwidth: {:.5g} GB/s}}, {{latency: {:.5g} us, bandwidth: "
        "{:.5g} GB/s}}]}}",
        ranks, shape.first_us, shape.first_share * gigabytes_per_s, shape.second_us, gigabytes_per_s);
  }
  PLIMSOLL_CHECK(false, "a PCIe curve of 2, 4 or 8 ranks");
}

// Replaces the engine, the accelerator and the link of a point if the fit has changed them.
void ServingParts::replace_in(study::PointSpec& spec) const {
  if (engine && spec.engine->id == engine->id) spec.engine = engine;
  if (const auto found = accelerators.find(spec.hardware.accelerator->id); found != accelerators.end())
    spec.hardware.accelerator = found->second;
  if (!spec.hardware.interconnect) return;
  if (const auto found = links.find(spec.hardware.interconnect->id); found != links.end())
    spec.hardware.interconnect = found->second;
}

ServingFiles::ServingFiles(const ServingModel& model, const configs::Catalogue& catalogue) : model_(model) {
  const auto load = [&](const std::string& file) {
    if (file.empty() || base_.find(file) != base_.end()) return;
    const std::string shipped = catalogue.root() + "/" + file + ".yaml";
    std::error_code error;
    base_.emplace(file, std::filesystem::exists(shipped, error) ? configs::Document::from_file(shipped)
                                                                : catalogue.document(kind_of(file), id_of(file)));
  };
  load("engines/" + model.engine);
  for (const ServingNumber& n : model.numbers) load(n.file);
  load(model.scanned.file);
  if (model.taken.empty()) return;
  const std::string other = "engines/" + model.other_version;
  const configs::Document from = configs::Document::from_file(catalogue.root() + "/" + other + ".yaml");
  for (const std::string& path : model.taken)
    if (const auto value = node_at(from.root(), path)) base_.at("engines/" + model.engine).set(path, *value);
}

// Inserts the numbers into the catalogue's own files and parses those, with the same reader as the simulator.
std::map<std::string, configs::Document> ServingFiles::documents(const std::vector<double>& values) const {
  std::map<std::string, configs::Document> out = base_;
  std::map<std::string, std::string> curves;  // YAML of a curve, keyed by link
  const auto set = [&](const ServingNumber& n, double value) {
    if (!n.path.starts_with("ranks ")) {
      const Where where{"fitted " + n.number.name, 0, 0};
      out.at(n.file).set(n.path, value_text(n, value), where);
      for (const std::string& path : n.also) out.at(n.file).set(path, value_text(n, value), where);
      return;
    }
    std::string& list = curves[n.file];
    const int ranks = std::stoi(n.path.substr(6));
    // Two ranks were not measured: scale the value for four ranks by the ratio between L40S.
    constexpr double kTwoToFour = 20.4 / 3.505;
    if (list.empty()) list = pcie_curve_text(2, kTwoToFour * value);
    list += ", " + pcie_curve_text(ranks, value);
  };
  for (std::size_t i = 0; i < model_.numbers.size(); ++i) set(model_.numbers[i], values[i]);
  if (!model_.scan.empty()) set(model_.scanned, values.back());
  for (const auto& [file, list] : curves)
    out.at(file).set("all_reduce", "[" + list + "]", Where{"fitted " + file, 0, 0});
  return out;
}

ServingParts ServingFiles::parts(const std::vector<double>& values) const {
  ServingParts parts;
  for (const auto& [file, document] : documents(values)) {
    const std::string kind = kind_of(file), id = id_of(file);
    if (kind == "engines")
      parts.engine = configs::read_engine(document.root(), id).profile;
    else if (kind == "accelerators")
      parts.accelerators[id] =
          std::make_shared<const model::Accelerator>(configs::read_accelerator(document.root(), id));
    else
      parts.links[id] = std::make_shared<const model::Interconnect>(configs::read_interconnect(document.root(), id));
  }
  return parts;
}

// Every file states the data of the fit. The engine's file also states the range of the fit and its errors.
std::map<std::string, std::string> ServingFiles::texts(const std::vector<double>& values,
                                                       const model::TimeUncertainty& u,
                                                       const Provenance& provenance) const {
  std::map<std::string, configs::Document> all = documents(values);
  const Where where{"fitted " + model_.engine, 0, 0};
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  std::map<std::string, std::string> out;
  for (auto& [file, document] : all) {
    const std::string kind = kind_of(file);
    if (kind == "engines") {
      document.set("calibrated", "true", where);
      document.set("calibrated_on", quoted(provenance.what + "; " + provenance.errors), where);
      document.set("calibrated_for", provenance.ranges, where);
      document.set("uncertainty", fmt::format("{{{}}}", factors_text(u)), where);
      for (const auto& [beyond, group] : provenance.groups)
        document.set(fmt::format("uncertainty_beyond.{}", model::kBeyondNames.at(static_cast<std::size_t>(beyond))),
                     fmt::format("{{{}, source: {}}}", factors_text(group.uncertainty), quoted(group.source)), where);
    } else if (kind == "accelerators") {
      document.set("calibrated", "true", where);
      document.set("efficiency.source",
                   quoted(model_.accelerator_note + "; " + provenance.what + ", whose profile states the errors"),
                   where);
    } else {
      document.set("source", quoted(model_.link_note + "; " + provenance.what + ", whose profile states the errors"),
                   where);
    }
    out[file + ".yaml"] = "# SPDX-License-Identifier: Apache-2.0\n" + document.dump();
  }
  return out;
}

}  // namespace plimsoll::calibration
