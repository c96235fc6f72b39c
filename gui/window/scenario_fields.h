// SPDX-License-Identifier: GPL-3.0-or-later
// Which fields the form has, with the choices of the catalogue.
#pragma once

#include <vector>

#include "configs/catalogue.h"
#include "gui/window/scenario_dock.h"

namespace plimsoll::gui {

struct FieldGroups {
  std::vector<FieldSpec> deployment, workload, scheduler, machine;
};
[[nodiscard]] FieldGroups field_groups(const configs::Catalogue& catalogue);
/// "closed loop (clients)"
[[nodiscard]] QString load_kind_label(const QString& kind);

}  // namespace plimsoll::gui
