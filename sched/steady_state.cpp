// SPDX-License-Identifier: Apache-2.0
#include "sched/steady_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace plimsoll::sched {

namespace {

constexpr std::size_t kInstants = 96;  // instants at which the backlog is sampled
constexpr std::size_t kFrom = kInstants / 3,
                      kMiddle = 2 * kInstants / 3;  // the window is the last two thirds of the load
constexpr double kWindow = static_cast<double>(kInstants - kFrom) / static_cast<double>(kInstants);  // its share
constexpr std::int64_t kMinCount = 100;  // fewer requests prove nothing
constexpr double kServiceTimes = 5;      // a backlog is called growing only if the load lasts this many
                                         // service times
constexpr double kSigmas = 3, kLengthSigmas = 2;
constexpr double kRecoveries = 20;     // from episodes of time-outs
constexpr double kSmallGrowth = 0.01;  // share of the offered requests; less growth does not matter
// The time average of (B - mean B)^2 of a Brownian path B on [0, 1] has the distribution of the Cramer-von Mises
// statistic. One in a thousand of its values is below this (Anderson and Darling 1952).
constexpr double kCalmPath = 0.0171;

double quotient(double amount, double whole) { return whole > 0 ? amount / whole : 0; }

/// The backlog of one run, in requests: each counts 1 until its first token, then the share of its tokens to come.
struct Path {
  std::array<double, kInstants + 1> backlog{};
  std::array<double, kInstants + 1> sent{};  // completed requests that had been sent by then

  [[nodiscard]] double growth(std::size_t from, std::size_t to) const { return backlog[to] - backlog[from]; }
  [[nodiscard]] double offered(std::size_t from, std::size_t to) const { return sent[to] - sent[from]; }
};

// Builds the backlog over time as a sum of straight line segments. Each segment adds to the differences between
// neighbouring instants.
class PathBuilder {
 public:
  PathBuilder(double start, double length) : start_(start), step_(length / static_cast<double>(kInstants)) {}

  void add(const Served& request, double each) {
    const double sent = request.end - request.latency - start_, first = sent + request.ttft, end = request.end - start_;
    // A request weighs 1 until its first token, then the share of tokens to come, a straight line to 0 at its end.
    // Adding and removing the line at its ends costs the same for every request, however long it stays.
    const std::size_t from = at_or_after(sent), flat_end = at_or_after(first), until = at_or_after(end);
    sent_[from] += each;
    constant_[from] += each;
    constant_[flat_end] -= each;
    if (!(end > first)) return;
    const double slope = each / (end - first);
    constant_[flat_end] += end * slope;
    constant_[until] -= end * slope;
    slope_[flat_end] += slope;
    slope_[until] -= slope;
  }

  [[nodiscard]] Path path() const {
    Path out;
    double constant = 0, slope = 0, sent = 0;
    for (std::size_t k = 0; k <= kInstants; ++k) {
      constant += constant_[k];
      slope += slope_[k];
      sent += sent_[k];
      out.backlog[k] = std::max(0.0, constant - slope * step_ * static_cast<double>(k));
      out.sent[k] = sent;
    }
    return out;
  }

 private:
  // Returns the first instant at or after a time; kInstants + 1: none.
  [[nodiscard]] std::size_t at_or_after(double time) const {
    const double k = std::ceil(time / step_);
    return static_cast<std::size_t>(std::clamp(k, 0.0, static_cast<double>(kInstants + 1)));
  }
  double start_, step_;
  std::array<double, kInstants + 2> constant_{}, slope_{}, sent_{};
};

// Uses the window only: during the first third of the load the deployment still fills up.
double variance_of_window(const Path& path) {
  double sum = 0, squares = 0;
  constexpr double kCount = kInstants - kFrom + 1;
  for (std::size_t k = kFrom; k <= kInstants; ++k) {
    sum += path.backlog[k];
    squares += path.backlog[k] * path.backlog[k];
  }
  return std::max(0.0, squares / kCount - sum / kCount * (sum / kCount));
}

/// Sums over all runs.
struct Evidence {
  double runs = 0, requests = 0, latency_s = 0, length_s = 0, shed = 0, unfit = 0;
  double output = 0, output_squares = 0;
  double offered = 0, growth = 0, growth_before = 0, growth_last = 0;  // in the window, and in its two halves
  double last_offered = 0, last_served_s = 0;
  // Requests not yet served when the last one is sent, and the time until half of them are served.
  double left = 0, half_drained_s = 0;
  double variance = 0, backlog_end = 0, meant = 0;  // meant: what the window should have been offered
  double rate = 0, gap_scv = 0, settles_s = 0, clients = 0, rounds = kRoundsNeeded, warmup_s = 0;
  bool open = false, closed = false, replay = false;

