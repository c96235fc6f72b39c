// SPDX-License-Identifier: Apache-2.0
// How people write hardware: "8xH100" as well as an instance's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "configs/catalogue.h"

namespace plimsoll::configs {

/// So many accelerators of one kind, linked as that kind usually is.
struct AcceleratorCount {
  std::string accelerator;  // as written, until the catalogue has named it
  std::int64_t count = 1;
  /// "{accelerator: h100-sxm, count: 8}"
  [[nodiscard]] std::string to_text() const;
};

/// "8xH100", "8 x H100", "h100 x 8", "8×H100", "8*H100"; a name alone counts one. Nothing for a text of another form, a
/// count of zero included. Whether there is such an accelerator is not asked.
[[nodiscard]] std::optional<AcceleratorCount> parse_accelerator_count(std::string_view text);

/// What `text` means where hardware is named: an instance's name goes first, then accelerators in any of these
/// spellings, with the catalogue's name. Nothing for an instance and for what the catalogue does not know.
[[nodiscard]] std::optional<AcceleratorCount> find_accelerators(const Catalogue& catalogue, const std::string& text);

}  // namespace plimsoll::configs
