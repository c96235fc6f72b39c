// SPDX-License-Identifier: Apache-2.0
// A forward on the GPU: memory, uploads, graphs and results. The ops are in cuda_ops.cpp.
#include "exec/cuda/cuda_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "exec/cuda/cuda_weights.h"
#include "model/memory_plan.h"

namespace plimsoll::exec::cuda {

namespace {

KvGeometry geometry_of(const BackendConfig& config) {
  KvGeometry kv;
  kv.kv_heads = static_cast<std::int32_t>(config.rank.kv_heads);
  kv.block_tokens = config.block_tokens;
  kv.head_dim = config.architecture.shape.head_dim;
  kv.plane = config.kv_blocks * kv.kv_heads * kv.block_tokens * kv.head_dim;
  return kv;
}

// A graph can contain only work of the stream itself. Ranks that synchronise on the host cannot be captured.
bool may_capture(const Communicator* communicator, const CudaCommunicator* group) {
  return communicator == nullptr || (group != nullptr && group->capturable());
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "reading the device's properties");
  return properties;
}

StreamOwner stream_on(int device) {
  check(cudaSetDevice(device), "selecting the device");
  return make_stream();
}

constexpr std::size_t kMinInputs = std::size_t{512} << 10;  // initial size of a forward's inputs; enough for most
constexpr std::size_t kGraphs = std::size_t{256} << 20;     // reserved for graphs and kernel code
constexpr std::int64_t kMaxPinnedBlock = 16 << 20;  // larger blocks are contiguous reservations with long pieces

int ranks_of(const Communicator* communicator) { return communicator == nullptr ? 1 : communicator->size(); }

}  // namespace

CudaBackend::CudaBackend(const BackendConfig& config, Communicator* communicator, int device)
    : config_(config),
      shape_(config_.architecture.shape),
      communicator_(communicator),
      group_(dynamic_cast<const CudaCommunicator*>(communicator)),
      device_(device),
      properties_(properties_of(device)),
      graphs_enabled_(config.graphs && may_capture(communicator_, group_)),
      element_(element_of(config.weight_dtype)),
      kv_element_(element_of(config.kv_dtype)),
      kv_(geometry_of(config)),
      stream_(stream_on(device)),
      gemm_({}),
      workspace_(config_, properties_.multiProcessorCount, ranks_of(communicator)) {
  check_config();
  // Check before anything large is allocated, so that an error states the whole requirement.
  check_memory();
  if (runs_alone()) {
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "reading the driver's version");
    gemm_.use_file(gemm_file(fmt::format("{}-driver{}-{}", properties_.name, driver, gemm_.version())));
  }
  const std::size_t cache_bytes = static_cast<std::size_t>(2 * shape_.layers * kv_.plane * bytes_of(kv_element_));
  cache_ = DeviceBuffer(cache_bytes, "the KV cache");
  if (config_.poison) fill(cache_, 0xff, "filling the KV cache with NaN");
  slots_ =
      DeviceBuffer(static_cast<std::size_t>(std::max(1, config_.sequences)) * sizeof(std::int32_t), "sampled tokens");
  fill(slots_, 0, "clearing sampled tokens");
  rotations_.resize(Workspace::rotations(config_));
  for (Rotation& rotation : rotations_) {
    rotation.frequencies =
        DeviceBuffer(static_cast<std::size_t>(std::max(1, shape_.head_dim / 2)) * sizeof(double), "frequencies");
  }
  if (const std::int64_t block = bytes_per_block(); block > 0 && block <= kMaxPinnedBlock)
    swapped_ = PinnedBuffer(static_cast<std::size_t>(block));
  workspace_.reserve(config_.step_rows, padded_decode_rows(config_.sequences));
  gemm_.reserve(workspace_.largest());
  reserve_exchange(kMinInputs, static_cast<std::size_t>(padded_decode_rows(config_.sequences)) * sizeof(std::int32_t));
}

CudaBackend::~CudaBackend() {
  static_cast<void>(cudaSetDevice(device_));
  if (stream_)
    static_cast<void>(cudaStreamSynchronize(stream_.get()));  // no kernel may run on memory that is about to be freed
}

// Timings from a GPU that several ranks share, or with poisoned inputs, must not be stored for other runs.
bool CudaBackend::runs_alone() const {
  return !config_.poison && (communicator_ == nullptr || (group_ != nullptr && group_->own_gpu()));
}