  [[nodiscard]] static double served(const JudgedRun& run) { return run.each * static_cast<double>(run.served.size()); }

  void add(const JudgedRun& run) {
    const double length = run.load.last_sent_s - run.start_s;
    runs += 1;
    open = open || run.load.kind == OfferedLoad::Kind::open;
    closed = closed || run.load.kind == OfferedLoad::Kind::closed;
    replay = replay || !(run.load.rate > 0);
    requests += served(run) + static_cast<double>(run.shed);
    shed += static_cast<double>(run.shed);
    unfit += static_cast<double>(run.unfit);
    length_s += std::max(0.0, length);
    clients = static_cast<double>(run.load.clients);
    rounds = run.load.rounds;
    settles_s = run.load.settles_s;
    gap_scv = std::max(gap_scv, run.load.gap_scv);
    warmup_s = run.start_s;
    for (const Served& request : run.served) {
      latency_s += run.each * request.latency;
      output += run.each * request.output;
      output_squares += run.each * request.output * request.output;
    }
    // A closed loop cannot have more waiting requests than clients, so its backlog proves nothing.
    if (run.load.kind == OfferedLoad::Kind::open && length > 0) {
      add_path(run, length);
      add_drain(run);
    }
  }

  // How long half of what is left at the last arrival takes to finish. The median is not affected by one request with a
  // very long output.
  void add_drain(const JudgedRun& run) {
    std::vector<double> ends;
    for (const Served& request : run.served) {
      if (request.end > run.load.last_sent_s) ends.push_back(request.end);
    }
    if (ends.empty()) return;
    left += run.each * static_cast<double>(ends.size());
    const auto half = ends.begin() + static_cast<std::ptrdiff_t>(ends.size() / 2);
    std::nth_element(ends.begin(), half, ends.end());
    half_drained_s += *half - run.load.last_sent_s;
  }

  void add_path(const JudgedRun& run, double length) {
    PathBuilder builder(run.start_s, length);
    for (const Served& request : run.served) builder.add(request, run.each);
    const Path path = builder.path();
    offered += path.offered(kFrom, kInstants);
    growth += path.growth(kFrom, kInstants);
    growth_before += path.growth(kFrom, kMiddle);
    growth_last += path.growth(kMiddle, kInstants);
    last_offered += path.offered(kMiddle, kInstants);
    variance += variance_of_window(path);
    backlog_end += path.backlog[kInstants];
    // Requests that are too long for the deployment are not part of its load.
    const auto all = served(run) + static_cast<double>(run.shed);
    const double fit = quotient(all, all + static_cast<double>(run.unfit));
    const double mean = run.load.rate > 0 ? run.load.rate * fit : all / length;
    constexpr double kLast = static_cast<double>(kInstants - kMiddle) / static_cast<double>(kInstants);
    meant += mean * length * kWindow;
    last_served_s += mean * length * kLast;
    rate += mean;
  }

  [[nodiscard]] double latency() const { return quotient(latency_s, requests - shed); }
  [[nodiscard]] double length() const { return quotient(length_s, runs); }
  [[nodiscard]] double output_mean() const { return quotient(output, requests - shed); }
  [[nodiscard]] double output_scv() const {
    const double n = requests - shed, mean = quotient(output, n);
    return mean > 0 ? std::max(0.0, output_squares / n / (mean * mean) - 1) : 0;
  }
};

/// How close the waits of a load come to its clients' time-out. Work on attempts that time out is wasted, and retries
/// add to the load. If enough attempts time out, even a deployment below its capacity collapses and does not recover.
class Patience {
 public:
  Patience(std::span<const JudgedRun> runs, double output_mean) : output_mean_(output_mean) {
    for (const JudgedRun& run : runs) {
      if (!(run.load.timeout_s > 0)) continue;
      timeout_s_ = run.load.timeout_s;
      tries_again_ = run.load.tries_again;
      each_ = run.each;
      add(run);
    }
  }

