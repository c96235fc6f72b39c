// SPDX-License-Identifier: Apache-2.0
#include "configs/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace plimsoll::configs {

namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::vector<std::string> file_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Letters and digits only: the last resort that makes "A100 SXM4 40GB" and "a100-sxm-40gb" meet.
std::string squeezed(std::string_view name) {
  std::string out;
  for (const char c : name)
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  return out;
}

std::string singular(std::string_view kind) { return std::string(kind.substr(0, kind.size() - 1)); }

}  // namespace

std::string canonical_name(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    else if (c == ' ' || c == '_') out += '-';
    else out += c;
  }
  if (out.ends_with("-hf")) out.resize(out.size() - 3);
  return out;
}

std::optional<Price> Instance::price(const std::string& date) const {
  if (on_demand.empty()) return {};
  if (date.empty()) return on_demand.back();
  const Price* best = &on_demand.front();
  for (const Price& p : on_demand)
    if (p.date <= date) best = &p;
  return *best;
}

Catalogue::Catalogue(std::string root) : root_(std::move(root)) {
  if (!is_folder(fs::path(root_) / "models"))
    throw InputError(Where{root_, 0, 0}, "is no catalogue: there is no folder models/ in it (set PLIMSOLL_CONFIGS)");
}

std::string Catalogue::default_root() {
  if (const char* named = std::getenv("PLIMSOLL_CONFIGS"); named != nullptr && *named != '\0') return named;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = program.parent_path(); !error && !folder.empty(); folder = folder.parent_path()) {
    if (is_folder(folder / "configs" / "models")) return (folder / "configs").string();
    if (is_folder(folder / "share" / "plimsoll" / "configs" / "models")) return (folder / "share" / "plimsoll" / "configs").string();
    if (folder == folder.root_path()) break;
  }
#ifdef PLIMSOLL_CONFIGS_DIR
  return PLIMSOLL_CONFIGS_DIR;
#else
  return "configs";
#endif
}

// The file whose stem is the name, freely spelt; then the file that lists it among its aliases.
std::optional<std::string> Catalogue::find_file(std::string_view kind, const std::string& name) const {
  const fs::path folder = fs::path(root_) / kind;
  const std::string id = canonical_name(name);
  if (id.empty() || id.find("..") != std::string::npos) return {};
  std::error_code error;
  if (fs::exists(folder / (id + ".yaml"), error)) return id;
  const std::string key = squeezed(id);
  const std::vector<std::string> names = file_names(folder);
  for (const std::string& candidate : names)
    if (squeezed(candidate) == key) return candidate;
  for (const std::string& candidate : names) {
    const Document document = Document::from_file((folder / (candidate + ".yaml")).string());
    const std::optional<Node> aliases = document.root().find("aliases");
    if (!aliases) continue;
    for (const Item& alias : aliases->items())
      if (squeezed(canonical_name(alias.value.as_string())) == key) return candidate;
  }
  return {};
}

template <class T, class Read>
std::shared_ptr<const T> Catalogue::lookup(std::unordered_map<std::string, std::shared_ptr<const T>>& cache,
                                           std::string_view kind, const std::string& name, const Where& where,
                                           Read&& read) const {
  const std::scoped_lock lock(mutex_);
  if (const auto found = cache.find(name); found != cache.end()) return found->second;
  const std::optional<std::string> id = find_file(kind, name);
  if (!id) {
    const std::vector<std::string> names = file_names(fs::path(root_) / kind);
    const std::string_view near = nearest(canonical_name(name), names);
    throw InputError(where, fmt::format("unknown {} '{}'{}; `plimsoll list {}` names all {}", singular(kind), name.substr(0, 60),
                                        near.empty() ? "" : fmt::format(", did you mean '{}'?", near), kind, names.size()));
  }
  const Document document = Document::from_file((fs::path(root_) / kind / (*id + ".yaml")).string());
  auto value = std::make_shared<const T>(read(document.root(), *id));
  cache.emplace(name, value);
  return value;
}

std::shared_ptr<const model::LlmShape> Catalogue::model(const std::string& name, const Where& where) const {
  std::error_code error;
  if (name.ends_with(".json") || (name.find('/') != std::string::npos && fs::exists(name, error))) {
    const fs::path path = is_folder(name) ? fs::path(name) / "config.json" : fs::path(name);
    if (!fs::exists(path, error)) throw InputError(where, fmt::format("model '{}': no such file", path.string()));
    return std::make_shared<const model::LlmShape>(read_hf_config(path.string()));
  }
  return lookup(models_, "models", name, where, read_model);
}

std::shared_ptr<const model::Accelerator> Catalogue::accelerator(const std::string& name, const Where& where) const {
  return lookup(accelerators_, "accelerators", name, where, read_accelerator);
}

std::shared_ptr<const model::Interconnect> Catalogue::interconnect(const std::string& name, const Where& where) const {
  return lookup(interconnects_, "interconnects", name, where, read_interconnect);
}

std::shared_ptr<const Instance> Catalogue::instance(const std::string& name, const Where& where) const {
  const std::string bare = name.starts_with("ml.") ? name.substr(3) : name;
  if (canonical_name(bare) == "this-machine")
    throw InputError(where, "this-machine is not calibrated yet: name an instance or {accelerator, count, interconnect}");
  return lookup(instances_, "instances", bare, where, read_instance);
}

bool Catalogue::has_instance(const std::string& name) const {
  return find_file("instances", name.starts_with("ml.") ? name.substr(3) : name).has_value();
}

std::shared_ptr<const Engine> Catalogue::engine(const std::string& name, const Where& where) const {
  return lookup(engines_, "engines", name, where, read_engine);
}

std::vector<Listing> Catalogue::list(std::string_view kind) const {
  std::vector<Listing> listings;
  for (const std::string& name : file_names(fs::path(root_) / kind)) {
    Listing listing{name, {}};
    if (kind == "models") {
      const auto m = model(name);
      listing.description = fmt::format("{:.3g} B parameters, {} layers x {}, {} KV heads", model::weight_count(*m) / 1e9,
                                        m->layers, m->hidden, m->kv_heads);
    } else if (kind == "accelerators") {
      const auto a = accelerator(name);
      listing.description = fmt::format("{:.0f} GB, {:.2f} TB/s, {:.0f} TFLOP/s 16-bit, {}", a->memory.value / 1e9,
                                        a->memory_bandwidth.value / 1e12, std::max(a->fp16.value, a->bf16.value) / 1e12,
                                        a->calibrated ? "calibrated" : "datasheet only");
    } else if (kind == "instances") {
      const auto i = instance(name);
      const auto price = i->price();
      listing.description = fmt::format("{} x {}{}", i->count, i->accelerator,
                                        price ? fmt::format(", {} USD/h ({})", number_text(price->usd_per_hour), price->date) : "");
    } else if (kind == "engines") {
      const auto e = engine(name);
      listing.description = fmt::format("{}; {}", e->profile->scheduler_policy.empty() ? "any policy" : e->profile->scheduler_policy,
                                        e->profile->calibrated_on);
    } else {
      listing.description = interconnect(name)->source;
    }
    listings.push_back(std::move(listing));
  }
  return listings;
}

}  // namespace plimsoll::configs
