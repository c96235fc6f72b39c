// SPDX-License-Identifier: Apache-2.0
// All-reduces of short messages: one kernel per rank reads the memory of the other ranks (reduce.cu). For the few KiB
// of a decode step this takes a third of a ring's time, and every rank adds in the same order.
#include <algorithm>
#include <vector>

#include "exec/cuda/buffer.h"
#include "exec/cuda/communicators.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/rendezvous.h"

namespace plimsoll::exec::cuda {

namespace {

constexpr std::size_t kFlagBytes = std::size_t{kPeerBlocks} * kMaxRanks * sizeof(std::uint32_t);

// A rank's memory on its device.
struct RankMemory {
  RankMemory(int on_device, std::size_t capacity) : device(on_device) {
    check(cudaSetDevice(device), "selecting the device");
    staging = DeviceBuffer(2 * capacity, "messages between GPUs");
    flags = DeviceBuffer(kFlagBytes, "messages between GPUs");
    calls = DeviceBuffer(kPeerBlocks * sizeof(std::uint32_t), "messages between GPUs");
    fill(flags, 0, "clearing flags");
    fill(calls, 0, "clearing flags");
  }
  int device;
  DeviceBuffer staging, flags, calls;
};

struct PeerGroup {
  explicit PeerGroup(int size) : rendezvous(size) { *aborted.as<std::uint32_t>() = 0; }
  Rendezvous rendezvous;
  bool own_gpus = false;
  std::vector<RankMemory> ranks;
  PinnedBuffer aborted{sizeof(std::uint32_t)};  // every GPU sees pinned memory at its host address
};

class PeerCommunicator final : public CudaCommunicator {
 public:
  PeerCommunicator(std::shared_ptr<PeerGroup> group, const PeerPart& part) : group_(std::move(group)), part_(part) {}

  [[nodiscard]] int rank() const override { return part_.rank; }
  [[nodiscard]] int size() const override { return part_.ranks; }
  [[nodiscard]] bool capturable() const override { return true; }
  [[nodiscard]] bool own_gpu() const override { return group_->own_gpus; }

  void all_reduce(void* data, std::int64_t elements, model::DType dtype, Stream stream) override {
    check_alive();
    const Element element = element_of(dtype);
    const std::int64_t bytes = elements * bytes_of(element);
    PLIMSOLL_CHECK(bytes % 16 == 0, "rows of 16-byte pieces are summed");
    auto* at = static_cast<std::byte*>(data);
    // Messages larger than the staging memory are summed in parts.
    for (std::int64_t done = 0; done < bytes; done += part_.capacity) {
      const std::int64_t part = std::min(part_.capacity, bytes - done);
      peer_all_reduce(element, part_, at + done, part / bytes_of(element), static_cast<cudaStream_t>(stream));
    }
  }

  void all_gather(const void*, void*, std::int64_t, Stream) override {
    PLIMSOLL_CHECK(false, "peer memory is for sums only");
  }
  void barrier() override { group_->rendezvous.meet(); }
  void abort() override {
    // Kernels of other GPUs poll this word and give up waiting.
    __atomic_store_n(group_->aborted.as<std::uint32_t>(), 1U, __ATOMIC_RELEASE);
    group_->rendezvous.abort();
  }
  void check_alive() const override { group_->rendezvous.check_alive(); }

 private:
  std::shared_ptr<PeerGroup> group_;
  PeerPart part_;
};

// Enables access in both directions between every two GPUs.
void let_see_each_other(std::span<const int> devices) {
  for (const int device : devices) {
    check(cudaSetDevice(device), "selecting the device");
    for (const int peer : devices) {
      if (peer == device) continue;
      const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
      // Another group of this process enabled access already. Clear the error, or a later check would report it.
      if (error == cudaErrorPeerAccessAlreadyEnabled)
        static_cast<void>(cudaGetLastError());
      else
        check(error, "enabling peer access");
    }
  }
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_peer_group(std::span<const int> devices, std::size_t capacity) {
  const int size = static_cast<int>(devices.size());
  PLIMSOLL_CHECK(size >= 1 && size <= kMaxRanks && capacity % 16 == 0 && capacity > 0, "a group of a few ranks");
  let_see_each_other(devices);
  auto group = std::make_shared<PeerGroup>(size);
  group->own_gpus = all_different(devices);
  for (const int device : devices) group->ranks.emplace_back(device, capacity);
  PeerPart part;
  part.ranks = size;
  part.capacity = static_cast<std::int64_t>(capacity);
  part.aborted = group->aborted.as<std::uint32_t>();
  for (int rank = 0; rank < size; ++rank) {
    part.staging.of[rank] = group->ranks[static_cast<std::size_t>(rank)].staging.get();
    part.flags.of[rank] = group->ranks[static_cast<std::size_t>(rank)].flags.get();
  }
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (part.rank = 0; part.rank < size; ++part.rank) {
    part.calls = group->ranks[static_cast<std::size_t>(part.rank)].calls.as<std::uint32_t>();
    ranks.push_back(std::make_unique<PeerCommunicator>(group, part));
  }
  return ranks;
}

}  // namespace plimsoll::exec::cuda
