// SPDX-License-Identifier: Apache-2.0
#include "study/deploy/deployment_manifests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "study/deploy/products.h"
#include "study/deploy/yaml_text.h"
#include "study/output/write_file.h"

namespace plimsoll::study::deploy {
namespace {

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

// Replaces "tp: max" by the number of accelerators of the instance.
PointSpec with_degrees(PointSpec spec) {
  if (spec.deployment.tp_is_max) spec.deployment.tp = spec.hardware.count;
  spec.deployment.tp_is_max = false;
  if (spec.prefill) spec.prefill = std::make_shared<const PointSpec>(with_degrees(*spec.prefill));
  return spec;
}

std::string stem_of(const Product& product) { return std::string(product.file.substr(0, product.file.rfind('.'))); }
std::string refusal_file(const Product& product) { return stem_of(product) + ".refused.txt"; }

}  // namespace

std::vector<ManifestFile> manifest_files(const PointSpec& spec, const configs::Node& root, const std::string& title,
                                         const std::string& schemas) {
  const PointSpec settled = with_degrees(spec);
  const Served served = served_of(settled, root, one_line(title));
  std::vector<ManifestFile> files;
  std::vector<CheckedObject> objects;
  for (const Product& product : products()) {
    const Written written = served.refused.empty() ? product.write(served) : Written{{}, served.refused};
    const std::string reason = one_line(written.refused);
    if (reason.empty()) {
      for (const Tree& object : written.objects) objects.push_back({std::string(product.file), object});
      files.push_back({std::string(product.file), std::string(product.name), written.text, {}});
    } else {
      files.push_back(
          {refusal_file(product), std::string(product.name), fmt::format("{}: {}\n", product.name, reason), reason});
    }
  }
  if (!schemas.empty()) check_schemas(objects, schemas);
  return files;
}

void write_manifests(const std::vector<ManifestFile>& files, const std::string& folder) {
  const std::string deploy = folder + "/deploy";
  make_folder(deploy);
  for (const Product& product : products()) {
    std::error_code none;
    std::filesystem::remove(deploy + '/' + std::string(product.file), none);
    std::filesystem::remove(deploy + '/' + refusal_file(product), none);
  }
  for (const ManifestFile& file : files) write_file(deploy + '/' + file.name, file.text);
}

std::vector<std::string> manifest_notes(const std::vector<ManifestFile>& files) {
  std::vector<std::string> notes, names;
  for (const ManifestFile& file : files) {
    if (file.refused.empty())
      names.push_back(file.name);
    else
      notes.push_back(fmt::format("no manifest for {}: {}", file.product, file.refused));
  }
  if (!names.empty()) notes.push_back(fmt::format("deploy/ has {}", fmt::join(names, ", ")));
  return notes;
}

}  // namespace plimsoll::study::deploy
