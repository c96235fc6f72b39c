// SPDX-License-Identifier: Apache-2.0
#include "configs/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "configs/text_file.h"

namespace plimsoll::configs {

namespace {

namespace fs = std::filesystem;

constexpr double kGiB = 1024.0 * 1024 * 1024;

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

// Letters, digits and points only, so that "Llama 2 7B" and "RTX4090" meet their files. Points count: there is an OPT of
// 1.3 and one of 13 billion.
std::string squeezed(std::string_view name) {
  std::string out;
  for (const char c : name)
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.') out += c;
  return out;
}

// The same without words that name a maker or a tuning and leave the shape as it is: "Meta-Llama-3-8B-Instruct" is
// llama-3-8b, "NVIDIA A10G" is a10g.
std::string bare(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kWords = {"base", "chat", "hf",     "instruct",
                                                             "it",   "meta", "nvidia", "tesla"};
  std::string out;
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('-'));
    name.remove_prefix(std::min(word.size() + 1, name.size()));
    if (std::find(kWords.begin(), kWords.end(), word) == kWords.end()) out += squeezed(word);
  }
  return out;
}

std::vector<std::string> aliases_of(const Document& document) {
  std::vector<std::string> aliases;
  const std::optional<Node> listed = document.root().find("aliases");
  if (!listed) return aliases;
  for (const Item& alias : listed->items()) aliases.push_back(canonical_name(alias.value.as_string()));
  return aliases;
}

// The aliases that a file lists. Only their line is parsed where they are on one: a search goes through a whole folder,
// and a study starts in milliseconds.
std::vector<std::string> aliases_in(const fs::path& file) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("aliases:")) continue;
    const bool whole = line.find('[') != std::string::npos && line.find(']') != std::string::npos;
    return aliases_of(whole ? Document::from_text(line, file.string()) : Document::from_file(file.string()));
  }
  return {};
}

// What may have been meant: the nearest name, else the first one that begins so ("p4d").
std::string suggestion(const std::string& id, const std::vector<std::string>& names) {
  if (const std::string_view near = nearest(id, names); !near.empty()) return std::string(near);
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.starts_with(id); });
  return id.size() < 2 || found == names.end() ? std::string() : *found;
}

std::string singular(std::string_view kind) { return std::string(kind.substr(0, kind.size() - 1)); }

}  // namespace

std::string canonical_name(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z')
      out += static_cast<char>(c - 'A' + 'a');
    else if (c == ' ' || c == '_')
      out += '-';
    else
      out += c;
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

void Catalogue::set_calibration(const std::string& folder) {
  if (!is_folder(fs::path(folder) / "accelerators") && !is_folder(fs::path(folder) / "interconnects"))
    throw InputError(Where{folder, 0, 0}, "is no calibration: there is neither accelerators/ nor interconnects/ in it");
  calibration_ = folder;
}

std::string Catalogue::default_root() {
  if (const char* named = std::getenv("PLIMSOLL_CONFIGS"); named != nullptr && *named != '\0') return named;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = program.parent_path(); !error && !folder.empty(); folder = folder.parent_path()) {
    if (is_folder(folder / "configs" / "models")) return (folder / "configs").string();
    if (is_folder(folder / "share" / "plimsoll" / "configs" / "models"))
      return (folder / "share" / "plimsoll" / "configs").string();
    if (folder == folder.root_path()) break;
  }
#ifdef PLIMSOLL_CONFIGS_DIR
  return PLIMSOLL_CONFIGS_DIR;
#else
  return "configs";
#endif
}

// The file whose stem is the name, freely spelt; then the file that lists it among its aliases; then either with less
// meant by the name.
std::optional<std::string> Catalogue::find_file(std::string_view kind, const std::string& name) const {
  const fs::path folder = fs::path(root_) / kind;
  const std::string id = canonical_name(name);
  if (id.empty() || id.find("..") != std::string::npos) return {};
  std::error_code error;
  if (fs::exists(folder / (id + ".yaml"), error)) return id;
  const std::vector<std::string> names = file_names(folder);
  std::vector<std::pair<std::string, std::string>> spellings;  // and their files
  for (const std::string& file : names) spellings.emplace_back(file, file);
  for (const std::string& file : names)
    for (std::string& alias : aliases_in(folder / (file + ".yaml"))) spellings.emplace_back(std::move(alias), file);
  for (const auto form : {squeezed, bare}) {
    const std::string key = form(id);
    const auto found =
        std::find_if(spellings.begin(), spellings.end(), [&](const auto& s) { return form(s.first) == key; });
    if (!key.empty() && found != spellings.end()) return found->second;
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
    const std::string meant = suggestion(canonical_name(name), names);
    throw InputError(
        where, fmt::format("unknown {} '{}'{} `plimsoll list {}` names all {}", singular(kind), shortened(name, 60),
                           meant.empty() ? "." : fmt::format(", did you mean '{}'?", meant), kind, names.size()));
  }
  const fs::path own = fs::path(kind) / (*id + ".yaml");
  std::error_code error;
  const bool is_calibrated = !calibration_.empty() && fs::exists(fs::path(calibration_) / own, error);
  const Document document = Document::from_file((fs::path(is_calibrated ? calibration_ : root_) / own).string());
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
  return lookup(accelerators_, "accelerators", name, where, kernels_ ? read_accelerator : read_accelerator_alone);
}

