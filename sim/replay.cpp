// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "model/error.h"
#include "sched/replica.h"

namespace plimsoll::sim {

namespace {

using nlohmann::json;
using sched::ReqId;

constexpr std::size_t kMaxLine = std::size_t{16} << 20U;  // the hashes of a prompt of a million tokens take about 1 MB
constexpr std::int64_t kMaxTokens = 1 << 30;              // so that input + max_new fits 32 bits
constexpr std::int64_t kMaxBlock = 1 << 20;               // tokens; the ledger keeps one counter for each ...
constexpr std::int64_t kMaxCounts = 1 << 24;              // ... in every replica: a limit on all of them together

/// Reads the lines of the file as JSON objects.
class Events {
 public:
  explicit Events(const std::string& file) : file_(file), in_(file, std::ios::binary) {
    if (!in_) throw InputError(Where{file, 0, 0}, "cannot open the file");
  }

  /// Reads the next line. Returns false at the end of the file; throws InputError for a damaged line.
  bool next() {
    std::string text;
    if (in_.peek() == std::ifstream::traits_type::eof()) return false;
    ++line_;
    for (int c = in_.get(); c != '\n'; c = in_.get()) {
      if (c == std::ifstream::traits_type::eof()) fail("the file is truncated: its last line is incomplete");
      if (text.size() == kMaxLine) fail("the line is longer than 16 MiB");
      text.push_back(static_cast<char>(c));
    }
    value_ = json::parse(text, nullptr, false);
    if (!value_.is_object()) fail("not a JSON object");
    return true;
  }

  [[noreturn]] void fail(const std::string& text) const { throw InputError(Where{file_, line_, 0}, text); }

  [[nodiscard]] std::int64_t whole(const char* key, std::int64_t low, std::int64_t high) const {
    const auto found = value_.find(key);
    if (found == value_.end()) fail(fmt::format("\"{}\" is missing", key));
    const bool fits =
        found->is_number_integer() && (!found->is_number_unsigned() || found->get<std::uint64_t>() <= INT64_MAX);
    const std::int64_t value = fits ? found->get<std::int64_t>() : 0;
    if (!fits || value < low || value > high)
      fail(fmt::format("\"{}\" is {}, allowed: a whole number from {} to {}", key, shown(*found), low, high));
    return value;
  }
  [[nodiscard]] std::int64_t whole_or(const char* key, std::int64_t low, std::int64_t high,
                                      std::int64_t otherwise) const {
    return value_.contains(key) ? whole(key, low, high) : otherwise;
  }
  [[nodiscard]] bool flag(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end() || !found->is_boolean())
      fail(fmt::format("\"{}\" is missing or neither true nor false", key));
    return found->get<bool>();
  }
  [[nodiscard]] bool flag_or_false(const char* key) const { return value_.contains(key) && flag(key); }
  [[nodiscard]] std::string text(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end() || !found->is_string()) fail(fmt::format("\"{}\" is missing or not a string", key));
    return found->get<std::string>();
  }
  [[nodiscard]] std::string text_or_empty(const char* key) const { return value_.contains(key) ? text(key) : ""; }
  [[nodiscard]] std::uint64_t number_or(const char* key, std::uint64_t otherwise) const {
    const auto found = value_.find(key);
    if (found == value_.end()) return otherwise;
    if (!found->is_number_unsigned()) fail(fmt::format("\"{}\" is {}, allowed: a whole number", key, shown(*found)));
    return found->get<std::uint64_t>();
  }
  [[nodiscard]] std::vector<std::uint64_t> numbers(const char* key) const {
    std::vector<std::uint64_t> out;
    const auto found = value_.find(key);
    if (found == value_.end()) return out;
    if (!found->is_array()) fail(fmt::format("\"{}\" is no array", key));
    for (const json& item : *found) {
      if (!item.is_number_unsigned()) fail(fmt::format("\"{}\" holds {}, allowed: whole numbers", key, shown(item)));
      out.push_back(item.get<std::uint64_t>());
    }
    return out;
  }
  [[nodiscard]] std::size_t line() const { return line_; }
  [[nodiscard]] bool has(const char* key) const { return value_.contains(key); }
  /// Reads from the object with this key, until the next line.
  void enter(const char* key) {
    json inner = std::move(value_[key]);
    if (!inner.is_object()) fail(fmt::format("\"{}\" is no object", key));
    value_ = std::move(inner);
  }

 private:
  [[nodiscard]] static std::string shown(const json& value) {
    const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() <= 40 ? text : text.substr(0, 40) + "…";
  }

  std::string file_;
  std::ifstream in_;
  std::size_t line_ = 0;
  json value_;
};

