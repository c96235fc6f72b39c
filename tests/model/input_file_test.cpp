// SPDX-License-Identifier: Apache-2.0
#include "model/input_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace plimsoll {
namespace {

class InputFileTest : public ::testing::Test {
 protected:
  InputFileTest()
      : path_((std::filesystem::temp_directory_path() / ("plimsoll-fifo-" + std::to_string(::getpid()))).string()) {
    std::remove(path_.c_str());
    if (::mkfifo(path_.c_str(), 0600) != 0) ADD_FAILURE() << "no FIFO at " << path_;
  }
  ~InputFileTest() override { std::remove(path_.c_str()); }
  std::string path_;
};

TEST_F(InputFileTest, AFifoWithoutAWriterIsGivenUp) {
  EXPECT_EQ(open_input(path_, std::chrono::milliseconds(20)), -1);
  EXPECT_EQ(errno, ETIMEDOUT);
}

TEST_F(InputFileTest, AFifoWithAWriterReadsLikeAFile) {
  const int writer = ::open(path_.c_str(), O_RDWR);
  ASSERT_EQ(::write(writer, "text", 4), 4);
  const int reader = open_input(path_);
  ASSERT_GE(reader, 0);
  ::close(writer);
  std::array<char, 8> buffer{};
  EXPECT_EQ(::read(reader, buffer.data(), buffer.size()), 4);
  EXPECT_EQ(::read(reader, buffer.data(), buffer.size()), 0);
  ::close(reader);
}

TEST(InputFile, WhatIsMissingKeepsItsErrno) {
  EXPECT_EQ(open_input("/nowhere/at/all"), -1);
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace plimsoll