  [[nodiscard]] double timeout_s() const { return timeout_s_; }
  [[nodiscard]] bool tries_again() const { return tries_again_; }
  /// Returns the number of episodes of late service (first tokens after the time-out) that ended within the run.
  [[nodiscard]] double recoveries() const { return recoveries_; }

  /// The longest latency of a request of mean length, its earlier attempts included, in a run that is kSpeaksFor times
  /// as long. The waits of a queue below its capacity have an exponential tail.
  [[nodiscard]] double longest_to_come() {
    if (latencies_.empty()) return 0;
    const auto at = [this](double q) {
      const auto place = static_cast<std::ptrdiff_t>(q * static_cast<double>(latencies_.size() - 1));
      std::nth_element(latencies_.begin(), latencies_.begin() + place, latencies_.end());
      return latencies_[static_cast<std::size_t>(place)];
    };
    const double high = at(0.99), scale = (high - at(0.9)) / std::log(10.0);
    const double beyond = kSpeaksFor * 0.01 * each_ * static_cast<double>(latencies_.size());
    return std::max(at(1), high + scale * std::log(std::max(1.0, beyond)));
  }

 private:
  void add(const JudgedRun& run) {
    std::array<bool, kInstants + 1> late{};
    const double length = run.load.last_sent_s - run.start_s;
    for (const Served& request : run.served) {
      // After a time-out the first token comes later than the time-out. If it came sooner but the request took longer,
      // an attempt was lost with its replica: such a latency does not measure waits.
      const bool is_late = request.ttft > timeout_s_;
      if (!is_late && request.latency > timeout_s_) continue;
      latencies_.push_back(of_mean_length(request));
      if (!is_late || !(length > 0)) continue;
      const double sent = (request.end - request.latency - run.start_s) / length;
      late.at(static_cast<std::size_t>(std::clamp(sent, 0.0, 1.0) * static_cast<double>(kInstants))) = true;
    }
    for (std::size_t k = 1; k < late.size(); ++k) recoveries_ += late.at(k - 1) && !late.at(k) ? 1 : 0;
  }

  // Scales the decode time to the mean length, because long answers take long under any load. Lengths below a quarter
  // of the mean count as that quarter, because a single step may be untypical.
  [[nodiscard]] double of_mean_length(const Served& request) const {
    const double others = std::max(request.output, static_cast<std::int32_t>(output_mean_ / 4)) - 1.0;
    const double decoding = request.latency - request.ttft;
    return request.ttft + (others >= 1 ? decoding * std::max(1.0, output_mean_ - 1) / others : decoding);
  }

  double output_mean_ = 0, timeout_s_ = 0, recoveries_ = 0;
  double each_ = 1;  // number of requests that a kept one represents
  bool tries_again_ = false;
  std::vector<double> latencies_;
};

std::string text(const char* format, double a, double b = 0, double c = 0) {
  std::array<char, 240> buffer{};
  // NOLINTNEXTLINE: the formats are those below
  std::snprintf(buffer.data(), buffer.size(), format, a, b, c);
  return buffer.data();
}

/// Rounds up to two significant digits.
std::int64_t rounded_up(double requests) {
  constexpr double kMaxCount = 1e12;
  const double bounded = std::clamp(requests, 1.0, kMaxCount);
  const double unit = std::pow(10, std::max(0.0, std::floor(std::log10(bounded)) - 1));
  return static_cast<std::int64_t>(std::ceil(bounded / unit) * unit);
}

class Judgement {
 public:
  Judgement(const Evidence& evidence, Patience& patience, double queue_mean_s)
      : e_(evidence), patience_(patience), service_s_(std::max(0.0, e_.latency() - queue_mean_s)) {}

