// SPDX-License-Identifier: Apache-2.0
// The clients of a run: when they send, give up and retry. A client sees one logical request; every try is an attempt,
// and replicas know only attempts. Latency counts from the intended send time of the first attempt.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "load/scenario.h"
#include "load/senders.h"
#include "load/sessions.h"
#include "load/workload.h"
#include "sched/metrics_collector.h"
#include "sched/replica.h"
#include "sched/run_result.h"

namespace plimsoll::load {

/// One replication of a scenario: what it records, and the collector of its figures. All references must outlive the
/// run.
struct Replication {
  const Scenario& scenario;
  std::uint64_t index = 0;
  const sched::RunOptions& options;
  sched::MetricsCollector& out;
};

/// The simulated clients of one replication of a workload.
class Clients final : public Senders {
 public:
  Clients(const Replication& replication, const FrontEnd& front_end);

  [[nodiscard]] Nanos next_send() const override;
  [[nodiscard]] Nanos next_timeout() const override {
    return timeouts_.empty() ? sched::kNever : timeouts_.front().deadline;
  }
  [[nodiscard]] std::optional<Attempt> send(Nanos now) override;
  void dispatched(ClientId client, std::int32_t replica, std::optional<sched::ReqId> id, Nanos now) override;
  void refuse(ClientId client, Nanos now) override;
  void lose(std::int32_t replica, Nanos now) override;
  [[nodiscard]] std::optional<TimedOut> time_out(Nanos now) override;
  bool ended(const sched::FinishedAttempt& ended, Nanos now) override;
  [[nodiscard]] bool done() const override { return open_ == 0 && next_send() == sched::kNever; }

  /// The logical requests that have ended, and the number that will be sent in total (0: unknown).
  [[nodiscard]] std::int64_t finished() const { return finished_; }
  [[nodiscard]] std::int64_t planned() const { return planned_; }
  /// Time integrals since the warm-up, in request-seconds, and the end time of the last request.
  [[nodiscard]] double in_system_integral() const { return in_system_; }
  [[nodiscard]] double queue_integral() const { return queue_; }
  [[nodiscard]] Nanos last_end() const { return last_end_; }
  /// Returns when the last logical request was sent.
  [[nodiscard]] Nanos last_sent() const { return last_sent_; }
  /// Returns the number of attempts so far, retries included.
  [[nodiscard]] std::int64_t attempts() const { return static_cast<std::int64_t>(next_serial_); }
  /// Returns the variance over the squared mean of the gaps between open-loop arrivals.
  [[nodiscard]] double gap_scv() const;
  /// Moves the rows of ended requests out, in order of id.
  std::vector<sched::RequestRow> take_rows();

 private:
  struct OpenRequest {
    Nanos sent = 0;                    // the first attempt
    std::uint32_t serial = 0, id = 0;  // of the open attempt and of the request; 32 bits hold kMaxAttempts
    sched::Tok input = 0, output = 0, max_new = 0;
    std::int32_t replica = -1;  // replica of the open attempt, once it is dispatched
    sched::ReqId replica_id = sched::kNoRequest;
    std::int32_t attempts : 30 = 0;
    std::uint32_t open : 1 = 0, waits_to_resend : 1 = 0;
  };
  struct Prompt {  // the rest of the request, needed for retries
    std::uint64_t session = 0;
    std::int32_t hash_block_tokens = 0, priority = 0, content = 0;
    bool hashes_chain = false;
    std::vector<std::uint64_t> hashes;
  };
  struct Send {
    Nanos time;
    std::uint64_t order;
    ClientId client;  // of a fresh one: the session's slot
    bool fresh;
  };  // fresh: a new request, not a retry
  struct Entered {
    Nanos delivery;
    Send send;
  };
  struct Deadline {
    Nanos deadline;
    ClientId client;
    std::uint32_t serial;
  };

  void push_send(Nanos time, ClientId client, bool fresh);
  void end_fresh_sends();
  [[nodiscard]] Nanos next_sending() const;
  [[nodiscard]] Send take_sending();
  [[nodiscard]] std::optional<Attempt> send_entered(Nanos now);
  [[nodiscard]] std::optional<Attempt> open_or_repeat(const Send& send);
  [[nodiscard]] std::optional<Attempt> open_request(const Send& send);
  [[nodiscard]] std::optional<RequestBody> next_body(const Send& send);
  void next_turn(const sched::FinishedAttempt& ended, Nanos now);
  [[nodiscard]] Attempt repeat(ClientId client, Nanos sent);
  [[nodiscard]] Attempt attempt(const sched::NewRequest& request, Nanos sent);
  void draw_arrival();
  [[nodiscard]] ClientId keep(const RequestBody& body, Nanos time);
  [[nodiscard]] bool is_open(ClientId client, std::uint64_t serial) const;
  [[nodiscard]] sched::FinishedAttempt failed(ClientId client, sched::Outcome outcome, const char* code = "") const;
  void fail_or_retry(const sched::FinishedAttempt& ended, Nanos now);
  void close(const sched::FinishedAttempt& ended, Nanos now);

  const Scenario& scenario_;
  Workload workload_;
  std::optional<SessionBook> sessions_;   // of a load whose requests are turns
  std::vector<SessionSlot> sessions_of_;  // by client; empty without sessions
  std::uint64_t arrivals_ = 0;            // drawn so far
  sched::MetricsCollector& out_;
  bool closed_ = false, keep_rows_ = false, exhausted_ = false;
  // Set if requests may be retried, may fail while a replica still runs them, or have rows. Otherwise the replica's
  // report suffices, so nothing is kept here per request (millions may wait at once), and a handle is the request's
  // number.
  bool keep_open_ = false;
  Nanos timeout_ = 0, think_ = 0, send_until_ = sched::kNever, warmup_ = 0;
  FrontEndQueue front_end_;
  std::vector<OpenRequest> requests_;         // by client
  std::vector<Prompt> prompts_;               // by client; empty where no request has more than lengths
  std::vector<sched::RequestRow> open_rows_;  // by client; empty unless rows are kept
  Nanos attempt_sent_ = 0;                    // sending time of the attempt that send() returned last
  std::vector<ClientId> free_;
  std::int64_t unsent_users_ = 0;      // of a closed loop: each sends its first request at 0
  std::vector<Send> sends_;            // min-heap by (time, order)
  std::deque<Entered> entered_;        // attempts in a front end that streams, in order of sending
  std::deque<Deadline> timeouts_;      // the time-out is constant, so deadlines are in order of dispatch
  std::optional<Nanos> next_arrival_;  // when the next open-loop request is sent
  std::uint32_t next_id_ = 0;
  std::uint64_t next_serial_ = 0, next_order_ = 0;
  std::int64_t open_ = 0, finished_ = 0, planned_ = 0, sent_ = 0;
  double in_system_ = 0, queue_ = 0, gap_sum_ = 0, gap_square_sum_ = 0, gaps_ = 0;
  Nanos last_end_ = 0, last_sent_ = 0, last_arrival_ = -1;
  std::vector<sched::RequestRow> rows_;
};

}  // namespace plimsoll::load
