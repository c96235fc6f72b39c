// SPDX-License-Identifier: Apache-2.0
// Every rule considers only healthy replicas. Each compares all of them for every request, as the products do.
#include "sched/router.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <vector>

#include "model/error.h"
#include "sched/router_prefix.h"

namespace plimsoll::sched {

namespace {

using Loads = std::span<const ReplicaLoad>;

std::vector<std::size_t> healthy_of(Loads loads) {
  std::vector<std::size_t> healthy;
  for (std::size_t i = 0; i < loads.size(); ++i)
    if (loads[i].healthy) healthy.push_back(i);
  PLIMSOLL_CHECK(!healthy.empty(), "a request is routed only while a replica is healthy");
  return healthy;
}

/// The prompts that each replica was sent. A tree that has a block has all blocks before it.
class SentPrompts {
 public:
  explicit SentPrompts(std::size_t capacity) : forest_(capacity) {}
  /// Looks a prompt up; the other functions refer to it.
  void find(std::span<const std::uint64_t> blocks, std::size_t replicas) {
    forest_.resize(replicas);
    known_ = forest_.find(blocks);
  }
  /// Returns how many leading blocks of the prompt the replica was sent before.
  [[nodiscard]] std::size_t matched(std::size_t replica) const {
    std::size_t low = 0, high = known_;
    while (low < high) {
      const std::size_t middle = (low + high + 1) / 2;
      forest_.knows(replica, middle) ? low = middle : high = middle - 1;
    }
    return low;
  }
  void sent(std::size_t replica, std::span<const std::uint64_t> blocks, std::size_t own) {
    forest_.insert(replica, blocks, own);
  }

 private:
  PrefixForest forest_;
  std::size_t known_ = 0;
};

/// The endpoint picker of the Gateway API's inference extension, on which llm-d builds: the replica with the highest
/// sum of weighted scores, ties at random.
class Scored final : public Router {
 public:
  Scored(std::uint64_t seed, const RouterOptions& options)
      : engine_(seed), options_(options), sent_(options.known_blocks) {}

  std::size_t route(const RouteQuery& query, Loads loads) override {
    const std::vector<std::size_t> healthy = healthy_of(loads);
    const auto blocks = query.prefix_hashes.first(std::min(query.prefix_hashes.size(), options_.match_blocks));
    const std::size_t own = std::min(own_blocks(query), options_.match_blocks - blocks.size());
    scores_.assign(loads.size(), 0);
    add_prefix(blocks, blocks.size() + own, healthy, loads.size());
    add_loads(healthy, loads);
    double best = -std::numeric_limits<double>::infinity();
    for (const std::size_t i : healthy) best = std::max(best, scores_[i]);
    std::vector<std::size_t> winners;
    for (const std::size_t i : healthy)
      if (scores_[i] == best) winners.push_back(i);
    const std::size_t chosen = winners.size() == 1 ? winners.front() : winners[draw_below(engine_, winners.size())];
    sent_.sent(chosen, blocks, own);
    used_[chosen] = ++uses_;
    return chosen;
  }

 private:
  // Adds the score of the prefix: the fraction of the prompt's blocks that a replica was sent before. If no replica was
  // sent any, the one that has gone longest without a new prompt scores 1, the most recent one 0.
  void add_prefix(std::span<const std::uint64_t> blocks, std::size_t all, std::span<const std::size_t> healthy,
                  std::size_t replicas) {
    used_.resize(replicas, 0);
    sent_.find(blocks, replicas);
    bool hit = false;
    for (const std::size_t i : healthy) {
      const std::size_t matched = blocks.empty() ? 0 : sent_.matched(i);
      hit = hit || matched > 0;
      if (matched > 0) scores_[i] += options_.prefix * static_cast<double>(matched) / static_cast<double>(all);
    }
    if (hit || options_.no_hit_lru == 0) return;
    std::vector<std::size_t> order(healthy.begin(), healthy.end());
    std::stable_sort(order.begin(), order.end(), [this](auto a, auto b) { return used_[a] < used_[b]; });
    const double last = std::max<double>(1, static_cast<double>(order.size()) - 1);
    for (std::size_t rank = 0; rank < order.size(); ++rank)
      scores_[order[rank]] += options_.no_hit_lru * (1 - static_cast<double>(rank) / last);
  }

