// SPDX-License-Identifier: Apache-2.0
#include "configs/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "configs/hf_families.h"
#include "configs/text_file.h"

namespace plimsoll::configs {

namespace {

namespace fs = std::filesystem;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::array<std::string_view, 5> kFolders = {"models", "accelerators", "interconnects", "instances",
                                                      "engines"};

// A folder that cannot be read counts as absent; the error follows when one of its files is requested.
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

// Keeps only letters, digits and points, so that "Llama 2 7B" and "RTX4090" match their files. Points matter: OPT has a
// 1.3 and a 13 billion model.
std::string squeezed(std::string_view name) {
  std::string out;
  for (const char c : name)
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.') out += c;
  return out;
}

// Like squeezed(), but also without words for a maker or a tuning, which do not change the shape:
// "Meta-Llama-3-8B-Instruct" becomes llama-3-8b, "NVIDIA A10G" becomes a10g.
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

// Returns the aliases that a file lists. If they are on one line, only that line is parsed: a search visits a whole
// folder, and a study must start in milliseconds.
std::vector<std::string> aliases_in(const fs::path& file) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("aliases:")) continue;
    const bool whole = line.find('[') != std::string::npos && line.find(']') != std::string::npos;
    return aliases_of(whole ? Document::from_text(line, file.string()) : Document::from_file(file.string()));
  }
  return {};
}

// Returns the likely intended name: the nearest one, else the first with this prefix ("p4d").
std::string suggestion(const std::string& id, const std::vector<std::string>& names) {
  if (const std::string_view near = nearest(id, names); !near.empty()) return std::string(near);
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.starts_with(id); });
  return id.size() < 2 || found == names.end() ? std::string() : *found;
}

// An engine can also be named by its product alone: "vllm" means the newest vllm-N.
template <class Exists>
void add_products(std::vector<std::string>& engines, Exists exists) {
  for (std::size_t i = 0, all = engines.size(); i < all; ++i) {
    const std::string product = engines[i].substr(0, engines[i].rfind('-'));
    const bool is_new = std::find(engines.begin(), engines.end(), product) == engines.end();
    if (is_new && exists(product)) engines.push_back(product);
  }
}

// Returns why models such as "Qwen3-Next-80B-A3B" or "DeepSeek-V3.2", whose types are refused, are not modelled.
std::string_view why_not_modelled(const std::string& id) {
  std::string with_bars = id, without_points = id;
  for (char& c : with_bars)
    if (c == '-' || c == '.') c = '_';
  std::erase(without_points, '.');
  std::replace(without_points.begin(), without_points.end(), '-', '_');
  const std::string_view why = why_refused(with_bars);
  return why.empty() ? why_refused(without_points) : why;
}

std::string singular(std::string_view kind) { return std::string(kind.substr(0, kind.size() - 1)); }

}  // namespace

// Names come from model hubs, clouds and papers. Case, blanks, underlines and the owner before a slash distinguish
// nothing.
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

// Dates are "2026-07", so they sort as text, and on_demand is sorted by date.
std::optional<Price> Instance::price(const std::string& date) const {
  if (on_demand.empty()) return {};
  if (date.empty()) return on_demand.back();
  const Price* best = &on_demand.front();
  for (const Price& p : on_demand)
    if (p.date <= date) best = &p;
  return *best;
}

Catalogue::Catalogue() : Catalogue(default_root()) {
  user_ = user_folder();
  const std::vector<std::string> own = default_overlays();
  // add_overlay() puts a folder before those added earlier, so the first one is added last.
  for (auto folder = own.rbegin(); folder != own.rend(); ++folder) add_overlay(*folder);
}

Catalogue::Catalogue(std::string root) : folders_{std::move(root)} {
  if (!is_folder(fs::path(folders_.back()) / "models"))
    throw InputError(Where{folders_.back(), 0, 0},
                     "is not a catalogue: it has no folder models/ (set PLIMSOLL_CONFIGS)");
}

// The folders that a user has named come before those that the desktop standard (XDG) provides.
std::vector<std::string> Catalogue::default_overlays() {
  std::vector<std::string> folders;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string named = variable("PLIMSOLL_CATALOGUE");
  while (!named.empty()) {
    const std::size_t end = std::min(named.find(':'), named.size());
    if (end > 0) folders.push_back(named.substr(0, end));
    named.erase(0, end + 1);
  }
  for (const auto& [name, otherwise] :
       {std::pair("XDG_DATA_HOME", "/.local/share"), std::pair("XDG_CONFIG_HOME", "/.config")}) {
    std::string base = variable(name);
    if (!base.starts_with('/'))
      base = variable("HOME").empty() ? "" : variable("HOME") + otherwise;  // relative paths are ignored
    if (const std::string folder = base + "/plimsoll/catalogue"; !base.empty() && is_folder(folder))
      folders.push_back(folder);
  }
  return folders;
}

