// SPDX-License-Identifier: Apache-2.0
#include "traces/line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "traces/text.h"

namespace plimsoll::traces {
namespace {

constexpr std::size_t kStart = std::size_t{1} << 18;

}  // namespace

LineReader::LineReader(ByteSource& source, std::string file)
    : source_(source), file_(std::move(file)), buffer_(kStart) {}

// Moves the unread rest to the front, doubles a full buffer, and reads more. Returns false at the end of the file.
bool LineReader::refill() {
  if (ended_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
  const std::size_t got = source_.read(std::span(buffer_).subspan(end_));
  end_ += got;
  ended_ = got == 0;
  return !ended_;
}

std::string_view LineReader::peek(std::size_t wanted) {
  while (end_ - begin_ < wanted && refill()) {}
  return {buffer_.data() + begin_, end_ - begin_};
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = 0;  // avoids searching a long line again after each refill
  for (;;) {
    const char* start = buffer_.data() + begin_;
    const std::size_t have = end_ - begin_;
    const void* hit = have > searched ? std::memchr(start + searched, '\n', have - searched) : nullptr;
    if (hit != nullptr || (ended_ && have > 0)) {
      std::size_t length = hit != nullptr ? static_cast<std::size_t>(static_cast<const char*>(hit) - start) : have;
      begin_ += hit != nullptr ? length + 1 : length;
      unterminated_ = hit == nullptr;
      ++number_;
      if (length > 0 && start[length - 1] == '\r') --length;
      line = {start, length};
      return true;
    }
    if (ended_) return false;
    searched = have;
    // A binary file may have no line end at all; without a limit it would be read into memory as one line.
    if (have > kMaxLine) {
      reject({file_, number_ + 1, 0, "", fmt::format("line is longer than {} MiB", kMaxLine >> 20U), "line-too-long"});
    }
    refill();
  }
}

// Blank lines at the end do not count as rows.
bool LineReader::at_end() {
  if (begin_ == end_) refill();
  const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
  return rest.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace plimsoll::traces
