// SPDX-License-Identifier: Apache-2.0
// What a manifest describes: pools of equal servers, the engine and version in them, and the part of the study for
// which no product has a field. Products differ only in where they put these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/yaml_document.h"
#include "study/file/study.h"

namespace plimsoll::study::deploy {

/// A pool of equal servers.
struct Pool {
  std::string name;  // "server", or "prefill" and "decode"
  sched::Role role = sched::Role::whole;
  const PointSpec* spec = nullptr;
  std::string image;           // of the engine, with its version
  std::string engine_version;  // "0.12.0"
};

/// A point's deployment. `spec` must outlive it.
struct Served {
  const PointSpec* spec = nullptr;
  std::string title;        // one line: what was predicted
  sched::Server server{};   // the product whose options the servers take
  std::vector<Pool> pools;  // prefill before decode
  std::string study;        // YAML of the annotation kStudyKey
  std::string refused;      // why no product can run this deployment; empty: some can
  [[nodiscard]] bool has_pools() const { return spec->prefill != nullptr; }
  [[nodiscard]] const Pool& decode() const { return pools.back(); }
};

/// The annotation for everything that the prediction depends on and that the product has no field for: model and
/// hardware of the catalogue, engine profile, transfer times, and settings that the options state although the study
/// does not.
inline constexpr std::string_view kStudyKey = "plimsoll/study";

/// Describes the deployment of a point. `root` is its study file without a sweep; its values are copied as written.
[[nodiscard]] Served served_of(const PointSpec& spec, const configs::Node& root, const std::string& title);

/// Returns the version of the product whose scheduler the point's engine reproduces: "0.12.0" of vllm-0.12; nullopt if
/// the engine states none.
[[nodiscard]] std::optional<std::string> engine_version(const PointSpec& spec, sched::Server server);
/// Returns the minor number of a version: 12 of "0.12.0"; 0 if there is none.
[[nodiscard]] std::int32_t minor_of(std::string_view version);
/// Returns the container image of an engine.
[[nodiscard]] std::string image_of(sched::Server server, const std::string& version);

/// Returns the GPUs of one server.
[[nodiscard]] inline std::int32_t gpus_of(const PointSpec& spec) { return spec.deployment.tp * spec.deployment.pp; }

/// Returns the name of the instance type for Kubernetes' label node.kubernetes.io/instance-type; nullopt for one's own
/// machines, and for clouds whose labels differ from the catalogue's names.
[[nodiscard]] std::optional<std::string> node_type(const PointSpec& spec);

}  // namespace plimsoll::study::deploy
