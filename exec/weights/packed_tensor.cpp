// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/packed_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <numeric>

#include "model/error.h"

namespace plimsoll::exec {

namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t parts(std::int64_t whole, std::int64_t size) { return (whole + size - 1) / size; }

std::uint32_t word_at(const FileTensor& tensor, std::int64_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, tensor.bytes.data() + index * 4, sizeof word);
  return word;
}

[[noreturn]] void refuse_tensor(const std::string& name, const std::string& text) {
  throw InputError(fmt::format("tensor {} {}", quoted_name(name), text));
}

// Returns the tensor if it has the type and one of the shapes; throws otherwise.
const FileTensor& needed(const TensorFiles& files, const std::string& name, ElementType type,
                         std::initializer_list<Shape> shapes) {
  const FileTensor* const tensor = files.find(name);
  if (tensor == nullptr) refuse_tensor(name, "is missing");
  const bool scale = is_float(type);
  if (scale ? !is_float(tensor->type) : tensor->type != type)
    refuse_tensor(name, fmt::format("has dtype {}, expected {}", tensor->type_name,
                                    scale                      ? "F16, BF16 or F32"
                                    : type == ElementType::i32 ? "I32"
                                                               : "I8"));
  if (std::find(shapes.begin(), shapes.end(), tensor->shape) == shapes.end())
    refuse_tensor(name,
                  fmt::format("has shape {}, expected {}", shape_text(tensor->shape), shape_text(*shapes.begin())));
  return *tensor;
}

// The sign of the lowest `bits` bits.
std::int32_t centred(std::uint32_t value, int bits) {
  return static_cast<std::int32_t>(value & ((1U << static_cast<unsigned>(bits)) - 1U)) - (1 << (bits - 1));
}

// AWQ stores column kAwqOrder[i] of eight in bits 4 i of a word; this is the reverse.
constexpr std::array<unsigned, 8> kAwqPlace = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace

std::unique_ptr<PackedTensor> PackedTensor::find(const TensorFiles& files, const std::string& name, MatrixSize size,
                                                 const configs::PackedCheckpoint& settings) {
  std::unique_ptr<PackedTensor> found(new PackedTensor);
  found->size_ = size;
  const FileTensor* const plain = files.find(name + ".weight");
  if (files.find(name + ".qweight") != nullptr)
    found->find_gptq_or_awq(files, name, settings);
  else if (files.find(name + ".weight_packed") != nullptr || (plain != nullptr && plain->type == ElementType::i8))
    found->find_compressed(files, name, settings);
  else
    return nullptr;
  found->find_zeros();
  return found;
}

void PackedTensor::find_gptq_or_awq(const TensorFiles& files, const std::string& name,
                                    const configs::PackedCheckpoint& settings) {
  const auto [n, k] = size_;
  const FileTensor& words = *files.find(name + ".qweight");
  const Shape awq = {k, parts(n, 8)};
  layout_ = words.shape == awq ? Layout::awq : Layout::gptq;
  // The number of words tells 4 bits from 8.
  format_.bits = layout_ == Layout::gptq && words.shape == Shape{parts(k, 4), n} ? 8 : 4;
  const std::int64_t in_word = 32 / format_.bits;
  integers_ = &needed(files, name + ".qweight", ElementType::i32, {{parts(k, in_word), n}, awq});
  const FileTensor* const scales = files.find(name + ".scales");
  if (scales == nullptr || scales->shape.size() != 2) refuse_tensor(name + ".scales", "is missing or has no two sizes");
  set_groups(scales->shape.front(), settings, name + ".scales");
  scales_ = &needed(files, name + ".scales", ElementType::f16, {{groups_, n}});
  if (files.find(name + ".qzeros") != nullptr)
    zeros_ = &needed(files, name + ".qzeros", ElementType::i32, {{groups_, parts(n, in_word)}});
  zero_offset_ = layout_ == Layout::gptq && settings.zeros_less_one ? 1 : 0;
  if (files.find(name + ".g_idx") != nullptr && layout_ == Layout::gptq)
    read_order(needed(files, name + ".g_idx", ElementType::i32, {{k}}), name + ".g_idx");
}

