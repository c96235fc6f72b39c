// SPDX-License-Identifier: Apache-2.0
// The host time of a forward, and the part of it that the device does not hide (formulas: engine_profile.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "model/engine_profile.h"
#include "model/p_norm.h"

namespace plimsoll::model {

/// The work of one forward, as far as it affects host time.
struct HostWork {
  std::int32_t layers = 0, tp = 1;
  std::int64_t sequences = 0, tokens = 0, prefill_sequences = 0;  // sequences: including those being prefilled
  double ops = 0;                                                 // number of executed ops
  FrontEnd front_end = FrontEnd::none;
  bool graph = true;             // a captured graph is large enough
  std::string_view accelerator;  // id
};
/// Seconds: the part that overlaps with the device as HostOverlap defines, and the part that starts after the device
/// ends.
struct HostTime {
  double overlapping = 0, serial = 0;
};
/// Computes the host time. With CUDA graphs, a forward without prefill launches all its ops at once.
[[nodiscard]] HostTime host_time(const EngineProfile& engine, const HostWork& work);

/// Returns the seconds that a step takes beyond the device's time; never negative.
[[nodiscard]] inline double exposed_host_time(HostOverlap overlap, double exponent, double host, double device) {
  switch (overlap) {
    case HostOverlap::none: return host;
    case HostOverlap::p_norm: return std::max(0.0, p_norm(host, device, exponent).value - device);
    case HostOverlap::full: return std::max(0.0, host - device);
  }
  return host;
}

}  // namespace plimsoll::model
