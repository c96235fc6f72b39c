// SPDX-License-Identifier: Apache-2.0
#include "calibration/machine_steps.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/op_cost.h"

namespace plimsoll::calibration {
namespace {

// A share with generic efficiencies and flat tables.
ShareCalibration share_with_tables(const configs::Catalogue& catalogue) {
  ShareCalibration share;
  share.accelerator = *catalogue.accelerator("generic-cpu");
  share.accelerator.memory = share.accelerator.memory_visible = Bytes(16e9);
  auto table = std::make_shared<model::ResidualTable>();
  for (int x = 0; x <= 10; ++x) table->x.push_back(x);
  table->y = {10};
  table->log_ratio.assign(table->x.size(), 0.0);
  for (model::OpCoefficients& c : share.accelerator.coefficients) c.residual = table;
  share.interconnect = *catalogue.interconnect("shared-memory");
  return share;
}

TEST(MachineLive, AFactorByRowsGoesIntoEveryTable) {
  const configs::Catalogue catalogue(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  model::Accelerator a = share_with_tables(catalogue).accelerator;
  add_by_rows(a, {0, 2}, {0, std::log(1.2)});
  for (const model::OpCoefficients& c : a.coefficients) {
    EXPECT_DOUBLE_EQ(model::residual_at(*c.residual, 0, 10), 0);
    EXPECT_NEAR(model::residual_at(*c.residual, 1, 10), std::log(1.2) / 2, 1e-12);
    EXPECT_NEAR(model::residual_at(*c.residual, 9, 10), std::log(1.2), 1e-12);  // constant beyond the table
  }
}

// If steps are faster than the sum of their ops, limits must rise: otherwise the file would state more than the
// bandwidth. 10 % less time means 10 % higher peaks and correspondingly lower efficiencies.
TEST(MachineLive, FasterStepsRaiseTheLimits) {
  const configs::Catalogue catalogue(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  const model::Accelerator before = share_with_tables(catalogue).accelerator;
  model::Accelerator a = before;
  add_by_rows(a, {0}, {std::log(0.9)});
  EXPECT_NEAR(a.memory_bandwidth.value * 0.9, before.memory_bandwidth.value, 1);
  EXPECT_NEAR(a.coefficients[0].memory_efficiency / 0.9, before.coefficients[0].memory_efficiency, 1e-12);
}

// The "measured" loads come from a machine whose steps take 1.25 times as long for any number of rows. The fit must
// find that factor.
TEST(MachineLive, FindsHowMuchLongerStepsTake) {
  const configs::Catalogue catalogue(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  ShareCalibration share = share_with_tables(catalogue);
  model::EngineProfile engine = *catalogue.engine("plimsoll-cpu")->profile;
  engine.calibrated = true;
  ShareCalibration slow = share;
  for (model::OpCoefficients& c : slow.accelerator.coefficients) {
    auto table = *c.residual;
    for (double& v : table.log_ratio) v += std::log(1.25);
    c.residual = std::make_shared<const model::ResidualTable>(table);
  }
  const std::vector<double> seconds = simulate_live(slow, "demo-llama-40m", engine, catalogue);
  settle_live(share, {{"demo-llama-40m", seconds}}, engine, catalogue);
  ASSERT_EQ(share.live_rows.size(), live_loads().size());
  for (const auto& [rows, factor] : share.live_rows) EXPECT_NEAR(factor, 1.25, 0.02) << rows;
}

}  // namespace
}  // namespace plimsoll::calibration
