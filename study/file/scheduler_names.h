// SPDX-License-Identifier: Apache-2.0
// The names of our scheduler settings in LMI, TGI, vLLM, TensorRT-LLM and SGLang: their properties, environment
// variables and command-line flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/yaml_document.h"

namespace plimsoll::study {

/// How a product's value is converted to ours.
enum class AliasForm : std::uint8_t {
  same,          // as ours
  milliseconds,  // milliseconds as a bare number, or our notation
  microseconds,
  gibibytes,
  token_chunk,      // SGLang's chunk size: a budget that also enables chunking; -1 disables it
  negated,          // a switch that disables ours
  lmi_rolling,      // option.rolling_batch: names a policy
  lmi_paged,        // option.paged_attention: false makes rolling batching contiguous
  chunking_policy,  // TensorRT-LLM: a policy name that enables chunking
  triton_delay,     // microseconds, counted from the oldest arrival
  first_come,       // an order of service: only first come, first served is supported
  null_block,       // a number of blocks that includes an unusable one (vLLM)
  engine_kind,      // DJL's MPI or Python: no effect
  degree            // deployment.tp or pp, given among the scheduler's settings
};

struct SchedulerAlias {
  std::string_view ours;  // our key; empty for product settings without one
  AliasForm form = AliasForm::same;
};

/// Our own keys, in the order of docs/study-file.md.
[[nodiscard]] const std::vector<std::string_view>& scheduler_keys();

/// Returns the meaning of a key of `scheduler:`; nullopt for an unknown key. Our own names map to themselves. `sglang`
/// selects the meaning of --max-total-tokens: TGI's limit per request, or SGLang's size of the pool.
[[nodiscard]] std::optional<SchedulerAlias> scheduler_alias(std::string_view name, bool sglang);

/// Sets a key of `scheduler:` in a document. It replaces the same setting under another name. The dots in a product's
/// property are not a path: unless the document already contains that spelling, the environment spelling is used
/// (OPTION_ROLLING_BATCH).
void set_scheduler_key(configs::Document& document, const std::string& key, const configs::Node& value);

/// All spellings, for "nearest known key".
[[nodiscard]] std::vector<std::string_view> scheduler_spellings();

}  // namespace plimsoll::study
