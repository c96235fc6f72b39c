// SPDX-License-Identifier: Apache-2.0
// Tests the format: valid files are read, and no content of a hostile file is trusted.
#include "exec/weights/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "exec/weights/safetensors_writer.h"
#include "tests/exec/safetensors_bytes.h"
#include "tests/scratch.h"

namespace plimsoll::exec {
namespace {

using ::testing::HasSubstr;

std::vector<float> all_of(const FileTensor& tensor, std::size_t count) {
  std::vector<float> out(count);
  read_elements(tensor, 0, static_cast<std::int64_t>(count), out.data());
  return out;
}

std::string bytes_of(std::initializer_list<std::uint16_t> words) {
  std::string bytes;
  for (const std::uint16_t word : words) bytes.append(reinterpret_cast<const char*>(&word), 2);
  return bytes;
}

TEST(SafetensorsFile, HasTensorsOfEveryReadableType) {
  const Scratch scratch;
  const float f32[] = {1.5F, -2.25F};
  const double f64 = 0.1;
  // 1.0, -2.0 in f16; 3.0 in bf16 (the upper half of 0x40400000).
  std::string data(reinterpret_cast<const char*>(f32), 8);
  data += bytes_of({0x3c00, 0xc000, 0x4040}) + std::string(reinterpret_cast<const char*>(&f64), 8);
  const std::string header = "{" + entry("a", "F32", "[2]", {0, 8}) + "," + entry("b", "F16", "[1,2]", {8, 12}) + "," +
                             entry("c", "BF16", "[]", {12, 14}) + "," + entry("d", "F64", "[1]", {14, 22}) + "}  ";
  const SafetensorsFile file(scratch.write("a.safetensors", safetensors_bytes(header, data)));
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(all_of(file.tensors().at("a"), 2), (std::vector{1.5F, -2.25F}));
  EXPECT_EQ(all_of(file.tensors().at("b"), 2), (std::vector{1.0F, -2.0F}));
  EXPECT_EQ(all_of(file.tensors().at("c"), 1), (std::vector{3.0F}));
  EXPECT_EQ(all_of(file.tensors().at("d"), 1), (std::vector{0.1F}));
  EXPECT_EQ(file.tensors().at("b").shape, (std::vector<std::int64_t>{1, 2}));
}

// IEEE 754: (-1)^s 2^(e-15) (1 + f/1024); e = 0 is f 2^-24; e = 31 is infinite or no number.
TEST(SafetensorsFile, EveryHalfHasItsValue) {
  const Scratch scratch;
  std::string data;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) data += bytes_of({static_cast<std::uint16_t>(bits)});
  const SafetensorsFile file(scratch.write(
      "h.safetensors", safetensors_bytes("{" + entry("h", "F16", "[65536]", {0, data.size()}) + "}", data)));
  const std::vector<float> values = all_of(file.tensors().at("h"), 0x10000);
  for (int bits = 0; bits < 0x10000; ++bits) {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    const float value = values[static_cast<std::size_t>(bits)];
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0) << bits;
      EXPECT_TRUE(fraction != 0 || value == sign * std::numeric_limits<double>::infinity()) << bits;
    } else {
      const double expected =
          exponent == 0 ? fraction * std::pow(2.0, -24) : std::pow(2.0, exponent - 15) * (1 + fraction / 1024.0);
      EXPECT_EQ(value, static_cast<float>(sign * expected)) << bits;
      EXPECT_EQ(std::signbit(value), sign < 0) << bits;
    }
  }
}

TEST(SafetensorsFile, MayBeEmptyAndHaveMetadata) {
  const Scratch scratch;
  EXPECT_TRUE(SafetensorsFile(scratch.write("a.safetensors", safetensors_bytes("{}", ""))).tensors().empty());
  const std::string header = R"({"__metadata__":{"format":"pt"},)" + entry("z", "F32", "[0,3]", {0, 0}) + "}";
  const SafetensorsFile file(scratch.write("b.safetensors", safetensors_bytes(header, "")));
  EXPECT_EQ(file.tensors().at("z").bytes.size(), 0U);
}

// A tensor of an unsupported type, such as the masks in old GPT-J files, does not invalidate the file.
TEST(SafetensorsFile, TypesThatAreNotReadMayBeThere) {
  const Scratch scratch;
  const SafetensorsFile file(
      scratch.write("a.safetensors", safetensors_bytes("{" + entry("m", "BOOL", "[3]", {0, 3}) + "}", "abc")));
  EXPECT_EQ(file.tensors().at("m").type, ElementType::other);
}

struct Hostile {
  const char* what;
  std::string bytes;
  const char* message;  // expected in the error
};

const std::string eight = "12345678";

std::string with(const std::string& entries, const std::string& data) {
  return safetensors_bytes("{" + entries + "}", data);
}

