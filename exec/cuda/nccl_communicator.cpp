// SPDX-License-Identifier: Apache-2.0
// One rank per GPU with NCCL, which is loaded on demand. NCCL's sums have the same bits on all ranks, but in an order
// of its own.
#include "exec/backend.h"
#include "exec/cuda/communicators.h"
#include "model/error.h"

#if defined(PLIMSOLL_NCCL)

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "exec/cuda/buffer.h"
#include "exec/cuda/dynamic_library.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/rendezvous.h"

namespace plimsoll::exec::cuda {

namespace {

// Up to this size one kernel over peer memory is faster than NCCL: 512 KiB on NVLink (vLLM's custom all-reduce against
// NCCL in the tables of aiconfigurator, H200 with 2 to 8 ranks).
constexpr std::size_t kPeerBytes = std::size_t{512} << 10;

struct Table {
  Table() : library("NCCL (libnccl)", {"libnccl.so.2", "libnccl.so"}) {
    library.find(error_string, "ncclGetErrorString");
    library.find(version, "ncclGetVersion");
    library.find(unique_id, "ncclGetUniqueId");
    library.find(init_rank, "ncclCommInitRank");
    library.find(destroy, "ncclCommDestroy");
    library.find(abort, "ncclCommAbort");
    library.find(all_reduce, "ncclAllReduce");
    library.find(all_gather, "ncclAllGather");
    library.find(group_start, "ncclGroupStart");
    library.find(group_end, "ncclGroupEnd");
  }
  void check(ncclResult_t result, const char* what) const {
    if (result == ncclRemoteError) throw PeerFailed();  // the leader finds out which peer failed
    if (result != ncclSuccess) throw DeviceError(std::string("NCCL: ") + what + ": " + error_string(result));
  }

  DynamicLibrary library;
  decltype(ncclGetErrorString)* error_string = nullptr;
  decltype(ncclGetVersion)* version = nullptr;
  decltype(ncclGetUniqueId)* unique_id = nullptr;
  decltype(ncclCommInitRank)* init_rank = nullptr;
  decltype(ncclCommDestroy)* destroy = nullptr;
  decltype(ncclCommAbort)* abort = nullptr;
  decltype(ncclAllReduce)* all_reduce = nullptr;
  decltype(ncclAllGather)* all_gather = nullptr;
  decltype(ncclGroupStart)* group_start = nullptr;
  decltype(ncclGroupEnd)* group_end = nullptr;
};

// Loads NCCL. By default NCCL connects the ranks during the first collective of each kind, and that call waits for
// ranks that may have failed. If it connects them at the start, calls only enqueue, so abort() can take the lock.
std::shared_ptr<const Table> load_nccl() {
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  return std::make_shared<const Table>();
}

// A rank's membership in an NCCL group.
class Membership {
 public:
  explicit Membership(std::shared_ptr<const Table> table) : nccl_(std::move(table)) {}
  ~Membership() {
    if (comm_ != nullptr) static_cast<void>(nccl_->destroy(comm_));
  }
  Membership(Membership&& other) noexcept : nccl_(std::move(other.nccl_)), comm_(std::exchange(other.comm_, nullptr)) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  [[nodiscard]] const Table& nccl() const { return *nccl_; }
  [[nodiscard]] ncclComm_t get() const { return comm_; }
  ncclResult_t join(int size, const ncclUniqueId& id, int rank) { return nccl_->init_rank(&comm_, size, id, rank); }
  void abort() {
    if (comm_ != nullptr) static_cast<void>(nccl_->abort(std::exchange(comm_, nullptr)));
  }

 private:
  std::shared_ptr<const Table> nccl_;
  ncclComm_t comm_ = nullptr;
};

// A rank of a group.
struct Seat {
  int rank = 0, size = 1;
  bool own_gpu = true;  // no other rank uses its GPU
};

class NcclCommunicator final : public CudaCommunicator {
 public:
  /// `here` synchronises the driver threads if all ranks are in this process. Otherwise it is null, and `host`
  /// synchronises the ranks of all processes.
  NcclCommunicator(Membership membership, const Seat& seat, std::shared_ptr<Rendezvous> here,
                   std::unique_ptr<Communicator> host)
      : membership_(std::move(membership)),
        rank_(seat.rank),
        size_(seat.size),
        own_gpu_(seat.own_gpu),
        here_(std::move(here)),
        host_(std::move(host)) {}

  /// Uses `peers` for messages of up to kPeerBytes.
  void use_peers(std::unique_ptr<Communicator> peers) { peers_ = std::move(peers); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] bool capturable() const override { return true; }
  [[nodiscard]] bool own_gpu() const override { return own_gpu_; }

  void all_reduce(void* data, std::int64_t elements, model::DType dtype, Stream stream) override {
    const std::int64_t bytes = elements * (dtype == model::DType::fp32 ? 4 : 2);
    if (peers_ && bytes <= static_cast<std::int64_t>(kPeerBytes) && bytes % 16 == 0) {
      peers_->all_reduce(data, elements, dtype, stream);
      return;
    }
    const ncclDataType_t type = dtype == model::DType::fp32 ? ncclFloat32 : ncclBfloat16;
    enqueue("an all-reduce", [&](const Table& nccl, ncclComm_t comm) {
      return nccl.all_reduce(data, data, static_cast<std::size_t>(elements), type, ncclSum, comm,
                             static_cast<cudaStream_t>(stream));
    });
  }

  void all_gather(const void* in, void* out, std::int64_t bytes, Stream stream) override {
    enqueue("an all-gather", [&](const Table& nccl, ncclComm_t comm) {
      return nccl.all_gather(in, out, static_cast<std::size_t>(bytes), ncclInt8, comm,
                             static_cast<cudaStream_t>(stream));
    });
  }

