// SPDX-License-Identifier: Apache-2.0
// Compares the generators with their formulas. Seeds are fixed, so no test fails by chance; with random seeds, the
// tolerances would fail once in 10,000.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "load/random.h"
#include "load/workload.h"
#include "model/error.h"

namespace plimsoll::load {
namespace {

constexpr double kFourSigma = 4.0;  // two-sided tail of the normal distribution: 6e-5

WorkloadSpec open_loop(LoadSpec load, std::int64_t requests, std::uint64_t seed = 1) {
  WorkloadSpec spec;
  spec.load = std::move(load);
  spec.requests = requests;
  spec.seed = seed;
  return spec;
}

std::vector<Nanos> all_arrivals(const WorkloadSpec& spec, std::uint64_t replication = 0) {
  Workload workload(spec, replication);
  std::vector<Nanos> out;
  while (const auto time = workload.next_arrival()) out.push_back(*time);
  return out;
}

std::vector<double> lengths_of(const LengthDistribution& distribution, int count) {
  WorkloadSpec spec;
  spec.lengths = IndependentLengths{distribution, FixedLength{1}};
  Workload workload(spec, 0);
  std::vector<double> out;
  for (int i = 0; i < count; ++i) out.push_back(workload.next_body()->input_tokens);
  return out;
}

struct Sample {
  double mean = 0, variance = 0;
};

Sample sample_of(const std::vector<double>& values) {
  Sample s;
  for (const double v : values) s.mean += v / static_cast<double>(values.size());
  for (const double v : values) s.variance += (v - s.mean) * (v - s.mean) / static_cast<double>(values.size() - 1);
  return s;
}

std::vector<double> gaps_s(const std::vector<Nanos>& times) {
  std::vector<double> out;
  for (std::size_t i = 1; i < times.size(); ++i) out.push_back(static_cast<double>(times[i] - times[i - 1]) * 1e-9);
  return out;
}

std::shared_ptr<const traces::Trace> three_rows() {
  traces::Trace trace;
  trace.file = "t";
  trace.hash_block_tokens = 512;
  trace.hashes = {1, 2};
  trace.records = {{0, 10, 1, 5}, {1000, 600, 2, 0}, {4001, 30, 3, 0}};
  trace.hash_ends = {0, 2, 2};
  return std::make_shared<const traces::Trace>(trace);
}

TEST(Random, IsPhiloxAsPublished) {
  // The known-answer vector of the authors' distribution (kat_vectors): philox4x64-10, key and counter 0.
  const RandomStream zero(0, 0, static_cast<Purpose>(0));
  EXPECT_EQ(zero.block(0),
            (RandomBlock{0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b}));
}

TEST(Poisson, CountsPerSecondFollowTheirDistribution) {
  // 20,000 seconds at 4 /s; classes 0 … 10 and "11 or more" give 11 degrees of freedom, whose 99.99 % point is 37.4.
  WorkloadSpec spec = open_loop(Poisson{4}, 0);
  spec.duration = Seconds(20000);
  std::vector<int> counts(20001, 0);
  for (const Nanos t : all_arrivals(spec)) ++counts[static_cast<std::size_t>(t / 1'000'000'000)];
  std::vector<double> seen(12, 0.0);
  for (std::size_t i = 0; i < 20000; ++i) seen[static_cast<std::size_t>(std::min(counts[i], 11))] += 1;
  double chi2 = 0, p = std::exp(-4.0), rest = 1;
  for (std::size_t k = 0; k < 12; ++k) {
    const double expected = 20000 * (k < 11 ? p : rest);
    chi2 += (seen[k] - expected) * (seen[k] - expected) / expected;
    rest -= p;
    p *= 4.0 / static_cast<double>(k + 1);
  }
  EXPECT_LT(chi2, 37.4);
}

TEST(Poisson, GapsAreExponentialAndNotTruncated) {
  // Mean and standard deviation are 1/rate; the standard error of the mean is 1/(rate sqrt(n)). The longest of n gaps
  // is near ln(n)/rate = 12.2/rate, which a truncated generator never reaches.
  const auto gaps = gaps_s(all_arrivals(open_loop(Poisson{100}, 200'001)));
  const Sample s = sample_of(gaps);
  EXPECT_NEAR(s.mean, 0.01, kFourSigma * 0.01 / std::sqrt(200'000.0));
  EXPECT_NEAR(std::sqrt(s.variance) / s.mean, 1.0, 0.02);
  EXPECT_GT(*std::max_element(gaps.begin(), gaps.end()), 0.10);
}

TEST(Gamma, HasTheRateAndTheVariationAskedFor) {
  for (const double cv : {0.25, 0.5, 1.0, 2.0, 5.0}) {
    const Sample s = sample_of(gaps_s(all_arrivals(open_loop(GammaArrivals{10, cv}, 400'001))));
    EXPECT_NEAR(s.mean, 0.1, kFourSigma * cv * 0.1 / std::sqrt(400'000.0)) << cv;
    // Var of the sample variance is (mu4 - sigma^4)/n, and mu4/sigma^4 = 3 + 6 cv^2 for a gamma.
    const double relative = std::sqrt((2.0 + 6.0 * cv * cv) / 400'000.0);
    EXPECT_NEAR(s.variance / (0.01 * cv * cv), 1.0, kFourSigma * relative) << cv;
  }
}

TEST(Gamma, WithHardlyAnyVariationIsRegular) {
  const auto regular = all_arrivals(open_loop(ConstantRate{10}, 100));
  for (const double cv : {0.0, 1e-300, 1e-10})
    EXPECT_EQ(all_arrivals(open_loop(GammaArrivals{10, cv}, 100)), regular) << cv;
}

TEST(Poisson, ARateOfNextToNothingComesTooLateRatherThanNever) {
  const auto times = all_arrivals(open_loop(Poisson{1e-300}, 2));
  ASSERT_EQ(times.size(), 2U);
  EXPECT_GT(times.front(), Nanos{8'000'000'000} * 1'000'000'000);
}

TEST(Constant, DoesNotDrift) {
  // At 3 /s, arrival i is at i/3 s: the 3,000,000th at exactly 1,000,000 s.
  const auto times = all_arrivals(open_loop(ConstantRate{3}, 3'000'000));
  EXPECT_EQ(times.front(), 333'333'333);
  EXPECT_EQ(times.back(), Nanos{1'000'000} * 1'000'000'000);
}

TEST(Burst, SendsAllAtZero) {
  EXPECT_EQ(all_arrivals(open_loop(Burst{4}, 0)), (std::vector<Nanos>{0, 0, 0, 0}));
  EXPECT_EQ(all_arrivals(open_loop(Burst{4}, 2)).size(), 2U);
}

TEST(Replay, ScalesTheRateAndEndsWithTheTrace) {
  EXPECT_EQ(all_arrivals(open_loop(TraceReplay{three_rows(), 1}, 0)), (std::vector<Nanos>{0, 1000, 4001}));
  EXPECT_EQ(all_arrivals(open_loop(TraceReplay{three_rows(), 2}, 0)),
            (std::vector<Nanos>{0, 500, 2001}));  // 2000.5 rounds away from 0
  EXPECT_EQ(all_arrivals(open_loop(TraceReplay{three_rows(), 1}, 2)).size(), 2U);
}

TEST(Replay, TakesTheRowsOwnLengthsInOrder) {
  WorkloadSpec spec = open_loop(TraceReplay{three_rows(), 1}, 0);
  spec.lengths = TracePairs{};
  Workload workload(spec, 0);
  EXPECT_EQ(workload.planned_requests(), 3);
  EXPECT_EQ(workload.next_body()->session, 5U);
  const auto second = workload.next_body();
  EXPECT_EQ(second->input_tokens, 600);
  EXPECT_EQ(second->hash_block_tokens, 512);
  EXPECT_EQ(second->prefix_hashes.size(), 2U);
  EXPECT_EQ(workload.next_body()->output_tokens, 3);
  EXPECT_FALSE(workload.next_body().has_value());
}

// Rows at 0, 1000 and 4001 ns: the second tile begins a mean gap of 2000 ns after the last row, at 6001 ns.
TEST(Replay, OfSeveralTilesGoesOnWithNewSessionsAndPrefixes) {
  WorkloadSpec spec = open_loop(TraceReplay{three_rows(), 1, 2}, 0);
  EXPECT_EQ(all_arrivals(spec), (std::vector<Nanos>{0, 1000, 4001, 6001, 7001, 10002}));
  EXPECT_EQ(all_arrivals(open_loop(TraceReplay{three_rows(), 2, 2}, 0)).at(3), 3001);  // 3000.5 rounds away from 0
  spec.lengths = TracePairs{};
  Workload workload(spec, 0);
  EXPECT_EQ(workload.planned_requests(), 6);
  std::vector<std::uint64_t> sessions, hashes;
  while (const auto body = workload.next_body()) {
    sessions.push_back(body->session);
    hashes.insert(hashes.end(), body->prefix_hashes.begin(), body->prefix_hashes.end());
  }
  ASSERT_EQ(sessions.size(), 6U);
  EXPECT_EQ(sessions[0], 5U);
  EXPECT_NE(sessions[3], sessions[0]);
  EXPECT_NE(sessions[3], 0U);
  ASSERT_EQ(hashes.size() % 2, 0U);
  const auto half = hashes.begin() + static_cast<std::ptrdiff_t>(hashes.size() / 2);
  for (auto hash = half; hash != hashes.end(); ++hash) EXPECT_EQ(std::find(hashes.begin(), half, *hash), half);
}

TEST(Replay, ResamplesThePairsOfAnotherTrace) {
  // Resampled rows are new requests of the same lengths, without session and block ids. The load still ends the run.
  traces::Trace other = *three_rows();
  other.file = "other";
  WorkloadSpec spec = open_loop(TraceReplay{three_rows(), 1}, 0);
  spec.lengths = TracePairs{std::make_shared<const traces::Trace>(other)};
  Workload workload(spec, 0);
  int bodies = 0;
  for (; const auto body = workload.next_body(); ++bodies) {
    EXPECT_EQ(body->session, 0U);
    EXPECT_TRUE(body->prefix_hashes.empty());
  }
  EXPECT_EQ(bodies, 3);
}

TEST(Lengths, TracePairsAreDrawnTogether) {
  // In the trace, the input determines the output, so every drawn pair must be one of its rows. Each is drawn about a
  // third of the time: the standard deviation of a count is sqrt(30000 x 1/3 x 2/3) = 82.
  WorkloadSpec spec;
  spec.lengths = TracePairs{three_rows()};
  Workload workload(spec, 0);
  int counts[3] = {};
  for (int i = 0; i < 30000; ++i) {
    const auto body = workload.next_body();
    ASSERT_EQ(body->input_tokens, body->output_tokens == 1 ? 10 : body->output_tokens == 2 ? 600 : 30);
    ++counts[body->output_tokens - 1];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, kFourSigma * 82);
}

TEST(Lengths, GeometricHasItsExactMeanAndVariance) {
  // Support {1, 2, …}, p = 1/mean, variance (1-p)/p^2; excess kurtosis 6 + p^2/(1-p) gives the error of the variance.
  for (const double mean : {1.0, 1.5, 20.0, 300.0}) {
    const double p = 1 / mean, variance = (1 - p) / (p * p);
    const Sample s = sample_of(lengths_of({LengthFamily::geometric, mean, 1, 1, 0}, 400'000));
    EXPECT_NEAR(s.mean, mean, kFourSigma * std::sqrt(variance / 400'000) + 1e-9) << mean;
    if (mean == 1.0) continue;
    const double relative = std::sqrt((8 + p * p / (1 - p)) / 400'000);
    EXPECT_NEAR(s.variance / variance, 1, kFourSigma * relative) << mean;
  }
}

TEST(Lengths, LognormalIsGivenByItsOwnMeanAndVariation) {
  // Rounding to whole tokens adds a variance of 1/12, negligible against 500^2. With cv 0.5 the excess kurtosis is 5.1.
  const Sample s = sample_of(lengths_of({LengthFamily::lognormal, 1000, 0.5, 1, 0}, 400'000));
  EXPECT_NEAR(s.mean, 1000, kFourSigma * 500 / std::sqrt(400'000.0));
  EXPECT_NEAR(std::sqrt(s.variance), 500, kFourSigma * 500 * std::sqrt(7.1 / 400'000) / 2);
}

TEST(Lengths, UniformReachesBothEndsEvenly) {
  // Four values of 100,000 draws: the standard deviation of a count is sqrt(100000 x 1/4 x 3/4) = 137.
  int counts[4] = {};
  for (const double v : lengths_of({LengthFamily::uniform, 0, 1, 7, 10}, 100'000)) ++counts[static_cast<int>(v) - 7];
  for (const int count : counts) EXPECT_NEAR(count, 25'000, kFourSigma * 137);
}

TEST(Lengths, LimitsClamp) {
  for (const double v : lengths_of({LengthFamily::lognormal, 100, 3, 50, 120}, 1000))
    EXPECT_TRUE(v >= 50 && v <= 120) << v;
}

TEST(Workload, DependsOnSeedAndReplicationOnly) {
  const WorkloadSpec spec = open_loop(Poisson{5}, 50);
  EXPECT_EQ(all_arrivals(spec, 3), all_arrivals(spec, 3));
  EXPECT_NE(all_arrivals(spec, 3), all_arrivals(spec, 4));
  EXPECT_NE(all_arrivals(spec), all_arrivals(open_loop(Poisson{5}, 50, 2)));
}

TEST(Workload, TheNumbersAreThoseOfEveryMachine) {
  // Computed independently of this code: Philox4x64-10 and the formulas of docs/traces.md in 20 lines of Python. If
  // these values change, old results can no longer be reproduced.
  WorkloadSpec spec = open_loop(Poisson{5}, 3);
  EXPECT_EQ(all_arrivals(spec), (std::vector<Nanos>{63399600, 265795722, 300128318}));
  spec.lengths = IndependentLengths{LengthDistribution{LengthFamily::lognormal, 500, 1, 1, 0},
                                    LengthDistribution{LengthFamily::geometric, 200, 1, 1, 0}};
  Workload workload(spec, 0);
  std::vector<int> drawn;
  while (const auto body = workload.next_body()) drawn.insert(drawn.end(), {body->input_tokens, body->output_tokens});
  EXPECT_EQ(drawn, (std::vector<int>{177, 419, 253, 151, 368, 237}));
}

TEST(Workload, RunsThatDifferInLoadShareTheirNumbers) {
  // Twice the rate halves every gap; lengths stay the same.
  const auto slow = all_arrivals(open_loop(Poisson{5}, 100)), fast = all_arrivals(open_loop(Poisson{10}, 100));
  for (std::size_t i = 0; i < slow.size(); ++i)
    EXPECT_NEAR(static_cast<double>(slow[i]), 2.0 * static_cast<double>(fast[i]), 2.0);
  WorkloadSpec open = open_loop(Poisson{5}, 100), closed = open_loop(ClosedLoop{8}, 100);
  open.lengths = closed.lengths =
      IndependentLengths{LengthDistribution{LengthFamily::lognormal, 500, 1, 1, 0}, FixedLength{2}};
  Workload a(open, 0), b(closed, 0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next_body()->input_tokens, b.next_body()->input_tokens);
}

std::vector<int> drifted_outputs(const WorkloadSpec& spec, const OutputDrift& drift) {
  Workload workload(spec, 0, drift);
  std::vector<int> outputs;
  while (const auto body = workload.next_body()) {
    EXPECT_EQ(body->max_new_tokens, body->output_tokens);
    outputs.push_back(body->output_tokens);
  }
  return outputs;
}

// A uniform distribution with a coefficient of variation of 2 % extends 3.46 % to either side: 1024 ± 35.5 tokens.
// Pairs compensate each other, and the last of an odd number keeps its length: the sum is that of equal requests.
TEST(Workload, ADriftSpreadsEqualOutputsAndKeepsTheirSum) {
  WorkloadSpec spec = open_loop(ClosedLoop{8}, 2001);
  spec.lengths = IndependentLengths{FixedLength{100}, FixedLength{1024}};
  const std::vector<int> outputs = drifted_outputs(spec, {.cv = 0.02, .longest = 0});
  double sum = 0, squares = 0;
  for (const int output : outputs) {
    EXPECT_GE(output, shortest_output(1024, 0.02));
    EXPECT_LE(output, 1024 + 36);
    sum += output;
    squares += (output - 1024.0) * (output - 1024.0);
  }
  EXPECT_EQ(sum, 2001.0 * 1024);
  EXPECT_NEAR(std::sqrt(squares / 2001) / 1024, 0.02, 0.0007);  // four standard errors of 1 000 draws
  EXPECT_EQ(outputs, drifted_outputs(spec, {.cv = 0.02, .longest = 0}));
}

// 20 tokens ± 0.69: short answers drift by one token now and then, instead of never.
TEST(Workload, ShortOutputsDriftToo) {
  WorkloadSpec spec = open_loop(ClosedLoop{8}, 400);
  spec.lengths = IndependentLengths{FixedLength{100}, FixedLength{20}};
  const std::vector<int> outputs = drifted_outputs(spec, {.cv = 0.02, .longest = 0});
  EXPECT_GT(std::count_if(outputs.begin(), outputs.end(), [](int output) { return output != 20; }), 50);
  for (const int output : outputs) EXPECT_LE(std::abs(output - 20), 1);
  spec.lengths = IndependentLengths{FixedLength{100}, FixedLength{1}};
  for (const int output : drifted_outputs(spec, {.cv = 0.02, .longest = 0})) EXPECT_EQ(output, 1);
}

// A request that fills the context is not made longer, because a server would refuse it.
TEST(Workload, ADriftMakesNoRequestLongerThanFits) {
  WorkloadSpec spec = open_loop(ClosedLoop{8}, 400);
  spec.lengths = IndependentLengths{FixedLength{3072}, FixedLength{1024}};
  for (const int output : drifted_outputs(spec, {.cv = 0.02, .longest = 4096})) EXPECT_LE(output, 1024);
  spec.lengths = IndependentLengths{FixedLength{5000}, FixedLength{1024}};  // already too long: refused as it is
  for (const int output : drifted_outputs(spec, {.cv = 0.02, .longest = 4096})) EXPECT_LE(output, 1024);
}

TEST(Workload, EndsAfterItsRequestsOrItsDuration) {
  WorkloadSpec spec = open_loop(ConstantRate{2}, 0);
  spec.duration = Seconds(3);
  EXPECT_EQ(all_arrivals(spec).size(), 6U);  // 0.5, 1, … 3 s: an arrival at the end belongs to the run
  Workload closed(open_loop(ClosedLoop{2}, 5), 0);
  EXPECT_EQ(closed.planned_requests(), 5);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(closed.next_body().has_value());
  EXPECT_FALSE(closed.next_body().has_value());
  EXPECT_FALSE(closed.next_arrival().has_value());
}

TEST(Workload, JumpStartSendsThreeIdenticalRequestsAClient) {
  WorkloadSpec spec = open_loop(JumpStart{4}, 1);
  spec.lengths = IndependentLengths{FixedLength{256}, FixedLength{200}};
  Workload workload(spec, 0);
  EXPECT_EQ(workload.planned_requests(), 12);
  int sent = 0;
  for (; const auto body = workload.next_body(); ++sent) EXPECT_EQ(body->input_tokens + body->output_tokens, 456);
  EXPECT_EQ(sent, 12);
}

TEST(Workload, PrefixGroupsShareWholeBlocksOnly) {
  // 50 shared tokens are 3 whole blocks of 16; two requests share all of these blocks or none.
  WorkloadSpec spec;
  spec.lengths = IndependentLengths{FixedLength{100}, FixedLength{1}};
  spec.prefix = {2, 50};
  Workload workload(spec, 0);
  std::vector<std::vector<std::uint64_t>> distinct;
  for (int i = 0; i < 100; ++i) {
    const auto body = workload.next_body();
    EXPECT_EQ(body->hash_block_tokens, 16);
    const std::vector<std::uint64_t> hashes(body->prefix_hashes.begin(), body->prefix_hashes.end());
    EXPECT_EQ(hashes.size(), 3U);
    if (std::find(distinct.begin(), distinct.end(), hashes) == distinct.end()) distinct.push_back(hashes);
  }
  ASSERT_EQ(distinct.size(), 2U);
  for (std::size_t b = 0; b < 3; ++b) EXPECT_NE(distinct[0][b], distinct[1][b]);
}

// A quarter of 4 000 requests is 1 000 with a standard deviation of 27.
TEST(Workload, DrawsPrioritiesByTheirShares) {
  WorkloadSpec spec;
  spec.priorities = {{5, 3}, {-1, 1}};
  Workload workload(spec, 0);
  int urgent = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::int32_t priority = workload.next_body()->priority;
    EXPECT_TRUE(priority == 5 || priority == -1);
    urgent += priority == -1 ? 1 : 0;
  }
  EXPECT_NEAR(urgent, 1000, 5 * 27);
  spec.priorities = {{5, 0}};
  EXPECT_THROW(Workload(spec, 0), InputError);
}

TEST(Workload, ReplaysThePrioritiesOfATraceUnlessItDrawsThem) {
  const auto trace = std::make_shared<traces::Trace>();
  trace->records = {{0, 4, 4, 0}, {1, 4, 4, 0}};
  trace->priorities = {0, 7};
  WorkloadSpec spec;
  spec.load = TraceReplay{trace};
  spec.lengths = TracePairs{trace};
  Workload replayed(spec, 0);
  EXPECT_EQ(replayed.next_body()->priority, 0);
  EXPECT_EQ(replayed.next_body()->priority, 7);
  spec.priorities = {{3, 1}};
  Workload drawn(spec, 0);
  EXPECT_EQ(drawn.next_body()->priority, 3);
}

TEST(Workload, RefusesNumbersThatDescribeNoLoad) {
  for (const LoadSpec& load :
       {LoadSpec{Poisson{0}}, LoadSpec{Poisson{NAN}}, LoadSpec{GammaArrivals{1, -1}}, LoadSpec{Burst{0}},
        LoadSpec{ClosedLoop{0}}, LoadSpec{TraceReplay{}}, LoadSpec{Script{}}, LoadSpec{ConstantRate{INFINITY}}}) {
    EXPECT_THROW(Workload(open_loop(load, 1), 0), InputError) << load_kind(load);
  }
  WorkloadSpec spec;
  spec.lengths = IndependentLengths{FixedLength{0}, FixedLength{1}};
  EXPECT_THROW(Workload(spec, 0), InputError);
  spec.lengths = TracePairs{};
  EXPECT_THROW(Workload(spec, 0), InputError);
}

}  // namespace
}  // namespace plimsoll::load
