// SPDX-License-Identifier: Apache-2.0
#include "exec/live/token_requests.h"

#include "exec/live/step_order.h"
#include "model/error.h"

namespace plimsoll::exec {

void TokenRequests::add(std::uint64_t serial, TokenRequest request) {
  const std::lock_guard lock(mutex_);
  requests_[serial] = std::move(request);
}

void TokenRequests::erase(std::uint64_t serial) {
  const std::lock_guard lock(mutex_);
  requests_.erase(serial);
}

const TokenRequest& TokenRequests::of(const OpenRequest& request) const {
  const auto found = requests_.find(request.serial);
  PLIMSOLL_CHECK(found != requests_.end(), "a request in a step has not ended");
  return found->second;
}

void TokenRequests::append(const OpenRequest& request, std::vector<std::int32_t>& out) const {
  const std::lock_guard lock(mutex_);
  const TokenRequest& given = of(request);
  PLIMSOLL_CHECK(given.prompt.size() == static_cast<std::size_t>(request.input), "a request states its whole prompt");
  out.insert(out.end(), given.prompt.begin(), given.prompt.end());
}

std::optional<Sampling> TokenRequests::sampling(const OpenRequest& request) const {
  const std::lock_guard lock(mutex_);
  return of(request).sampling;
}

}  // namespace plimsoll::exec
