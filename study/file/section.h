// SPDX-License-Identifier: Apache-2.0
// Reads a map of a study file key by key. Each reader returns nullopt for a missing key. An invalid value throws
// InputError at file:line:column, with what was found and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/yaml_document.h"

namespace plimsoll::study {

inline constexpr std::int64_t kMaxCount = 1'000'000'000'000;  // larger than any run
inline constexpr std::int64_t kMaxTokens = 1'000'000'000;     // the sum of two such numbers fits sched::Tok

/// Reads a number above 0.
[[nodiscard]] double read_positive(const configs::Node& node, double most = 1e15);
/// Reads true or false, or 1 or 0 as in environment variables.
[[nodiscard]] bool read_switch(const configs::Node& node);
/// Reads a time above 0.
[[nodiscard]] Seconds read_positive_time(const configs::Node& node);
/// Returns the items of a list; any other value becomes a list of one item. Throws InputError for an empty list.
[[nodiscard]] std::vector<configs::Node> read_list(const configs::Node& node);

class Section {
 public:
  /// Throws InputError unless `node` is a map (or null) whose keys are all among `keys`. A key of a feature that is not
  /// modelled is rejected with the effect on the results.
  Section(configs::Node node, std::span<const std::string_view> keys);
  [[nodiscard]] const configs::Node& node() const { return node_; }
  [[nodiscard]] std::optional<configs::Node> find(std::string_view key) const { return node_.find(key); }
  [[nodiscard]] bool has(std::string_view key) const { return node_.has(key); }
  /// Returns the place of the value, or that of the map if the key is missing.
  [[nodiscard]] Where where(std::string_view key) const;
  /// Throws InputError with the example if the key is missing.
  [[nodiscard]] configs::Node need(std::string_view key, std::string_view example) const;

  /// Return the value of a key. Throw InputError for a value of another kind or out of range.
  [[nodiscard]] std::optional<std::int64_t> whole(std::string_view key, std::int64_t low,
                                                  std::int64_t high = kMaxCount) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  [[nodiscard]] std::optional<Seconds> time(std::string_view key) const;

 private:
  configs::Node node_;
};

}  // namespace plimsoll::study
