// SPDX-License-Identifier: Apache-2.0
// Writes a point's deployment as manifests of products that run whole deployments (docs/deployments.md), and reads
// manifests back as the part of a study that describes the deployment.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "configs/catalogue.h"
#include "configs/yaml_document.h"
#include "study/file/study.h"

namespace plimsoll::study::deploy {

/// A file of the folder deploy/. If the product cannot run the predicted deployment, its name ends in ".refused.txt"
/// and its text is the reason, on one line.
struct ManifestFile {
  std::string name, product, text;
  std::string refused;  // the reason; empty: the file is a manifest
};

/// Returns one file for each product. `root` is the point's study file without a sweep; `title`, one line, states what
/// was predicted. If `schemas` names a folder, the objects are checked against the JSON schemas in it. Throws
/// InputError if an object violates its schema, or if the folder has no schema for any of them.
[[nodiscard]] std::vector<ManifestFile> manifest_files(const PointSpec& spec, const configs::Node& root,
                                                       const std::string& title, const std::string& schemas = {});

/// Writes the files to `folder`/deploy. Removes files of the same products that an earlier run left there.
void write_manifests(const std::vector<ManifestFile>& files, const std::string& folder);
/// Returns a line for each refusal, and one that names the manifests.
[[nodiscard]] std::vector<std::string> manifest_notes(const std::vector<ManifestFile>& files);

/// Reads a manifest and returns the study of its deployment, without a workload. `hardware`, as YAML, replaces the
/// hardware that the file states. Throws InputError, with file:line, for a field that no setting of a study can
/// express, and for fields that contradict each other.
[[nodiscard]] configs::Document read_deployment(const std::string& file,
                                                std::shared_ptr<const configs::Catalogue> catalogue,
                                                const std::string& hardware = {});

}  // namespace plimsoll::study::deploy