void Catalogue::add_overlay(const std::string& folder) {
  if (std::none_of(kFolders.begin(), kFolders.end(),
                   [&](std::string_view kind) { return is_folder(fs::path(folder) / kind); }))
    throw InputError(Where{folder, 0, 0},
                     fmt::format("is not a catalogue: it has none of the folders {}", fmt::join(kFolders, "/, ")));
  folders_.insert(folders_.begin(), folder);
}

std::string Catalogue::user_folder() { return data_folder(); }

std::vector<std::string> Catalogue::content_folders() const {
  std::vector<std::string> folders = folders_;
  // The folder also holds files that are not entries.
  for (const std::string_view kind : kFolders)
    if (const fs::path folder = fs::path(user_) / kind; !user_.empty() && is_folder(folder))
      folders.push_back(folder.string());
  return folders;
}

void Catalogue::add_entry(const std::string& kind, const std::string& id, Document document) {
  entries_.insert_or_assign(kind + "/" + id, std::move(document));
  engines_.entries.erase(id);  // as it was before
  accelerators_.entries.erase(id);
}

const Document* Catalogue::entry(std::string_view kind, const std::string& name) const {
  if (entries_.empty()) return nullptr;
  const auto found = entries_.find(std::string(kind) + "/" + canonical_name(name));
  return found == entries_.end() ? nullptr : &found->second;
}

void Catalogue::set_calibration(const std::string& folder) {
  if (!is_folder(fs::path(folder) / "accelerators") && !is_folder(fs::path(folder) / "interconnects"))
    throw InputError(Where{folder, 0, 0}, "is not a calibration: it has neither accelerators/ nor interconnects/");
  calibration_ = folder;
}

