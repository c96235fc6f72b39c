// SPDX-License-Identifier: Apache-2.0
#include "exec/group/member.h"

#include "exec/engine.h"
#include "exec/thread_communicator.h"

namespace plimsoll::exec::group {

RankShare MemberRanks::share(std::int32_t tp) const {
  PLIMSOLL_CHECK(tp % member_.processes == 0, "every process holds the same number of ranks");
  const int count = tp / member_.processes;
  return {member_.process * count, count};
}

std::vector<std::unique_ptr<Communicator>> MemberRanks::communicators(const EngineConfig& config,
                                                                      std::span<const int> devices) {
  Mesh& mesh = *links_.mesh;
  auto hosts = make_thread_group(config.tp, share(config.tp), mesh);
  if (config.device == DeviceKind::cpu) return hosts;
  SpreadGroup group{.first = share(config.tp).first, .size = config.tp, .share = {}, .hosts = std::move(hosts)};
  group.share = [&mesh](std::span<std::byte> bytes) {
    mesh.broadcast(bytes);
    mesh.meet();
  };
  return make_cuda_group(std::move(group), devices);
}

}  // namespace plimsoll::exec::group
