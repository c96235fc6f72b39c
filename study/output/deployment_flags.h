// SPDX-License-Identifier: Apache-2.0
// A point's deployment as start commands and settings of the products. Writes only settings that the study states or
// its engine's profile sets, under the names of docs/study-file.md. Values are quoted as each file's reader requires: a
// shell, or Java's property files.
#pragma once

#include <cstdint>
#include <optional>
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
/// Returns the text of the first file, or a comment that says that there is none.
[[nodiscard]] std::string deployment_flags(const PointSpec& spec);

/// Returns the model to serve: the hub name that the study states, the folder of the path that it states, or the hub
/// name of a catalogue model.
[[nodiscard]] std::string served_model(const PointSpec& spec);
/// Returns the type's name for vLLM and SGLang; "auto" for weights of less than 16 bits, which the checkpoint sets.
[[nodiscard]] std::string served_dtype(model::DType dtype);
/// Returns the longest sequence for a server's options: max_total, else the number of tokens that the predicted KV pool
/// can hold; nullopt if the pool holds the model's own longest sequence.
[[nodiscard]] std::optional<std::int64_t> served_length(const PointSpec& spec);

}  // namespace plimsoll::study
