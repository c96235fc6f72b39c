// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <cstring>
#include <type_traits>

#include "exec/cuda/buffer.h"
#include "exec/cuda/dynamic_library.h"
#include "model/error.h"

namespace plimsoll::exec::cuda {

namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(MatmulAlgorithm));

// The functions of the library that this file uses.
struct Table {
  Table()
      : library("cuBLASLt (libcublasLt)", {"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR), "libcublasLt.so"}) {
    library.find(create, "cublasLtCreate");
    library.find(destroy, "cublasLtDestroy");
    library.find(version, "cublasLtGetVersion");
    library.find(matmul, "cublasLtMatmul");
    library.find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.find(check, "cublasLtMatmulAlgoCheck");
    library.find(desc_create, "cublasLtMatmulDescCreate");
    library.find(desc_destroy, "cublasLtMatmulDescDestroy");
    library.find(desc_set, "cublasLtMatmulDescSetAttribute");
    library.find(layout_create, "cublasLtMatrixLayoutCreate");
    library.find(layout_destroy, "cublasLtMatrixLayoutDestroy");
    library.find(preference_create, "cublasLtMatmulPreferenceCreate");
    library.find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    library.find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  }

  DynamicLibrary library;
  decltype(cublasLtCreate)* create = nullptr;
  decltype(cublasLtDestroy)* destroy = nullptr;
  decltype(cublasLtGetVersion)* version = nullptr;
  decltype(cublasLtMatmul)* matmul = nullptr;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic = nullptr;
  decltype(cublasLtMatmulAlgoCheck)* check = nullptr;
  decltype(cublasLtMatmulDescCreate)* desc_create = nullptr;
  decltype(cublasLtMatmulDescDestroy)* desc_destroy = nullptr;
  decltype(cublasLtMatmulDescSetAttribute)* desc_set = nullptr;
  decltype(cublasLtMatrixLayoutCreate)* layout_create = nullptr;
  decltype(cublasLtMatrixLayoutDestroy)* layout_destroy = nullptr;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create = nullptr;
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy = nullptr;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set = nullptr;
};

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("cuBLASLt: {} failed with status {}", what, static_cast<int>(status)));
}
// The message is "... a product of bf16 [8, 4096] and [6144, 4096] into f32, with a bias, added: ..."
void check(cublasStatus_t status, const char* what, const MatmulShape& s) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const auto name = [](Element element) { return element == Element::f32 ? "f32" : "bf16"; };
  const std::string words = fmt::format("{} of {} [{}, {}] and [{}, {}] into {}{}{}", what, name(s.x), s.m, s.k, s.n,
                                        s.k, name(s.y), s.bias ? ", with a bias" : "", s.accumulate ? ", added" : "");
  check(status, words.c_str());
}

cudaDataType_t type_of(Element element) { return element == Element::f32 ? CUDA_R_32F : CUDA_R_16BF; }

// cuBLASLt's matrices are column-major: the row-major y [m, n] is its [n, m], W [n, k] its [k, n], and x its [k, m]. So
// it computes y = W^T x in its own terms. It adds the bias to every column, so the bias has n numbers.
class Problem {
 public:
  Problem(const Table& table, const MatmulShape& shape)
      : t_(table),
        desc_(nullptr, table.desc_destroy),
        w_(layout(shape.x, shape.k, shape.n)),
        x_(layout(shape.x, shape.k, shape.m)),
        y_(layout(shape.y, shape.n, shape.m)) {
    cublasLtMatmulDesc_t made = nullptr;
    check(t_.desc_create(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "the description", shape);
    desc_.reset(made);
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (shape.bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_of(shape.y)));
    }
  }
  void set_bias(const void* pointer) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointer); }

  [[nodiscard]] cublasLtMatmulDesc_t desc() const { return desc_.get(); }
  [[nodiscard]] cublasLtMatrixLayout_t w() const { return w_.get(); }
  [[nodiscard]] cublasLtMatrixLayout_t x() const { return x_.get(); }
  [[nodiscard]] cublasLtMatrixLayout_t y() const { return y_.get(); }

 private:
  template <class Handle>
  using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    check(t_.desc_set(desc_.get(), attribute, &value, sizeof value), "describing a product");
  }
  [[nodiscard]] Owner<cublasLtMatrixLayout_t> layout(Element element, std::int64_t rows, std::int64_t columns) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(t_.layout_create(&made, type_of(element), static_cast<std::uint64_t>(rows),
                           static_cast<std::uint64_t>(columns), rows),
          "describing a matrix");
    return {made, t_.layout_destroy};
  }

  const Table& t_;
  Owner<cublasLtMatmulDesc_t> desc_;
  Owner<cublasLtMatrixLayout_t> w_, x_, y_;
};