std::string Catalogue::default_root() {
  if (const char* named = std::getenv("PLIMSOLL_CONFIGS"); named != nullptr && *named != '\0') return named;
  std::error_code error;
  // From the program upwards: in a checkout the catalogue lies beside build/, in an installation under share/.
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

// Returns all files of a kind by name, each from the overlay that takes precedence.
std::vector<Catalogue::File> Catalogue::files(std::string_view kind) const {
  std::vector<File> all;
  for (const std::string& folder : folders_)
    for (const std::string& name : file_names(fs::path(folder) / kind)) {
      const bool known = std::any_of(all.begin(), all.end(), [&](const File& f) { return f.id == name; });
      if (!known) all.push_back({name, (fs::path(folder) / kind / (name + ".yaml")).string()});
    }
  if (folders_.size() > 1) std::sort(all.begin(), all.end(), [](const File& a, const File& b) { return a.id < b.id; });
  return all;
}

std::vector<Catalogue::File> Catalogue::user_files(std::string_view kind) const {
  std::vector<File> all;
  if (user_.empty()) return all;
  for (const std::string& name : file_names(fs::path(user_) / kind))
    all.push_back({name, (fs::path(user_) / kind / (name + ".yaml")).string()});
  return all;
}

// Finds the file whose stem matches the name, ignoring spelling; else the file that lists the name as an alias; else
// tries both again without words for makers and tunings.
std::optional<Catalogue::File> Catalogue::find_among(const std::vector<File>& all, const std::string& id) const {
  // The files are opened only now, because the exact name is by far the most common case. Stems come before aliases.
  std::vector<std::pair<std::string, const File*>> spellings;
  for (const File& file : all) spellings.emplace_back(file.id, &file);
  for (const File& file : all)
    for (std::string& alias : aliases_in(file.path)) spellings.emplace_back(std::move(alias), &file);
  for (const auto form : {squeezed, bare}) {
    const std::string key = form(id);
    const auto found =
        std::find_if(spellings.begin(), spellings.end(), [&](const auto& s) { return form(s.first) == key; });
    if (!key.empty() && found != spellings.end()) return *found->second;
  }
  return {};
}

std::optional<Catalogue::File> Catalogue::find_file(std::string_view kind, const std::string& name) const {
  const std::string id = canonical_name(name);
  // A name must not lead to a file outside the catalogue.
  if (id.empty() || id.find("..") != std::string::npos) return {};
  std::error_code error;
  const auto exact = [&](const std::string& folder) -> std::optional<File> {
    const fs::path path = fs::path(folder) / kind / (id + ".yaml");
    return fs::exists(path, error) ? std::optional(File{id, path.string()}) : std::nullopt;
  };
  for (const std::string& folder : folders_)
    if (auto found = exact(folder)) return found;
  // The exact name of a user's own entry is tried before other spellings of shipped entries, which need every file
  // read.
  if (!user_.empty())
    if (auto found = exact(user_)) return found;
  if (auto found = find_among(files(kind), id)) return found;
  return find_among(user_files(kind), id);
}

bool Catalogue::ships(std::string_view kind, const std::string& name) const {
  const std::string id = canonical_name(name);
  const std::vector<File> all = files(kind);
  const bool exact = std::any_of(all.begin(), all.end(), [&](const File& file) { return file.id == id; });
  return exact || find_among(all, id).has_value();
}

std::optional<std::string> Catalogue::identifier(std::string_view kind, const std::string& name) const {
  if (entry(kind, name) != nullptr) return canonical_name(name);
  const std::optional<File> file = find_file(kind, name);
  return file ? std::optional(file->id) : std::nullopt;
}

Document Catalogue::document(std::string_view kind, const std::string& name, const Where& where) const {
  if (const Document* const own = entry(kind, name)) return *own;
  const std::optional<File> file = find_file(kind, name);
  if (!file) fail_unknown(kind, name, where);
  const Document document = Document::from_file(file->path);
  return kind == "engines" && document.root().has("like") ? with_neighbour(document.root(), file->id) : document;
}

// Removes words at the end of a model's name that describe its quantisation or packaging.
std::string without_packaging(std::string id) {
  static constexpr std::array<std::string_view, 27> kWords = {
      "fp8",  "awq",       "gptq",   "int4", "int8",  "4bit",    "8bit",   "w4a16", "w8a16",
      "w8a8", "w4a8",      "nvfp4",  "fp4",  "mxfp4", "dynamic", "static", "block", "bnb",
      "gguf", "quantized", "marlin", "hf",   "bf16",  "fp16",    "g128",   "int",   "bit"};
  for (std::size_t dash = id.rfind('-'); dash != std::string::npos; dash = id.rfind('-')) {
    const std::string_view word = std::string_view(id).substr(dash + 1);
    if (std::find(kWords.begin(), kWords.end(), word) == kWords.end()) break;
    id.resize(dash);
  }
  return id;
}

// The name of a fine-tuned model often ends with that of its base: "hermes-3-llama-3.1-8b-awq-int4".
std::string Catalogue::model_hint(const std::string& name) const {
  const std::string whole = canonical_name(name), id = without_packaging(whole);
  std::optional<File> base = id == whole ? std::nullopt : find_file("models", id);
  // Tries ever shorter endings. A single word such as "instruct" or "7b" identifies nothing.
  for (std::size_t dash = id.find('-'); !base && dash != std::string::npos; dash = id.find('-', dash + 1)) {
    const std::string tail = id.substr(dash + 1);
    if (tail.find('-') != std::string::npos) base = find_file("models", tail);
  }
  if (!base) return {};
  return fmt::format(" Its name ends with that of a known model: '{}' has that shape{}.", base->id,
                     id == whole ? "" : ", and 'dtype' says how the weights are stored");
}

// The message names the likeliest cause: a refused model type, a quantised copy of a known model, or a misspelling.
void Catalogue::fail_unknown(std::string_view kind, const std::string& name, const Where& where) const {
  std::vector<File> all = files(kind);
  for (File& file : user_files(kind)) all.push_back(std::move(file));
  std::vector<std::string> names;
  for (const File& file : all) names.push_back(file.id);
  if (kind == "engines")
    add_products(names, [&](const std::string& product) { return find_file(kind, product).has_value(); });
  const std::string id = canonical_name(name);
  const std::string base = kind == "models" ? model_hint(name) : std::string();
  const bool may_be_refused = kind == "models" && base.empty();
  const std::string_view why = may_be_refused ? why_not_modelled(id) : std::string_view();
  if (!why.empty())
    throw InputError(where, fmt::format("model '{}' is not modelled: {} (docs/limits.md)", shortened(name, 60), why));
  const std::string meant = base.empty() ? suggestion(id, names) : std::string();
  std::string hint;
  if (kind == "models" && (meant.empty() || name.find('/') != std::string::npos))  // a path is not a misspelling
    hint = ". A config.json is a model too: 'model: FOLDER/config.json', with the file of its repository." + base;
  throw InputError(
      where, fmt::format("unknown {} '{}'{} `plimsoll list {}` names all {}{}", singular(kind), shortened(name, 60),
                         meant.empty() ? "." : fmt::format(", did you mean '{}'?", meant), kind, all.size(), hint));
}

template <class T, class Read>
std::shared_ptr<const T> Catalogue::lookup(Shelf<T>& shelf, const std::string& name, const Where& where,
                                           Read&& read) const {
  const std::scoped_lock lock(mutex_);
  auto& [kind, cache] = shelf;
  if (const auto found = cache.find(name); found != cache.end()) return found->second;
  if (const Document* const own = entry(kind, name)) {
    auto value = std::make_shared<const T>(read(own->root(), canonical_name(name)));
    cache.emplace(name, value);
    return value;
  }
  const std::optional<File> file = find_file(kind, name);
  if (!file) fail_unknown(kind, name, where);
  // A fresh calibration replaces the catalogue's file of the same name.
  const fs::path own = fs::path(kind) / (file->id + ".yaml");
  std::error_code error;
  const bool is_calibrated = !calibration_.empty() && fs::exists(fs::path(calibration_) / own, error);
  const Document document = Document::from_file(is_calibrated ? (fs::path(calibration_) / own).string() : file->path);
  auto value = std::make_shared<const T>(read(document.root(), file->id));
  cache.emplace(name, value);
  return value;
}

// Every point of a sweep looks its model up again, so models are cached. A file that has changed since is read again.
std::shared_ptr<const model::LlmShape> Catalogue::model_file(const std::string& path) const {
  const auto stamp = [](const fs::path& file) {
    std::error_code error;
    const auto time = fs::last_write_time(file, error);
    return error ? std::int64_t{0} : static_cast<std::int64_t>(time.time_since_epoch().count());
  };
  const std::string key =
      fmt::format("{}\n{}\n{}", path, stamp(path), stamp(fs::path(path).parent_path() / "hf_quant_config.json"));
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<const model::LlmShape>& shape = model_files_[key];
  if (!shape) shape = std::make_shared<const model::LlmShape>(read_hf_config(path));
  return shape;
}

// A path names a file of the user; everything else is a name in the catalogue.
std::shared_ptr<const model::LlmShape> Catalogue::model(const std::string& name, const Where& where) const {
  std::error_code error;
  if (name.ends_with(".json") || (name.find('/') != std::string::npos && fs::exists(name, error))) {
    const fs::path path = is_folder(name) ? fs::path(name) / "config.json" : fs::path(name);
    if (!fs::exists(path, error)) throw InputError(where, fmt::format("model '{}': no such file", path.string()));
    return model_file(path.string());
  }
  return lookup(models_, name, where, read_model);
}

std::shared_ptr<const model::Accelerator> Catalogue::accelerator(const std::string& name, const Where& where) const {
  return lookup(accelerators_, name, where, [&](const Node& root, const std::string& id) {
    model::Accelerator a = kernels_ ? read_accelerator(root, id) : read_accelerator_alone(root, id);
    estimate(a);
    return a;
  });
}

std::shared_ptr<const model::Accelerator> Catalogue::accelerator(const Node& stated) const {
  model::Accelerator a = read_inline_accelerator(stated);
  estimate(a);
  return std::make_shared<const model::Accelerator>(std::move(a));
}

// Accelerators without measurements take the estimated coefficients and are marked as estimates.
void Catalogue::estimate(model::Accelerator& accelerator) const {
  if (!accelerator.fit_source.empty()) return;
  const Document file = Document::from_file((fs::path(root()) / "estimates.yaml").string());
  read_estimates(file.root(), accelerator);
  accelerator.calibrated = false;
}

std::shared_ptr<const model::Interconnect> Catalogue::interconnect(const std::string& name, const Where& where) const {
  return lookup(interconnects_, name, where, read_interconnect);
}

std::shared_ptr<const model::Interconnect> Catalogue::link(const model::Accelerator& accelerator,
                                                           const std::string& name, const Where& where) const {
  const std::string& own = accelerator.default_interconnect;
  const std::string id = canonical_name(name);
  if (id.empty()) return own.empty() ? nullptr : interconnect(own, where);
  static constexpr std::array<std::pair<std::string_view, model::LinkKind>, 3> kKinds = {
      {{"nvswitch", model::LinkKind::nvswitch}, {"nvlink", model::LinkKind::nvlink}, {"pcie", model::LinkKind::pcie}}};
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.first == id; });
  // Any other name is that of an interconnect in the catalogue.
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
  return lookup(instances_, id, where, read_instance);
}