  void add_loads(std::span<const std::size_t> healthy, Loads loads) {
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max(), longest = 0, most = 0;
    for (const std::size_t i : healthy) {
      shortest = std::min(shortest, loads[i].waiting);
      longest = std::max(longest, loads[i].waiting);
      most = std::max(most, loads[i].outstanding);
    }
    for (const std::size_t i : healthy) {
      const double queue = longest == shortest ? 1
                                               : static_cast<double>(longest - loads[i].waiting) /
                                                     static_cast<double>(longest - shortest);
      const double idle = most == 0 ? 1 : static_cast<double>(most - loads[i].outstanding) / static_cast<double>(most);
      scores_[i] += options_.queue * queue + options_.kv * (1 - loads[i].kv_used) + options_.active * idle;
    }
  }

  std::mt19937_64 engine_;
  const RouterOptions options_;
  SentPrompts sent_;
  std::vector<double> scores_;
  std::vector<std::uint64_t> used_;  // by replica: when it was chosen last
  std::uint64_t uses_ = 0;
};

/// Dynamo's KV router: the cost of a replica is its blocks still to compute before a first token, plus the blocks of
/// the requests in progress. The router counts both itself, so they are never stale.
class Dynamo final : public Router {
 public:
  Dynamo(std::uint64_t seed, const RouterOptions& options)
      : engine_(seed), overlap_(options.overlap), temperature_(options.temperature) {}

  std::size_t route(const RouteQuery& query, Loads loads) override {
    const std::vector<std::size_t> healthy = healthy_of(loads);
    costs_.clear();
    for (const std::size_t i : healthy) {
      const std::int64_t hit = query.cached.empty() ? 0 : query.cached[i];
      const auto prefill = static_cast<double>(loads[i].prefill_tokens + std::max<std::int64_t>(0, query.prompt - hit));
      costs_.push_back(overlap_ * prefill / static_cast<double>(query.block_tokens) +
                       static_cast<double>(loads[i].prompt_blocks));
    }
    return healthy[choose()];
  }

 private:
  // Costs are scaled to [0, 1] before the softmax, so a temperature means the same at every load.
  std::size_t choose() {
    const auto [low, high] = std::minmax_element(costs_.begin(), costs_.end());
    if (temperature_ == 0) return static_cast<std::size_t>(low - costs_.begin());
    if (*low == *high) return draw_below(engine_, costs_.size());
    const double least = *low, scale = 1 / ((*high - least) * temperature_);
    double sum = 0;
    for (double& cost : costs_) sum += cost = std::exp((least - cost) * scale);
    double left = static_cast<double>(engine_() >> 11U) * 0x1p-53 * sum;
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      if (left < costs_[i]) return i;
      left -= costs_[i];
    }
    return costs_.size() - 1;  // by rounding
  }

  std::mt19937_64 engine_;
  double overlap_, temperature_;
  std::vector<double> costs_;
};

/// Chooses the replica with the longest cached prefix of the prompt, if all but `threshold` tokens are cached there.
/// Else it chooses the session's replica by consistent hashing; without a session, the replica with the fewest requests
/// in the last minute.
class KvAware final : public Router {
 public:
  explicit KvAware(const RouterOptions& options) : threshold_(options.threshold) {}

  std::size_t route(const RouteQuery& query, Loads loads) override {
    sent_.resize(loads.size());
    constexpr Nanos kWindow = 60'000'000'000;  // --request-stats-window
    for (auto& sent : sent_)
      while (!sent.empty() && sent.front() <= query.now - kWindow) sent.pop_front();
    const std::size_t chosen = choose(query, loads);
    sent_[chosen].push_back(query.now);
    return chosen;
  }

