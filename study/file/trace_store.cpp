// SPDX-License-Identifier: Apache-2.0
#include "study/file/trace_store.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace plimsoll::study {

constexpr double kMaxScaledTokens = 1e9;

std::string TraceStore::path_of(const std::string& file) const {
  const std::filesystem::path path(file);
  if (path.is_absolute() || folder_.empty()) return file;
  return (std::filesystem::path(folder_) / path).lexically_normal().string();
}

std::shared_ptr<const traces::Trace> TraceStore::get(const std::string& file, const std::string& format,
                                                     const Where& where) {
  const Key key(path_of(file), format);
  const std::lock_guard lock(mutex_);  // held while reading, so that a second point waits for the first one's trace
  auto& entry = traces_[key];
  if (entry) return entry;
  try {
    entry = traces::read_trace(key.first, {.format = format, .hash_block_tokens = 0}).trace;
  } catch (const InputError& error) {  // adds the place in the study that uses the trace
    throw InputError(where, error.what());
  }
  return entry;
}

std::shared_ptr<const traces::Trace> TraceStore::scaled(const std::shared_ptr<const traces::Trace>& trace, double input,
                                                        double output) {
  if (input == 1 && output == 1) return trace;
  const std::lock_guard lock(mutex_);
  auto& entry = scaled_[{trace.get(), input, output}];
  if (!entry) entry = with_scaled_lengths(*trace, input, output);
  return entry;
}

std::shared_ptr<const traces::Trace> with_scaled_lengths(const traces::Trace& trace, double input, double output) {
  const auto tokens = [](std::int32_t count, double by) {
    return static_cast<std::int32_t>(std::clamp(std::round(count * by), 1.0, kMaxScaledTokens));
  };
  auto copy = std::make_shared<traces::Trace>(trace);
  for (traces::TraceRecord& record : copy->records) {
    record.input_tokens = tokens(record.input_tokens, input);
    record.output_tokens = tokens(record.output_tokens, output);
  }
  if (copy->hash_block_tokens > 0) copy->hash_block_tokens = tokens(copy->hash_block_tokens, input);
  return copy;
}

}  // namespace plimsoll::study
