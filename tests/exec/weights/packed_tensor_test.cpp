// SPDX-License-Identifier: Apache-2.0
// Matrices of integers as GPTQ, AWQ and compressed-tensors store them. The tests pack known integers by the formulas of
// these tools and read them back.
#include "exec/weights/packed_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "exec/weights/weights.h"
#include "model/error.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/safetensors_bytes.h"
#include "tests/scratch.h"

namespace plimsoll::exec {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kN = 24, kK = 64;

struct Typed {
  std::string dtype, shape, bytes;
};
using TypedTensors = std::map<std::string, Typed>;

std::string file_of(const TypedTensors& tensors) {
  std::string header = "{", data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    data += tensor.bytes;
    header += (header.size() > 1 ? "," : "") + entry(name, tensor.dtype, tensor.shape, {begin, data.size()});
  }
  return safetensors_bytes(header + "}", data);
}

std::string shape_text(std::int64_t rows, std::int64_t columns) {
  return '[' + std::to_string(rows) + ',' + std::to_string(columns) + ']';
}

// The integers and scales that every format below stores.
std::int32_t q_at(std::int64_t row, std::int64_t column, int bits) {
  const std::int64_t span = 1 << bits;
  return static_cast<std::int32_t>((row * 31 + column * 7 + row * column) % span - span / 2);
}
float scale_at(std::int64_t row, std::int64_t group) {
  return 0x1p-6F * static_cast<float>(1 + (3 * row + group) % 16);
}
std::int32_t zero_at(std::int64_t row, std::int64_t group) {
  return static_cast<std::int32_t>((row + 5 * group) % 16) - 8;
}

// Packs numbers of `bits` bits into 32-bit words, `value(i)` of each word's numbers lowest first.
std::string words(std::int64_t count, int bits, const std::function<std::int32_t(std::int64_t, int)>& value) {
  const std::uint32_t mask = bits == 32 ? ~0U : (1U << static_cast<unsigned>(bits)) - 1U;
  std::string bytes;
  for (std::int64_t word = 0; word < count; ++word) {
    std::uint32_t packed = 0;
    for (int i = 0; i < 32 / bits; ++i)
      packed |= (static_cast<std::uint32_t>(value(word, i)) & mask) << static_cast<unsigned>(i * bits);
    bytes.append(reinterpret_cast<const char*>(&packed), sizeof packed);
  }
  return bytes;
}

std::string halves(std::int64_t rows, std::int64_t columns,
                   const std::function<float(std::int64_t, std::int64_t)>& at) {
  std::string bytes;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::uint16_t half = to_f16(at(r, c));
      bytes.append(reinterpret_cast<const char*>(&half), sizeof half);
    }
  }
  return bytes;
}

// AutoGPTQ: words of adjacent k for each output, zeros of adjacent outputs for each group. Stored: q + 2^(bits - 1),
// and the zero less one.
TypedTensors gptq(int bits, std::int64_t group, bool symmetric, int stored_less) {
  const std::int64_t in_word = 32 / bits, groups = kK / group, middle = 1 << (bits - 1);
  return {{"w.qweight",
           {"I32", shape_text(kK / in_word, kN),
            words(kK / in_word * kN, bits,
                  [&](std::int64_t word, int i) {
                    return q_at(word % kN, word / kN * in_word + i, bits) + static_cast<std::int32_t>(middle);
                  })}},
          {"w.qzeros",
           {"I32", shape_text(groups, kN / in_word),
            words(groups * kN / in_word, bits,
                  [&](std::int64_t word, int i) {
                    const std::int64_t row = word % (kN / in_word) * in_word + i, g = word / (kN / in_word);
                    return (symmetric ? 0 : zero_at(row, g)) + static_cast<std::int32_t>(middle) - stored_less;
                  })}},
          {"w.scales",
           {"F16", shape_text(groups, kN), halves(groups, kN, [](auto g, auto row) { return scale_at(row, g); })}}};
}

