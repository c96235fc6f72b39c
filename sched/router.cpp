// SPDX-License-Identifier: Apache-2.0
// Every rule considers only healthy replicas, in index order, and breaks ties in favour of the lowest index.
#include "sched/router.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "model/error.h"
#include "sched/router_prefix.h"
#include "sched/tournament.h"

namespace plimsoll::sched {

namespace {

using Loads = std::span<const ReplicaLoad>;
using Keys = std::span<const std::string_view>;

constexpr Nanos kMillisecond = 1'000'000;
constexpr std::array<std::string_view, 1> kSessionKeys{"cap"}, kStaleKeys{"stale"}, kAwareKeys{"threshold"};
constexpr std::array<std::string_view, 2> kDynamoKeys{"overlap", "temperature"}, kDpKeys{"stale", "clients"};
constexpr std::array<std::string_view, 8> kScoredKeys{"prefix",     "queue", "kv",           "active",
                                                      "no_hit_lru", "stale", "match_blocks", "known_blocks"};

// Rows in the order of RouterKind. Sources and defaults: docs/routers.md.
constexpr std::array<RouterInfo, 13> kRouters{{
    {.name = "round_robin", .description = "one replica after the other"},
    {.name = "random", .description = "a random replica", .draws = true},
    {.name = "least_outstanding", .description = "the fewest requests sent and not answered"},
    {.name = "power_of_two", .description = "the less loaded of two random replicas"},
    {.name = "session",
     .description = "a session stays on the replica that its hash chooses",
     .options = Keys(kSessionKeys),
     .follows_content = true},
    {.name = "prefix",
     .description = "SGLang's cache-aware rule: the longest known prefix, unless loads are far apart",
     .compares_prefixes = true,
     .follows_content = true},
    {.name = "least_kv",
     .description = "the least KV blocks in use, as reported",
     .options = Keys(kStaleKeys),
     .sees_kv = true,
     .own_reports = true,
     .report_every = 50 * kMillisecond},
    {.name = "least_tokens", .description = "the fewest tokens of requests sent and not answered"},
    {.name = "scored",
     .description = "llm-d and the Gateway API's endpoint picker: weighted scores of prefix, queue and KV use",
     .options = Keys(kScoredKeys),
     .compares_prefixes = true,
     .follows_content = true,
     .sees_kv = true,
     .sees_queues = true,
     .report_every = 50 * kMillisecond},
    {.name = "dynamo",
     .description = "Dynamo's KV router: prompt tokens still to compute, and blocks of the requests it has sent",
     .options = Keys(kDynamoKeys),
     .compares_prefixes = true,
     .follows_content = true,
     .sees_cache = true,
     .tracks_prefill = true},
    {.name = "kv_aware",
     .description = "vLLM production stack, kvaware: the longest cached prefix if it is nearly the whole prompt, "
                    "else the session's replica",
     .options = Keys(kAwareKeys),
     .compares_prefixes = true,
     .follows_content = true,
     .sees_cache = true},
    {.name = "prefix_trie",
     .description =
         "vLLM production stack, prefixaware: a random one of the replicas that were sent the longest prefix",
     .compares_prefixes = true,
     .follows_content = true},
    {.name = "vllm_dp",
     .description = "vLLM's balancer of data-parallel engines: 4 x waiting + running, as reported",
     .options = Keys(kDpKeys),
     .sees_queues = true,
     .report_every = 100 * kMillisecond},
}};

// Counts the healthy replicas: the slow path, for callers that never report changes.
std::size_t healthy_count(Loads loads) {
  const auto count = std::count_if(loads.begin(), loads.end(), [](const ReplicaLoad& load) { return load.healthy; });
  PLIMSOLL_CHECK(count > 0, "a request is routed only while a replica is healthy");
  return static_cast<std::size_t>(count);
}

/// Returns the index of the n-th healthy replica.
std::size_t nth_healthy(Loads loads, std::size_t n) {
  for (std::size_t index = 0; index < loads.size(); ++index)
    if (loads[index].healthy && n-- == 0) return index;
  PLIMSOLL_CHECK(false, "a request is routed only while a replica is healthy");
}

/// Returns the healthy replica with the smallest key; `key(index)` is compared with <.
template <class Key>
std::size_t least(Loads loads, Key key) {
  std::size_t best = nth_healthy(loads, 0);
  for (std::size_t i = best + 1; i < loads.size(); ++i)
    if (loads[i].healthy && key(i) < key(best)) best = i;
  return best;
}

/// The healthy replicas. After the first reported change, their list is stored instead of searched for.
class Healthy {
 public:
  void changed(std::size_t index, Loads loads) {
    // Loads change with every request, but health seldom: the list is rebuilt only if health changes.
    if (healthy_.size() == loads.size() && healthy_[index] == loads[index].healthy) return;
    healthy_.clear();
    list_.clear();
    for (std::size_t i = 0; i < loads.size(); ++i) {
      healthy_.push_back(loads[i].healthy);
      if (loads[i].healthy) list_.push_back(i);
    }
  }
  [[nodiscard]] std::size_t count(Loads loads) const { return list_.empty() ? healthy_count(loads) : list_.size(); }
  /// Returns the index of the n-th healthy replica.
  [[nodiscard]] std::size_t nth(Loads loads, std::size_t n) const {
    return list_.empty() ? nth_healthy(loads, n) : list_[n];
  }

