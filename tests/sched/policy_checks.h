// SPDX-License-Identifier: Apache-2.0
// Checks that hold for every policy, and random scripts to test them with.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sched/script_harness.h"
#include "tests/sched/timed_run.h"

namespace plimsoll::sched::testing {

/// Returns a policy's settings: config(PolicyKind::tgi, [](PolicyConfig& c) { c.served_ratio = 0.3; }).
inline PolicyConfig config(PolicyKind kind) {
  PolicyConfig policy;
  policy.policy = kind;
  return policy;
}
template <class Edit>
PolicyConfig config(PolicyKind kind, Edit edit) {
  PolicyConfig policy = config(kind);
  edit(policy);
  return policy;
}

/// Returns the decision log of a script, which must be the same step by step and in leaps. Steps are separated by " | "
/// and have no numbers.
inline std::string steps_of(const PolicyConfig& policy, const KvConfig& kv, const std::string& script,
                            const Prompts& prompts = {}) {
  const ScriptRun run = run_script(policy, kv, script, false, prompts);
  EXPECT_EQ(run.log, run_script(policy, kv, script, true, prompts).log) << script;
  std::string text;
  std::size_t line = 0;
  for (std::size_t at = 0; at < run.log.size(); ++line) {
    const std::size_t end = run.log.find('\n', at);
    std::string row = run.log.substr(at, end - at);
    const std::string number = fmt::format("{}: ", line + 1);
    if (row.starts_with(number)) row = row.substr(number.size());
    text += (text.empty() ? "" : " | ") + row;
    at = end + 1;
  }
  return text;
}

/// A random request of a script. Lengths are small, so that limits and block edges are reached often.
struct Draw {
  Tok prompt = 1, output = 1, cap = 1;
  std::int64_t step = 1;
};

inline std::vector<Draw> draw_requests(Tok longest = 24) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 14);
  std::vector<Draw> draws(count);
  for (Draw& d : draws) {
    d.prompt = *rc::gen::inRange<Tok>(1, longest);
    d.output = *rc::gen::inRange<Tok>(1, 12);
    d.cap = d.output + *rc::gen::element<Tok>(0, 0, 1, 5);
    d.step = *rc::gen::inRange<std::int64_t>(1, 20);
  }
  std::sort(draws.begin(), draws.end(), [](const Draw& a, const Draw& b) { return a.step < b.step; });
  return draws;
}

/// Outputs are long, so that the pool runs out of blocks.
inline std::vector<Draw> draw_long() {
  std::vector<Draw> draws = draw_requests();
  for (Draw& d : draws) {
    const Tok more = *rc::gen::inRange<Tok>(0, 50);
    d.output += more;
    d.cap += more;
  }
  return draws;
}

inline std::string name_of(std::size_t i) { return "q" + std::to_string(i); }

inline std::string script_of(const std::vector<Draw>& draws) {
  std::string text;
  for (std::size_t i = 0; i < draws.size(); ++i)
    text += fmt::format("{}{}:{}+{}/{}@{}", i == 0 ? "" : " ", name_of(i), draws[i].prompt, draws[i].output,
                        draws[i].cap, draws[i].step);
  return text;
}

/// The decision log of a naive second implementation of a scheduler, which derives from this class.
class NaiveLog {
 protected:
  static void add(std::string& list, const std::string& word, const char* separator) {
    list += (list.empty() ? "" : separator) + word;
  }
  void refuse(std::size_t i, int http) { add(refused_, fmt::format("{} {}", name_of(i), http), ", "); }
  [[nodiscard]] bool is_empty_step() const { return prefill_.empty() && decode_.empty(); }
  /// Writes a step whose forwards are in `prefill_` and `decode_`.
  void write_step(std::int64_t step) {
    const char* const between = prefill_.empty() || decode_.empty() ? "" : " ";
    write_step(step, bracket("P", prefill_) + between + bracket("D", decode_));
    prefill_ = decode_ = "";
  }
  void write_step(std::int64_t step, const std::string& forwards) {
    log_ += fmt::format("{}: {}{}\n", step, forwards, suffix());
  }
  /// Returns the whole log. Of what happened after the last step, it has only the rejections.
  std::string end() {
    ins_ = outs_ = "";
    const std::string rest = suffix();
    return rest.empty() ? log_ : log_ + "end:" + rest + "\n";
  }

