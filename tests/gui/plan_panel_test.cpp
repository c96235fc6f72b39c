// SPDX-License-Identifier: Apache-2.0
// The form of the planner's search: what it shows is the search, and what it does not show stays.
#include "gui/window/plan_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>
#include <QListWidget>

#include "gui/core/plan_question.h"
#include "gui/window/decision_dock.h"
#include "gui/window/main_window.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

TEST(PlanFormTest, WritesWhatItRead) {
  for (const char* const yaml :
       {"{objective: capacity, tp: [1, 2], replicas_per_instance: [max], instance_count: [1], max_running: [32]}",
        "{objective: cost, instances: [ml.g5.2xlarge, 8xh100], dtype: [fp8], max_usd_per_hour: 100, max_gpus: 64}",
        "{objective: gpus, tp: [8], step_token_budget: [2048, 8192], confidence: 0.9}"}) {
    EXPECT_EQ(plan_form_yaml(read_plan_form(yaml)), yaml);
  }
  EXPECT_EQ(plan_form_yaml(read_plan_form("{tp: 4}")), "{objective: cost, tp: [4]}") << "a single value is a list";
}

class PlanPanelTest : public BenchTest {
 protected:
  PlanPanelTest() : window_(bench_) {
    window_.resize(1300, 850);
    window_.show();
    window_.show_view(QString::fromLatin1(kDecisionView));
  }
  void SetUp() override { open(bench_, kJumpStart); }
  PlanPanel& panel() { return window_.decision().panel(); }
  std::string search() { return utf8(field_value(bench_.session().scenario(), "search").text); }
  Workbench bench_;
  MainWindow window_;
};

TEST_F(PlanPanelTest, ShowsTheDerivedSearchUntilItIsChanged) {
  EXPECT_EQ(search(), "");
  panel().refresh();
  EXPECT_TRUE(panel().tp().box(QStringLiteral("8"))->isChecked());
  EXPECT_FALSE(panel().tp().box(QStringLiteral("16"))->isChecked());
  panel().tp().box(QStringLiteral("8"))->click();
  EXPECT_THAT(search(), HasSubstr("tp: [1, 2, 4]"));
  EXPECT_THAT(search(), HasSubstr("objective: capacity"));
  bench_.session().undo();
  EXPECT_EQ(search(), "");
}

TEST_F(PlanPanelTest, InstancesAreTickedInAList) {
  panel().refresh();
  QListWidget& list = panel().instances();
  ASSERT_GT(list.count(), 40);
  for (int i = 0; i < list.count(); ++i) {
    const QString text = list.item(i)->text();
    if (text.startsWith(QStringLiteral("p5.48xlarge:"))) {
      EXPECT_THAT(utf8(text), HasSubstr("8 × H100 SXM 80 GB"));
      list.item(i)->setCheckState(Qt::Checked);
      break;
    }
  }
  EXPECT_THAT(search(), HasSubstr("instances: [p5.48xlarge]"));
  panel().budget().setText(QStringLiteral("60"));
  panel().budget().setModified(true);
  Q_EMIT panel().budget().editingFinished();
  EXPECT_THAT(search(), HasSubstr("max_usd_per_hour: 60"));
  settle(bench_);
  EXPECT_FALSE(bench_.failure()) << "the study with this search can be read";
}

// A value that has no box gets one, and a key that has no widget survives a change.
TEST_F(PlanPanelTest, KeepsWhatItDoesNotShow) {
  bench_.set_value(QStringLiteral("search"), QStringLiteral("{objective: gpus, tp: [3], step_token_budget: [2048]}"));
  panel().refresh();
  ASSERT_NE(panel().tp().box(QStringLiteral("3")), nullptr);
  EXPECT_TRUE(panel().tp().box(QStringLiteral("3"))->isChecked());
  EXPECT_EQ(panel().objective().currentData().toString(), QStringLiteral("gpus"));
  panel().tp().box(QStringLiteral("1"))->click();
  EXPECT_EQ(search(), "{objective: gpus, tp: [1, 3], step_token_budget: [2048]}");
}

}  // namespace
}  // namespace plimsoll::gui