void PackedTensor::find_compressed(const TensorFiles& files, const std::string& name,
                                   const configs::PackedCheckpoint& settings) {
  const auto [n, k] = size_;
  const FileTensor* const packed = files.find(name + ".weight_packed");
  layout_ = packed != nullptr ? Layout::packed : Layout::bytes;
  format_.bits = packed != nullptr && packed->shape != Shape{n, parts(k, 4)} ? 4 : 8;
  integers_ = packed != nullptr
                  ? &needed(files, name + ".weight_packed", ElementType::i32, {{n, parts(k, 32 / format_.bits)}})
                  : &needed(files, name + ".weight", ElementType::i8, {{n, k}});
  const std::string scale = name + ".weight_scale", zero = name + ".weight_zero_point";
  const FileTensor* const scales = files.find(scale);
  if (scales == nullptr) refuse_tensor(scale, "is missing");
  set_groups(scales->shape.size() == 2 ? scales->shape.back() : 1, settings, scale);
  scales_ = &needed(files, scale, ElementType::f16, {{n, groups_}, {n}, {1}, {}});
  if (files.find(zero) != nullptr) {
    zeros_ = layout_ == Layout::packed
                 ? &needed(files, zero, ElementType::i32, {{parts(n, 32 / format_.bits), groups_}})
                 : &needed(files, zero, ElementType::i8, {{n, groups_}, {n}, {1}, {}});
  }
  if (files.find(name + ".weight_g_idx") != nullptr)
    read_order(needed(files, name + ".weight_g_idx", ElementType::i32, {{k}}), name + ".weight_g_idx");
}

// One group is a row. Else the stated size counts, because the last group may be shorter.
void PackedTensor::set_groups(std::int64_t groups, const configs::PackedCheckpoint& settings, const std::string& name) {
  const std::int64_t k = size_.columns;
  groups_ = std::max<std::int64_t>(groups, 1);
  if (groups_ == 1) return;
  format_.group = settings.group > 0 ? settings.group : k / groups_;
  if (parts(k, format_.group) != groups_)
    refuse_tensor(name, fmt::format("has {} groups: {} columns in groups of {} make {}", groups_, k, format_.group,
                                    parts(k, format_.group)));
}

// The group of each column. In order, groups are adjacent columns; else columns are sorted by group.
void PackedTensor::read_order(const FileTensor& indices, const std::string& name) {
  bool adjacent = true;
  std::vector<std::int32_t> group(static_cast<std::size_t>(size_.columns));
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(groups_));
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i] = static_cast<std::int32_t>(word_at(indices, static_cast<std::int64_t>(i)));
    if (group[i] < 0 && group[i] >= -groups_) group[i] += static_cast<std::int32_t>(groups_);
    if (group[i] < 0 || group[i] >= groups_)
      refuse_tensor(name, fmt::format("assigns a column to group {} of {}", group[i], groups_));
    ++sizes[static_cast<std::size_t>(group[i])];
    adjacent = adjacent && (format_.group == 0 || group[i] == static_cast<std::int64_t>(i) / format_.group);
  }
  if (adjacent || groups_ == 1) return;
  for (std::size_t g = 0; g + 1 < sizes.size(); ++g) {
    if (sizes[g] != format_.group)
      refuse_tensor(name, fmt::format("assigns {} columns to group {}, expected {}", sizes[g], g, format_.group));
  }
  group_of_ = std::move(group);
  auto order = std::make_shared<std::vector<std::int32_t>>(group_of_.size());
  std::iota(order->begin(), order->end(), 0);
  std::stable_sort(order->begin(), order->end(), [this](std::int32_t a, std::int32_t b) {
    return group_of_[static_cast<std::size_t>(a)] < group_of_[static_cast<std::size_t>(b)];
  });
  format_.order = std::move(order);
}

void PackedTensor::find_zeros() {
  for (std::int64_t row = 0; zeros_ != nullptr && !format_.zeros && row < size_.rows; ++row) {
    for (std::int64_t g = 0; g < groups_; ++g) format_.zeros = format_.zeros || zero(row, g) != 0;
  }
}

std::int64_t PackedTensor::group_of(std::int64_t column) const {
  if (groups_ == 1) return 0;
  return group_of_.empty() ? column / format_.group : group_of_[static_cast<std::size_t>(column)];
}