 private:
  std::vector<bool> healthy_;  // by replica, as told last
  std::vector<std::size_t> list_;
};

class RoundRobin final : public Router {
 public:
  std::size_t route(const RouteQuery&, Loads loads) override {
    return healthy_.nth(loads, static_cast<std::size_t>(turn_++ % healthy_.count(loads)));
  }
  void changed(std::size_t index, Loads loads) override { healthy_.changed(index, loads); }

 private:
  Healthy healthy_;
  std::uint64_t turn_ = 0;  // not reset when replicas start or stop
};

class Random final : public Router {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t route(const RouteQuery&, Loads loads) override {
    return healthy_.nth(loads, draw_below(engine_, healthy_.count(loads)));
  }
  void changed(std::size_t index, Loads loads) override { healthy_.changed(index, loads); }

 private:
  Healthy healthy_;
  std::mt19937_64 engine_;
};

class PowerOfTwo final : public Router {
 public:
  explicit PowerOfTwo(std::uint64_t seed) : engine_(seed) {}
  std::size_t route(const RouteQuery&, Loads loads) override {
    const std::size_t count = healthy_.count(loads);
    if (count == 1) return healthy_.nth(loads, 0);
    // Mitzenmacher: the better of two random replicas is nearly as good as the best of all, without comparing all.
    const std::size_t one = draw_below(engine_, count);
    std::size_t two = draw_below(engine_, count - 1);
    if (two >= one) ++two;  // skip the first choice: distinct, and still uniform
    const std::size_t first = healthy_.nth(loads, one), second = healthy_.nth(loads, two);
    return loads[first].outstanding <= loads[second].outstanding ? first : second;
  }
  void changed(std::size_t index, Loads loads) override { healthy_.changed(index, loads); }

 private:
  Healthy healthy_;
  std::mt19937_64 engine_;
};

/// Routes to the healthy replica whose load has the smallest Key.
template <class Key>
class Least final : public Router {
 public:
  std::size_t route(const RouteQuery&, Loads loads) override {
    // Before the first reported change the order is unknown, so all replicas are compared.
    if (tournament_.empty()) return least(loads, [&](std::size_t i) { return Key{}(loads[i]); });
    PLIMSOLL_CHECK(loads[tournament_.winner()].healthy, "a request is routed only while a replica is healthy");
    return tournament_.winner();
  }

  void changed(std::size_t index, Loads loads) override {
    const auto better = [loads](std::size_t a, std::size_t b) {
      return loads[a].healthy && (!loads[b].healthy || Key{}(loads[a]) < Key{}(loads[b]));
    };
    if (tournament_.empty()) tournament_.start(loads.size(), better);
    tournament_.changed(index, better);
  }