// What is wrong with the file as a whole.
std::vector<Hostile> hostile_headers() {
  std::string bad_utf8 = R"({"a)";
  bad_utf8 += '\xff';
  bad_utf8 += R"(":{}})";
  return {
      {"empty", "", "has 0 bytes"},
      {"shorter than a length", "abc", "has 3 bytes"},
      {"a header past the end", safetensors_bytes("{}", "", 3), "at most 2 are possible"},
      {"a header of 2^60 bytes", safetensors_bytes("{}", "", std::uint64_t{1} << 60U),
       "the header's stated length is 1152921504606846976"},
      {"a header of 2^64 - 1 bytes", safetensors_bytes("{}", "", ~std::uint64_t{0}),
       "stated length is 18446744073709551615"},
      {"a header of nothing", safetensors_bytes("", eight), "the header is not a JSON object"},
      {"no JSON", safetensors_bytes("{\"a\" 1}", ""), "not valid JSON at byte 6 of the header"},
      {"cut JSON", safetensors_bytes(R"({"a":{"dtype":"F32")", ""), "not valid JSON"},
      {"invalid UTF-8", safetensors_bytes(bad_utf8, ""), "not valid JSON"},
      {"a byte order mark", safetensors_bytes("\xef\xbb\xbf{}", ""), "not a JSON object"},
      {"a list", safetensors_bytes("[]", ""), "the header is not a JSON object"},
      {"two documents", safetensors_bytes("{}{}", ""), "not valid JSON"},
      {"deep nesting", safetensors_bytes("{\"a\":" + std::string(100'000, '['), ""), "tensor 'a': found a list"},
      {"deep objects", safetensors_bytes(R"({"a":{"dtype":)" + std::string(1000, '{'), ""), "tensor 'a'"},
  };
}

// What is wrong with an entry of the header.
std::vector<Hostile> hostile_entries() {
  return {
      {"a name that occurs twice",
       with(entry("a", "F32", "[1]", {0, 4}) + "," + entry("a", "F32", "[1]", {4, 8}), eight),
       "tensor 'a': occurs twice"},
      {"metadata twice", safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", ""), "occurs twice"},
      {"metadata of numbers", safetensors_bytes(R"({"__metadata__":{"a":1}})", ""), "expected text only"},
      {"a field twice", with(R"("a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]})", "1234"),
       "dtype occurs twice"},
      {"no offsets", with(R"("a":{"dtype":"F32","shape":[1]})", "1234"), "tensor 'a': has no data_offsets"},
      {"three offsets", with(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,2,4]})", "1234"),
       "data_offsets has too many"},
      {"one offset", with(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4]})", "1234"),
       "data_offsets has 1 numbers"},
      {"an unknown field", with(R"("a":{"kind":"F32"})", ""), "unknown field 'kind'"},
      {"an unknown type", with(entry("a", "F33", "[1]", {0, 4}), "1234"), "tensor 'a': unknown dtype 'F33'"},
      {"a negative size", with(entry("a", "F32", "[-1]", {0, 4}), "1234"),
       "tensor 'a': shape: found a negative number"},
      {"a fraction", with(entry("a", "F32", "[1.5]", {0, 4}), "1234"), "not whole"},
      {"a size of 10^30", with(entry("a", "F32", "[1000000000000000000000000000000]", {0, 4}), "1234"),
       "tensor 'a': shape"},
      {"sizes whose product wraps to 4 bytes", with(entry("a", "F32", "[4294967296,4294967296,1]", {0, 0}), ""),
       "tensor 'a': data_offsets [0, 0] hold 0"},
      {"2^62 + 1 numbers of 4 bytes: 4 modulo 2^64", with(entry("a", "F32", "[4611686018427387905]", {0, 4}), "1234"),
       "takes another number"},
      {"a size above 2^63", with(entry("a", "F32", "[0,9223372036854775808]", {0, 0}), ""), "is too large"},
      {"nine dimensions", with(entry("a", "F32", "[1,1,1,1,1,1,1,1,1]", {0, 4}), "1234"), "too many numbers"},
      {"offsets reversed", with(entry("a", "F32", "[1]", {4, 0}), "1234"),
       "tensor 'a': data_offsets [4, 0] are reversed"},
      {"offsets past the end", with(entry("a", "F32", "[2]", {0, 8}), "1234"),
       "tensor 'a': data_offsets [0, 8] reach past the end"},
      {"offsets near 2^64",
       with(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615]})", "1234"),
       "reach past"},
      {"fewer bytes than the shape", with(entry("a", "F32", "[2]", {0, 4}), "1234"),
       "hold 4 bytes, shape [2] of F32 takes 8"},
      {"half a byte", with(entry("a", "F4", "[1]", {0, 1}), "1"), "takes another number"},
      {"overlapping tensors", with(entry("a", "F32", "[2]", {0, 8}) + "," + entry("b", "F32", "[1]", {4, 8}), eight),
       "tensor 'b' overlaps 'a'"},
      {"the same place twice", with(entry("a", "F32", "[2]", {0, 8}) + "," + entry("b", "F32", "[2]", {0, 8}), eight),
       "overlaps"},
      {"a hole", with(entry("a", "F32", "[1]", {4, 8}), eight),
       "tensor 'a': the 4 bytes before it belong to no tensor"},
      {"a tail", with(entry("a", "F32", "[1]", {0, 4}), eight), "the last 4 bytes belong to no tensor"},
      {"a name with control characters", with(R"("a\u001b[31m\n":{"dtype":"F32"})", ""), "tensor 'a?[31m?'"},
  };
}

