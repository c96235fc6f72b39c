// SPDX-License-Identifier: Apache-2.0
// Names of hardware: as people write them ("8xH100", the name of an instance), and as devices report them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "configs/catalogue.h"

namespace plimsoll::configs {

/// A number of accelerators of one kind, with that kind's usual link.
struct AcceleratorCount {
  std::string accelerator;  // as written, or the catalogue's name after find_accelerators
  std::int64_t count = 1;
  /// Returns "{accelerator: h100-sxm, count: 8}".
  [[nodiscard]] std::string to_text() const;
};

/// Parses "8xH100", "8 x H100", "h100 x 8", "8×H100", "8*H100"; a name alone counts as one. Returns nullopt for any
/// other text, including a count of zero. Does not check that the accelerator exists.
[[nodiscard]] std::optional<AcceleratorCount> parse_accelerator_count(std::string_view text);

/// Interprets `text` as hardware: first as an instance, then as accelerators in one of these spellings, which are
/// returned with the catalogue's name. Returns nullopt for an instance and for names unknown to the catalogue.
[[nodiscard]] std::optional<AcceleratorCount> find_accelerators(const Catalogue& catalogue, const std::string& text);

/// Returns true if a device that reports `description` ("NVIDIA H200 (sm_90)") is the accelerator `id` ("h200-sxm").
[[nodiscard]] bool is_same_device(const std::string& description, const std::string& id);

}  // namespace plimsoll::configs
