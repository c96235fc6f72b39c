// SPDX-License-Identifier: Apache-2.0
// Ranks that share a GPU. The last rank to arrive makes its stream wait for the streams of all others and enqueues the
// work for all ranks. The other streams then wait for that work.
#include <vector>

#include "exec/cuda/buffer.h"
#include "exec/cuda/communicators.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/rendezvous.h"

namespace plimsoll::exec::cuda {

namespace {

struct Operand {
  const void* in = nullptr;
  void* out = nullptr;
  EventOwner ready = make_event();
};

struct LoopbackGroup {
  explicit LoopbackGroup(int size) : rendezvous(size), operands(static_cast<std::size_t>(size)) {}
  Rendezvous rendezvous;
  std::vector<Operand> operands;
  EventOwner done = make_event();
};

class LoopbackCommunicator final : public CudaCommunicator {
 public:
  LoopbackCommunicator(std::shared_ptr<LoopbackGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(group_->operands.size()); }
  [[nodiscard]] bool capturable() const override { return false; }  // operations synchronise on the host
  [[nodiscard]] bool own_gpu() const override { return false; }

  void all_reduce(void* data, std::int64_t elements, model::DType dtype, Stream stream) override {
    together(data, data, stream, [&](cudaStream_t on) {
      RankPointers buffers{};
      for (int rank = 0; rank < size(); ++rank) buffers.of[rank] = group_->operands[static_cast<std::size_t>(rank)].out;
      sum_ranks(element_of(dtype), buffers, size(), elements, on);
    });
  }

  void all_gather(const void* in, void* out, std::int64_t bytes, Stream stream) override {
    together(in, out, stream, [&](cudaStream_t on) {
      const auto part = static_cast<std::size_t>(bytes);
      for (const Operand& to : group_->operands) {
        auto* at = static_cast<std::byte*>(to.out);
        for (const Operand& from : group_->operands) {
          check(cudaMemcpyAsync(at, from.in, part, cudaMemcpyDeviceToDevice, on), "gathering");
          at += part;
        }
      }
    });
  }

  void barrier() override { group_->rendezvous.meet(); }
  void abort() override { group_->rendezvous.abort(); }
  void check_alive() const override { group_->rendezvous.check_alive(); }

 private:
  // Runs `work` once, in the stream of the rank that arrives last. It starts after the earlier work of all ranks,
  // and no rank's later work starts before it ends. Only the host waits in meet(), not the GPU.
  template <class Work>
  void together(const void* in, void* out, Stream stream, const Work& work) {
    const auto own = static_cast<cudaStream_t>(stream);
    Operand& operand = group_->operands[static_cast<std::size_t>(rank_)];
    operand.in = in;
    operand.out = out;
    check(cudaEventRecord(operand.ready.get(), own), "synchronising with other ranks");
    group_->rendezvous.meet([&] {
      for (const Operand& other : group_->operands)
        check(cudaStreamWaitEvent(own, other.ready.get(), 0), "synchronising with other ranks");
      work(own);
      check(cudaEventRecord(group_->done.get(), own), "synchronising with other ranks");
    });
    check(cudaStreamWaitEvent(own, group_->done.get(), 0), "synchronising with other ranks");
  }

  std::shared_ptr<LoopbackGroup> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_loopback_group(int size, int device) {
  if (size < 1 || size > kMaxRanks)
    throw InputError("a loopback group has 1 to " + std::to_string(kMaxRanks) + " ranks");
  check(cudaSetDevice(device), "selecting the device");
  const auto group = std::make_shared<LoopbackGroup>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<LoopbackCommunicator>(group, rank));
  return ranks;
}

}  // namespace plimsoll::exec::cuda
