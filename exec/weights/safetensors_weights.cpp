// SPDX-License-Identifier: Apache-2.0
// Weights from .safetensors files. Each tensor of the model is looked up once and then read in place.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "configs/hf_checkpoint.h"
#include "exec/weights/mxfp4_tensor.h"
#include "exec/weights/packed_tensor.h"
#include "exec/weights/tensor_files.h"
#include "exec/weights/tensor_names.h"
#include "exec/weights/weights.h"
#include "model/error.h"

namespace plimsoll::exec {
namespace {

// A tensor of the model and where a file stores it, as floats or as integers.
struct Resolved {
  const FileTensor* tensor = nullptr;
  std::shared_ptr<const PackedTensor> packed;
  std::shared_ptr<const Mxfp4Tensor> mxfp4;
  TensorPlace place;
};

struct InOrder {
  bool operator()(const TensorRef& a, const TensorRef& b) const {
    return std::tuple(a.layer, a.kind, a.expert) < std::tuple(b.layer, b.kind, b.expert);
  }
};

class SafetensorsWeights final : public WeightSource {
 public:
  SafetensorsWeights(const model::Architecture& architecture, const std::string& path)
      : architecture_(architecture), files_(path), beginning_(find_beginning()) {
    visit_tensors(architecture_, [this](const TensorRef& tensor, Presence presence) {
      if (presence == Presence::lacking)
        refuse(tensor);
      else
        resolve(tensor);
      // Stop at the first problem; check() and read() report it.
      return problem_.empty();
    });
  }

  void read(const TensorRef& tensor, const TensorSlice& slice, float* out) const override {
    auto [row, rows, column, columns] = slice;
    const TensorShape shape = shape_of(architecture_, tensor);
    PLIMSOLL_CHECK(row >= 0 && rows >= 0 && row + rows <= shape.rows, "rows of the tensor are read");
    PLIMSOLL_CHECK(column >= 0 && columns >= 0 && column + columns <= shape.columns, "columns of the tensor are read");
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end())
      fail(problem_.empty() ? fmt::format("the model has no {}", describe(tensor)) : problem_);
    const Resolved& at = found->second;
    if (at.place.transposed) {
      read_transposed(at, slice, out);
      return;
    }
    while (rows > 0) {
      // Read adjacent whole rows in one call.
      const bool whole = columns == shape.columns || at.packed != nullptr;
      const std::int64_t run = whole ? std::min(rows, at.place.group - row % at.place.group) : 1;
      if (at.packed != nullptr)
        at.packed->read({at.place.file_row(row), run, column, columns}, out);
      else if (at.mxfp4 != nullptr)
        for (std::int64_t i = 0; i < run; ++i)
          at.mxfp4->read(at.place.file_row(row + i), column, columns, out + i * columns);
      else
        read_elements(*at.tensor, at.place.file_row(row) * shape.columns + column, run * columns, out);
      out += run * columns;
      row += run;
      rows -= run;
    }
  }

  [[nodiscard]] std::optional<IntegerFormat> integers(const TensorRef& tensor) const override {
    const auto found = tensors_.find(tensor);
    if (found != tensors_.end() && found->second.mxfp4 != nullptr) return Mxfp4Tensor::format();
    if (found == tensors_.end() || found->second.packed == nullptr) return {};
    return found->second.packed->format();
  }

  void read_integers(const TensorRef& tensor, const TensorSlice& slice, const IntegerRows& out) const override {
    const Resolved& at = tensors_.at(tensor);
    const IntegerFormat& format = at.mxfp4 != nullptr ? Mxfp4Tensor::format() : at.packed->format();
    const std::int64_t groups = format.groups(slice.columns), end = slice.row + slice.rows;
    IntegerRows to = out;
    for (std::int64_t row = slice.row, run = 0; row < end; row += run) {
      run = at.mxfp4 != nullptr ? 1 : std::min(end - row, at.place.group - row % at.place.group);
      if (at.mxfp4 != nullptr)
        at.mxfp4->read_integers(at.place.file_row(row), slice.column, slice.columns, to);
      else
        at.packed->read_integers({at.place.file_row(row), run, slice.column, slice.columns}, to);
      to.q += run * slice.columns;
      to.scale += run * groups;
      to.zero += run * groups;
    }
  }

