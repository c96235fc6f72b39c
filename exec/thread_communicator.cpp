// SPDX-License-Identifier: Apache-2.0
#include "exec/thread_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>

#include "exec/brief_wait.h"
#include "exec/mesh.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {

// A barrier that a failing rank can break. A forward has two barriers per sublayer, so waiting ranks spin briefly,
// unless there are more ranks than cores.
class Meeting {
 public:
  explicit Meeting(int size)
      : size_(size), spins_(static_cast<unsigned>(size) <= std::thread::hardware_concurrency()) {}

  void wait() {
    const std::uint32_t mine = turn_.load();
    if ((mine & kAborted) != 0) fail();
    if (arrived_.fetch_add(1) + 1 == size_) {
      arrived_.store(0);
      turn_.fetch_add(kTurn);
      if (sleepers_.load() > 0) wake(turn_, size_);
      return;
    }
    const auto over = [&] { return turn_.load() != mine; };
    if (!spins_ || !spin_briefly(over)) {
      ++sleepers_;  // before the check below, because the last rank ends the turn before it looks for sleepers
      while (!over()) sleep_while(turn_, mine);
      --sleepers_;
    }
    if ((turn_.load() & ~kAborted) == mine) fail();
  }

  void abort() {
    turn_.fetch_or(kAborted);
    wake(turn_, size_);
  }

 private:
  static constexpr std::uint32_t kAborted = 1, kTurn = 2;
  [[noreturn]] static void fail() { throw PeerFailed(); }

  int size_;
  bool spins_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> turn_{0};  // kTurn * number of completed barriers, plus kAborted if broken
  std::atomic<int> sleepers_{0};
};

// The state that the ranks of a group share: the address of each rank's operand. Those of other processes are received.
class SharedOperands {
 public:
  SharedOperands(int size, RankShare share, group::Mesh* mesh)
      : share_(share), mesh_(mesh), meeting_(share.count), operands_(static_cast<std::size_t>(size)) {}

  [[nodiscard]] int size() const { return static_cast<int>(operands_.size()); }
  [[nodiscard]] RankShare share() const { return share_; }

  /// Returns the operands of all ranks, of `bytes` bytes each. Valid until the next wait().
  [[nodiscard]] std::span<const void* const> publish(int rank, const void* data, std::size_t bytes) {
    operands_[static_cast<std::size_t>(rank)] = data;
    meeting_.wait();
    if (mesh_ != nullptr) {
      if (rank == share_.first) receive(bytes);
      meeting_.wait();
    }
    return operands_;
  }
  void wait() { meeting_.wait(); }
  void barrier(int rank) {
    meeting_.wait();
    if (mesh_ == nullptr) return;
    if (rank == share_.first) mesh_->meet();
    meeting_.wait();
  }
  void abort() {
    meeting_.abort();
    if (mesh_ != nullptr) mesh_->abort();
  }

 private:
  void receive(std::size_t bytes) {
    received_.resize(operands_.size() * bytes);
    parts_.clear();
    const auto first = static_cast<std::size_t>(share_.first), end = first + static_cast<std::size_t>(share_.count);
    for (std::size_t rank = first; rank < end; ++rank)
      parts_.emplace_back(static_cast<const std::byte*>(operands_[rank]), bytes);
    mesh_->exchange(parts_, received_);
    for (std::size_t rank = 0; rank < operands_.size(); ++rank)
      if (rank < first || rank >= end) operands_[rank] = received_.data() + rank * bytes;
  }

  RankShare share_;
  group::Mesh* mesh_;  // null if all ranks are in this process
  Meeting meeting_;    // of the ranks in this process
  std::vector<const void*> operands_;
  std::vector<std::byte> received_;  // [rank][bytes]
  std::vector<std::span<const std::byte>> parts_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<SharedOperands> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return shared_->size(); }

  // Every rank sums its own slice for its whole process, so each element is summed once, in the order of ranks.
  void all_reduce(void* data, std::int64_t elements, model::DType dtype, Stream) override {
    PLIMSOLL_CHECK(dtype == model::DType::fp32, "activations on the CPU are f32");
    const auto operands = shared_->publish(rank_, data, static_cast<std::size_t>(elements) * sizeof(float));
    const RankShare share = shared_->share();
    const std::int64_t part = (elements + share.count - 1) / share.count;
    const std::int64_t begin = std::min(elements, part * (rank_ - share.first)), end = std::min(elements, begin + part);
    sum(operands, begin, end);
    shared_->wait();
  }

  void all_gather(const void* in, void* out, std::int64_t bytes, Stream) override {
    auto* to = static_cast<std::byte*>(out);
    for (const void* from : shared_->publish(rank_, in, static_cast<std::size_t>(bytes))) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
      to += bytes;
    }
    shared_->wait();
  }

  void barrier() override { shared_->barrier(rank_); }
  void abort() override { shared_->abort(); }

 private:
  // Sums in tiles that stay in the first-level cache.
  void sum(std::span<const void* const> operands, std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t kTile = 1024;
    float tile[kTile];
    const auto here = operands.subspan(static_cast<std::size_t>(shared_->share().first),
                                       static_cast<std::size_t>(shared_->share().count));
    for (std::int64_t at = begin; at < end; at += kTile) {
      const auto count = static_cast<std::size_t>(std::min(kTile, end - at));
      std::fill_n(tile, count, 0.0F);
      for (const void* operand : operands) {
        const float* from = static_cast<const float*>(operand) + at;
        for (std::size_t i = 0; i < count; ++i) tile[i] += from[i];
      }
      // No other rank touches this slice of any buffer before the second barrier.
      for (const void* operand : here)
        std::memcpy(static_cast<float*>(const_cast<void*>(operand)) + at, tile, count * sizeof(float));
    }
  }

  std::shared_ptr<SharedOperands> shared_;
  int rank_;
};

std::vector<std::unique_ptr<Communicator>> make_group(int size, RankShare share, group::Mesh* mesh) {
  auto shared = std::make_shared<SharedOperands>(size, share, mesh);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int i = 0; i < share.count; ++i) ranks.push_back(std::make_unique<ThreadCommunicator>(shared, share.first + i));
  return ranks;
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size) { return make_group(size, {0, size}, nullptr); }

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, RankShare share, group::Mesh& mesh) {
  return make_group(size, share, &mesh);
}

}  // namespace plimsoll::exec
