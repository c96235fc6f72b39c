// SPDX-License-Identifier: GPL-3.0-or-later
// The default values that the form shows in its empty fields.
#pragma once

#include <QString>
#include <map>
#include <string>

#include "gui/core/scenario.h"

namespace plimsoll::gui {

/// The value that an empty field takes, and where it comes from.
struct FieldDefault {
  QString value;         // in the field's syntax, or a word ("none")
  QString origin;        // the engine that defines the default; empty if it is Plimsoll's own
  QString spelling;      // the key under which the study states it, if not the field's own; else empty
  bool derived = false;  // other settings of the study determine it, not `origin`
  bool operator==(const FieldDefault&) const = default;
};

using FieldDefaults = std::map<std::string, FieldDefault>;  // keyed by the path of the field

/// Returns "256 (default of vllm-0.12)".
[[nodiscard]] QString default_text(const FieldDefault& value);

/// Returns the values that `point`, the scenario's first, uses for empty fields of the form. Values that only the
/// policy knows or that derive from other settings are not included. With a catalogue, a value that changes when the
/// settings without a field are removed is marked as derived from them.
[[nodiscard]] FieldDefaults field_defaults(const Scenario& scenario, const study::PointSpec& point,
                                           const std::shared_ptr<const configs::Catalogue>& catalogue = nullptr);

}  // namespace plimsoll::gui
