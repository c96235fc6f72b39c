// SPDX-License-Identifier: Apache-2.0
#include "study/plan/bracket.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::study::plan {
namespace {
constexpr double kReachUp = 4096, kReachDown = 16777216;  // 2^12, 2^24
}

Bracket::Bracket(const BracketSpec& spec)
    : start_(spec.whole ? std::max(1.0, std::round(spec.start)) : std::max(spec.start, spec.least)),
      stride_(spec.stride),
      tolerance_(spec.tolerance),
      least_(std::max(spec.least, start_ / kReachDown)),
      whole_(spec.whole) {}

double Bracket::rounded(double load) const { return whole_ ? std::round(load) : load; }

std::optional<double> Bracket::next() const {
  if (passing_ == 0 && !failing_) return start_;
  if (ended_ && (!failing_ || passing_ == 0)) return {};
  if (!failing_) {
    if (passing_ >= start_ * kReachUp) return {};
    return whole_ ? std::max(passing_ + 1, std::round(passing_ * stride_)) : passing_ * stride_;
  }
  if (passing_ == 0) {
    if (*failing_ <= least_ || (whole_ && *failing_ <= 1)) return {};
    return whole_ ? std::clamp(std::round(*failing_ / stride_), 1.0, *failing_ - 1)
                  : std::max(least_, *failing_ / stride_);
  }
  if (*failing_ - passing_ <= tolerance_ * *failing_ || (whole_ && *failing_ - passing_ <= 1)) return {};
  return rounded((passing_ + *failing_) / 2);
}

void Bracket::answer(double load, bool passes) {
  if (passes)
    passing_ = std::max(passing_, load);
  else
    failing_ = std::min(failing_.value_or(load), load);
}

double Bracket::value() const {
  if (passing_ == 0 || !failing_) return passing_;
  return whole_ ? passing_ : (passing_ + *failing_) / 2;
}

}  // namespace plimsoll::study::plan