  [[nodiscard]] SteadyState closed_loop() const {
    if (sheds_surely()) return sheds();
    const double rounds = quotient(e_.requests, e_.runs * e_.clients);
    const double rate = quotient(e_.requests, e_.length_s);
    // All clients send at the start; only after some rounds have their requests spread over time.
    if (rounds < e_.rounds) {
      return too_short(text("%.2g requests per client; a steady state needs %g", rounds, e_.rounds),
                       e_.rounds * e_.clients + rate * e_.warmup_s);
    }
    if (e_.length() < 3 * e_.settles_s) return fleet_is_slow(rate);
    if (sheds_much()) return may_shed_much();
    return may_collapse() ? near_timeout() : SteadyState{};
  }

  [[nodiscard]] SteadyState open_loop() const {
    const double rate = quotient(e_.requests, e_.length_s);
    if (sheds_surely()) return sheds();
    if (e_.requests < static_cast<double>(kMinCount) * e_.runs) return few_requests(rate);
    if (e_.length() < 3 * e_.settles_s) return fleet_is_slow(rate);
    // The order matters: a run that proves overload is called unstable even if it is short. A run that shows neither
    // overload nor a steady state is called too short.
    if (is_overloaded()) return overloaded();
    if (grows()) return still_fills(rate);
    const double lives = quotient(e_.length(), e_.latency());
    if (e_.latency() > 0 && lives < kLivesNeeded) return short_time(rate);
    if (sheds_much()) return may_shed_much();
    if (patience_.timeout_s() > 0 ? !waits_stay_short() : !shows_its_rate() && !is_at_rest()) return too_few(rate);
    return may_collapse() ? near_timeout() : SteadyState{};
  }

 private:
  // Requests that are lost while replicas fail or start are lost in episodes, not independently.
  [[nodiscard]] double shed_margin() const {
    const double episodes = e_.settles_s > 0 ? std::min(e_.shed, quotient(e_.length_s, e_.settles_s)) : e_.shed;
    return e_.shed > 0 ? kLengthSigmas / std::sqrt(std::max(1.0, episodes)) : 0;
  }
  [[nodiscard]] bool sheds_much() const { return e_.shed * (1 + shed_margin()) > (1 - kShareServed) * e_.requests; }
  // Losses occur in episodes, whose number is a Poisson variable. Two standard deviations above the limit are clear
  // evidence.
  [[nodiscard]] bool sheds_surely() const { return e_.shed * (1 - shed_margin()) > (1 - kShareServed) * e_.requests; }

  // Standard deviation of the work of n requests, in requests: chance in their arrivals and in their output lengths.
  [[nodiscard]] double wander(double n) const { return std::sqrt((e_.gap_scv + e_.output_scv()) * n); }

  [[nodiscard]] bool grows() const {
    // Growth below one per cent of the load plus two requests per run is ignored, however small the random fluctuation
    // is.
    const double least = kSmallGrowth * e_.offered + 2 * e_.runs;
    return e_.growth > std::max(least, kSigmas * wander(e_.offered));
  }

  // Once arrivals stop, a deployment that can serve the offered rate needs a known time to serve half of what is left:
  // the time in which as many requests arrive, plus the time for those in service to end. A deployment that takes far
  // longer is overloaded, however short the load was.
  [[nodiscard]] bool drains_too_slowly() const {
    constexpr double kSlower = 1.5, kServices = 3;
    if (e_.left < static_cast<double>(kMinCount) * e_.runs || e_.left < (1 - kShareServed) * e_.requests) return false;
    const double arriving_s = quotient(e_.left / 2, e_.rate);
    return quotient(e_.half_drained_s, e_.runs) > kSlower * arriving_s + kServices * (1 + e_.output_scv()) * service_s_;
  }

  // A backlog that will settle grows ever more slowly; beyond capacity it keeps growing as fast as before.
  [[nodiscard]] bool is_overloaded() const {
    if (drains_too_slowly()) return true;
    if (e_.replay) return replay_is_overloaded();
    if (!grows() || e_.length() < kServiceTimes * service_s_) return false;
    // Compares the growth in the two halves of the window. Each has the standard deviation of half a window, and their
    // difference has sqrt(2) times that.
    constexpr double kAsFast = 0.7;
    const double chance = 2 * std::sqrt(2.0) * wander(e_.offered / 2);
    return e_.growth_last > 0 && e_.growth_last >= kAsFast * e_.growth_before - std::min(chance, e_.growth_before / 2);
  }

