// SPDX-License-Identifier: GPL-3.0-or-later
// Separate pools for prefill and decode (docs/pools.md) as the form shows them: a switch, and the fields of each pool.
#pragma once

#include <QString>

#include "gui/core/field_defaults.h"
#include "gui/core/scenario.h"

namespace plimsoll::gui {

/// Returns whether the scenario states pools.
[[nodiscard]] bool states_pools(const Scenario& scenario);

/// With `on`, splits the deployment into a prefill pool of one replica and a decode pool of the present replicas.
/// Otherwise joins the pools to a single one with the TP degree of the decode pool and about as many GPUs. Removes
/// sweeps of the deployment, because their keys would then have another meaning.
void set_pools(Scenario& scenario, bool on);

/// Adds the values that the pools' empty fields take. `point` has pools.
void add_pool_defaults(const study::PointSpec& point, FieldDefaults& out);

/// Returns the flags that start the server of a point; with pools, those of one replica of each pool.
[[nodiscard]] std::string server_flags(const study::PointSpec& point);

}  // namespace plimsoll::gui
