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

/// The routing rules (docs/routers.md). Their rows are in router.cpp, in this order.
enum class RouterKind : std::uint8_t {
  round_robin,
  random,
  least_outstanding,
  power_of_two,
  session,
  prefix,
  least_kv,
  least_tokens,
  scored,
  dynamo,
  kv_aware,
  prefix_trie,
  vllm_dp
};

/// What a routing rule looks at. Code outside sched/router* asks this table and never tests a kind.
struct RouterInfo {
  std::string_view name = {};
  std::string_view description = {};               // for `list routers`
  std::span<const std::string_view> options = {};  // keys that a study may state beside the policy
  bool compares_prefixes = false;                  // prompts must state their blocks
  bool follows_content = false;  // requests with the same content go to one replica, so more replicas may be slower
  bool draws = false;            // uses only random numbers, not the loads
  bool sees_kv = false;          // uses the KV usage that replicas report
  bool sees_queues = false;      // uses the waiting and running requests that replicas report
  bool sees_cache = false;       // knows which blocks each replica holds (KV events)
  bool tracks_prefill = false;   // tracks the prompts that it has sent and that have no first token yet
  bool own_reports = false;      // reads the current state by itself when its information is too old
  Nanos report_every = 0;        // the default interval between reports
};
[[nodiscard]] const RouterInfo& router_info(RouterKind kind);
[[nodiscard]] inline std::string_view name(RouterKind kind) { return router_info(kind).name; }
[[nodiscard]] std::span<const std::string_view> router_names();

/// What a router may know of a replica when it decides.
struct ReplicaLoad {
  bool healthy = true;
  // Counted by the router itself, so never stale:
  std::int64_t outstanding = 0;         // requests
  std::int64_t outstanding_tokens = 0;  // sum of input + cap over them
  // Over requests that the router tracks (RouterInfo::tracks_prefill):
  std::int64_t prefill_tokens = 0;  // uncached prompt tokens of requests without a first token
  std::int64_t prompt_blocks = 0;   // KV blocks of the prompts of all of them
  // Reported by the replica, as of its last report.
  std::int64_t kv_blocks_in_use = 0;
  std::int64_t waiting = 0, running = 0;
  double kv_used = 0;  // fraction of the pool in use
};

struct RouteQuery {
  std::uint64_t session = 0;  // 0: none
  std::int64_t tokens = 0;    // input + cap
  std::span<const std::uint64_t> prefix_hashes = {};
  Nanos now = 0;
  std::int64_t prompt = 0;         // input tokens
  std::int64_t block_tokens = 16;  // of the replicas' KV pools; of one hash if the router sees no caches
  /// Tokens of the prompt in the cache of each replica; empty unless the router sees caches.
  std::span<const Tok> cached = {};
};

/// Chooses a replica for each request. Deterministic: random ones draw from a seeded stream. A router may keep state;
/// it is used by one thread.
class Router {
 public:
  virtual ~Router() = default;
  /// Returns the index of the chosen replica. At least one must be healthy.
  [[nodiscard]] virtual std::size_t route(const RouteQuery& query, std::span<const ReplicaLoad> loads) = 0;
  /// Reports that one of the loads has changed. If the caller reports every change, routers need not scan all replicas
  /// for each request. If it reports none, routers still work, but more slowly.
  virtual void changed(std::size_t /*index*/, std::span<const ReplicaLoad> /*loads*/) {}
  /// Reports that the replicas' own figures are new.
  virtual void reported(std::span<const ReplicaLoad> /*loads*/) {}
};

struct RouterOptions {
  /// session: if a session's replica has more outstanding requests than this, the request goes to the next replica in
  /// the session's ranking. None: no limit.
  std::optional<std::int64_t> session_cap = {};
  /// The interval between the replicas' reports; decisions in between use the last one. None: RouterInfo::report_every;
  /// 0: each decision sees the current state.
  std::optional<Nanos> report_every = {};
  // scored: weights of the scores, each in [0, 1].
  double prefix = 2, queue = 1, kv = 1, active = 0, no_hit_lru = 0;
  std::size_t match_blocks = 256;    // scored: how many leading blocks of a prompt are compared
  std::size_t known_blocks = 31250;  // scored: blocks remembered per replica, dropped in LRU order
  // dynamo
  double overlap = 1, temperature = 0;
  // kv_aware: the cache is followed if at most this many tokens of the prompt are missing in it.
  std::int64_t threshold = 2000;
  // vllm_dp: front ends that share the counts; a pick counts for all of them.
  std::int64_t clients = 1;
  // prefix: the SGLang router's command-line defaults; its tree of 2^24 characters is about 2^18 blocks of 16 tokens.
  double match_threshold = 0.5;  // longest match / prompt above which the match decides
  std::int64_t imbalance_requests = 32;
  double imbalance_ratio = 1.0001;
  std::size_t tree_blocks = std::size_t{1} << 18;  // blocks per replica; the least recently used is forgotten first
};

/// Returns the interval between the replicas' reports; 0: each decision sees the current state.
[[nodiscard]] Nanos reports_every(RouterKind kind, const RouterOptions& options);

/// `seed` feeds the routers that draw: one stream, independent of the workload's.
[[nodiscard]] std::unique_ptr<Router> make_router(RouterKind kind, std::uint64_t seed,
                                                  const RouterOptions& options = {});

// Random draws that are the same on every machine and with every library.

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

// The routers of serving products (router_products.cpp; docs/routers.md has versions and sources). For make_router().

[[nodiscard]] std::unique_ptr<Router> make_scored_router(std::uint64_t seed, const RouterOptions& options);
[[nodiscard]] std::unique_ptr<Router> make_dynamo_router(std::uint64_t seed, const RouterOptions& options);
[[nodiscard]] std::unique_ptr<Router> make_kv_aware_router(const RouterOptions& options);
[[nodiscard]] std::unique_ptr<Router> make_prefix_trie_router(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Router> make_vllm_dp_router(const RouterOptions& options);

}  // namespace plimsoll::sched