 private:
  Tournament tournament_;
};

struct Requests {
  std::int64_t operator()(const ReplicaLoad& load) const { return load.outstanding; }
};
/// Tokens are counted by the router itself, so they are never stale.
struct Tokens {
  std::pair<std::int64_t, std::int64_t> operator()(const ReplicaLoad& load) const {
    return {load.outstanding_tokens, load.outstanding};
  }
};

/// Rendezvous hashing: each session ranks the replicas, so that adding or removing one moves as few sessions as
/// possible. Requests without a session go to the replica with the fewest outstanding requests.
class Session final : public Router {
 public:
  explicit Session(std::optional<std::int64_t> cap) : cap_(cap) {}
  std::size_t route(const RouteQuery& query, Loads loads) override {
    if (query.session == 0) return least_.route(query, loads);
    std::size_t best = loads.size();
    std::uint64_t best_rank = 0;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      // A session whose replica is overloaded goes to the next one of its ranking, and back when there is room.
      if (!loads[i].healthy || (cap_ && loads[i].outstanding > *cap_)) continue;
      const std::uint64_t rank = mix(mix(query.session) ^ i);
      if (best < loads.size() && rank <= best_rank) continue;
      best = i;
      best_rank = rank;
    }
    return best < loads.size() ? best : least_.route(query, loads);
  }
  void changed(std::size_t index, Loads loads) override { least_.changed(index, loads); }

 private:
  std::optional<std::int64_t> cap_;
  Least<Requests> least_;
};

/// KV usage comes from the replicas' reports, which may be stale. Ties are broken by the router's own count; otherwise
/// a burst between two reports would go to a single replica.
class LeastKv final : public Router {
  [[nodiscard]] auto better(Loads loads) const {
    return [this, loads](std::size_t a, std::size_t b) {
      const auto key = [&](std::size_t i) { return std::pair(reported_[i].kv_blocks_in_use, loads[i].outstanding); };
      return loads[a].healthy && (!loads[b].healthy || key(a) < key(b));
    };
  }

 public:
  explicit LeastKv(Nanos every) : every_(every) {}
  std::size_t route(const RouteQuery& query, Loads loads) override {
    const bool reports = reported_.size() != loads.size() || query.now - reported_at_ >= every_;
    if (reports) {
      reported_.assign(loads.begin(), loads.end());
      reported_at_ = query.now;
    }
    // A report changes all keys at once; between two reports one request changes one key.
    if (reports || !told_) tournament_.start(loads.size(), better(loads));
    return tournament_.winner();
  }

  void changed(std::size_t index, Loads loads) override {
    told_ = true;
    if (!tournament_.empty()) tournament_.changed(index, better(loads));
  }

 private:
  Nanos every_, reported_at_ = 0;
  bool told_ = false;
  std::vector<ReplicaLoad> reported_;
  Tournament tournament_;
};

}  // namespace

const RouterInfo& router_info(RouterKind kind) { return kRouters[static_cast<std::size_t>(kind)]; }

std::span<const std::string_view> router_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kRouters.size()> names;
    std::transform(kRouters.begin(), kRouters.end(), names.begin(), [](const RouterInfo& r) { return r.name; });
    return names;
  }();
  return kNames;
}

Nanos reports_every(RouterKind kind, const RouterOptions& options) {
  return options.report_every.value_or(router_info(kind).report_every);
}

std::unique_ptr<Router> make_router(RouterKind kind, std::uint64_t seed, const RouterOptions& options) {
  switch (kind) {
    case RouterKind::round_robin: return std::make_unique<RoundRobin>();
    case RouterKind::random: return std::make_unique<Random>(seed);
    case RouterKind::least_outstanding: return std::make_unique<Least<Requests>>();
    case RouterKind::power_of_two: return std::make_unique<PowerOfTwo>(seed);
    case RouterKind::session: return std::make_unique<Session>(options.session_cap);
    case RouterKind::prefix: return make_prefix_router(options);
    case RouterKind::least_kv: return std::make_unique<LeastKv>(reports_every(kind, options));
    case RouterKind::least_tokens: return std::make_unique<Least<Tokens>>();
    case RouterKind::scored: return make_scored_router(seed, options);
    case RouterKind::dynamo: return make_dynamo_router(seed, options);
    case RouterKind::kv_aware: return make_kv_aware_router(options);
    case RouterKind::prefix_trie: return make_prefix_trie_router(seed);
    case RouterKind::vllm_dp: return make_vllm_dp_router(options);
  }
  PLIMSOLL_CHECK(false, "every kind of router is listed");
}

}  // namespace plimsoll::sched