void expect_heading(Events& events) {
  if (!events.next()) events.fail("the file is empty");
  if (events.text("event") != "run") events.fail("the first line is not the header of a live run");
  (void)events.whole("v", 1, 1);
}

/// One replica. Checks that its events come in an order that is possible in a run.
class Lane {
 public:
  explicit Lane(const sched::Replica::Config& config) : replica_(config) {}

  void arrive(const Events& event, Nanos now) {
    sched::NewRequest request;
    request.serial = static_cast<std::uint64_t>(event.whole("id", 0, INT64_MAX));
    request.input = static_cast<sched::Tok>(event.whole("input", 1, kMaxTokens));
    request.max_new = static_cast<sched::Tok>(event.whole("max_new", 1, kMaxTokens - 1));
    request.output = static_cast<sched::Tok>(event.whole("output", 1, request.max_new));
    request.sent = event.whole("sent", 0, now);
    request.session = event.number_or("session", 0);
    request.priority = static_cast<std::int32_t>(event.whole_or("priority", INT32_MIN, INT32_MAX, 0));
    const std::vector<std::uint64_t> hashes = event.numbers("hashes");
    request.prefix_hashes = hashes;
    if (!hashes.empty()) request.hash_block_tokens = static_cast<sched::Tok>(event.whole("hash_tokens", 1, kMaxTokens));
    const std::string name = event.text_or_empty("name");
    request.name = name;
    request.remote = static_cast<sched::Tok>(event.whole_or("remote", 0, request.input, 0));
    request.seeded = request.remote > 0 && event.flag("seeded");
    request.hold = event.flag_or_false("hold");
    if (ids_.contains(request.serial)) event.fail(fmt::format("request {} already exists", request.serial));
    const auto id = replica_.arrive(request, now);
    if (id) ids_[request.serial] = *id;
    forget_ended();
  }

  // The order of the file is checked, not only its words: a live run never cancels between a decision and the end of
  // its first step.
  void cancel(const Events& event, Nanos now) {
    const auto serial = static_cast<std::uint64_t>(event.whole("id", 0, INT64_MAX));
    const auto found = ids_.find(serial);
    if (found == ids_.end()) event.fail(fmt::format("request {} does not exist and cannot be cancelled", serial));
    if (decided_ > 0 && ran_ == 0)
      event.fail(fmt::format("a request is cancelled while the step decided in line {} is in flight", decided_));
    replica_.cancel(found->second, sched::Outcome::timed_out, now);
    decided_ = 0;
    forget_ended();
  }

  void land(const Events& event, Nanos now) {
    const auto serial = static_cast<std::uint64_t>(event.whole("id", 0, INT64_MAX));
    const auto found = ids_.find(serial);
    const bool waits =
        found != ids_.end() && std::any_of(replica_.loads().begin(), replica_.loads().end(),
                                           [&](const sched::Load& load) { return load.id == found->second; });
    if (!waits) event.fail(fmt::format("request {} holds no blocks that wait for KV", serial));
    between_steps(event, "KV arrives");
    std::erase_if(replica_.loads(), [&](const sched::Load& load) { return load.id == found->second; });
    replica_.land({.id = found->second, .serial = serial, .arrived = event.flag("arrived")}, now);
    decided_ = 0;
    forget_ended();
  }

  void release(const Events& event) {
    const auto serial = static_cast<std::uint64_t>(event.whole("id", 0, INT64_MAX));
    const auto found = held_.find(serial);
    if (found == held_.end()) event.fail(fmt::format("request {} holds no blocks after its end", serial));
    between_steps(event, "blocks are freed");
    replica_.release_held(found->second);
    held_.erase(found);
    decided_ = 0;
  }

  void decide(const Events& event, Nanos now) {
    if (decided_ > 0 && ran_ == 0)
      event.fail(fmt::format("a step is decided while the one of line {} is in flight", decided_));
    ran_ = 0;
    decided_ = replica_.decide(now) ? event.line() : 0;
    plan_ = decided_ > 0 ? replica_.plan_steps() : 0;
    forget_ended();
  }

  void end_step(const Events& event, Nanos now) {
    if (decided_ == 0 || ran_ == plan_) event.fail("a step ends that was never decided");
    sched::StepsTime time;
    // The duration does not affect decisions, so the whole time is booked under one cause.
    const Nanos start = event.whole("start", 0, now);
    time.start = 1e-9 * static_cast<double>(start);
    // A live run measures whole steps; what caused their time is not known.
    time.first = time.total = time.parts.other = 1e-9 * static_cast<double>(now - start);
    time.end = 1e-9 * static_cast<double>(now);
    time.end_stamp = now;
    replica_.complete(time);
    ++ran_;
    forget_ended();
  }

  [[nodiscard]] std::string log() {
    replica_.log().finish();
    return replica_.log().text();
  }

