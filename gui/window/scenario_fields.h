// SPDX-License-Identifier: GPL-3.0-or-later
// The fields of the form, with choices from the catalogue.
#pragma once

#include <vector>

#include "configs/catalogue.h"
#include "gui/window/scenario_dock.h"

namespace plimsoll::gui {

struct FieldGroups {
  std::vector<FieldSpec> deployment, workload, scheduler, machine;
};
[[nodiscard]] FieldGroups field_groups(const configs::Catalogue& catalogue);
/// Returns "closed loop (clients)".
[[nodiscard]] QString load_kind_label(const QString& kind);

}  // namespace plimsoll::gui