std::shared_ptr<const ThisMachine> Catalogue::this_machine(const std::string& device, const Where& where) const {
  const std::scoped_lock lock(mutex_);
  if (const auto found = machines_.find(device); found != machines_.end()) return found->second;
  // A calibration on disk takes precedence over the probe, which measures only two numbers.
  const std::string file = machine_file(device);
  std::error_code error;
  std::shared_ptr<const ThisMachine> machine;
  if (fs::exists(file, error)) {
    machine = std::make_shared<const ThisMachine>(read_this_machine(Document::from_file(file)));
  } else if (machine_probe_) {
    machine = std::make_shared<const ThisMachine>(machine_probe_(device));
  } else {
    throw InputError(where,
                     "this-machine is not calibrated yet: run `plimsoll calibrate`, or name an instance or "
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

bool Catalogue::has_accelerator(const std::string& name) const { return identifier("accelerators", name).has_value(); }

// Instances and accelerators are easily confused, so both are searched for the intended name.
void Catalogue::refuse_hardware(const std::string& name, const Where& where) const {
  if (has_instance(name))
    throw InputError(where,
                     fmt::format("'{0}' is an instance type, not an accelerator: write 'hardware: {0}', without a "
                                 "number; deployment.replicas and deployment.instances say how many",
                                 shortened(name, 60)));
  std::vector<std::string> names;
  for (const File& file : files("instances")) names.push_back(file.id);
  const std::size_t instances = names.size();
  const std::vector<File> accelerators = files("accelerators");
  for (const File& file : accelerators) names.push_back(file.id);
  for (const File& file : accelerators) {
    for (std::string& alias : aliases_in(file.path)) names.push_back(std::move(alias));
  }
  const std::string id = canonical_name(name.starts_with("ml.") ? name.substr(3) : name);
  std::stable_partition(names.begin(), names.end(), [&](const std::string& known) {
    return known.starts_with(id);
  });  // among equally near names, prefer one with this prefix
  const std::string meant = suggestion(id, names);
  throw InputError(where,
                   fmt::format("unknown instance or accelerator '{}'{} `plimsoll list instances` names all {}, "
                               "`plimsoll list accelerators` all {}; 8xH100 is eight accelerators",
                               shortened(name, 60), meant.empty() ? "." : fmt::format(", did you mean '{}'?", meant),
                               instances, accelerators.size()));
}

std::shared_ptr<const Engine> Catalogue::engine(const std::string& name, const Where& where) const {
  return lookup(engines_, name, where, [this](const Node& root, const std::string& id) {
    return read_engine(root.has("like") ? with_neighbour(root, id).root() : root, id);
  });
}

std::vector<Catalogue::File> Catalogue::all_files(std::string_view kind) const {
  std::vector<File> all = files(kind);
  for (File& file : user_files(kind))
    if (std::none_of(all.begin(), all.end(), [&](const File& known) { return known.id == file.id; }))
      all.push_back(std::move(file));
  return all;
}

std::vector<std::string> Catalogue::names(std::string_view kind) const {
  std::vector<std::string> names;
  for (const File& file : all_files(kind)) names.push_back(file.id);
  return names;
}

std::vector<Listing> Catalogue::list(std::string_view kind) const {
  std::vector<Listing> listings;
  for (const File& file : all_files(kind)) {
    const std::string& name = file.id;
    Listing listing{name, {}};
    if (kind == "models") {
      const auto m = model(name);
      const double billions = model::weight_count(*m) / 1e9;
      listing.description = fmt::format("{:.{}g} B parameters, {} layers x {}, {} KV heads", billions,
                                        billions < 1000 ? 3 : 4, m->layers, m->hidden, m->kv_heads);
      if (m->checkpoint) listing.description += fmt::format(", published in {}", m->checkpoint->format);
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
      listing.description = fmt::format(
          "{}; host times {}; {}", e->profile->scheduler_policy.empty() ? "any policy" : e->profile->scheduler_policy,
          e->profile->times_from(), e->profile->calibrated_on);
    } else {
      listing.description = interconnect(name)->source;
    }
    listing.description += overlay_text(kind, file);
    listings.push_back(std::move(listing));
  }
  return listings;
}

std::string Catalogue::overlay_text(std::string_view kind, const File& file) const {
  const fs::path shipped = fs::path(root()) / kind / (file.id + ".yaml");
  if (file.path == shipped.string()) return {};
  std::error_code error;
  return fmt::format(" [{} {}]", fs::exists(shipped, error) ? "overridden by" : "from", file.path);
}

}  // namespace plimsoll::configs