  // A replay's rate may vary in any way. So the tests are the backlog left at its end, beyond the requests in service,
  // and whether the deployment ever served the mean rate.
  [[nodiscard]] bool replay_is_overloaded() const {
    const double sent = e_.requests, left = e_.backlog_end - service_s_ * e_.rate;
    if (e_.length() < kServiceTimes * service_s_ || shows_its_rate()) return false;
    return left > (1 - kShareServed) * sent && left > kSigmas * std::sqrt(std::max(1.0, e_.gap_scv) * sent);
  }

  // Returns whether the deployment served the load's nominal rate in the window, whenever the requests arrived.
  [[nodiscard]] bool shows_its_rate() const {
    if (e_.replay && e_.backlog_end <= (1 - kShareServed) * e_.requests) return true;
    if (e_.replay && e_.last_offered - e_.growth_last >= kShareServed * e_.last_served_s &&
        e_.length() >= kLivesNeeded * e_.latency())
      return true;
    // The outputs of this run may have been short by chance; what that can explain does not count as served.
    const double by_chance = kLengthSigmas * std::sqrt(e_.output_scv() * e_.offered);
    return e_.offered - e_.growth - by_chance >= kShareServed * e_.meant;
  }

  // Returns whether the backlog varies less than the random walk that it would be at or beyond capacity.
  [[nodiscard]] bool is_calm() const {
    return quotient(e_.variance, e_.runs) < calm_path() * chance_scv() * quotient(e_.offered, e_.runs) - 0.5;
  }

  // If clients give up, a wrong verdict is costly: at half the threshold, its probability is one in a million.
  [[nodiscard]] double calm_path() const { return patience_.timeout_s() > 0 ? kCalmPath / 2 : kCalmPath; }

  // A lower bound of the squared coefficient of variation that one request adds to the random walk.
  [[nodiscard]] double chance_scv() const { return e_.gap_scv > 0 ? e_.gap_scv : e_.output_scv(); }

  [[nodiscard]] bool is_at_rest() const { return !e_.replay && is_calm(); }

  // If clients give up, even a load slightly beyond capacity fails: once the backlog reaches their time-out, every
  // answer is too late.
  [[nodiscard]] bool waits_stay_short() const {
    if (is_at_rest()) return true;
    if (!shows_its_rate()) return false;
    const double grown = e_.replay ? e_.backlog_end - service_s_ * e_.rate
                                   : (std::max(0.0, e_.growth) + kLengthSigmas * wander(e_.offered)) / kWindow;
    return e_.latency() + kSpeaksFor * std::max(0.0, quotient(grown, e_.rate)) < patience_.timeout_s();
  }

  // Returns whether time-outs with retries may lead to a collapse; not if the run has recovered often enough.
  [[nodiscard]] bool may_collapse() const {
    if (!patience_.tries_again() || !(patience_.timeout_s() > 0)) return false;
    return patience_.recoveries() < kRecoveries && patience_.longest_to_come() >= patience_.timeout_s();
  }

  [[nodiscard]] double now() const { return quotient(e_.requests + e_.unfit, e_.runs); }

  [[nodiscard]] SteadyState too_short(std::string why, double needed) const {
    constexpr double kLonger = 1.5;
    return {.verdict = Steadiness::too_short,
            .grows = false,
            .reason = std::move(why),
            .requests_needed = rounded_up(std::max(needed, kLonger * now()))};
  }
  [[nodiscard]] SteadyState few_requests(double rate) const {
    return too_short(text("only %.0f requests", now()),
                     std::max(static_cast<double>(kMinCount), needed_in_time(rate)) * 2);
  }
  [[nodiscard]] SteadyState fleet_is_slow(double rate) const {
    return too_short(text("the load lasts %.3g s; a fleet that scales or fails needs %.3g s to show its steady state",
                          e_.length(), 3 * e_.settles_s),
                     3.3 * e_.settles_s * rate);
  }
  [[nodiscard]] SteadyState short_time(double rate) const {
    return too_short(text("the load lasts %.3g s, %.2g times the mean latency; a steady state needs %g", e_.length(),
                          quotient(e_.length(), e_.latency()), kLivesNeeded),
                     needed_in_time(rate));
  }
  [[nodiscard]] SteadyState still_fills(double rate) const {
    if (e_.length() < kLivesNeeded * e_.latency()) return short_time(rate);
    constexpr double kAgain = 2.5;
    return too_short(text("the backlog still grows, by %.2g %% of the offered load, but ever more slowly",
                          100 * quotient(e_.growth, e_.offered)),
                     std::max(kAgain * now(), needed_in_time(rate)));
  }
  // The margin allows for the longer waits that longer runs see.
  [[nodiscard]] double needed_in_time(double rate) const {
    constexpr double kMargin = 1.2;
    return kMargin * kLivesNeeded * e_.latency() * rate + rate * e_.warmup_s;
  }

