// SPDX-License-Identifier: Apache-2.0
// A rank a GPU by NCCL, loaded when it is needed. NCCL's sums have the same bits on all ranks, but in an order of its own.
#include "exec/cuda/communicators.h"
#include "model/error.h"

#if defined(PLIMSOLL_NCCL)

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "exec/cuda/buffer.h"
#include "exec/cuda/dynamic_library.h"

namespace plimsoll::exec::cuda {

namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

// Up to here one kernel over peer memory is faster than NCCL: 512 KiB on NVLink (vLLM's custom all-reduce against NCCL in
// the tables of aiconfigurator, H200 with 2 to 8 ranks).
constexpr std::size_t kPeerBytes = std::size_t{512} << 10;

struct Table {
  Table() : library("NCCL (libnccl)", {"libnccl.so.2", "libnccl.so"}) {
    library.find(error_string, "ncclGetErrorString");
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
  decltype(ncclGetUniqueId)* unique_id = nullptr;
  decltype(ncclCommInitRank)* init_rank = nullptr;
  decltype(ncclCommDestroy)* destroy = nullptr;
  decltype(ncclCommAbort)* abort = nullptr;
  decltype(ncclAllReduce)* all_reduce = nullptr;
  decltype(ncclAllGather)* all_gather = nullptr;
  decltype(ncclGroupStart)* group_start = nullptr;
  decltype(ncclGroupEnd)* group_end = nullptr;
};

class NcclCommunicator final : public CudaCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<const Table> table, ncclComm_t comm, int rank, int size, int device)
      : nccl_(std::move(table)), comm_(comm), rank_(rank), size_(size), device_(device) {}
  ~NcclCommunicator() override {
    if (!aborted_.exchange(true)) static_cast<void>(nccl_->destroy(comm_));
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// For messages of up to kPeerBytes.
  void use_peers(std::unique_ptr<Communicator> peers) { peers_ = std::move(peers); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] bool capturable() const override { return true; }

  void all_reduce(void* data, std::int64_t elements, model::DType dtype, Stream stream) override {
    check_alive();
    const std::int64_t bytes = elements * (dtype == model::DType::fp32 ? 4 : 2);
    if (peers_ && bytes <= static_cast<std::int64_t>(kPeerBytes) && bytes % 16 == 0) {
      peers_->all_reduce(data, elements, dtype, stream);
      return;
    }
    const ncclDataType_t type = dtype == model::DType::fp32 ? ncclFloat32 : ncclBfloat16;
    nccl_->check(nccl_->all_reduce(data, data, static_cast<std::size_t>(elements), type, ncclSum, comm_, static_cast<cudaStream_t>(stream)),
                 "an all-reduce");
  }

  void all_gather(const void* in, void* out, std::int64_t bytes, Stream stream) override {
    check_alive();
    nccl_->check(nccl_->all_gather(in, out, static_cast<std::size_t>(bytes), ncclInt8, comm_, static_cast<cudaStream_t>(stream)),
                 "an all-gather");
  }

  void barrier() override {
    check(cudaSetDevice(device_), "choosing the device");
    const DeviceBuffer one(sizeof(float), "a barrier");
    const StreamOwner stream = make_stream();
    check(cudaMemsetAsync(one.get(), 0, sizeof(float), stream.get()), "a barrier");
    check_alive();
    nccl_->check(nccl_->all_reduce(one.get(), one.get(), 1, ncclFloat32, ncclSum, comm_, stream.get()), "a barrier");
    check(cudaStreamSynchronize(stream.get()), "a barrier");
  }

  void abort() override {
    if (!aborted_.exchange(true)) static_cast<void>(nccl_->abort(comm_));
    if (peers_) peers_->abort();
  }

  void check_alive() const override {
    if (aborted_) throw DeviceError("another tensor-parallel rank has failed");
  }

 private:
  std::shared_ptr<const Table> nccl_;
  ncclComm_t comm_;
  int rank_, size_, device_;
  std::atomic<bool> aborted_{false};
  std::unique_ptr<Communicator> peers_;
};

ncclUniqueId native(const NcclId& id) {
  ncclUniqueId result;
  std::copy(id.begin(), id.end(), result.internal);
  return result;
}

// Each GPU another one, and every one sees the memory of all others.
bool all_see_each_other(std::span<const int> devices) {
  for (const int device : devices) {
    for (const int peer : devices) {
      int can = 0;
      if (peer != device) check(cudaDeviceCanAccessPeer(&can, device, peer), "asking for peer access");
      if (peer != device && can == 0) return false;
    }
  }
  return std::set<int>(devices.begin(), devices.end()).size() == devices.size();
}

}  // namespace

NcclId make_nccl_id() {
  const Table table;
  ncclUniqueId id;
  table.check(table.unique_id(&id), "making an id");
  NcclId result;
  std::copy(std::begin(id.internal), std::end(id.internal), result.begin());
  return result;
}

std::unique_ptr<Communicator> make_nccl_rank(const NcclId& id, int rank, int size, int device) {
  auto table = std::make_shared<const Table>();
  check(cudaSetDevice(device), "choosing the device");
  ncclComm_t comm = nullptr;
  table->check(table->init_rank(&comm, size, native(id), rank), "joining a group");
  return std::make_unique<NcclCommunicator>(std::move(table), comm, rank, size, device);
}

std::vector<std::unique_ptr<Communicator>> make_nccl_group(std::span<const int> devices) {
  const auto table = std::make_shared<const Table>();
  const int size = static_cast<int>(devices.size());
  const ncclUniqueId id = native(make_nccl_id());
  std::vector<ncclComm_t> comms(devices.size());
  table->check(table->group_start(), "making a group");
  for (int rank = 0; rank < size; ++rank) {   // one thread may join for all ranks inside a group call
    const auto r = static_cast<std::size_t>(rank);
    check(cudaSetDevice(devices[r]), "choosing the device");
    table->check(table->init_rank(&comms[r], size, id, rank), "joining a group");
  }
  table->check(table->group_end(), "making a group");
  std::vector<std::unique_ptr<Communicator>> peers;
  if (size > 1 && all_see_each_other(devices)) peers = make_peer_group(devices, kPeerBytes);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    auto communicator = std::make_unique<NcclCommunicator>(table, comms[r], rank, size, devices[r]);
    if (!peers.empty()) communicator->use_peers(std::move(peers[r]));
    ranks.push_back(std::move(communicator));
  }
  return ranks;
}

}  // namespace plimsoll::exec::cuda

#else

namespace plimsoll::exec::cuda {

namespace {
[[noreturn]] void no_nccl() { throw DeviceError("built without NCCL: nccl.h was not found when this program was built"); }
}  // namespace

NcclId make_nccl_id() { no_nccl(); }
std::unique_ptr<Communicator> make_nccl_rank(const NcclId&, int, int, int) { no_nccl(); }
std::vector<std::unique_ptr<Communicator>> make_nccl_group(std::span<const int>) { no_nccl(); }

}  // namespace plimsoll::exec::cuda

#endif
