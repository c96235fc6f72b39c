// SPDX-License-Identifier: Apache-2.0
// A rank a GPU by NCCL, loaded when it is needed. NCCL's sums have the same bits on all ranks, but in an order of its own.
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

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

// Up to here one kernel over peer memory is faster than NCCL: 512 KiB on NVLink (vLLM's custom all-reduce against NCCL in
// the tables of aiconfigurator, H200 with 2 to 8 ranks).
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

// Loads NCCL. By itself it connects ranks inside the first collective of a kind, where a call waits for ranks that may have
// failed; connected from the start, calls only enqueue, and abort() gets its turn.
std::shared_ptr<const Table> load_nccl() {
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  return std::make_shared<const Table>();
}

// A rank's place in a NCCL group.
class Place {
 public:
  explicit Place(std::shared_ptr<const Table> table) : nccl_(std::move(table)) {}
  ~Place() {
    if (comm_ != nullptr) static_cast<void>(nccl_->destroy(comm_));
  }
  Place(Place&& other) noexcept : nccl_(std::move(other.nccl_)), comm_(std::exchange(other.comm_, nullptr)) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

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

class NcclCommunicator final : public CudaCommunicator {
 public:
  /// `here`: where the driver threads meet when all ranks are in this process; null: they are not.
  NcclCommunicator(Place place, int rank, int size, int device, bool own_gpu, std::shared_ptr<Rendezvous> here)
      : place_(std::move(place)), rank_(rank), size_(size), device_(device), own_gpu_(own_gpu), here_(std::move(here)) {
    if (here_) return;
    check(cudaSetDevice(device_), "choosing the device");
    word_ = DeviceBuffer(sizeof(float), "a barrier");
    fill(word_, 0, "a barrier");
    stream_ = make_stream();
  }

  /// For messages of up to kPeerBytes.
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
      return nccl.all_reduce(data, data, static_cast<std::size_t>(elements), type, ncclSum, comm, static_cast<cudaStream_t>(stream));
    });
  }

  void all_gather(const void* in, void* out, std::int64_t bytes, Stream stream) override {
    enqueue("an all-gather", [&](const Table& nccl, ncclComm_t comm) {
      return nccl.all_gather(in, out, static_cast<std::size_t>(bytes), ncclInt8, comm, static_cast<cudaStream_t>(stream));
    });
  }

  // On the host where that is possible: nothing may wait on a GPU while a rank takes memory (cuda_backend.cpp).
  void barrier() override {
    if (here_) {
      here_->meet();
      return;
    }
    check(cudaSetDevice(device_), "choosing the device");
    enqueue("a barrier", [&](const Table& nccl, ncclComm_t comm) {
      return nccl.all_reduce(word_.get(), word_.get(), 1, ncclFloat32, ncclSum, comm, stream_.get());
    });
    check(cudaStreamSynchronize(stream_.get()), "a barrier");
    check_alive();                     // an abort ends the wait as well
  }

  void abort() override {
    aborted_ = true;
    if (here_) here_->abort();
    if (peers_) peers_->abort();
    const std::lock_guard lock(calls_);
    place_.abort();
  }

  void check_alive() const override {
    if (aborted_) throw DeviceError("another tensor-parallel rank has failed");
  }

 private:
  // One call at a time and none after abort(), which frees what calls use.
  template <class Call>
  void enqueue(const char* what, const Call& call) {
    const std::lock_guard lock(calls_);
    check_alive();
    place_.nccl().check(call(place_.nccl(), place_.get()), what);
  }

  std::mutex calls_;
  Place place_;
  int rank_, size_, device_;
  bool own_gpu_;
  std::shared_ptr<Rendezvous> here_;
  DeviceBuffer word_;                  // of the barrier between processes
  StreamOwner stream_;
  std::atomic<bool> aborted_{false};
  std::unique_ptr<Communicator> peers_;
};

ncclUniqueId native(const NcclId& id) {
  ncclUniqueId result;
  std::copy(id.begin(), id.end(), result.internal);
  return result;
}

// Each GPU another one, no more than peer memory takes, and every one sees the memory of all others.
bool can_be_peers(std::span<const int> devices) {
  if (devices.size() < 2 || devices.size() > static_cast<std::size_t>(kMostRanks) || !all_different(devices)) return false;
  for (const int device : devices) {
    for (const int peer : devices) {
      int can = 0;
      if (peer != device) check(cudaDeviceCanAccessPeer(&can, device, peer), "asking for peer access");
      if (peer != device && can == 0) return false;
    }
  }
  return true;
}

// One thread may join for all ranks inside a group call, which has to end whatever happens.
std::vector<Place> join_all(const std::shared_ptr<const Table>& table, std::span<const int> devices) {
  const ncclUniqueId id = native(make_nccl_id());
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) places.emplace_back(table);
  table->check(table->group_start(), "making a group");
  cudaError_t chosen = cudaSuccess;
  ncclResult_t joined = ncclSuccess;
  for (std::size_t rank = 0; rank < devices.size() && chosen == cudaSuccess && joined == ncclSuccess; ++rank) {
    chosen = cudaSetDevice(devices[rank]);
    if (chosen == cudaSuccess) joined = places[rank].join(static_cast<int>(devices.size()), id, static_cast<int>(rank));
  }
  const ncclResult_t ended = table->group_end();
  check(chosen, "choosing the device");
  table->check(joined, "joining a group");
  table->check(ended, "making a group");
  return places;
}

}  // namespace

NcclId make_nccl_id() {
  const auto table = load_nccl();
  ncclUniqueId id;
  table->check(table->unique_id(&id), "making an id");
  NcclId result;
  std::copy(std::begin(id.internal), std::end(id.internal), result.begin());
  return result;
}

std::unique_ptr<Communicator> make_nccl_rank(const NcclId& id, int rank, int size, int device) {
  Place place(load_nccl());
  check(cudaSetDevice(device), "choosing the device");
  place.nccl().check(place.join(size, native(id), rank), "joining a group");
  return std::make_unique<NcclCommunicator>(std::move(place), rank, size, device, true, nullptr);
}

std::vector<std::unique_ptr<Communicator>> make_nccl_group(std::span<const int> devices) {
  std::vector<Place> places = join_all(load_nccl(), devices);
  const int size = static_cast<int>(devices.size());
  const auto here = std::make_shared<Rendezvous>(size);
  std::vector<std::unique_ptr<Communicator>> peers;
  if (can_be_peers(devices)) peers = make_peer_group(devices, kPeerBytes);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    auto communicator = std::make_unique<NcclCommunicator>(std::move(places[r]), rank, size, devices[r], all_different(devices), here);
    if (!peers.empty()) communicator->use_peers(std::move(peers[r]));
    ranks.push_back(std::move(communicator));
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
  } catch (const DeviceError&) {       // there is none
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
[[noreturn]] void no_nccl() { throw DeviceError("built without NCCL: nccl.h was not found when this program was built"); }
}  // namespace

NcclId make_nccl_id() { no_nccl(); }
std::unique_ptr<Communicator> make_nccl_rank(const NcclId&, int, int, int) { no_nccl(); }
std::vector<std::unique_ptr<Communicator>> make_nccl_group(std::span<const int>) { no_nccl(); }

}  // namespace plimsoll::exec::cuda

#endif
