// SPDX-License-Identifier: Apache-2.0
// A run whose requests are answered by a server: the third kind of run under load::RunLoop, beside sim::SimRun and
// exec::LiveRun. The clock is the machine's. One thread sends, receives and takes the times.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "endpoints/answer.h"
#include "endpoints/prompts.h"
#include "endpoints/server.h"
#include "load/run_loop.h"
#include "sched/log_histogram.h"

namespace plimsoll::endpoints {

/// The figures of a point that exist only when a server is measured. They cover all attempts; times are in seconds.
struct EndpointFigures {
  sched::LogHistogram connecting, lateness, written_to_first;
  std::int64_t attempts = 0, reopened = 0, early_ends = 0, completed = 0;
  std::int64_t cached_tokens = 0, unintended_hits = 0;  // unintended_hits: prompts with undeclared cache hits
  double prompt_error = 0;                              // the largest |counted / wanted - 1|, beyond one token
  std::array<std::int64_t, kTokenCounts> counts{};      // completed answers by how their tokens were counted
  double speed = 1;  // of the server's clock: its time is the machine's time multiplied by this
  std::map<std::string, std::int64_t> retry_after;  // how often each value of Retry-After was received
  std::int64_t refused = 0;                         // attempts with 400 or 422
  std::map<std::string, std::int64_t> failures;     // attempts by the class of their failure
  std::string first_complaint;                      // the server's first error, redacted
  struct Lengths {
    sched::Tok input = 0, output = 0;
  };
  static constexpr std::size_t kMostLengths = 16'384;
  std::vector<Lengths> lengths;  // of completed answers, at most kMostLengths
  struct Row {
    double time = 0;
    ServerState state;
  };
  std::vector<Row> states;  // one per second
};

class EndpointRun final : public load::Runner {
 public:
  /// All arguments must outlive the run.
  EndpointRun(Server& server, const Prompts& prompts, EndpointFigures& figures, const load::OutputDrift& drift = {});
  ~EndpointRun() override;
  /// Announces that attempts may be retries, whose clients keep their handles until the last attempt. Call before
  /// start().
  void expect_retries() { retries_ = true; }
  EndpointRun(const EndpointRun&) = delete;
  EndpointRun& operator=(const EndpointRun&) = delete;

  void start() override;
  [[nodiscard]] Nanos next_event() const override { return sched::kNever; }
  [[nodiscard]] bool in_flight() const override { return !open_.empty() || !answered_.empty(); }
  [[nodiscard]] Nanos wait(Nanos until) override;
  [[nodiscard]] bool looks_up(Nanos now) override;
  bool complete(Nanos now, load::RunLoop& loop) override;
  void end_plans() override;

  [[nodiscard]] std::vector<sched::FinishedAttempt>& ended(std::size_t) override { return ended_; }
  [[nodiscard]] bool busy(std::size_t) const override { return true; }  // only the server knows
  [[nodiscard]] std::optional<sched::ReqId> arrive(std::size_t slot, const sched::NewRequest& request,
                                                   Nanos now) override;
  void cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) override;
  void abandon(std::size_t slot, sched::ReqId id, std::uint64_t serial) override { cancel(slot, id, serial, 0); }
  void decide(std::size_t, Nanos) override {}
  void replace(std::size_t, bool, Nanos) override {}

  /// A real engine has its own drift. A simulated one prices every step exactly, so its clients must draw the drift.
  [[nodiscard]] load::FrontEnd front_end() override { return {.intake = {}, .delay = {}, .drift = drift_}; }
  void end_warmup() override;
  void measure(sched::MetricsCollector& out) override;
  void take(sched::RunResult&, bool) override {}

 private:
  struct Attempt {
    sched::FinishedAttempt record;
    std::shared_ptr<Answer> answer;
    net::HttpClient::CallId call = 0;
    net::Deadline last_token{};
    sched::Tok asked = 0;  // output tokens
    bool shares = false;   // the workload declares its prefix as shared
    std::string text;      // the prompt, to redact it in messages; empty if token ids were sent
  };

  [[nodiscard]] Nanos time_of(net::Deadline at) const;
  [[nodiscard]] Prompt prompt_of(const sched::NewRequest& request) const;
  void note_lateness(const sched::NewRequest& request, Nanos now);
  void token(std::uint64_t serial, net::Deadline at, std::int32_t tokens);
  void answered(std::uint64_t serial, const AnswerResult& result);
  void note(const Attempt& attempt, const AnswerResult& result);
  void check_access(const Attempt& attempt, const AnswerResult& result);
  void drop_silent();
  void drop_lingering(net::Deadline now);
  void ask_state();

  Server& server_;
  const Prompts& prompts_;
  EndpointFigures& figures_;
  net::Deadline zero_{};
  double speed_ = 1;
  load::OutputDrift drift_;
  std::map<std::uint64_t, Attempt> open_;  // by serial
  struct Lingering {
    net::Deadline since;
    net::HttpClient::CallId call;
  };
  std::deque<Lingering> lingering_;  // calls with complete answers whose streams may still be open
  std::deque<sched::FinishedAttempt> answered_;
  std::vector<sched::FinishedAttempt> ended_;
  bool retries_ = false;
  std::vector<Nanos> sent_of_;  // with retries, by client: when its open logical request was first sent
  sched::LogHistogram itl_;
  std::string failure_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Nanos look_at_ = 0;
  std::int64_t refused_in_row_ = 0;
  bool any_answer_ = false;
};

}  // namespace plimsoll::endpoints
