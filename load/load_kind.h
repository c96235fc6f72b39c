// SPDX-License-Identifier: Apache-2.0
// The table of loads: what each kind is called, how its requests come and what its value counts.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "load/workload.h"

namespace plimsoll::load {

/// How requests come.
enum class LoadClass : std::uint8_t {
  open,    // at given times, independent of the fleet
  closed,  // from clients that send again after each answer
  burst,   // all at once
  script   // before stated steps
};

/// What the value of a load counts: what load_value() returns and the column load_value holds.
enum class LoadQuantity : std::uint8_t { clients, requests_per_s, requests, rate_scale, none };
/// Whether only whole numbers of it exist.
[[nodiscard]] constexpr bool is_whole(LoadQuantity q) {
  return q == LoadQuantity::clients || q == LoadQuantity::requests;
}

struct LoadKind {
  std::string_view name = {};  // in studies and in the column load_kind
  LoadClass load_class = LoadClass::open;
  LoadQuantity quantity = LoadQuantity::none;
};

[[nodiscard]] const LoadKind& kind_of(const LoadSpec& load);
/// The kind called `name`; for any other name a kind without name and quantity. Valid for ever.
[[nodiscard]] const LoadKind& load_kind_named(std::string_view name);
/// All names, in the order of LoadSpec.
[[nodiscard]] std::span<const std::string_view> load_kind_names();

}  // namespace plimsoll::load
