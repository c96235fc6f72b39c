// SPDX-License-Identifier: Apache-2.0
// Random walks through the form: after each step the window's figures are those of the study that it would save.
#include <rapidcheck.h>

#include <random>

#include "gui/core/pool_form.h"
#include "study/run/simulate_point.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class RandomWalkTest : public BenchTest {
 protected:
  template <class Values>
  auto pick(const Values& values) -> decltype(*std::begin(values)) {
    std::uniform_int_distribution<std::size_t> at(0, std::size(values) - 1);
    return *(std::begin(values) + static_cast<std::ptrdiff_t>(at(draw_)));
  }

  // One act of a user; many of them make the scenario invalid.
  void act() {
    struct Entry {
      const char *path, *value;
    };
    static constexpr Entry kEntries[] = {{"deployment.tp", "1"},
                                         {"deployment.tp", "2, 4"},
                                         {"deployment.tp", "3"},
                                         {"deployment.replicas", "2"},
                                         {"deployment.replicas", ""},
                                         {"deployment.pools.prefill.replicas", "2"},
                                         {"deployment.pools.decode.tp", "2"},
                                         {"deployment.transfer.bandwidth", "10 GB/s"},
                                         {"scheduler.max_running", "16"},
                                         {"scheduler.max_running", "abc"},
                                         {"scheduler.max_running", ""},
                                         {"engine", "sglang-0.5"},
                                         {"engine", "vllm-0.12"},
                                         {"model", "llama-2-7b"},
                                         {"hardware", "p4d.24xlarge"},
                                         {"workload.lengths.input", "64"},
                                         {"workload.lengths.input", "{lognormal: {mean: 300, cv: 1}}"},
                                         {"seed", "7"}};
    switch (std::uniform_int_distribution<int>(0, 9)(draw_)) {
      case 0: bench_.session().undo(); break;
      case 1: bench_.session().redo(); break;
      case 2: bench_.duplicate_scenario(); break;
      case 3: bench_.remove_scenario(bench_.session().state().current); break;
      case 4: {
        const bool on = !states_pools(bench_.session().scenario());
        bench_.session().edit({}, {}, [&](SessionState& s) { set_pools(s.scenarios[s.current], on); });
        break;
      }
      case 5: {
        const std::pair<const char*, const char*> loads[] = {
            {"closed_loop", "1, 4, 16"}, {"poisson", "1, 2"}, {"burst", "20"}, {"constant", "3"}};
        const auto [kind, values] = pick(loads);
        bench_.change_load(qs(kind), qs(values));
        break;
      }
      default: {
        const Entry entry = pick(kEntries);
        bench_.set_value(qs(entry.path), qs(entry.value));
      }
    }
  }

  // Simulates one point of the text that the window would save, and compares it with what is shown.
  void expect_truth() {
    if (bench_.failure()) {
      EXPECT_THROW(static_cast<void>(bench_.study_text()), std::exception) << utf8(bench_.failure()->text);
      return;
    }
    const std::string file = write("walk.yaml", bench_.study_text());
    const study::Study study(file, {}, bench_.catalogue());
    const auto shown = bench_.curves().results();
    ASSERT_EQ(shown.size(), study.point_count());
    const study::PointResult& point = pick(shown);
    study::ResolvedPoint resolved = study::resolve_point(study, point.index);
    EXPECT_EQ(point.infeasible, resolved.result.infeasible);
    if (!resolved.scenario) return;
    const study::PointResult truth = study::simulate_point(std::move(resolved), {}).result;
    EXPECT_EQ(point.metrics->latency.mean, truth.metrics->latency.mean);
    EXPECT_EQ(point.metrics->output_tokens_per_s, truth.metrics->output_tokens_per_s);
    EXPECT_EQ(point.metrics->pools, truth.metrics->pools);
    EXPECT_EQ(point.usd_per_hour, truth.usd_per_hour);
  }

  std::mt19937_64 draw_{1};
  Workbench bench_;
};

// RC_PARAMS="seed=7" walks another way.
TEST_F(RandomWalkTest, TheFiguresAreThoseOfTheSavedStudy) {
  rc::check([this] { draw_.seed(*rc::gen::arbitrary<std::uint64_t>()); });
  constexpr int kSteps = 60;
  Scenario first = new_scenario();
  set_load(first, QStringLiteral("closed_loop"), QStringLiteral("1, 4, 16"));
  set_field(first, "workload.requests", QStringLiteral("40"));
  bench_.session().edit({}, {}, [&](SessionState& s) { s.scenarios = {first}; });
  for (int step = 0; step < kSteps && !HasFailure(); ++step) {
    act();
    settle(bench_);
    expect_truth();
    if (HasFailure()) ADD_FAILURE() << "step " << step << "\n" << edited_yaml(bench_.session().scenario());
  }
}

}  // namespace
}  // namespace plimsoll::gui
