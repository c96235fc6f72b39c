// SPDX-License-Identifier: Apache-2.0
// The emulation of NCCL, and of exec/cuda/dynamic_library.h, which finds it.
#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec/cuda/bf16.h"
#include "exec/cuda/dynamic_library.h"
#include "model/error.h"

namespace {

// A barrier for the ranks of a group.
class Meeting {
 public:
  explicit Meeting(int size) : operands(static_cast<std::size_t>(size)) {}
  /// Returns false after abort().
  bool wait() {
    std::unique_lock lock(mutex_);
    const unsigned turn = turn_;
    if (++arrived_ == operands.size()) {
      arrived_ = 0;
      ++turn_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return turn_ != turn || aborted_; });
    return !aborted_;
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    all_here_.notify_all();
  }
  std::vector<const void*> operands;

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t arrived_ = 0;
  unsigned turn_ = 0;
  bool aborted_ = false;
};

struct Joining {
  ncclComm_t comm = nullptr;
};

std::mutex groups_mutex;
std::map<std::uint64_t, std::shared_ptr<Meeting>> groups;
std::uint64_t ids = 0;
thread_local int group_calls = 0;
thread_local std::vector<Joining> joining;

std::shared_ptr<Meeting> meeting_of(const ncclUniqueId& id, int size) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const std::lock_guard lock(groups_mutex);
  if (number == 0 || number > ids) return nullptr;  // this id was never created
  std::shared_ptr<Meeting>& meeting = groups[number];
  if (!meeting) meeting = std::make_shared<Meeting>(size);
  return meeting;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Meeting> meeting;
  int rank = 0;
};

const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "invalid usage"; }
ncclResult_t ncclGetVersion(int* version) {
  *version = 23'000;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(groups_mutex);
  ++ids;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &ids, sizeof ids);
  return ncclSuccess;
}

// A thread that joins for several ranks cannot wait for one after the other. Within a group call it only counts them,
// and waits at the end of the call.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  auto meeting = meeting_of(id, size);
  if (!meeting) return ncclInvalidUsage;
  *comm = new ncclComm{std::move(meeting), rank};
  joining.push_back({*comm});
  return group_calls > 0 ? ncclSuccess : ncclGroupEnd();
}
ncclResult_t ncclGroupStart() {
  ++group_calls;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  group_calls = group_calls > 0 ? group_calls - 1 : 0;
  std::vector<Joining> mine;
  std::swap(mine, joining);
  std::vector<std::thread> ranks;
  for (const Joining& each : mine) ranks.emplace_back([comm = each.comm] { static_cast<void>(comm->meeting->wait()); });
  for (std::thread& rank : ranks) rank.join();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->meeting->abort();
  return ncclCommDestroy(comm);
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  plimsoll::exec::cuda_emulation::enqueue(
      stream, [=, meeting = comm->meeting, rank = static_cast<std::size_t>(comm->rank)] {
        using plimsoll::exec::cuda::Bf16;
        meeting->operands[rank] = in;
        if (!meeting->wait()) return;
        std::vector<float> sum(count);
        for (const void* operand : meeting->operands) {
          for (std::size_t i = 0; i < count; ++i)
            sum[i] += type == ncclFloat32 ? static_cast<const float*>(operand)[i]
                                          : to_float(static_cast<const Bf16*>(operand)[i]);
        }
        if (!meeting->wait()) return;  // all ranks must have read the data before it is overwritten
        for (std::size_t i = 0; i < count; ++i) {
          if (type == ncclFloat32)
            static_cast<float*>(out)[i] = sum[i];
          else
            static_cast<Bf16*>(out)[i] = Bf16{plimsoll::exec::cuda::bf16_bits(sum[i])};
        }
      });
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  plimsoll::exec::cuda_emulation::enqueue(
      stream, [=, meeting = comm->meeting, rank = static_cast<std::size_t>(comm->rank)] {
        meeting->operands[rank] = in;
        if (!meeting->wait()) return;
        for (std::size_t r = 0; r < meeting->operands.size(); ++r)
          std::memcpy(static_cast<char*>(out) + r * count, meeting->operands[r], count);
        static_cast<void>(meeting->wait());
      });
  return ncclSuccess;
}

namespace plimsoll::exec::cuda {

DynamicLibrary::DynamicLibrary(const std::string& what, const std::vector<std::string>&) : what_(what) {}

void* DynamicLibrary::symbol(const char* name) const {
  static const std::map<std::string, void*> symbols{
      {"ncclGetErrorString", reinterpret_cast<void*>(&ncclGetErrorString)},
      {"ncclGetVersion", reinterpret_cast<void*>(&ncclGetVersion)},
      {"ncclGetUniqueId", reinterpret_cast<void*>(&ncclGetUniqueId)},
      {"ncclCommInitRank", reinterpret_cast<void*>(&ncclCommInitRank)},
      {"ncclCommDestroy", reinterpret_cast<void*>(&ncclCommDestroy)},
      {"ncclCommAbort", reinterpret_cast<void*>(&ncclCommAbort)},
      {"ncclAllReduce", reinterpret_cast<void*>(&ncclAllReduce)},
      {"ncclAllGather", reinterpret_cast<void*>(&ncclAllGather)},
      {"ncclGroupStart", reinterpret_cast<void*>(&ncclGroupStart)},
      {"ncclGroupEnd", reinterpret_cast<void*>(&ncclGroupEnd)}};
  const auto found = symbols.find(name);
  if (found == symbols.end()) throw DeviceError(what_ + " has no " + name);
  return found->second;
}

}  // namespace plimsoll::exec::cuda
