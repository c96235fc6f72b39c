// SPDX-License-Identifier: Apache-2.0
// The names under which LMI, TGI, vLLM, TensorRT-LLM and SGLang know our scheduler settings: property, environment and
// command-line spellings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::study {

/// How a product writes a value that we write otherwise.
enum class AliasForm : std::uint8_t {
  same,          // as ours
  milliseconds,  // a bare number of them, or ours
  microseconds,
  gibibytes,
  token_chunk,      // SGLang's chunk size: a budget that also switches chunking on; -1 switches it off
  negated,          // a switch that turns ours off
  lmi_rolling,      // option.rolling_batch: names a policy
  lmi_paged,        // option.paged_attention: false makes rolling batching contiguous
  chunking_policy,  // TensorRT-LLM: a name switches chunking on
  triton_delay,     // microseconds, counted from the oldest arrival
  first_come,       // an order of service: only first come, first served is ours
  null_block,       // a number of blocks that counts an unusable one (vLLM)
  engine_kind,      // DJL's MPI or Python: no effect
  degree            // deployment.tp or pp, stated among the scheduler's settings
};

struct SchedulerAlias {
  std::string_view ours;  // our key; empty for names without one
  AliasForm form = AliasForm::same;
};

/// Our own keys, in the order of docs/study-file.md.
[[nodiscard]] const std::vector<std::string_view>& scheduler_keys();

/// The meaning of a key of `scheduler:`; nullopt for an unknown one. Our own names map to themselves. `sglang` decides
/// --max-total-tokens, which is TGI's limit of one request and SGLang's size of the pool.
[[nodiscard]] std::optional<SchedulerAlias> scheduler_alias(std::string_view name, bool sglang);

/// Every spelling, for "nearest known key".
[[nodiscard]] std::vector<std::string_view> scheduler_spellings();

}  // namespace plimsoll::study