// Rows with an odd number of elements are not aligned to 16 bytes. State the alignment, so that the library proposes no
// kernel that needs more.
std::uint32_t alignment_of(Element element, std::int64_t row) {
  const std::int64_t bytes = row * bytes_of(element);
  std::uint32_t alignment = 256;
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

cublasLtMatmulAlgo_t native(const MatmulAlgorithm& algorithm) {
  cublasLtMatmulAlgo_t result;
  std::memcpy(&result, algorithm.data(), sizeof result);
  return result;
}

}  // namespace

struct Blas::State {
  Table table;
  cublasLtHandle_t handle = nullptr;
  DeviceBuffer workspace{kBlasWorkspaceBytes, "cuBLASLt's workspace"};

  ~State() {
    if (handle != nullptr) table.destroy(handle);
  }
};

Blas::Blas() : state_(std::make_unique<State>()) { check(state_->table.create(&state_->handle), "starting"); }
Blas::~Blas() = default;

std::string Blas::version() const { return "cublaslt" + std::to_string(state_->table.version()); }

std::vector<MatmulAlgorithm> Blas::ways(const MatmulShape& shape, int most) {
  const Table& t = state_->table;
  Problem problem(t, shape);
  cublasLtMatmulPreference_t preference = nullptr;
  check(t.preference_create(&preference), "asking for algorithms", shape);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    static_cast<void>(t.preference_set(preference, attribute, &value,
                                       sizeof value));  // an attribute that cannot be set keeps its default
  };
  const std::uint32_t y_alignment = alignment_of(shape.y, shape.n);
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kBlasWorkspaceBytes));
  // Parts of a product are added in f32, never in the type of y: then a result depends little on how it was divided.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(shape.x, shape.k));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(shape.x, shape.k));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, y_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, y_alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = t.heuristic(state_->handle, problem.desc(), problem.w(), problem.x(), problem.y(),
                                            problem.y(), preference, most, found.data(), &count);
  static_cast<void>(t.preference_destroy(preference));
  std::vector<MatmulAlgorithm> result;
  if (status != CUBLAS_STATUS_SUCCESS) return result;  // "not supported" is a valid result
  for (int i = 0; i < count; ++i) {
    const auto& way = found[static_cast<std::size_t>(i)];
    if (way.state != CUBLAS_STATUS_SUCCESS) continue;
    std::memcpy(result.emplace_back().data(), &way.algo, sizeof way.algo);
  }
  return result;
}

bool Blas::fits(const MatmulShape& shape, const MatmulAlgorithm& algorithm) {
  Problem problem(state_->table, shape);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasLtMatmulAlgo_t algo = native(algorithm);
  return state_->table.check(state_->handle, problem.desc(), problem.w(), problem.x(), problem.y(), problem.y(), &algo,
                             &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= kBlasWorkspaceBytes;
}

void Blas::run(const MatmulShape& shape, const MatmulAlgorithm& algorithm, const MatmulOperands& operands,
               cudaStream_t stream) {
  Problem problem(state_->table, shape);
  if (shape.bias) problem.set_bias(operands.bias);
  const float alpha = 1, beta = shape.accumulate ? 1.0F : 0.0F;
  const cublasLtMatmulAlgo_t algo = native(algorithm);
  check(state_->table.matmul(state_->handle, problem.desc(), &alpha, operands.w, problem.w(), operands.x, problem.x(),
                             &beta, operands.y, problem.y(), operands.y, problem.y(), &algo, state_->workspace.get(),
                             kBlasWorkspaceBytes, stream),
        "a product", shape);
}

}  // namespace plimsoll::exec::cuda
