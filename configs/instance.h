// SPDX-License-Identifier: Apache-2.0
// A machine that can be rented: its accelerators, their link, and the price per hour.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::configs {

/// A price per hour and the month of its source.
struct Price {
  std::string date;  // "2026-07": month in which the price was read
  double usd_per_hour = 0;
};

struct Instance {
  std::string id;                  // "p4d.24xlarge"
  std::string cloud;               // AWS, Azure, GCP
  std::string accelerator;         // catalogue id
  std::int32_t count = 1;          // accelerators
  std::string interconnect;        // catalogue id; empty: a single device, or unknown
  std::vector<Price> on_demand;    // oldest first
  std::optional<Price> sagemaker;  // price of ml.<id>
  std::string region, note, source;

  /// Returns the on-demand price at a date ("2025-04"): the latest one not after it, else the earliest. Without a date,
  /// returns the newest. Returns nullopt if no price is known.
  [[nodiscard]] std::optional<Price> price(const std::string& date = {}) const;
};

}  // namespace plimsoll::configs
