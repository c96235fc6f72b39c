// SPDX-License-Identifier: Apache-2.0
// The names in a fit: that of the user's own profile, and that of the shipped profile from which the fit starts.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "calibration/own_fit.h"
#include "model/error.h"

namespace plimsoll::calibration {

void check_own_name(const std::string& name, const configs::Catalogue& catalogue) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  constexpr std::size_t kLongest = 60;
  const std::string id = configs::canonical_name(name);
  if (id.empty() || id.size() > kLongest || id != name || !std::all_of(id.begin(), id.end(), is_plain) ||
      id.front() == '.' || id.find("..") != std::string::npos)
    throw InputError(
        fmt::format("--engine: found '{}', expected a name of lower-case letters, digits, hyphens and "
                    "points for your profile, as in my-vllm",
                    name.substr(0, kLongest)));
  if (catalogue.ships("engines", name))
    throw InputError(
        fmt::format("--engine: '{}' is an engine of the catalogue; give your profile another name, and "
                    "state this one with --like",
                    name));
}

std::string shipped_engine(const configs::Catalogue& catalogue, const std::string& name) {
  const Where where{"--like", 0, 0};
  (void)catalogue.engine(name, where);
  if (!catalogue.ships("engines", name))
    throw InputError(where, fmt::format("'{}' is a profile of your own; state the engine of the catalogue that it is "
                                        "like (plimsoll list engines)",
                                        name));
  return catalogue.identifier("engines", name).value_or(name);
}

std::string engine_of_server(const configs::Catalogue& catalogue, const std::string& product,
                             const std::string& version) {
  // "0.16.1rc2" is compared as 0, 16, 1.
  const auto parts = [](const std::string& text) {
    std::vector<int> numbers;
    for (std::size_t at = 0; at < text.size() && numbers.size() < 3;) {
      if (text[at] < '0' || text[at] > '9') break;
      std::size_t end = at;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9' && end - at < 6) ++end;
      numbers.push_back(std::stoi(text.substr(at, end - at)));
      if (end >= text.size() || text[end] != '.') break;
      at = end + 1;
    }
    return numbers;
  };
  std::string name = configs::canonical_name(product);
  if (name == "tensorrt-llm") name = "trtllm";
  const std::vector<int> wanted = parts(version);
  std::string best, oldest;
  std::vector<int> best_parts, oldest_parts;
  for (const configs::Listing& listing : catalogue.list("engines")) {
    if (!listing.name.starts_with(name + "-") || !catalogue.ships("engines", listing.name)) continue;
    const std::vector<int> found = parts(listing.name.substr(name.size() + 1));
    if (found.empty()) continue;
    if (oldest.empty() || found < oldest_parts) oldest = listing.name, oldest_parts = found;
    const bool newer = !wanted.empty() && found > wanted;
    if (!newer && (best.empty() || best_parts < found)) best = listing.name, best_parts = found;
  }
  if (!oldest.empty()) return best.empty() ? oldest : best;
  // A product without versions has one profile.
  return catalogue.ships("engines", name) ? catalogue.identifier("engines", name).value_or("") : "";
}

}  // namespace plimsoll::calibration
