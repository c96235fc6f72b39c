// SPDX-License-Identifier: GPL-3.0-or-later
// The machines of the catalogue as rows of a table, and the user's own prices.
#pragma once

#include <QString>
#include <optional>
#include <string>
#include <vector>

#include "configs/catalogue.h"
#include "gui/core/scenario.h"

namespace plimsoll::gui {

/// An instance at one cloud's price. An instance that SageMaker offers as well has a second row, "ml.NAME".
struct HardwareRow {
  std::string name;        // as a study states it: "p5.48xlarge"
  QString gpu;             // "H100 SXM"
  std::int32_t count = 1;  // GPUs
  double memory_gb = 0;    // of one GPU, as its maker counts
  QString link;            // "NVLink", "PCIe"; empty for one GPU or if it is unknown
  QString cloud;           // "AWS", "SageMaker"
  std::optional<double> usd_per_hour;
  QString price_note;  // region and month of the price
  [[nodiscard]] std::optional<double> usd_per_gpu_hour() const {
    return usd_per_hour ? std::optional(*usd_per_hour / count) : std::nullopt;
  }
};
/// Returns all instances, by name. An instance whose file cannot be read is left out.
[[nodiscard]] std::vector<HardwareRow> hardware_rows(const configs::Catalogue& catalogue);
/// Returns "8 × H100 SXM 80 GB".
[[nodiscard]] QString hardware_words(const HardwareRow& row);
/// Returns the name of an accelerator as its maker writes it: "h100-sxm" is "H100 SXM". Leaves
/// out its memory.
[[nodiscard]] QString gpu_name(const std::string& accelerator);

/// The user's own prices in a scenario: those of single instances, and one for every GPU.
struct OwnPrices {
  std::vector<std::pair<std::string, double>> instances;  // name and USD an hour
  std::optional<double> gpu_hour;
  bool operator==(const OwnPrices&) const = default;
};
/// Returns what the scenario states; values that cannot be read are left out, since the simulation reports them.
[[nodiscard]] OwnPrices own_prices(const Scenario& scenario);
/// States the prices in the scenario; without any, the catalogue's prices apply again.
void set_own_prices(Scenario& scenario, const OwnPrices& prices);

}  // namespace plimsoll::gui