void CudaBackend::check_config() const {
  const auto refuse = [&](const std::string& what) {
    throw InputError(fmt::format("{}: the CUDA executor {}", shape_.id, what));
  };
  if (const std::string part = model::cpu_only_part(config_.architecture); !part.empty())
    refuse(fmt::format("does not compute {}; the CPU executor does", part));
  if (shape_.hidden % 8 != 0 || shape_.hidden > kMaxNorm)
    refuse(fmt::format("needs a hidden size that is a multiple of 8 up to {}, found {}", kMaxNorm, shape_.hidden));
  if (shape_.head_dim % 8 != 0 || shape_.head_dim > 256)
    refuse(fmt::format("needs a head dimension that is a multiple of 8 up to 256, found {}", shape_.head_dim));
  if (shape_.moe && (shape_.moe->experts > kMaxExperts || shape_.moe->experts_per_token > kMaxExpertsPerToken))
    refuse(fmt::format("supports up to {} experts, {} per token", kMaxExperts, kMaxExpertsPerToken));
}

void CudaBackend::check_memory() const {
  const double weights = model::weight_bytes_per_rank(shape_, config_.weight_dtype, ranks_of(communicator_), 1).value;
  const double kv = static_cast<double>(2 * shape_.layers * kv_.plane * bytes_of(kv_element_));
  const std::int64_t sampled = padded_decode_rows(config_.sequences);
  const auto workspace =
      static_cast<double>(Workspace::bytes(config_, config_.step_rows, sampled) +
                          Gemm::bytes(Workspace::largest(config_, config_.step_rows, sampled)) + kGraphs);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "reading the free memory");
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  const int ranks = config_.ranks_on_device;
  const double need = ranks * (weights + kv + workspace);
  if (communicator_ != nullptr) communicator_->barrier();  // no rank allocates before all have read the free memory
  if (need <= static_cast<double>(free)) return;
  throw DeviceError(fmt::format(
      "out of GPU memory: needs {:.2f} GiB (weights {:.2f}, KV cache {:.2f}, activations and graphs {:.2f}{}), "
      "{:.2f} GiB free of {:.2f} GiB",
      need / kGiB, weights / kGiB, kv / kGiB, workspace / kGiB, ranks > 1 ? fmt::format(", {} times", ranks) : "",
      static_cast<double>(free) / kGiB, static_cast<double>(total) / kGiB));
}

std::string CudaBackend::description() const {
  return fmt::format("{} (sm_{}{})", properties_.name, properties_.major, properties_.minor);
}

std::string CudaBackend::note() const {
  if (tensor_core_attention()) return {};
  if (!has_tensor_core_attention(kv_.head_dim)) {
    return fmt::format(
        "attention with heads of {} runs without tensor cores, so it is much slower than with heads of {}",
        kv_.head_dim, fmt::join(kTensorCoreHeads, ", "));
  }
  return "attention in fp32 runs without tensor cores, so it is much slower than in bf16";
}

std::unique_ptr<Linear> CudaBackend::make_linear(const LinearSpec& spec, const FillRows& fill) {
  set_device();
  return std::make_unique<CudaLinear>(spec, element_,
                                      fill);  // routers too: on a GPU all activations have the weights' type
}

std::unique_ptr<Vector> CudaBackend::make_vector(std::span<const float> values) {
  set_device();
  return std::make_unique<CudaVector>(values, element_);
}

// Throws after abort(). Kernels that waited for a failed rank have then ended without a valid result.
void CudaBackend::check_alive() const {
  if (group_ != nullptr) group_->check_alive();
}

void CudaBackend::set_device() const { check(cudaSetDevice(device_), "selecting the device"); }

// ---- a forward -----------------------------------------------------------------------------------------------------

std::int64_t CudaBackend::padded_decode_rows(std::int64_t rows) const {
  return graphs_enabled_ ? decode_bucket(rows) : rows;
}

bool CudaBackend::begin(const RowTable& table) {
  PLIMSOLL_CHECK(in_flight_.size() < kInFlight, "at most two forwards are in flight");
  set_device();
  table_ = &table;
  plan_.tiles = cut_tiles(table, kPrefillTileRows);
  if (tensor_core_attention()) {
    const auto heads = static_cast<std::int32_t>(config_.rank.heads);
    plan_.decode = plan_decodes(table, decode_extra_parts(heads, kv_.kv_heads, properties_.multiProcessorCount),
                                decode_smallest_part(kv_.head_dim));
  }
  filters_ = std::any_of(table.sampling.begin(), table.sampling.end(), [](const Sampling& s) { return s.filters(); });
  if (filters_ && communicator_ != nullptr && communicator_->size() > 1)
    throw DeviceError("top_k, top_p and min_p need the logits of all ranks, which ranks on GPUs do not exchange");
  for (Rotation& rotation : rotations_) rotation.filled = false;
  make_room(table);
  upload(table);
  // Only pure decode forwards of exactly a bucket's rows have a graph: their arrays are always at the same addresses.
  const bool decodes_only = table.prefill.empty() && !table.all_logits && table.rows > 0;
  if (!graphs_enabled_ || !decodes_only || decode_bucket(table.rows) != table.rows) return true;
  Graph& graph = graphs_[{table.rows, filters_}];
  if (graph.executable) {
    check(cudaGraphLaunch(graph.executable.get(), stream_.get()), "replaying a graph");
    finish_forward();
    return false;
  }
  // The first run of a shape allocates memory, loads kernels and chooses algorithms, which a capture does not allow. So
  // the second run is captured.
  if (graph.warm) {
    check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "capturing a graph");
    capturing_ = true;
  }
  graph.warm = true;
  return true;
}