  // Asks for the cheaper of two proofs: serving the nominal rate, or a calm backlog.
  [[nodiscard]] SteadyState too_few(double rate) const {
    const double share = std::clamp(quotient(e_.growth, e_.offered), 0.0, 1 - kShareServed - 0.005);
    const double spread = kLengthSigmas * std::sqrt(e_.output_scv()) + 2 * std::sqrt(e_.gap_scv);
    // The uncertainty of the served share falls with the root of the number of requests; solved for the number at which
    // it is below the margin.
    const double to_show = std::pow(spread / (1 - kShareServed - share), 2);
    const double calm = chance_scv() > 0 && !e_.replay
                            ? 1.3 * (quotient(e_.variance, e_.runs) + 0.5) / (calm_path() * chance_scv())
                            : to_show;
    const double drain = e_.replay ? 1.2 * e_.backlog_end / (1 - kShareServed) : 0;
    return too_short("too few requests to tell a growing backlog from chance",
                     std::max({(patience_.timeout_s() > 0 ? calm : std::min(to_show, calm)) / kWindow,
                               needed_in_time(rate), drain}));
  }

  [[nodiscard]] SteadyState may_shed_much() const {
    constexpr double kAtLeast = 1.5;
    const double share = quotient(e_.shed, e_.requests), room = std::max(1 - kShareServed - share, 0.001);
    const double longer = std::pow(shed_margin() * share / room, 2);
    return too_short(
        text("%.2g %% of the requests are refused or time out: too few requests to tell whether the true share is 3 %%",
             100 * share),
        std::clamp(longer, kAtLeast, kSpeaksFor) * now());
  }
  [[nodiscard]] SteadyState near_timeout() const {
    constexpr double kAgain = 4;
    const double needed =
        patience_.recoveries() > 0 ? std::min(kSpeaksFor, 1.2 * kRecoveries / patience_.recoveries()) : kAgain;
    return too_short(
        text("in a longer run waits exceed the time-out of %.3g s, and retries may then overload the fleet",
             patience_.timeout_s()),
        needed * now());
  }
  [[nodiscard]] SteadyState sheds() const {
    const double percent = 100 * quotient(e_.shed, e_.requests);
    return {.verdict = Steadiness::unstable,
            .grows = false,
            .reason = text(percent < 10 ? "%.2g %% of the requests are refused or time out"
                                        : "%.0f %% of the requests are refused or time out",
                           percent),
            .requests_needed = 0};
  }
  [[nodiscard]] SteadyState overloaded() const {
    const double served =
        e_.replay ? 1 - quotient(e_.backlog_end, e_.requests) : quotient(e_.offered - e_.growth, e_.offered);
    return {
        .verdict = Steadiness::unstable,
        .grows = true,
        .reason = text("the backlog grows: %.0f %% of the offered load is served", 100 * std::clamp(served, 0.0, 1.0)),
        .requests_needed = 0};
  }

  const Evidence& e_;
  Patience& patience_;
  double service_s_ = 0;
};

}  // namespace

SteadyState judge_steady_state(std::span<const JudgedRun> runs, double queue_mean_s) {
  Evidence evidence;
  for (const JudgedRun& run : runs) evidence.add(run);
  Patience patience(runs, evidence.output_mean());
  const Judgement judgement(evidence, patience, queue_mean_s);
  if (evidence.closed) return judgement.closed_loop();
  if (evidence.open) return judgement.open_loop();
  return {};
}

}  // namespace plimsoll::sched