std::int32_t PackedTensor::q(std::int64_t row, std::int64_t column) const {
  const int bits = format_.bits;
  const std::int64_t in_word = 32 / bits;
  switch (layout_) {
    case Layout::gptq: {
      const std::uint32_t word = word_at(*integers_, column / in_word * size_.rows + row);
      return centred(word >> static_cast<unsigned>(column % in_word * bits), bits);
    }
    case Layout::awq: {
      const std::uint32_t word = word_at(*integers_, column * parts(size_.rows, 8) + row / 8);
      return centred(word >> (4 * kAwqPlace[static_cast<std::size_t>(row % 8)]), bits);
    }
    case Layout::packed: {
      const std::uint32_t word = word_at(*integers_, row * parts(size_.columns, in_word) + column / in_word);
      return centred(word >> static_cast<unsigned>(column % in_word * bits), bits);
    }
    case Layout::bytes: break;
  }
  return static_cast<std::int8_t>(integers_->bytes[static_cast<std::size_t>(row * size_.columns + column)]);
}

std::int32_t PackedTensor::zero(std::int64_t row, std::int64_t group) const {
  if (zeros_ == nullptr) return 0;
  const int bits = format_.bits;
  const std::int64_t in_word = 32 / bits;
  switch (layout_) {
    case Layout::gptq:
    case Layout::awq: {
      const auto place = static_cast<std::size_t>(row % in_word);
      const std::uint32_t word = word_at(*zeros_, group * parts(size_.rows, in_word) + row / in_word);
      const auto shift =
          layout_ == Layout::awq ? 4 * kAwqPlace[place] : static_cast<unsigned>(place) * static_cast<unsigned>(bits);
      return centred((word >> shift) + static_cast<std::uint32_t>(zero_offset_), bits);
    }
    case Layout::packed: {
      const std::uint32_t word = word_at(*zeros_, row / in_word * groups_ + group);
      return centred(word >> static_cast<unsigned>(row % in_word * bits), bits);
    }
    case Layout::bytes: break;
  }
  const std::int64_t count = std::ssize(zeros_->bytes);
  return static_cast<std::int8_t>(zeros_->bytes[static_cast<std::size_t>(count == 1 ? 0 : row * groups_ + group)]);
}

float PackedTensor::scale(std::int64_t row, std::int64_t group) const {
  const bool by_group = layout_ == Layout::gptq || layout_ == Layout::awq;
  const bool single = scales_->shape.empty() || (scales_->shape.size() == 1 && scales_->shape.front() == 1);
  float value = 0;
  read_elements(*scales_, single ? 0 : by_group ? group * size_.rows + row : row * groups_ + group, 1, &value);
  return value;
}

void PackedTensor::read(const TensorSlice& slice, float* out) const {
  const auto [row, rows, column, columns] = slice;
  std::vector<float> scales(static_cast<std::size_t>(rows * groups_));
  std::vector<std::int32_t> zeros(scales.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t g = 0; g < groups_; ++g) {
      scales[static_cast<std::size_t>(r * groups_ + g)] = scale(row + r, g);
      zeros[static_cast<std::size_t>(r * groups_ + g)] = zero(row + r, g);
    }
  }
  // Rows inside, because GPTQ and AWQ store them side by side.
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::int64_t group = group_of(column + c);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = static_cast<std::size_t>(r * groups_ + group);
      out[r * columns + c] = static_cast<float>(q(row + r, column + c) - zeros[at]) * scales[at];
    }
  }
}

void PackedTensor::read_integers(const TensorSlice& slice, const IntegerRows& out) const {
  const auto [row, rows, column, columns] = slice;
  const std::int64_t first = groups_ == 1 ? 0 : column / format_.group, groups = format_.groups(columns);
  PLIMSOLL_CHECK(groups_ == 1 || column % format_.group == 0, "a slice begins with a group");
  PLIMSOLL_CHECK(format_.order == nullptr || columns == size_.columns, "columns in another order are read together");
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t g = 0; g < groups; ++g) {
      out.scale[r * groups + g] = scale(row + r, first + g);
      out.zero[r * groups + g] = static_cast<std::int16_t>(zero(row + r, first + g));
    }
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::int64_t from = format_.order == nullptr ? column + c : (*format_.order)[static_cast<std::size_t>(c)];
    for (std::int64_t r = 0; r < rows; ++r) out.q[r * columns + c] = static_cast<std::int8_t>(q(row + r, from));
  }
}

}  // namespace plimsoll::exec
