// SPDX-License-Identifier: Apache-2.0
#include "model/error.h"
#include "sched/policies.h"

namespace plimsoll::sched {

std::unique_ptr<Policy> make_policy(const PolicyConfig& config) {
  switch (config.policy) {
    case PolicyKind::none:
    case PolicyKind::static_batch:
    case PolicyKind::dynamic: return make_static_batch(config);
    case PolicyKind::rolling: return make_rolling(config);
    case PolicyKind::orca: return make_orca(config);
    case PolicyKind::tgi: return make_tgi(config);
    case PolicyKind::vllm_v0: return make_vllm_v0(config);
    case PolicyKind::vllm_v1: return make_vllm_v1(config);
    case PolicyKind::sarathi: return make_sarathi(config);
    case PolicyKind::trtllm: return make_trtllm(config);
    case PolicyKind::sglang: return make_sglang(config);
  }
  PLIMSOLL_CHECK(false, "every policy kind has a factory");
}

}  // namespace plimsoll::sched
