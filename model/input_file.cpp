// SPDX-License-Identifier: Apache-2.0
#include "model/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace plimsoll {
namespace {

int refuse(int descriptor, int error) {
  ::close(descriptor);
  errno = error;
  return -1;
}

}  // namespace

int open_input(const std::string& path, std::chrono::milliseconds patience) {
  // Without O_NONBLOCK, opening a FIFO waits for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return -1;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return refuse(descriptor, errno);
  if (S_ISFIFO(status.st_mode)) {
    pollfd wait{descriptor, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(patience.count()));
    if (ready <= 0) return refuse(descriptor, ready == 0 ? ETIMEDOUT : errno);
  }
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) < 0) return refuse(descriptor, errno);
  return descriptor;
}

}  // namespace plimsoll