class PackedTensorTest : public ::testing::Test {
 protected:
  std::unique_ptr<PackedTensor> open(const TypedTensors& tensors, const configs::PackedCheckpoint& settings = {}) {
    files_ = std::make_unique<TensorFiles>(scratch_.write("model.safetensors", file_of(tensors)));
    return PackedTensor::find(*files_, "w", {kN, kK}, settings);
  }
  std::string problem(const TypedTensors& tensors, const configs::PackedCheckpoint& settings = {}) {
    return problem_of([&] { static_cast<void>(open(tensors, settings)); });
  }
  // Both ways of reading give the integers that were packed; `zero` is that of [row, group].
  void expect_all(const PackedTensor& packed, int bits, std::int64_t group, bool zeros) {
    EXPECT_EQ(packed.format().bits, bits);
    EXPECT_EQ(packed.format().zeros, zeros);
    const std::int64_t first = group == 0 || group == kK ? 0 : group, columns = kK - first, rows = 5;
    const std::int64_t groups = packed.format().groups(columns), first_group = group == 0 ? 0 : first / group;
    std::vector<float> floats(static_cast<std::size_t>(rows * columns)), scale(static_cast<std::size_t>(rows * groups));
    std::vector<std::int8_t> q(floats.size());
    std::vector<std::int16_t> zero(scale.size());
    packed.read({9, rows, first, columns}, floats.data());
    packed.read_integers({9, rows, first, columns}, {q.data(), scale.data(), zero.data()});
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t g = group == 0 ? 0 : c / group;
        const auto at = static_cast<std::size_t>(r * columns + c), of = static_cast<std::size_t>(r * groups + g);
        const std::int32_t expected = q_at(9 + r, first + c, bits);
        const std::int32_t expected_zero = zeros ? zero_at(9 + r, first_group + g) : 0;
        ASSERT_EQ(q[at], expected) << r << ", " << c;
        ASSERT_EQ(zero[of], expected_zero) << r << ", " << c;
        ASSERT_EQ(scale[of], scale_at(9 + r, first_group + g));
        ASSERT_EQ(floats[at], static_cast<float>(expected - expected_zero) * scale[of]) << r << ", " << c;
      }
    }
  }

  const Scratch scratch_;
  std::unique_ptr<TensorFiles> files_;
};

TEST_F(PackedTensorTest, ReadsGptqOfFourAndEightBits) {
  for (const int bits : {4, 8}) {
    for (const std::int64_t group : {32, 64}) {
      expect_all(*open(gptq(bits, group, true, 1)), bits, group, false);
      expect_all(*open(gptq(bits, group, false, 1)), bits, group, true);
      expect_all(*open(gptq(bits, group, false, 0), {.group = group, .zeros_less_one = false}), bits, group, true);
    }
  }
}

// g_idx of act-order: column c belongs to group g_idx[c]. Sorted by group, columns are read with their own integers.
TEST_F(PackedTensorTest, SortsTheColumnsOfActOrder) {
  TypedTensors tensors = gptq(4, 32, false, 1);
  const auto group_of = [](std::int64_t column) { return column % 2; };  // even columns, then odd ones
  tensors["w.g_idx"] = {
      "I32", "[64]", words(kK, 32, [&](std::int64_t word, int) { return static_cast<std::int32_t>(group_of(word)); })};
  const auto packed = open(tensors);
  std::vector<float> floats(kK), scale(2);
  std::vector<std::int8_t> q(kK);
  std::vector<std::int16_t> zero(2);
  packed->read({3, 1, 0, kK}, floats.data());
  packed->read_integers({3, 1, 0, kK}, {q.data(), scale.data(), zero.data()});
  ASSERT_NE(packed->format().order, nullptr);
  for (std::int64_t i = 0; i < kK; ++i) {
    const std::int64_t column = i < 32 ? 2 * i : 2 * (i - 32) + 1, group = i / 32;
    EXPECT_EQ((*packed->format().order)[static_cast<std::size_t>(i)], column);
    EXPECT_EQ(q[static_cast<std::size_t>(i)], q_at(3, column, 4));
    EXPECT_EQ(floats[static_cast<std::size_t>(column)],
              static_cast<float>(q_at(3, column, 4) - zero_at(3, group)) * scale_at(3, group));
  }
}

TEST_F(PackedTensorTest, TakesGroupIndicesInOrderForAdjacentGroups) {
  TypedTensors tensors = gptq(4, 32, true, 1);
  tensors["w.g_idx"] = {"I32", "[64]",
                        words(kK, 32, [](std::int64_t word, int) { return static_cast<std::int32_t>(word / 32); })};
  EXPECT_EQ(open(tensors)->format().order, nullptr);
  tensors["w.g_idx"].bytes = words(kK, 32, [](std::int64_t word, int) { return word == 5 ? 7 : 0; });
  EXPECT_THAT(problem(tensors), HasSubstr("'w.g_idx' assigns a column to group 7 of 2"));
  tensors["w.g_idx"].bytes = words(kK, 32, [](std::int64_t word, int) { return word < 3 ? 0 : 1; });
  EXPECT_THAT(problem(tensors), HasSubstr("'w.g_idx' assigns 3 columns to group 0, expected 32"));
}

