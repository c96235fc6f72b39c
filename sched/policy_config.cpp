// SPDX-License-Identifier: Apache-2.0
#include "sched/policy_config.h"

#include <algorithm>
#include <array>

namespace plimsoll::sched {

namespace {
// In the order of PolicyKind.
constexpr std::array<std::string_view, 11> kNames = {"none",    "static",  "dynamic", "rolling", "orca",  "tgi",
                                                     "vllm_v0", "vllm_v1", "sarathi", "trtllm",  "sglang"};
}  // namespace

std::string_view name(PolicyKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<PolicyKind> policy_from_name(std::string_view text) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return {};
  return static_cast<PolicyKind>(found - kNames.begin());
}

std::span<const std::string_view> policy_names() { return kNames; }

}  // namespace plimsoll::sched
