// SPDX-License-Identifier: Apache-2.0
// Profiles of engines that are like another version's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "configs/catalogue.h"

namespace plimsoll::configs {

namespace {

// Returns the profile `root` with what it lacks from `neighbour`. The times are those of the neighbour's own `like`.
Document completed(const Node& root, const Node& neighbour) {
  static constexpr std::array<std::string_view, 5> kMaps = {"host", "kernels", "memory", "scheduler", "front_ends"};
  static constexpr std::array<std::string_view, 5> kOwn = {"name", "aliases", "note", "source", "calibrated_on"};
  // Starts from the profile's own values, which keep their places, so that errors in them name its file.
  Document document = Document::from_text("{}", root.where().file);
  for (const Item& item : root.items()) document.set(item.key, item.value);
  for (const Item& item : neighbour.items()) {
    if (std::find(kOwn.begin(), kOwn.end(), item.key) != kOwn.end()) continue;
    const std::optional<Node> own = root.find(item.key);
    if (!own || item.key == "like") {
      document.set(item.key, item.value);
    } else if (std::find(kMaps.begin(), kMaps.end(), item.key) != kMaps.end()) {
      for (const Item& entry : item.value.items()) {
        const std::string path = item.key + "." + entry.key;
        if (!own->has(entry.key)) {
          document.set(path, entry.value);
        } else if (item.key == "front_ends") {
          for (const Item& value : entry.value.items())
            if (!own->at(entry.key).has(value.key)) document.set(path + "." + value.key, value.value);
        }
      }
    }
  }
  if (root.has("calibrated_for")) document.remove("like");
  return document;
}

}  // namespace

// The file of one version may state only its differences from another version, named by `like`: whole keys, or entries
// of these maps, in front_ends also single values of an entry. A profile that states runs of its own (`calibrated_for`)
// is fitted itself.
Document Catalogue::with_neighbour(const Node& root, const std::string& id) const {
  // The other profile may be like a third one, but none like itself.
  std::vector<Node> chain = {root};
  for (std::set<std::string> seen; const std::optional<Node> like = chain.back().find("like");) {
    const std::optional<File> file = find_file("engines", like->as_string());
    if (!file || file->id != like->as_string()) like->fail("expected the identifier of another engine");
    if (!seen.insert(file->id).second) root.at("like").fail(fmt::format("{} is like itself", id));
    chain.push_back(Document::from_file(file->path).root());
  }
  while (chain.size() > 1) {
    const Node neighbour = chain.back();
    chain.pop_back();
    chain.back() = completed(chain.back(), neighbour).root();
  }
  return Document::of(chain.front());
}

}  // namespace plimsoll::configs
