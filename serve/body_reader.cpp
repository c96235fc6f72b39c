// SPDX-License-Identifier: Apache-2.0
#include "serve/body_reader.h"

#include <utility>

namespace plimsoll::serve {

namespace {
constexpr std::size_t kMostWaiting = std::size_t{128} << 20U;  // bytes
}

BodyReader::BodyReader(const PromptRules& rules) : rules_(rules), thread_([this] { run(); }) {}

BodyReader::~BodyReader() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  more_.notify_one();
  thread_.join();
}

bool BodyReader::read(Api api, std::string body, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (!jobs_.empty() && bytes_ + body.size() > kMostWaiting) return false;
    bytes_ += body.size();
    jobs_.push_back({api, std::move(body), std::move(done)});
  }
  more_.notify_one();
  return true;
}

void BodyReader::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.done(read_request(job.api, job.body, rules_));
    lock.lock();
    bytes_ -= job.body.size();
  }
}

}  // namespace plimsoll::serve
