// SPDX-License-Identifier: Apache-2.0
// What leaves the prefill replicas of random deployments with pools is what arrives: every transfer ends once, its
// bytes are those of the tokens that were missing, and no block stays taken.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "load/run_loop.h"
#include "load/transfer_links.h"
#include "sim/sim_run.h"
#include "tests/sim/random_pools.h"

namespace plimsoll::sim {
namespace {

using testing::random_pools;
using testing::random_routed;

/// Counts what crosses the links of a run.
struct Account {
  struct Request {
    std::int64_t arrived = 0, aborted = 0;
    sched::Tok tokens = 0;  // that arrived
  };
  std::map<std::uint64_t, Request> requests;  // by serial
  double bytes = 0;                           // of transfers that arrived
  double aborted_bytes = 0;                   // handed to transfers that were given up
  std::int64_t opened = 0, ended = 0;
};

class AuditedLinks final : public load::KvTransport {
 public:
  AuditedLinks(const Rates& rates, std::size_t sources, std::size_t targets, Account& account, double& sent)
      : KvTransport(rates), links_(rates, sources, targets), account_(account), sent_(sent) {}
  ~AuditedLinks() override {
    sent_ = links_.bytes_sent();
    EXPECT_EQ(links_.open_transfers(), 0);
  }
  AuditedLinks(const AuditedLinks&) = delete;
  AuditedLinks& operator=(const AuditedLinks&) = delete;

  [[nodiscard]] Id open(std::size_t source, std::size_t target) override {
    const Id id = links_.open(source, target);
    EXPECT_FALSE(flows_.contains(id)) << "the id of a transfer that has not ended";
    flows_[id] = {};
    ++account_.opened;
    return id;
  }
  void add(Id id, const Part& part, double now_s) override {
    Flow& flow = flows_.at(id);
    EXPECT_FALSE(flow.finished);
    EXPECT_LT(part.cargo.first, part.cargo.last);
    if (flow.last >= 0) {
      EXPECT_EQ(part.cargo.first, flow.last) << "parts follow each other";
      EXPECT_EQ(part.cargo.serial, flow.serial);
    }
    flow.serial = part.cargo.serial;
    flow.last = part.cargo.last;
    flow.tokens += part.cargo.last - part.cargo.first;
    flow.bytes += part.bytes;
    links_.add(id, part, now_s);
  }
  void finish(Id id, double now_s) override {
    flows_.at(id).finished = true;
    links_.finish(id, now_s);
  }
  void abort(Id id, double now_s) override {
    const Flow& flow = flows_.at(id);
    ++account_.ended;
    if (flow.last >= 0) ++account_.requests[flow.serial].aborted;
    account_.aborted_bytes += flow.bytes;
    flows_.erase(id);
    links_.abort(id, now_s);
  }
  [[nodiscard]] Nanos next_event() const override { return links_.next_event(); }
  [[nodiscard]] std::optional<Id> take(Nanos now) override {
    const std::optional<Id> id = links_.take(now);
    if (!id) return id;
    const Flow& flow = flows_.at(*id);
    EXPECT_TRUE(flow.finished);
    ++account_.ended;
    Account::Request& request = account_.requests[flow.serial];
    ++request.arrived;
    request.tokens += flow.tokens;
    account_.bytes += flow.bytes;
    flows_.erase(*id);
    return id;
  }

 private:
  struct Flow {
    std::uint64_t serial = 0;
    sched::Tok last = -1, tokens = 0;
    double bytes = 0;
    bool finished = false;
  };
  load::TransferLinks links_;
  Account& account_;
  double& sent_;
  std::map<Id, Flow> flows_;
};

class AuditedRun final : public SimRun {
 public:
  AuditedRun(const load::Scenario& scenario, const RunOptions& options, Account& account, double& sent)
      : SimRun(scenario, options), account_(account), sent_(sent) {}
  [[nodiscard]] std::unique_ptr<load::KvTransport> transport(const load::KvTransport::Rates& rates, std::size_t sources,
                                                             std::size_t targets) override {
    return std::make_unique<AuditedLinks>(rates, sources, targets, account_, sent_);
  }
  /// Call when the last request has ended. Checks that neither side still holds anything.
  void expect_empty() {
    for (sched::Replica* const replica : replicas()) {
      EXPECT_EQ(replica->kv().in_use(), 0);
      EXPECT_EQ(replica->staged(), 0);
      EXPECT_EQ(replica->requests().size(), 0);
    }
  }

 private:
  Account& account_;
  double& sent_;
};

// The bytes of a pull with overlap are only those that the prefill does not hide, so these are not counted.
bool sends_all(const load::Scenario& s) {
  return s.pools->transfer.overlap == load::TransferOverlap::none || s.pools->transfer.mode == load::TransferMode::push;
}

void audit(const load::Scenario& s, bool fails) {
  RunOptions options;
  options.keep_requests = true;
  Account account;
  double sent = 0;
  sched::MetricsCollector metrics(s.slo, s.warmup, false);
  sched::RunResult result;
  {
    AuditedRun run(s, options, account, sent);
    load::RunLoop loop({.scenario = s, .index = 0, .options = options, .out = metrics}, run);
    ASSERT_TRUE(loop.run());
    loop.take(result);
    if (!fails) run.expect_empty();
  }
  EXPECT_EQ(account.opened, account.ended);
  std::int64_t moved = 0;
  for (const sched::RequestRow& row : result.requests) {
    // A retry is another attempt, whose serial is not the request's id.
    if (row.outcome != sched::Outcome::completed || !row.stages || s.limits.retries > 0) continue;
    const auto found = account.requests.find(row.id);
    const Account::Request request = found == account.requests.end() ? Account::Request{} : found->second;
    if (row.stages->local()) {
      EXPECT_EQ(request.arrived + request.aborted, 0) << "a local prompt is not sent";
      continue;
    }
    // KV that was lost, or not read in time, is computed again: nothing arrives then.
    EXPECT_LE(request.arrived, 1);
    if (!fails && s.pools->transfer.hold > 0) {
      EXPECT_EQ(request.arrived, 1) << "request " << row.id;
    }
    if (request.arrived == 1) {
      EXPECT_EQ(request.tokens, row.stages->transferred);
    }
    ++moved;
  }
  if (!sends_all(s)) return;
  // Conservation: the links carried what arrived, and part of what was given up.
  const double rounding = 1e-6 * (1 + account.bytes + account.aborted_bytes);
  EXPECT_GE(sent, account.bytes - rounding);
  EXPECT_LE(sent, account.bytes + account.aborted_bytes + rounding);
  double tokens = 0;
  for (const auto& [serial, request] : account.requests) tokens += request.tokens;
  EXPECT_NEAR(account.bytes, tokens * s.pools->transfer.bytes_per_token, rounding);
}

// PLIMSOLL_POOL_SEEDS draws more.
TEST(PoolAuditTest, WhatLeavesArrivesAndNothingStaysTaken) {
  const char* const stated = std::getenv("PLIMSOLL_POOL_SEEDS");
  const std::uint64_t count = stated != nullptr ? std::stoull(stated) : 250;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    load::Scenario s = seed % 2 == 0 ? random_pools(20'000 + seed) : random_routed(30'000 + seed);
    const bool fails = seed % 5 == 0;
    if (fails) testing::add_failures(s);
    audit(s, fails);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plimsoll::sim