 private:
  void forget_ended() {
    for (const sched::FinishedAttempt& ended : replica_.ended()) {
      if (replica_.is_held(ended.id, ended.serial)) held_[ended.serial] = ended.id;
      std::erase_if(replica_.loads(), [&](const sched::Load& load) { return load.id == ended.id; });
      ids_.erase(ended.serial);
    }
    replica_.ended().clear();
  }
  void between_steps(const Events& event, const char* what) const {
    if (decided_ > 0 && ran_ == 0)
      event.fail(fmt::format("{} while the step decided in line {} is in flight", what, decided_));
  }

  sched::Replica replica_;
  std::unordered_map<std::uint64_t, ReqId> ids_, held_;  // by serial; looked up, never iterated
  std::size_t decided_ = 0;                              // line of the decision whose steps are running; 0: none
  std::int64_t plan_ = 0, ran_ = 0;                      // steps of its plan, and how many of them have ended
};

class Replay {
 public:
  Replay(const std::string& file, const load::Scenario& scenario) : events_(file) {
    expect_heading(events_);
    const std::string_view policy = sched::name(scenario.policy.policy);
    if (const std::string found = events_.text("policy"); found != policy)
      events_.fail(fmt::format("a run of policy {}, but the study states {}", found, policy));
    const auto window = static_cast<sched::Tok>(events_.whole("window", 0, INT32_MAX));
    const bool pools = events_.has("prefill");
    if (pools != (scenario.pools != nullptr))
      events_.fail(fmt::format("the run has {}, but the study states {}", pools ? "pools" : "no pools",
                               pools ? "none" : "pools"));
    add_pool(scenario, window);
    if (!pools) return;
    events_.enter("prefill");
    add_pool(*scenario.pools->prefill, window);
  }

  std::vector<std::string> run() {
    Nanos now = 0;
    while (events_.next()) {
      now = events_.whole("t", now, load::kMaxRun);
      const std::string event = events_.text("event");
      if (event == "end") return finish();
      Lane& lane =
          lanes_[static_cast<std::size_t>(events_.whole("replica", 0, static_cast<std::int64_t>(lanes_.size()) - 1))];
      if (event == "arrival")
        lane.arrive(events_, now);
      else if (event == "cancel")
        lane.cancel(events_, now);
      else if (event == "land")
        lane.land(events_, now);
      else if (event == "release")
        lane.release(events_);
      else if (event == "decide")
        lane.decide(events_, now);
      else if (event == "step")
        lane.end_step(events_, now);
      else
        events_.fail(fmt::format("event \"{}\", allowed: arrival, cancel, land, release, decide, step, end", event));
    }
    events_.fail("the file is truncated after this line: the end event is missing");
  }

 private:
  void add_pool(const load::Scenario& pool, sched::Tok window) {
    sched::Replica::Config config{.policy = pool.policy, .kv = pool.kv, .window = window, .keep_log = true};
    // The pool is the one of the live run: on another machine the study may resolve to another size.
    config.kv.blocks = events_.whole("kv_blocks", 0, INT32_MAX);
    config.kv.block_tokens = static_cast<sched::Tok>(events_.whole("block_tokens", 1, kMaxBlock));
    config.kv.prefix_caching = events_.flag("prefix_caching");
    config.policy.swap_blocks = events_.whole("swap_blocks", 0, INT64_MAX / 2);
    config.policy.model_max_len = static_cast<sched::Tok>(events_.whole("model_max_len", 0, INT32_MAX));
    const std::int64_t replicas = events_.whole("replicas", 1, INT32_MAX);
    if (replicas != pool.replicas)
      events_.fail(fmt::format("a run of {} replicas, but the study states {}", replicas, pool.replicas));
    if (replicas * config.kv.block_tokens > kMaxCounts)
      events_.fail(fmt::format("{} replicas with blocks of {} tokens; allowed: replicas x block tokens up to {}",
                               replicas, config.kv.block_tokens, kMaxCounts));
    for (std::int64_t i = 0; i < replicas; ++i) lanes_.emplace_back(config);
  }

  std::vector<std::string> finish() {
    if (events_.next()) events_.fail("data follows the end event");
    std::vector<std::string> logs;
    for (Lane& lane : lanes_) logs.push_back(lane.log());
    return logs;
  }

  Events events_;
  std::deque<Lane> lanes_;
};

}  // namespace

std::size_t replayed_point(const std::string& file) {
  Events events(file);
  expect_heading(events);
  return static_cast<std::size_t>(events.whole("point", 0, INT32_MAX));
}

std::vector<std::string> replay(const std::string& file, const load::Scenario& scenario) {
  return Replay(file, scenario).run();
}

}  // namespace plimsoll::sim
