// SPDX-License-Identifier: Apache-2.0
#include "gui/core/scenario.h"
#include "gui/core/field_defaults.h"

#include "model/error.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

std::shared_ptr<const configs::Catalogue> default_catalogue() {
  return std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
}

TEST(ScenarioTest, AFieldShowsWhatTheFileSweeps) {
  const Scenario scenario = open_scenario(kJumpStart);
  const FieldValue tp = field_value(scenario, "deployment.tp");
  EXPECT_TRUE(tp.swept);
  EXPECT_EQ(tp.text, QStringLiteral("1, 2, 4, 8"));
  EXPECT_FALSE(field_value(scenario, "dtype").swept);
}

TEST(ScenarioTest, OneValuePinsASweptKeyAndNothingGivesItBack) {
  Scenario scenario = open_scenario(kJumpStart);
  EXPECT_EQ(make_study(scenario, default_catalogue()).point_count(), 40U);  // 4 degrees x 10 loads
  set_field(scenario, "deployment.tp", QStringLiteral("4"));
  EXPECT_EQ(make_study(scenario, default_catalogue()).point_count(), 10U);
  set_field(scenario, "deployment.tp", QString());
  EXPECT_TRUE(scenario.edits.empty());
  EXPECT_EQ(make_study(scenario, default_catalogue()).point_count(), 40U);
}

TEST(FieldDefaultsTest, AreTheEnginesWhereTheStudySaysNothing) {
  Scenario scenario = open_scenario(kJumpStart);
  const auto defaults = [&] { return field_defaults(scenario, make_study(scenario, default_catalogue()).point(0)); };
  EXPECT_FALSE(defaults().contains("deployment.tp")) << "stated: it is swept";
  // The profile tgi-1.1 does not state a limit, so the policy's default applies.
  EXPECT_EQ(default_text(defaults().at("scheduler.max_running")), QStringLiteral("none (default of tgi)"));
  EXPECT_EQ(default_text(defaults().at("workload.requests")), QStringLiteral("3 a client (default)"));
  set_field(scenario, "engine", QStringLiteral("vllm-0.12"));
  set_edit(scenario, "scheduler", "{}");
  // From configs/engines/vllm-0.12.yaml: 256 sequences; 1024 only with at least 70 GiB, and an A100-40 has less.
  EXPECT_EQ(default_text(defaults().at("scheduler.max_running")), QStringLiteral("256 (default of vllm-0.12)"));
  EXPECT_EQ(default_text(defaults().at("scheduler.step_token_budget")), QStringLiteral("2048 (default of vllm-0.12)"));
  EXPECT_EQ(default_text(defaults().at("scheduler.mem_fraction")), QStringLiteral("0.9 (default of vllm-0.12)"));
  set_field(scenario, "scheduler.max_running", QStringLiteral("64"));
  EXPECT_FALSE(defaults().contains("scheduler.max_running")) << "its field holds it";
}

// A value that another setting of the study causes is not the engine's default.
TEST(FieldDefaultsTest, AreOnlyCalledTheEnginesWhereTheyAre) {
  Scenario scenario = new_scenario();
  const auto budget = [&] {
    return default_text(
        field_defaults(scenario, make_study(scenario, default_catalogue()).point(0), default_catalogue())
            .at("scheduler.step_token_budget"));
  };
  const QString plain = budget();
  EXPECT_THAT(utf8(plain), ::testing::HasSubstr("(default of vllm-0.12)"));
  set_edit(scenario, "scheduler.max_batch_prefill_tokens", "4096");
  const QString now = budget();
  EXPECT_TRUE(now == plain || !now.contains(QStringLiteral("default of"))) << utf8(now);
}

TEST(ScenarioTest, ANewScenarioStatesNothingThatTheFormHides) {
  EXPECT_TRUE(hidden_settings(new_scenario()).empty());
  EXPECT_GT(make_study(new_scenario(), default_catalogue()).point_count(), 1U);
}

