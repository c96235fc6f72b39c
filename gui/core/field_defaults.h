// SPDX-License-Identifier: GPL-3.0-or-later
// What holds where a study says nothing: the values that the form shows in its empty fields.
#pragma once

#include <QString>
#include <map>
#include <string>

#include "gui/core/scenario.h"

namespace plimsoll::gui {

struct FieldDefault {
  QString value;     // as the field would take it, or a word ("none")
  QString origin;    // the engine whose default it is; empty: Plimsoll's own
  QString spelling;  // the key under which the study states it, where that is not the field's; else empty
  bool operator==(const FieldDefault&) const = default;
};
using FieldDefaults = std::map<std::string, FieldDefault>;  // by the field's path

/// "256 (default of vllm-0.12)".
[[nodiscard]] QString default_text(const FieldDefault& value);

/// What `point`, the first of the scenario's, takes for every field of the form that is empty. What only the policy
/// knows, or what follows from other settings, is not among them.
[[nodiscard]] FieldDefaults field_defaults(const Scenario& scenario, const study::PointSpec& point);

}  // namespace plimsoll::gui
