// SPDX-License-Identifier: Apache-2.0
#include "load/random.h"

// Here and not in the header, which would include the processor's intrinsics: half a second of compile time per source.
#include <Random123/philox.h>

namespace plimsoll::load {

RandomBlock RandomStream::block(std::uint64_t index, std::uint64_t attempt) const {
  const r123::Philox4x64::ctr_type counter = {{index, attempt, 0, 0}};
  // There are few purposes: the top byte of the second key word is free, since replications stay below 2^56.
  const r123::Philox4x64::key_type key = {{seed_, replication_ ^ (purpose_ << 56U)}};
  const r123::Philox4x64::ctr_type bits = r123::Philox4x64()(counter, key);
  return {bits[0], bits[1], bits[2], bits[3]};
}

double standard_gamma(const RandomStream& stream, std::uint64_t index, double shape) {
  // The method needs a shape of at least 1: Gamma(a) = Gamma(a + 1) x U^(1/a) (section 6 of the paper).
  const bool boosted = shape < 1.0;
  const double d = (boosted ? shape + 1.0 : shape) - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (std::uint64_t attempt = 0;; ++attempt) {
    const RandomBlock bits = stream.block(index, attempt);
    const double x = standard_normal(bits[0], bits[1]);
    const double root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double v = root * root * root;
    const double log_u = std::log(uniform01_open(bits[2]));
    if (log_u >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
    return d * v * (boosted ? std::exp(std::log(uniform01_open(bits[3])) / shape) : 1.0);
  }
}

}  // namespace plimsoll::load