// AutoAWQ: words of eight adjacent outputs for each k, in the order 0 2 4 6 1 3 5 7; zeros alike and not less one.
TEST_F(PackedTensorTest, ReadsAwq) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const std::int64_t group = 32, groups = kK / group;
  const TypedTensors tensors = {
      {"w.qweight",
       {"I32", shape_text(kK, kN / 8),
        words(
            kK * kN / 8, 4,
            [&](std::int64_t word, int i) { return q_at(word % (kN / 8) * 8 + kOrder[i], word / (kN / 8), 4) + 8; })}},
      {"w.qzeros",
       {"I32", shape_text(groups, kN / 8),
        words(
            groups * kN / 8, 4,
            [&](std::int64_t word, int i) { return zero_at(word % (kN / 8) * 8 + kOrder[i], word / (kN / 8)) + 8; })}},
      {"w.scales",
       {"F16", shape_text(groups, kN), halves(groups, kN, [](auto g, auto row) { return scale_at(row, g); })}}};
  expect_all(*open(tensors), 4, group, true);
}

// compressed-tensors: words of adjacent k in rows, scales [rows, groups], zeros of adjacent rows in words.
TEST_F(PackedTensorTest, ReadsCompressedTensors) {
  for (const int bits : {4, 8}) {
    const std::int64_t in_word = 32 / bits, middle = 1 << (bits - 1);
    TypedTensors tensors = {{"w.weight_packed",
                             {"I32", shape_text(kN, kK / in_word),
                              words(kN * kK / in_word, bits,
                                    [&](auto word, int i) {
                                      return q_at(word / (kK / in_word), word % (kK / in_word) * in_word + i, bits) +
                                             static_cast<std::int32_t>(middle);
                                    })}},
                            {"w.weight_scale", {"F16", shape_text(kN, 2), halves(kN, 2, scale_at)}},
                            {"w.weight_shape", {"I64", "[2]", std::string(16, '\0')}}};
    expect_all(*open(tensors), bits, 32, false);
    tensors["w.weight_zero_point"] = {
        "I32", shape_text(kN / in_word, 2), words(kN / in_word * 2, bits, [&](auto word, int i) {
          return zero_at(word / 2 * in_word + i, word % 2) + static_cast<std::int32_t>(middle);
        })};
    expect_all(*open(tensors), bits, 32, true);
  }
}

TEST_F(PackedTensorTest, ReadsBytesWithAScaleARow) {
  std::string bytes;
  for (std::int64_t r = 0; r < kN; ++r)
    for (std::int64_t c = 0; c < kK; ++c) bytes += static_cast<char>(q_at(r, c, 8));
  const TypedTensors tensors = {{"w.weight", {"I8", shape_text(kN, kK), bytes}},
                                {"w.weight_scale", {"F16", shape_text(kN, 1), halves(kN, 1, scale_at)}}};
  expect_all(*open(tensors), 8, 0, false);
}

TEST_F(PackedTensorTest, RefusesTensorsThatDoNotFit) {
  const TypedTensors good = gptq(4, 32, true, 1);
  EXPECT_EQ(problem(good), "no error");
  TypedTensors bad = good;
  bad["w.qweight"].shape = shape_text(kK / 8 / 2, 2 * kN);
  EXPECT_THAT(problem(bad), HasSubstr("'w.qweight' has shape [4, 48], expected [8, 24]"));
  bad = good;
  bad["w.qweight"].dtype = "U32";
  EXPECT_THAT(problem(bad), HasSubstr("has dtype U32, expected I32"));
  bad = good;
  bad.erase("w.scales");
  EXPECT_THAT(problem(bad), HasSubstr("'w.scales' is missing"));
  EXPECT_THAT(problem(good, {.group = 16, .zeros_less_one = true}), HasSubstr("64 columns in groups of 16 make 4"));
  EXPECT_EQ(open({{"v.weight", {"F16", "[1]", "ab"}}}), nullptr);
}

}  // namespace
}  // namespace plimsoll::exec