  std::string prefill_, decode_, ins_, outs_, refused_;

 private:
  static std::string bracket(const char* kind, const std::string& names) {
    return names.empty() ? "" : kind + ("[" + names + "]");
  }
  std::string suffix() {
    std::string text = ins_;
    if (!outs_.empty()) text += " !" + outs_;
    if (!refused_.empty()) text += " rejected(" + refused_ + ")";
    ins_ = outs_ = refused_ = "";
    return text;
  }

  std::string log_;
};

/// Ends a step of a naive scheduler: requests with their whole output leave and free their blocks.
template <class Row>
void finish_rows(std::vector<Row>& rows, std::vector<std::size_t>& running, Blk& free) {
  for (const std::size_t i : running) {
    Row& row = rows[i];
    row.done += row.doing;
    if (row.doing > 0 && row.done == row.length()) {
      ++row.made;
      row.ready = true;
    }
    row.doing = 0;
    if (row.made == row.output) free += row.held;
  }
  std::erase_if(running, [&](std::size_t i) { return rows[i].made == rows[i].output; });
}

/// Checks what each request produced: all of its output if it completed, and never more.
inline void check_tokens(const std::vector<FinishedAttempt>& ended) {
  for (const FinishedAttempt& e : ended) {
    if (e.outcome == Outcome::completed) RC_ASSERT(e.generated == e.output);
    RC_ASSERT(e.generated <= e.output);
    RC_ASSERT(e.end >= e.arrived);
  }
}

/// Runs the script step by step and in leaps, which must decide the same. Returns the run in steps.
inline ScriptRun check_script(const PolicyConfig& policy, const KvConfig& kv, const std::vector<Draw>& draws) {
  const std::string script = script_of(draws);
  ScriptRun run = run_script(policy, kv, script);
  check_tokens(run.ended);
  RC_ASSERT(run.log == run_script(policy, kv, script, true).log);
  return run;
}

/// Returns when and how each request left, by serial.
inline std::vector<std::string> outcomes(const std::vector<FinishedAttempt>& ended) {
  std::vector<std::string> rows;
  for (const FinishedAttempt& e : ended)
    rows.push_back(fmt::format("{:04} {} {} {} {} {}", e.serial, static_cast<int>(e.outcome), e.http, e.generated,
                               e.first_token, e.end));
  std::sort(rows.begin(), rows.end());
  return rows;
}

/// Runs random requests, some of which are cancelled: leaps and single steps must decide the same at the same times.
inline void check_leaps(const PolicyConfig& policy, const KvConfig& kv) {
  std::vector<TimedRequest> requests;
  for (const Draw& d : draw_requests()) {
    const Nanos at = *rc::gen::inRange<Nanos>(0, 60) * kMs / 2;
    const bool cancels = *rc::gen::inRange(0, 5) == 0;
    requests.push_back({name_of(requests.size()), d.prompt, d.output, d.cap, at,
                        cancels ? at + *rc::gen::inRange<Nanos>(0, 40) * kMs / 2 : kNever});
  }
  const TimedRun stepwise = run_timed(policy, kv, requests, {kMs, Mode::steps});
  for (const Mode mode : {Mode::leaps, Mode::silent_leaps}) {
    const TimedRun leaping = run_timed(policy, kv, requests, {kMs, mode});
    if (mode == Mode::leaps) RC_ASSERT(stepwise.log == leaping.log);
    RC_ASSERT(leaping.decisions <= stepwise.decisions);
    RC_ASSERT(stepwise.launches == leaping.launches);
    RC_ASSERT(outcomes(stepwise.ended) == outcomes(leaping.ended));
  }
  check_tokens(stepwise.ended);
}

inline KvConfig draw_kv() {
  return {.blocks = *rc::gen::element<Blk>(4, 6, 9, 16, 40, 1000),
          .block_tokens = *rc::gen::element<Tok>(1, 3, 4, 16),
          .prefix_caching = false};
}

template <class T>
std::optional<T> sometimes(const rc::Gen<T>& gen) {
  return *rc::gen::arbitrary<bool>() ? std::optional<T>(*gen) : std::nullopt;
}

}  // namespace plimsoll::sched::testing
