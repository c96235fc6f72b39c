// SPDX-License-Identifier: Apache-2.0
#include "study/file/trace_store.h"

#include <filesystem>

namespace plimsoll::study {

std::string TraceStore::path_of(const std::string& file) const {
  const std::filesystem::path path(file);
  if (path.is_absolute() || folder_.empty()) return file;
  return (std::filesystem::path(folder_) / path).lexically_normal().string();
}

std::shared_ptr<const traces::Trace> TraceStore::get(const std::string& file, const std::string& format,
                                                     const Where& where) {
  const Key key(path_of(file), format);
  const std::lock_guard lock(mutex_);  // held while reading: a second point waits for the first one's trace
  auto& entry = traces_[key];
  if (entry) return entry;
  try {
    entry = traces::read_trace(key.first, {.format = format, .hash_block_tokens = 0}).trace;
  } catch (const InputError& error) {  // the fault in the trace, and the place in the study that asked for it
    throw InputError(where, error.what());
  }
  return entry;
}

}  // namespace plimsoll::study
