// SPDX-License-Identifier: Apache-2.0
// A point's deployment as the products spell it, to be pasted where it is deployed. Only what the study states or its
// engine's profile sets is written; the names are those of docs/study-file.md.
#pragma once

#include <string>

#include "study/study.h"

namespace plimsoll::study {

/// `vllm serve …`
[[nodiscard]] std::string vllm_command(const PointSpec& spec);
/// Environment of text-generation-inference, a line a variable.
[[nodiscard]] std::string tgi_environment(const PointSpec& spec);
/// serving.properties of LMI.
[[nodiscard]] std::string serving_properties(const PointSpec& spec);
/// The one that suits the point's policy: vLLM's for vllm_v0, vllm_v1 and sarathi, TGI's for tgi, LMI's else.
[[nodiscard]] std::string deployment_flags(const PointSpec& spec);

}  // namespace plimsoll::study