  // Synchronises on the host: nothing may wait on a GPU while a rank allocates (cuda_backend.cpp).
  void barrier() override {
    if (here_)
      here_->meet();
    else
      host_->barrier();
  }

  void abort() override {
    aborted_ = true;
    if (here_)
      here_->abort();
    else
      host_->abort();
    if (peers_) peers_->abort();
    const std::lock_guard lock(calls_);
    membership_.abort();
  }

  void check_alive() const override {
    if (aborted_) throw PeerFailed();
  }

 private:
  // Runs one call at a time, and none after abort(), because abort() frees what calls use.
  template <class Call>
  void enqueue(const char* what, const Call& call) {
    const std::lock_guard lock(calls_);
    check_alive();
    membership_.nccl().check(call(membership_.nccl(), membership_.get()), what);
  }

  std::mutex calls_;
  Membership membership_;
  int rank_, size_;
  bool own_gpu_;
  std::shared_ptr<Rendezvous> here_;
  std::unique_ptr<Communicator> host_;
  std::atomic<bool> aborted_{false};
  std::unique_ptr<Communicator> peers_;
};

// Returns true if all GPUs differ, are not too many for peer memory, and can access each other's memory.
bool can_be_peers(std::span<const int> devices) {
  if (devices.size() < 2 || devices.size() > static_cast<std::size_t>(kMaxRanks) || !all_different(devices))
    return false;
  for (const int device : devices) {
    for (const int peer : devices) {
      int can = 0;
      if (peer != device) check(cudaDeviceCanAccessPeer(&can, device, peer), "testing peer access");
      if (peer != device && can == 0) return false;
    }
  }
  return true;
}

ncclUniqueId make_id(const Table& table) {
  ncclUniqueId id;
  table.check(table.unique_id(&id), "making an id");
  return id;
}

// Creates a CUDA context on each device, so that errors appear before any other rank waits.
void open_devices(std::span<const int> devices) {
  for (const int device : devices) check(cudaSetDevice(device), "selecting the device");
}

// The ranks of this process are numbered from `first`; the group has `size`.
struct RankNumbers {
  int first = 0, size = 1;
};

// Joins all ranks of this process. One thread may do this inside an NCCL group call,
// which must be ended in any case.
std::vector<Membership> join_all(const std::shared_ptr<const Table>& table, const ncclUniqueId& id, RankNumbers numbers,
                                 std::span<const int> devices) {
  std::vector<Membership> memberships;
  for (std::size_t i = 0; i < devices.size(); ++i) memberships.emplace_back(table);
  table->check(table->group_start(), "making a group");
  cudaError_t chosen = cudaSuccess;
  ncclResult_t joined = ncclSuccess;
  for (std::size_t i = 0; i < devices.size() && chosen == cudaSuccess && joined == ncclSuccess; ++i) {
    chosen = cudaSetDevice(devices[i]);
    if (chosen == cudaSuccess) joined = memberships[i].join(numbers.size, id, numbers.first + static_cast<int>(i));
  }
  const ncclResult_t ended = table->group_end();
  check(chosen, "selecting the device");
  table->check(joined, "joining a group");
  table->check(ended, "making a group");
  return memberships;
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_nccl_group(std::span<const int> devices) {
  const auto table = load_nccl();
  const int size = static_cast<int>(devices.size());
  std::vector<Membership> memberships = join_all(table, make_id(*table), {0, size}, devices);
  const auto here = std::make_shared<Rendezvous>(size);
  std::vector<std::unique_ptr<Communicator>> peers;
  if (can_be_peers(devices)) peers = make_peer_group(devices, kPeerBytes);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    auto communicator = std::make_unique<NcclCommunicator>(std::move(memberships[r]),
                                                           Seat{rank, size, all_different(devices)}, here, nullptr);
    if (!peers.empty()) communicator->use_peers(std::move(peers[r]));
    ranks.push_back(std::move(communicator));
  }
  return ranks;
}

// Everything that can fail here must fail before the id is shared, because a process that joins waits for all others.
std::vector<std::unique_ptr<Communicator>> make_nccl_group(SpreadGroup group, std::span<const int> devices) {
  const auto table = load_nccl();
  open_devices(devices);
  ncclUniqueId id = group.first == 0 ? make_id(*table) : ncclUniqueId{};
  group.share(std::as_writable_bytes(std::span(&id, 1)));
  std::vector<Membership> memberships = join_all(table, id, {group.first, group.size}, devices);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    ranks.push_back(std::make_unique<NcclCommunicator>(
        std::move(memberships[i]), Seat{group.first + static_cast<int>(i), group.size, all_different(devices)}, nullptr,
        std::move(group.hosts[i])));
  }
  return ranks;
}

}  // namespace plimsoll::exec::cuda

namespace plimsoll::exec {

int nccl_version() {
  int version = 0;
  try {
    const auto table = cuda::load_nccl();
    if (table->version(&version) != ncclSuccess) version = 0;
  } catch (const DeviceError&) {  // NCCL is missing
    version = 0;
  }
  return version;
}

}  // namespace plimsoll::exec

#else

namespace plimsoll::exec {
int nccl_version() { return 0; }
}  // namespace plimsoll::exec

namespace plimsoll::exec::cuda {

namespace {
[[noreturn]] void no_nccl() {
  throw DeviceError("built without NCCL: nccl.h was not found when this program was built");
}
}  // namespace

std::vector<std::unique_ptr<Communicator>> make_nccl_group(std::span<const int>) { no_nccl(); }
std::vector<std::unique_ptr<Communicator>> make_nccl_group(SpreadGroup, std::span<const int>) { no_nccl(); }

}  // namespace plimsoll::exec::cuda

#endif
