// SPDX-License-Identifier: Apache-2.0
// The routers of serving products (docs/routers.md has versions and sources). Internal to sched/.
#pragma once

#include <cstdint>
#include <memory>

#include "sched/router.h"

namespace plimsoll::sched {

[[nodiscard]] std::unique_ptr<Router> make_scored_router(std::uint64_t seed, const RouterOptions& options);
[[nodiscard]] std::unique_ptr<Router> make_dynamo_router(std::uint64_t seed, const RouterOptions& options);
[[nodiscard]] std::unique_ptr<Router> make_kv_aware_router(const RouterOptions& options);
[[nodiscard]] std::unique_ptr<Router> make_prefix_trie_router(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Router> make_vllm_dp_router(const RouterOptions& options);

}  // namespace plimsoll::sched
