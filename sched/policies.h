// SPDX-License-Identifier: Apache-2.0
// One factory for each family of policies. make_policy (policy.h) chooses among them.
#pragma once

#include <memory>

#include "sched/policy.h"

namespace plimsoll::sched {

/// none, static and dynamic: a batch that runs to its last row.
[[nodiscard]] std::unique_ptr<Policy> make_static_batch(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_rolling(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_orca(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_tgi(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_vllm_v0(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_vllm_v1(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_sarathi(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_trtllm(const PolicyConfig& config);
[[nodiscard]] std::unique_ptr<Policy> make_sglang(const PolicyConfig& config);

}  // namespace plimsoll::sched
