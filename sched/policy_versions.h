// SPDX-License-Identifier: Apache-2.0
// The versions of the products whose schedulers the policies reproduce, and a query over all rows of the table of
// policies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sched/policy_table.h"

namespace plimsoll::sched {

/// Versions of a product: 0.<first> to 0.<last>.
struct VersionRange {
  std::string_view product;
  std::int32_t first = 0, last = 0;
};

/// Returns the versions that settings may state for the policy.
[[nodiscard]] VersionRange versions_of(PolicyKind kind);
/// Returns the names of the policies that satisfy a condition, joined by commas, for messages.
[[nodiscard]] std::string policies_that(bool (*satisfy)(const PolicyInfo&));

}  // namespace plimsoll::sched
