// SPDX-License-Identifier: Apache-2.0
// A map of a study file, read key by key: each reader returns nullopt for a key that is not there and throws
// InputError, at file:line:column with what was found and what is allowed, for a value that cannot be used.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/yaml_document.h"

namespace plimsoll::study {

inline constexpr std::int64_t kMaxCount = 1'000'000'000'000;  // beyond any run; products of two stay in range
inline constexpr std::int64_t kMaxTokens = 1'000'000'000;     // two of them fit sched::Tok

/// A number above 0.
[[nodiscard]] double read_positive(const configs::Node& node, double most = 1e15);
/// true and false, and the 1 and 0 of environment variables.
[[nodiscard]] bool read_switch(const configs::Node& node);
/// A time above 0.
[[nodiscard]] Seconds read_positive_time(const configs::Node& node);
/// The items of a list; a value that is no list is a list of itself. Throws for an empty list.
[[nodiscard]] std::vector<configs::Node> read_list(const configs::Node& node);

class Section {
 public:
  /// Throws unless `node` is a map (or nothing) whose keys are all among `keys`; keys of features that are not modelled
  /// are rejected with the effect on the results.
  Section(configs::Node node, std::span<const std::string_view> keys);
  [[nodiscard]] const configs::Node& node() const { return node_; }
  [[nodiscard]] std::optional<configs::Node> find(std::string_view key) const { return node_.find(key); }
  [[nodiscard]] bool has(std::string_view key) const { return node_.has(key); }
  /// Of the value, or of the map where the key is missing.
  [[nodiscard]] Where where(std::string_view key) const;
  /// Throws, with the example, where the key is missing.
  [[nodiscard]] configs::Node need(std::string_view key, std::string_view example) const;

  [[nodiscard]] std::optional<std::int64_t> whole(std::string_view key, std::int64_t low,
                                                  std::int64_t high = kMaxCount) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  [[nodiscard]] std::optional<Seconds> time(std::string_view key) const;

 private:
  configs::Node node_;
};

}  // namespace plimsoll::study