std::shared_ptr<const model::Interconnect> Catalogue::interconnect(const std::string& name, const Where& where) const {
  return lookup(interconnects_, "interconnects", name, where, read_interconnect);
}

std::shared_ptr<const model::Interconnect> Catalogue::link(const model::Accelerator& accelerator,
                                                           const std::string& name, const Where& where) const {
  const std::string& own = accelerator.default_interconnect;
  const std::string id = canonical_name(name);
  if (id.empty()) return own.empty() ? nullptr : interconnect(own, where);
  static constexpr std::array<std::pair<std::string_view, model::LinkKind>, 3> kKinds = {
      {{"nvswitch", model::LinkKind::nvswitch}, {"nvlink", model::LinkKind::nvlink}, {"pcie", model::LinkKind::pcie}}};
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.first == id; });
  if (kind == kKinds.end() || own.empty()) return interconnect(name, where);
  auto found = interconnect(own, where);
  if (found->kind != kind->second)
    throw InputError(where, fmt::format("{} has no {} of its own but {}; `plimsoll list interconnects` names others",
                                        accelerator.id, id, own));
  return found;
}

std::shared_ptr<const Instance> Catalogue::instance(const std::string& name, const Where& where) const {
  const std::string id = name.starts_with("ml.") ? name.substr(3) : name;
  if (canonical_name(id) == "this-machine")
    throw InputError(where,
                     "this-machine is not calibrated yet: name an instance or {accelerator, count, interconnect}");
  return lookup(instances_, "instances", id, where, read_instance);
}

std::shared_ptr<const ThisMachine> Catalogue::this_machine(const std::string& device, const Where& where) const {
  const std::scoped_lock lock(mutex_);
  if (const auto found = machines_.find(device); found != machines_.end()) return found->second;
  const std::string file = machine_file(device);
  std::error_code error;
  std::shared_ptr<const ThisMachine> machine;
  if (fs::exists(file, error)) {
    machine = std::make_shared<const ThisMachine>(read_this_machine(Document::from_file(file)));
  } else if (machine_probe_) {
    machine = std::make_shared<const ThisMachine>(machine_probe_(device));
  } else {
    throw InputError(where, "this-machine is not calibrated yet: run `plimsoll calibrate`, or name an instance or "
                            "{accelerator, count, interconnect}");
  }
  machines_.emplace(device, machine);
  return machine;
}

void Catalogue::set_machine(const std::string& device, ThisMachine machine) {
  const std::scoped_lock lock(mutex_);
  machines_[device] = std::make_shared<const ThisMachine>(std::move(machine));
}

bool Catalogue::has_instance(const std::string& name) const {
  return find_file("instances", name.starts_with("ml.") ? name.substr(3) : name).has_value();
}

bool Catalogue::has_accelerator(const std::string& name) const { return find_file("accelerators", name).has_value(); }

void Catalogue::refuse_hardware(const std::string& name, const Where& where) const {
  const fs::path accelerators = fs::path(root_) / "accelerators";
  std::vector<std::string> names = file_names(fs::path(root_) / "instances");
  const std::size_t instances = names.size();
  const std::vector<std::string> ids = file_names(accelerators);
  names.insert(names.end(), ids.begin(), ids.end());
  for (const std::string& id : ids) {
    for (std::string& alias : aliases_in(accelerators / (id + ".yaml"))) names.push_back(std::move(alias));
  }
  const std::string id = canonical_name(name.starts_with("ml.") ? name.substr(3) : name);
  std::stable_partition(names.begin(), names.end(), [&](const std::string& known) { return known.starts_with(id); });   // of equally near ones
  const std::string meant = suggestion(id, names);
  throw InputError(where, fmt::format("unknown instance or accelerator '{}'{} `plimsoll list instances` names all {}, "
                                      "`plimsoll list accelerators` all {}; 8xH100 is eight accelerators",
                                      shortened(name, 60), meant.empty() ? "." : fmt::format(", did you mean '{}'?", meant),
                                      instances, ids.size()));
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
      listing.description = fmt::format("{:.3g} B parameters, {} layers x {}, {} KV heads",
                                        model::weight_count(*m) / 1e9, m->layers, m->hidden, m->kv_heads);
    } else if (kind == "accelerators") {
      const auto a = accelerator(name);
      listing.description =
          fmt::format("{:.0f} GiB, {:.0f} GB/s, {:.4g} TFLOP/s 16-bit, {}", a->memory_visible.value / kGiB,
                      a->memory_bandwidth.value / 1e9, std::max(a->fp16.value, a->bf16.value) / 1e12,
                      a->calibrated ? "calibrated" : "not calibrated");
    } else if (kind == "instances") {
      const auto i = instance(name);
      const auto price = i->price();
      listing.description =
          fmt::format("{} x {}{}", i->count, i->accelerator,
                      price ? fmt::format(", {} USD/h ({})", number_text(price->usd_per_hour), price->date) : "");
    } else if (kind == "engines") {
      const auto e = engine(name);
      listing.description =
          fmt::format("{}; {}", e->profile->scheduler_policy.empty() ? "any policy" : e->profile->scheduler_policy,
                      e->profile->calibrated_on);
    } else {
      listing.description = interconnect(name)->source;
    }
    listings.push_back(std::move(listing));
  }
  return listings;
}

}  // namespace plimsoll::configs