TEST(SafetensorsFile, RefusesHostileFilesByName) {
  const Scratch scratch;
  std::vector<Hostile> files = hostile_headers();
  for (const Hostile& hostile : hostile_entries()) files.push_back(hostile);
  for (const Hostile& hostile : files) {
    const std::string path = scratch.write("hostile.safetensors", hostile.bytes);
    const std::string problem = problem_of([&] { const SafetensorsFile file(path); });
    EXPECT_THAT(problem, HasSubstr(hostile.message)) << hostile.what;
    EXPECT_THAT(problem, HasSubstr("hostile.safetensors")) << hostile.what;
  }
}

TEST(SafetensorsFile, RefusesWhatIsNoFile) {
  const Scratch scratch;
  EXPECT_THAT(problem_of([&] { const SafetensorsFile file(scratch.path("nowhere")); }), HasSubstr("No such file"));
  EXPECT_THAT(problem_of([&] { const SafetensorsFile file(scratch.path()); }), HasSubstr("is not a regular file"));
  EXPECT_THAT(problem_of([&] { const SafetensorsFile file("/dev/zero"); }), HasSubstr("is not a regular file"));
}

TEST(SafetensorsFile, ReadsWhatIsWritten) {
  const Scratch scratch;
  const std::string path = scratch.path("out.safetensors");
  {
    SafetensorsWriter writer(path, {{"first \"quoted\"", 2, 3}, {"empty", 0, 3}, {"second", 1, 2}});
    writer.write(2, 0, std::vector{7.0F, 8.0F});
    writer.write(0, 1, std::vector{4.0F, 5.0F, 6.0F});
    writer.write(0, 0, std::vector{1.0F, 2.0F, 3.0F});
    EXPECT_FALSE(std::filesystem::exists(path)) << "a file appears when it is whole";
    writer.finish();
  }
  const SafetensorsFile file(path);
  EXPECT_EQ(all_of(file.tensors().at("first \"quoted\""), 6), (std::vector{1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}));
  EXPECT_EQ(all_of(file.tensors().at("second"), 2), (std::vector{7.0F, 8.0F}));
}

TEST(SafetensorsFile, AWriterThatDoesNotFinishLeavesNothing) {
  const Scratch scratch;
  { const SafetensorsWriter writer(scratch.path("out.safetensors"), {{"a", 1, 1}}); }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

// Whatever bytes change, the file is refused or every tensor can be read completely (sanitizers check that).
RC_GTEST_PROP(SafetensorsFile, ChangedBytesNeverLeadOutOfTheFile, ()) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)" + entry("a.weight", "F32", "[2,3]", {0, 24}) + "," +
                             entry("b", "BF16", "[4]", {24, 32}) + "," + entry("c", "F16", "[1,1]", {32, 34}) + "}";
  std::string bytes = safetensors_bytes(header, std::string(34, 'x'));
  // Changing digits gives other numbers in valid JSON; changing letters gives other names and types; other changes
  // break the text.
  const auto changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes; ++i) {
    char& byte = bytes[static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(bytes.size())))];
    const bool digit = byte >= '0' && byte <= '9',
               letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    const bool keep_kind = *rc::gen::inRange(0, 4) > 0;
    if (digit && keep_kind)
      byte = *rc::gen::inRange('0', static_cast<char>('9' + 1));
    else if (letter && keep_kind)
      byte = *rc::gen::inRange('a', static_cast<char>('z' + 1));
    else if (!keep_kind)
      byte = *rc::gen::arbitrary<char>();
  }
  if (*rc::gen::inRange(0, 8) == 0)
    bytes.resize(static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(bytes.size()))));
  const Scratch scratch;
  const std::string path = scratch.write("changed.safetensors", bytes);
  try {
    const SafetensorsFile file(path);
    for (const auto& [name, tensor] : file.tensors()) {
      if (tensor.type == ElementType::other) continue;
      std::int64_t count = 1;
      for (const std::int64_t size : tensor.shape) count *= size;
      RC_ASSERT(count <= 34);
      (void)all_of(tensor, static_cast<std::size_t>(count));
    }
    RC_TAG("loaded");
  } catch (const InputError& error) {
    RC_ASSERT(std::string(error.what()).find("changed.safetensors") != std::string::npos);
    RC_TAG("refused");
  }
}

}  // namespace
}  // namespace plimsoll::exec
