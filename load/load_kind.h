// SPDX-License-Identifier: Apache-2.0
// The table of loads: the name of each kind, how its requests arrive, and what its value counts.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "load/workload.h"

namespace plimsoll::load {

/// How requests arrive.
enum class LoadClass : std::uint8_t {
  open,    // at given times, independent of the answers
  closed,  // from clients that send again after each answer
  burst,   // all at once
  script   // each before a stated step
};

/// The unit of a load's value: what load_value() returns and what the column load_value holds.
enum class LoadQuantity : std::uint8_t { clients, requests_per_s, requests, rate_scale, none, sessions_per_s };
/// Returns whether the quantity has only whole values.
[[nodiscard]] constexpr bool is_whole(LoadQuantity q) {
  return q == LoadQuantity::clients || q == LoadQuantity::requests;
}

struct LoadKind {
  std::string_view name = {};  // as written in studies and in the column load_kind
  LoadClass load_class = LoadClass::open;
  LoadQuantity quantity = LoadQuantity::none;
};

/// Returns the row of a load's kind in the table.
[[nodiscard]] const LoadKind& kind_of(const LoadSpec& load);
/// Returns the kind called `name`; for any other name, a kind without name and quantity. Valid for the whole program.
[[nodiscard]] const LoadKind& load_kind_named(std::string_view name);
/// All names, in the order of LoadSpec.
[[nodiscard]] std::span<const std::string_view> load_kind_names();

/// Returns whether requests are the replayed rows in order: with their lengths, sessions, prefixes and priorities.
[[nodiscard]] bool uses_own_rows(const WorkloadSpec& spec);

}  // namespace plimsoll::load
