// SPDX-License-Identifier: Apache-2.0
#include "exec/thread_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include "exec/cpu/brief_wait.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {

// What the ranks of a group share: where each keeps its operand, and a barrier that a failing rank can break. A forward has
// two of them a sublayer, so who waits spins for a moment, unless there are more ranks than cores.
class Meeting {
 public:
  explicit Meeting(int size)
      : size_(size), spins_(static_cast<unsigned>(size) <= std::thread::hardware_concurrency()), operands_(static_cast<std::size_t>(size)) {}

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
      ++sleepers_;                     // before the last look, as the last one to arrive looks for sleepers behind its step
      while (!over()) sleep_while(turn_, mine);
      --sleepers_;
    }
    if ((turn_.load() & ~kAborted) == mine) fail();
  }

  void abort() {
    turn_.fetch_or(kAborted);
    wake(turn_, size_);
  }

  // The pointers of all ranks, from the barrier after which they were published to the next one.
  [[nodiscard]] std::vector<const void*>& operands() { return operands_; }
  [[nodiscard]] int size() const { return size_; }

 private:
  static constexpr std::uint32_t kAborted = 1, kTurn = 2;
  [[noreturn]] static void fail() { throw DeviceError("another rank of the tensor-parallel group has failed"); }

  int size_;
  bool spins_;
  std::vector<const void*> operands_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> turn_{0};   // twice the number of barriers that are over, and kAborted
  std::atomic<int> sleepers_{0};
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return meeting_->size(); }

  // Every rank sums its own slice for all: each element is added once, in the order of ranks.
  void all_reduce(void* data, std::int64_t elements, model::DType dtype, Stream) override {
    PLIMSOLL_CHECK(dtype == model::DType::fp32, "activations on the CPU are f32");
    meeting_->operands()[static_cast<std::size_t>(rank_)] = data;
    meeting_->wait();
    const std::int64_t part = (elements + size() - 1) / size();
    const std::int64_t begin = std::min(elements, part * rank_), end = std::min(elements, begin + part);
    sum(begin, end);
    meeting_->wait();
  }

  void all_gather(const void* in, void* out, std::int64_t bytes, Stream) override {
    meeting_->operands()[static_cast<std::size_t>(rank_)] = in;
    meeting_->wait();
    auto* to = static_cast<std::byte*>(out);
    for (const void* from : meeting_->operands()) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
      to += bytes;
    }
    meeting_->wait();
  }

  void barrier() override { meeting_->wait(); }
  void abort() override { meeting_->abort(); }

 private:
  // In tiles that stay in the first-level cache.
  void sum(std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kTile = 1024;
    float tile[kTile];
    for (std::int64_t at = begin; at < end; at += kTile) {
      const auto count = static_cast<std::size_t>(std::min(kTile, end - at));
      std::fill_n(tile, count, 0.0F);
      for (const void* operand : meeting_->operands()) {
        const float* from = static_cast<const float*>(operand) + at;
        for (std::size_t i = 0; i < count; ++i) tile[i] += from[i];
      }
      // This slice of every rank's buffer is nobody else's until the second barrier.
      for (const void* operand : meeting_->operands())
        std::memcpy(static_cast<float*>(const_cast<void*>(operand)) + at, tile, count * sizeof(float));
    }
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size) {
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<ThreadCommunicator>(meeting, rank));
  return ranks;
}

}  // namespace plimsoll::exec
