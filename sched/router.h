// SPDX-License-Identifier: Apache-2.0
// Chooses the replica for a request (docs/policies.md): one instantaneous decision per request, from the router's own
// count of outstanding requests (dispatched and not finished, failed or given up: running and queued).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string_view>

#include "sched/types.h"

namespace plimsoll::sched {

/// The routing rules (docs/policies.md). The names are in router.cpp, in this order.
enum class RouterKind : std::uint8_t {
  round_robin,
  random,
  least_outstanding,
  power_of_two,
  session,
  prefix,
  least_kv,
  least_tokens
};
[[nodiscard]] std::string_view name(RouterKind kind);
[[nodiscard]] std::span<const std::string_view> router_names();

/// What a router may know of a replica when it decides.
struct ReplicaLoad {
  bool healthy = true;
  std::int64_t outstanding = 0;         // requests
  std::int64_t outstanding_tokens = 0;  // sum of input + cap over them
  std::int64_t kv_blocks_in_use = 0;
};

struct RouteQuery {
  std::uint64_t session = 0;  // 0: none
  std::int64_t tokens = 0;    // input + cap
  std::span<const std::uint64_t> prefix_hashes = {};
  Nanos now = 0;
};

/// Chooses a replica for each request. Deterministic: random ones draw from a seeded stream. A router may keep state;
/// it is used by one thread.
class Router {
 public:
  virtual ~Router() = default;
  /// Index of the chosen replica; at least one is healthy.
  [[nodiscard]] virtual std::size_t route(const RouteQuery& query, std::span<const ReplicaLoad> loads) = 0;
  /// Reports that one of the loads has changed. If the caller reports every change, routers need not scan all replicas
  /// for each request. If it reports none, routers still work, but more slowly.
  virtual void changed(std::size_t /*index*/, std::span<const ReplicaLoad> /*loads*/) {}
};

struct RouterOptions {
  /// session: if its replica has more requests outstanding, a request goes to the next of its ranking; none: never.
  std::optional<std::int64_t> session_cap;
  /// least_kv: replicas report their KV use this often (BLIS: 50 ms); decisions in between use the old figures.
  Nanos report_every = 50'000'000;
  // prefix: the SGLang router's command-line defaults; its tree of 2^24 characters is about 2^18 blocks of 16 tokens.
  double match_threshold = 0.5;  // longest match / prompt above which the match decides
  std::int64_t imbalance_requests = 32;
  double imbalance_ratio = 1.0001;
  std::size_t tree_blocks = std::size_t{1} << 18;  // per replica; the least recently used block is forgotten first
};

/// `seed` feeds the routers that draw (random, power_of_two): one stream, independent of the workload's.
[[nodiscard]] std::unique_ptr<Router> make_router(RouterKind kind, std::uint64_t seed,
                                                  const RouterOptions& options = {});

// These draws are the same on every machine and with every library.

/// Maps 64 bits to 64 bits one-to-one (the finaliser of SplitMix64, Steele, Lea and Flood 2014): neighbouring numbers
/// give unrelated results.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Uniform in [0, n), n < 2^32. The error of a probability is at most 2^-32, far below what any run could detect.
[[nodiscard]] inline std::size_t draw_below(std::mt19937_64& engine, std::size_t n) {
  return static_cast<std::size_t>(((engine() >> 32) * n) >> 32);
}

}  // namespace plimsoll::sched