  void check(const model::Architecture& architecture) const override {
    PLIMSOLL_CHECK(architecture.shape == architecture_.shape,
                   "weights are checked for the model that they were opened for");
    if (!problem_.empty()) fail(problem_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { throw InputError(Where{files_.path(), 0, 0}, text); }

  [[nodiscard]] std::string find_beginning() const {
    const std::vector<std::string> beginnings = name_beginnings(architecture_);
    for (const std::string& beginning : beginnings) {
      const auto places = tensor_places(architecture_, beginning, {TensorKind::token_embedding, -1, -1});
      // Every model has a token embedding, so its name shows the prefix.
      if (files_.find(places.front().name) != nullptr) return beginning;
    }
    return beginnings.front();
  }

  void resolve(const TensorRef& tensor) {
    std::vector<TensorPlace> places = tensor_places(architecture_, beginning_, tensor);
    // Checkpoints may name the same tensor differently: the first of its names that the files contain is taken.
    const auto found = std::find_if(places.begin(), places.end(),
                                    [&](const TensorPlace& p) { return files_.find(p.name) != nullptr; });
    if (found == places.end() && places.front().transposed && resolve_mxfp4(tensor, places.front())) return;
    if ((found == places.end() || files_.find(found->name)->type == ElementType::i8) && resolve_packed(tensor, places))
      return;
    if (found == places.end()) {
      problem_ = fmt::format("tensor {} is missing ({})", quoted_name(places.front().name), describe(tensor));
      return;
    }
    const FileTensor& there = *files_.find(found->name);
    if (!is_float(there.type))
      problem_ = fmt::format("tensor {} has dtype {}, expected F64, F32, F16 or BF16", quoted_name(found->name),
                             there.type_name);
    else if (there.shape != found->shape)
      problem_ = fmt::format("tensor {} has shape {}, expected {}", quoted_name(found->name), shape_text(there.shape),
                             shape_text(found->shape));
    else if (tensor.kind == TensorKind::token_embedding &&
             differs_from_another(there, std::span(found + 1, places.end())))
      return;
    else
      tensors_.emplace(tensor, Resolved{&there, nullptr, nullptr, std::move(*found)});
  }

  // Looks for the tensor as integers. Returns whether it is there, even if it is malformed.
  bool resolve_packed(const TensorRef& tensor, std::vector<TensorPlace>& places) {
    constexpr std::string_view kWeight = ".weight";
    for (TensorPlace& place : places) {
      if (place.shape.size() != 2 || !place.name.ends_with(kWeight)) continue;
      std::shared_ptr<const PackedTensor>& packed = packed_[place.name];
      try {
        if (packed == nullptr)
          packed = PackedTensor::find(files_, place.name.substr(0, place.name.size() - kWeight.size()),
                                      {place.shape[0], place.shape[1]}, packing());
      } catch (const InputError& error) {
        problem_ = error.text();
        return true;
      }
      if (packed == nullptr) continue;
      tensors_.emplace(tensor, Resolved{nullptr, packed, nullptr, std::move(place)});
      return true;
    }
    return false;
  }

  // MXFP4 is stored by rows, although floats of the same name are transposed. Returns whether it is there, even if it
  // is malformed.
  bool resolve_mxfp4(const TensorRef& tensor, const TensorPlace& place) {
    const std::int64_t experts = place.shape[0], columns = place.shape[1], rows = place.shape[2];
    std::shared_ptr<const Mxfp4Tensor>& stored = mxfp4_[place.name];
    try {
      if (stored == nullptr) stored = Mxfp4Tensor::find(files_, place.name, {experts, rows, columns});
    } catch (const InputError& error) {
      problem_ = error.text();
      return true;
    }
    if (stored == nullptr) return false;
    const TensorPlace by_rows{.name = place.name,
                              .shape = {experts, rows, columns},
                              .base = place.base / columns * rows + place.column_base,
                              .group = 1,
                              .stride = place.column_step};
    tensors_.emplace(tensor, Resolved{nullptr, nullptr, stored, by_rows});
    return true;
  }

  static void read_transposed(const Resolved& at, const TensorSlice& slice, float* out) {
    const TensorPlace& place = at.place;
    std::vector<float> line(static_cast<std::size_t>(slice.rows * place.column_step));
    for (std::int64_t c = 0; c < slice.columns; ++c) {
      const std::int64_t first = place.column_base + slice.row * place.column_step;
      // The last element that is wanted may be the last one of the file's row.
      const std::int64_t count = (slice.rows - 1) * place.column_step + 1;
      if (slice.rows > 0)
        read_elements(*at.tensor, (place.base + slice.column + c) * place.shape.back() + first, count, line.data());
      for (std::int64_t r = 0; r < slice.rows; ++r)
        out[r * slice.columns + c] = line[static_cast<std::size_t>(r * place.column_step)];
    }
  }

  // Read when the first packed tensor is looked for: config.json may be missing beside files of floats.
  const configs::PackedCheckpoint& packing() {
    if (!packing_)
      packing_ = configs::read_packing((std::filesystem::path(files_.path()).parent_path() / "config.json").string());
    return *packing_;
  }

  // The file of a tied model may hold both embedding and head if they are equal: releases of transformers read
  // different ones.
  bool differs_from_another(const FileTensor& embedding, std::span<const TensorPlace> others) {
    for (const TensorPlace& other : others) {
      const FileTensor* const head = files_.find(other.name);
      if (head == nullptr) continue;
      if (head->type == embedding.type && head->shape == embedding.shape &&
          std::ranges::equal(head->bytes, embedding.bytes))
        continue;
      problem_ = fmt::format(
          "tensor {} differs from the token embedding, although tie_word_embeddings of config.json says that they are "
          "equal",
          quoted_name(other.name));
    }
    return !problem_.empty();
  }

  void refuse(const TensorRef& tensor) {
    for (const TensorPlace& place : tensor_places(architecture_, beginning_, tensor)) {
      if (files_.find(place.name) != nullptr)
        problem_ = fmt::format("tensor {}: the model has no {}: the file and config.json are of different models",
                               quoted_name(place.name), describe(tensor));
    }
  }

  model::Architecture architecture_;
  TensorFiles files_;
  std::string beginning_;
  std::map<TensorRef, Resolved, InOrder> tensors_;
  std::map<std::string, std::shared_ptr<const PackedTensor>> packed_;  // by name; null: not there
  std::map<std::string, std::shared_ptr<const Mxfp4Tensor>> mxfp4_;    // the same
  std::optional<configs::PackedCheckpoint> packing_;
  std::string problem_;  // the first problem found; empty if none
};

}  // namespace

std::unique_ptr<WeightSource> safetensors_weights(const model::Architecture& architecture, const std::string& path) {
  return std::make_unique<SafetensorsWeights>(architecture, path);
}

}  // namespace plimsoll::exec
