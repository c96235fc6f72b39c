// SPDX-License-Identifier: Apache-2.0
#include "load/pools.h"

namespace plimsoll::load {

// The comparisons are strict, as in Dynamo.
bool is_local(const LocalPrefill& rule, const PrefillChoice& choice) {
  using Policy = LocalPrefill::Policy;
  const std::int64_t missing = choice.prompt - choice.cached;
  const bool isl =
      missing < rule.tokens && static_cast<double>(missing) < rule.ratio * static_cast<double>(choice.prompt);
  const bool load = static_cast<double>(choice.waiting) > rule.queue * static_cast<double>(choice.step_tokens);
  switch (rule.policy) {
    case Policy::never: return false;
    case Policy::isl: return isl;
    case Policy::load: return load;
    case Policy::isl_or_load: return isl || load;
    case Policy::uncached: return missing <= rule.tokens;
  }
  return false;
}

}  // namespace plimsoll::load