void CudaBackend::end() {
  if (capturing_) {
    capturing_ = false;
    cudaGraph_t captured = nullptr;
    check(cudaStreamEndCapture(stream_.get(), &captured), "capturing a graph");
    const GraphOwner graph(captured);
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph.get(), 0), "making a graph");
    graphs_[{table_->rows, filters_}].executable.reset(executable);
    if (communicator_ != nullptr) communicator_->barrier();  // instantiating a graph allocates: see make_room()
    check(cudaGraphLaunch(executable, stream_.get()), "replaying a graph");
  }
  finish_forward();
}

void CudaBackend::forget_graphs() { graphs_.clear(); }

// Moving a buffer would leave running kernels and captured graphs with dangling pointers, so the stream is drained and
// the graphs are dropped first.
//
// An allocation may wait for every GPU that this one can access. If one rank's GPU waited in a collective for a rank
// that waits in an allocation, neither would ever continue. Memory is therefore allocated only here, before the
// forward's first collective. All ranks arrive here with equal sizes, and none continues before all have allocated.
// (Engine: all ranks have enqueued the previous forward by then.)
void CudaBackend::make_room(const RowTable& table) {
  const auto sampled = static_cast<std::int64_t>(table.sampled.size());
  const std::size_t bytes = layout_of(table, plan_).bytes(), ids = table.sampled.size() * sizeof(std::int32_t);
  if (workspace_.has_room(table.rows, sampled) && bytes <= step_memory_.bytes() && ids <= exchanges_[0].ids.bytes())
    return;
  check(cudaStreamSynchronize(stream_.get()), "waiting for earlier forwards");
  forget_graphs();
  workspace_.reserve(table.rows, sampled);
  gemm_.reserve(workspace_.largest());
  reserve_exchange(bytes, ids);
  if (communicator_ != nullptr) communicator_->barrier();
}

// Provides at least that many bytes for the inputs of a forward, on host and device, and for its samples. The stream
// must be idle. Samples of earlier forwards may still be unread, so they are copied.
void CudaBackend::reserve_exchange(std::size_t inputs, std::size_t ids) {
  if (inputs > step_memory_.bytes()) {
    step_memory_ = {};
    step_memory_ = DeviceBuffer(2 * inputs, "inputs");
    for (Exchange& exchange : exchanges_) exchange.inputs = PinnedBuffer(step_memory_.bytes());
  }
  if (ids <= exchanges_[0].ids.bytes()) return;
  for (Exchange& exchange : exchanges_) {
    PinnedBuffer larger(2 * ids);
    if (exchange.sampled > 0) std::memcpy(larger.get(), exchange.ids.get(), exchange.sampled * sizeof(std::int32_t));
    exchange.ids = std::move(larger);
  }
}

void CudaBackend::upload(const RowTable& table) {
  Exchange& exchange = exchanges_[next_exchange_];
  // The pinned inputs may still be in use by the copy of an earlier forward.
  check(cudaEventSynchronize(exchange.copied.get()), "waiting for inputs to be copied");
  const StepLayout layout = layout_of(table, plan_);
  const std::size_t bytes = layout.bytes();
  pack(table, plan_, layout, exchange.inputs.get());
  check(cudaMemcpyAsync(step_memory_.get(), exchange.inputs.get(), bytes, cudaMemcpyHostToDevice, stream_.get()),
        "copying inputs");
  check(cudaEventRecord(exchange.copied.get(), stream_.get()), "copying inputs");
  step_ = layout.view(step_memory_.get());
}

