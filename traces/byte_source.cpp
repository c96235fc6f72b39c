// SPDX-License-Identifier: Apache-2.0
#include "traces/byte_source.h"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <fmt/format.h>

#include "model/input_file.h"
#include "traces/text.h"

namespace plimsoll::traces {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 17;

// Returns the text of an errno value. strerror would depend on the locale and is not thread-safe.
std::string why(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return "no such file";
    case EACCES:
    case EPERM: return "permission denied";
    case EISDIR: return "is a directory";
    case ENAMETOOLONG: return "file name too long";
    case ELOOP: return "too many symbolic links";
    case EIO: return "input/output error";
    case ETIMEDOUT: return "a FIFO without a writer";
    default: return fmt::format("system error {}", error);
  }
}

}  // namespace

struct ByteSource::State {
  explicit State(std::string name) : file(std::move(name)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (gzip) inflateEnd(&stream);
    if (descriptor >= 0) ::close(descriptor);
  }

  [[noreturn]] void fail(std::string code, std::string text) const {
    TraceProblem problem;
    problem.file = file;
    problem.text = std::move(text);
    problem.code = std::move(code);
    reject(std::move(problem));
  }

  void open();
  void start_gzip();
  std::size_t refill();
  std::size_t inflate_into(std::span<char> out);
  void next_member();
  void check_expansion() const;

  std::string file;
  int descriptor = -1;
  bool gzip = false, ended = false;
  std::vector<char> piece = std::vector<char>(kPiece);
  std::size_t begin = 0, end = 0;  // the part of the piece that is not used yet
  z_stream stream{};
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

void ByteSource::State::open() {
  struct stat status {};
  if (file.find('\0') != std::string::npos || file.empty()) fail("not-found", "no such file");
  if (::stat(file.c_str(), &status) != 0) {
    const int error = errno;
    fail(error == EACCES || error == EPERM ? "cannot-open" : "not-found", why(error));
  }
  if (S_ISDIR(status.st_mode)) fail("is-a-directory", "is a directory; give the trace file itself");
  descriptor = open_input(file);
  if (descriptor < 0) fail("cannot-open", why(errno));
}

// Reads more bytes behind the unused ones. Returns their number; 0 at the end of the file.
std::size_t ByteSource::State::refill() {
  if (begin == end) begin = end = 0;
  for (;;) {
    const ssize_t got = ::read(descriptor, piece.data() + end, piece.size() - end);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read-failed", "cannot read: " + why(errno));
    end += static_cast<std::size_t>(got);
    bytes_in += static_cast<std::uint64_t>(got);
    return static_cast<std::size_t>(got);
  }
}

void ByteSource::State::start_gzip() {
  constexpr int kGzipOnly = 15 + 16;  // window bits, plus 16 for the gzip wrapper (zlib manual, inflateInit2)
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) fail("read-failed", "zlib does not start (out of memory?)");
  gzip = true;
}

// A gzip file may contain several members. Zero padding after the last one is allowed, anything else is not.
void ByteSource::State::next_member() {
  while (end - begin < 2 && refill() != 0) {}
  if (begin == end) {
    ended = true;
  } else if (end - begin >= 2 && piece[begin] == '\x1F' && piece[begin + 1] == '\x8B') {
    inflateReset(&stream);
  } else {
    do {
      for (; begin < end; ++begin) {
        if (piece[begin] != '\0') fail("gzip-trailing", "other data follows the gzip stream; nothing was used");
      }
    } while (refill() != 0);
    ended = true;
  }
}

void ByteSource::State::check_expansion() const {
  if (bytes_out <= kFreeExpansion || bytes_out / kMaxExpansion <= bytes_in) return;
  fail("gzip-bomb",
       fmt::format("expands more than {}-fold (past {} MiB): not a trace; decompress it first if this is intended",
                   kMaxExpansion, kFreeExpansion >> 20U));
}

std::size_t ByteSource::State::inflate_into(std::span<char> out) {
  while (!ended) {
    if (begin == end && refill() == 0) fail("gzip-truncated", "unexpected end of gzip stream; nothing was used");
    stream.next_in = reinterpret_cast<Bytef*>(piece.data() + begin);
    stream.avail_in = static_cast<uInt>(end - begin);
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int result = inflate(&stream, Z_NO_FLUSH);
    begin = end - stream.avail_in;
    const std::size_t made = out.size() - stream.avail_out;
    bytes_out += made;
    if (result == Z_DATA_ERROR) {
      const std::string_view text = stream.msg != nullptr ? stream.msg : "";
      // zlib distinguishes a wrong checksum from other damage only by its message.
      const bool checksum = text == "incorrect data check" || text == "incorrect length check";
      if (checksum) fail("gzip-crc", "gzip checksum mismatch: the file is damaged; nothing was used");
      fail("gzip-corrupt", fmt::format("damaged gzip data ({}); nothing was used", text));
    }
    if (result == Z_MEM_ERROR) fail("read-failed", "out of memory in zlib");
    if (result == Z_NEED_DICT) fail("gzip-corrupt", "gzip data needs a dictionary; nothing was used");
    check_expansion();
    if (result == Z_STREAM_END) next_member();
    // A piece of input may produce no output. Returning 0 would look like the end of the file.
    if (made != 0) return made;
  }
  return 0;
}

ByteSource::ByteSource(const std::string& file) : state_(std::make_unique<State>(file)) {
  state_->open();
  while (state_->end < 2 && state_->refill() != 0) {}
  const std::string_view start(state_->piece.data(), state_->end);
  if (start.starts_with("\x1F\x8B")) {
    state_->start_gzip();
  } else if (!start.empty() && file.ends_with(".gz")) {
    state_->fail("gzip-magic", "named .gz but not gzip data");
  }
}

ByteSource::~ByteSource() = default;

std::size_t ByteSource::read(std::span<char> out) {
  if (state_->gzip) return state_->inflate_into(out);
  if (state_->begin == state_->end && state_->refill() == 0) return 0;
  const std::size_t count = std::min(out.size(), state_->end - state_->begin);
  std::memcpy(out.data(), state_->piece.data() + state_->begin, count);
  state_->begin += count;
  return count;
}

void ByteSource::drain() {
  constexpr std::uint64_t kAtMost = std::uint64_t{256} << 20;  // about a second
  std::vector<char> rest(kPiece);
  const std::uint64_t start = state_->bytes_out;
  while (state_->bytes_out - start < kAtMost && read(rest) != 0) {}
}

bool ByteSource::is_gzip() const { return state_->gzip; }

}  // namespace plimsoll::traces
