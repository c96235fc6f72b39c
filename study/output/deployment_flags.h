// SPDX-License-Identifier: Apache-2.0
// A point's deployment as start commands and settings of the products. Writes only settings that the study states or
// its engine's profile sets, under the names of docs/study-file.md. The model is the path (its folder) or the name that
// the study states. Values are quoted for the reader of each file: a shell, or Java's property files.
#pragma once

#include <string>
#include <vector>

#include "study/file/study.h"

namespace plimsoll::study {

struct DeployFile {
  std::string name;     // "vllm.sh", "tgi.env", "serving.properties", "trtllm.sh", "sglang.sh", "llama-server.sh"
  std::string product;  // "vLLM", "Text Generation Inference" …
  std::string text;
};

/// Returns the files that start one replica, for each product that runs the point's policy, the policy's own product
/// first. Empty if no product runs it (none, static, orca, sarathi).
[[nodiscard]] std::vector<DeployFile> deploy_files(const PointSpec& spec);
/// Returns the text of the first file, or a comment that there is none.
[[nodiscard]] std::string deployment_flags(const PointSpec& spec);

}  // namespace plimsoll::study