// For each engine of the catalogue: the sample's settings for TGI must not act on it.
TEST(ScenarioTest, AnotherEngineDropsTheSettingsOfTheFormerOne) {
  Scenario scenario = default_scenario();
  ASSERT_FALSE(hidden_settings(scenario).empty());
  const std::string before = make_study(scenario, default_catalogue()).resolved_yaml();
  set_field(scenario, "scheduler.max_running", QStringLiteral("48"));
  set_engine(scenario, QStringLiteral("vllm-0.12"));
  EXPECT_TRUE(hidden_settings(scenario).empty());
  const study::Study study = make_study(scenario, default_catalogue());
  EXPECT_EQ(study.resolved_yaml().find("max_concurrent"), std::string::npos);
  EXPECT_EQ(study.point(0).policy.max_running, std::optional<std::int64_t>(48)) << "the form's own fields stay";
  EXPECT_NE(command_line(scenario, QStringLiteral("simulate")).indexOf(QStringLiteral("scheduler={}")), -1)
      << "the command line gives the same study";
  set_field(scenario, "scheduler.max_running", QString());
  set_engine(scenario, QString());
  EXPECT_EQ(make_study(scenario, default_catalogue()).resolved_yaml(), before)
      << "the file's engine, with its settings";
}

TEST(ScenarioTest, AHiddenSettingCanBeRemovedAlone) {
  Scenario scenario = default_scenario();
  const std::size_t all = hidden_settings(scenario).size();
  keep_settings(scenario, [](const std::string& key) { return key != "max_input"; });
  EXPECT_EQ(hidden_settings(scenario).size(), all - 1);
  set_edit(scenario, "scheduler.max_input", "100");
  EXPECT_EQ(hidden_settings(scenario).size(), all);
  keep_settings(scenario, [](const std::string& key) { return key != "max_input"; });
  EXPECT_EQ(hidden_settings(scenario).size(), all - 1);
}

// Without this, such a value would be mistaken for the engine's default.
TEST(FieldDefaultsTest, SayUnderWhichOtherNameAValueIsStated) {
  Scenario scenario = open_scenario(kJumpStart);
  set_edit(scenario, "scheduler", "{MAX_BATCH_SIZE: 48}");
  const FieldDefaults defaults = field_defaults(scenario, make_study(scenario, default_catalogue()).point(0));
  EXPECT_EQ(default_text(defaults.at("scheduler.max_running")), QStringLiteral("48 (stated as MAX_BATCH_SIZE)"));
}

TEST(ScenarioTest, AListSweepsAKeyThatTheFileDoesNot) {
  Scenario scenario = open_scenario(kJumpStart);
  set_field(scenario, "deployment.replicas", QStringLiteral("1, 2"));
  EXPECT_EQ(make_study(scenario, default_catalogue()).point_count(), 80U);
  EXPECT_TRUE(field_value(scenario, "deployment.replicas").swept);
  set_field(scenario, "deployment.replicas", QStringLiteral("2"));
  EXPECT_EQ(make_study(scenario, default_catalogue()).point_count(), 40U);
}

TEST(ScenarioTest, AnotherKindOfLoadTakesItsSweepAlong) {
  Scenario scenario = open_scenario(kJumpStart);
  set_load(scenario, QStringLiteral("poisson"), QStringLiteral("1 2, 4"));
  const study::Study study = make_study(scenario, default_catalogue());
  EXPECT_EQ(study.point_count(), 12U);  // 4 degrees x 3 rates
  EXPECT_EQ(load::load_kind(study.point(0).workload.load), "poisson");
  EXPECT_EQ(load_field(scenario).values, QStringLiteral("1, 2, 4"));
  EXPECT_TRUE(load_field(scenario).rate);
  set_load(scenario, QStringLiteral("closed_loop"), QStringLiteral("16"));
  EXPECT_EQ(make_study(scenario, default_catalogue()).point_count(), 4U);
}

TEST(ScenarioTest, LoadsThatAreNoNumbersAreRefused) {
  Scenario scenario = open_scenario(kJumpStart);
  for (const char* const text : {"", " , ", "many", "1, -2", "0"}) {
    EXPECT_THROW(set_load(scenario, QStringLiteral("poisson"), qs(text)), InputError) << text;
  }
  EXPECT_TRUE(scenario.edits.empty());
}

TEST(ScenarioTest, TheCommandLineSurvivesAShell) {
  Scenario scenario = default_scenario();
  set_edit(scenario, "study", "it's {a}");
  EXPECT_EQ(command_line(scenario, QStringLiteral("simulate")),
            QStringLiteral("plimsoll simulate example.yaml --set 'study=it'\\''s {a}'"));
}

}  // namespace
}  // namespace plimsoll::gui