// Starts copying the results. Ids go to pinned memory. Logits are requested rarely and are large: the copy to ordinary
// memory blocks.
void CudaBackend::finish_forward() {
  Exchange& exchange = exchanges_[next_exchange_];
  exchange.sampled = table_->sampled.size();
  const std::size_t bytes = exchange.sampled * sizeof(std::int32_t);
  if (bytes > 0) {
    check(cudaMemcpyAsync(exchange.ids.get(), workspace_.ids(), bytes, cudaMemcpyDeviceToHost, stream_.get()),
          "copying samples");
  }
  exchange.logits.clear();
  if (table_->all_logits) {
    exchange.logits.resize(exchange.sampled * static_cast<std::size_t>(config_.rank.vocab_rows));
    check(cudaMemcpyAsync(exchange.logits.data(), workspace_[Buffer::logits], exchange.logits.size() * sizeof(float),
                          cudaMemcpyDeviceToHost, stream_.get()),
          "copying logits");
  }
  check(cudaEventRecord(exchange.done.get(), stream_.get()), "ending a forward");
  // One exchange more than forwards in flight, so that the next one can be packed at once.
  in_flight_.push_back(next_exchange_);
  next_exchange_ = (next_exchange_ + 1) % exchanges_.size();
  table_ = nullptr;
}

// Waits for the event of this forward alone: the next one may be running already.
void CudaBackend::wait(std::int32_t* tokens, float* logits) {
  PLIMSOLL_CHECK(!in_flight_.empty(), "a forward was begun");
  set_device();
  Exchange& exchange = exchanges_[in_flight_.front()];
  in_flight_.pop_front();
  check(cudaEventSynchronize(exchange.done.get()), "a forward");
  check_alive();
  std::copy_n(exchange.ids.as<std::int32_t>(), exchange.sampled, tokens);
  if (logits != nullptr) std::copy(exchange.logits.begin(), exchange.logits.end(), logits);
}

void CudaBackend::synchronize() {
  set_device();
  check(cudaStreamSynchronize(stream_.get()), "an operation");
  check_alive();
}

// ---- KV blocks ------------------------------------------------------------------------------------------------------

std::int64_t CudaBackend::bytes_per_block() const {
  return 2 * shape_.layers * kv_.plane / std::max<std::int64_t>(1, config_.kv_blocks) * bytes_of(kv_element_);
}

// A block has a piece in every plane. A single two-dimensional copy is not possible: its pitch is limited to 2 GiB, and
// planes can be larger.
template <class Copy>
void CudaBackend::copy_pieces(std::int32_t block, const Copy& copy) {
  set_device();
  const std::int64_t pitch = kv_.plane * bytes_of(kv_element_), piece = bytes_per_block() / (2 * shape_.layers);
  for (std::int64_t plane = 0; plane < 2 * shape_.layers; ++plane) {
    check(copy(cache_.as<std::byte>() + plane * pitch + block * piece, plane * piece, static_cast<std::size_t>(piece)),
          "copying a KV block");
  }
  check(cudaStreamSynchronize(stream_.get()), "copying a KV block");
}

// One kernel moves all pieces of a block between the planes and pinned memory, which the GPU reads and writes directly.
void CudaBackend::copy_block(std::int32_t block, bool to_host) {
  set_device();
  const std::int64_t planes = 2 * shape_.layers, piece = bytes_per_block() / planes;
  BlockCopy copy;
  copy.cache = cache_.as<std::byte>() + block * piece;
  copy.pitch = kv_.plane * bytes_of(kv_element_);
  copy.host = swapped_.get();
  copy.planes = planes;
  copy.piece = piece;
  copy.to_host = to_host;
  move_block(copy, stream_.get());
  check(cudaStreamSynchronize(stream_.get()), "copying a KV block");
}

void CudaBackend::read_block(std::int32_t block, void* host) {
  if (swapped_.bytes() > 0) {
    copy_block(block, true);
    std::memcpy(host, swapped_.get(), swapped_.bytes());
    return;
  }
  copy_pieces(block, [&](std::byte* device, std::int64_t at, std::size_t bytes) {
    return cudaMemcpyAsync(static_cast<std::byte*>(host) + at, device, bytes, cudaMemcpyDeviceToHost, stream_.get());
  });
}

void CudaBackend::write_block(std::int32_t block, const void* host) {
  if (swapped_.bytes() > 0) {
    std::memcpy(swapped_.get(), host, swapped_.bytes());
    copy_block(block, false);
    return;
  }
  copy_pieces(block, [&](std::byte* device, std::int64_t at, std::size_t bytes) {
    return cudaMemcpyAsync(device, static_cast<const std::byte*>(host) + at, bytes, cudaMemcpyHostToDevice,
                           stream_.get());
  });
}

}  // namespace plimsoll::exec::cuda