 private:
  std::size_t choose(const RouteQuery& query, Loads loads) {
    const std::vector<std::size_t> healthy = healthy_of(loads);
    std::size_t best = healthy.front();
    Tok most = 0;
    for (const std::size_t i : healthy)
      if (!query.cached.empty() && query.cached[i] > most) most = query.cached[best = i];
    if (most > 0 && most >= std::max<std::int64_t>(0, query.prompt - threshold_)) return best;
    if (query.session != 0) {
      return *std::max_element(healthy.begin(), healthy.end(), [&](std::size_t a, std::size_t b) {
        return mix(mix(query.session) ^ a) < mix(mix(query.session) ^ b);
      });
    }
    return *std::min_element(healthy.begin(), healthy.end(),
                             [&](std::size_t a, std::size_t b) { return sent_[a].size() < sent_[b].size(); });
  }

  std::int64_t threshold_;
  std::vector<std::deque<Nanos>> sent_;  // by replica: times of the requests of the last minute
};

/// Chooses at random among the replicas that were sent the longest prefix of the prompt. Nothing is forgotten.
class PrefixTrie final : public Router {
 public:
  explicit PrefixTrie(std::uint64_t seed) : engine_(seed), sent_(std::numeric_limits<std::size_t>::max()) {}

  std::size_t route(const RouteQuery& query, Loads loads) override {
    const std::vector<std::size_t> healthy = healthy_of(loads);
    sent_.find(query.prefix_hashes, loads.size());
    std::size_t longest = 0;
    std::vector<std::size_t> matched;
    for (const std::size_t i : healthy) {
      const std::size_t blocks = query.prefix_hashes.empty() ? 0 : sent_.matched(i);
      if (blocks > longest) matched.clear();
      longest = std::max(longest, blocks);
      if (blocks == longest) matched.push_back(i);
    }
    const std::size_t chosen = matched.size() == 1 ? matched.front() : matched[draw_below(engine_, matched.size())];
    sent_.sent(chosen, query.prefix_hashes, 0);
    return chosen;
  }

 private:
  std::mt19937_64 engine_;
  SentPrompts sent_;
};

/// vLLM's balancer of data-parallel engines. Between two reports of the engines a pick counts as a waiting request.
class VllmDp final : public Router {
 public:
  explicit VllmDp(const RouterOptions& options) : clients_(options.clients) {}

  std::size_t route(const RouteQuery&, Loads loads) override {
    constexpr std::int64_t kWaitingWeighs = 4;
    waiting_.resize(loads.size(), 0);
    std::size_t best = loads.size();
    std::int64_t least = 0;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      if (!loads[i].healthy) continue;
      const std::int64_t score = kWaitingWeighs * (loads[i].waiting + waiting_[i]) + loads[i].running;
      if (best < loads.size() && score >= least) continue;
      best = i;
      least = score;
    }
    PLIMSOLL_CHECK(best < loads.size(), "a request is routed only while a replica is healthy");
    waiting_[best] += clients_;
    return best;
  }
  void reported(Loads loads) override { waiting_.assign(loads.size(), 0); }

 private:
  std::int64_t clients_;
  std::vector<std::int64_t> waiting_;  // by replica: picks since the last report
};

}  // namespace

std::unique_ptr<Router> make_scored_router(std::uint64_t seed, const RouterOptions& options) {
  return std::make_unique<Scored>(seed, options);
}
std::unique_ptr<Router> make_dynamo_router(std::uint64_t seed, const RouterOptions& options) {
  return std::make_unique<Dynamo>(seed, options);
}
std::unique_ptr<Router> make_kv_aware_router(const RouterOptions& options) {
  return std::make_unique<KvAware>(options);
}
std::unique_ptr<Router> make_prefix_trie_router(std::uint64_t seed) { return std::make_unique<PrefixTrie>(seed); }
std::unique_ptr<Router> make_vllm_dp_router(const RouterOptions& options) { return std::make_unique<VllmDp>(options); }

}  // namespace plimsoll::sched
