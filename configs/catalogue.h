// SPDX-License-Identifier: Apache-2.0
// The catalogue of models, accelerators, links, instances and engines: one YAML file each, read on demand. Names may be
// spelt freely: "Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf" and "Llama 2 7B" all name llama-2-7b.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "configs/instance.h"
#include "configs/this_machine.h"
#include "configs/yaml_document.h"
#include "model/accelerator.h"
#include "model/architecture.h"
#include "model/engine_profile.h"
#include "model/llm_shape.h"

namespace plimsoll::configs {

/// An engine's profile and the scheduler defaults of its file (keys of a study's `scheduler`; null: none).
struct Engine {
  std::shared_ptr<const model::EngineProfile> profile;
  std::optional<Node> scheduler;
  /// Scheduler keys that replace the defaults on accelerators with at least this much memory (bytes), except those in
  /// `except`.
  struct Larger {
    double memory = 0;
    std::vector<std::string> except;  // prefixes of accelerator ids
    Node scheduler;
  };
  std::optional<Larger> larger;
};

/// One line of `plimsoll list`.
struct Listing {
  std::string name, description;
};

/// Any number of threads may look up concurrently. Lookups throw InputError at `where` for an unknown name, with the
/// nearest known ones, or at the place in the file if the file is invalid.
class Catalogue {
 public:
  /// Opens the installed catalogue: default_root() with default_overlays() and user_folder().
  Catalogue();
  /// Opens the catalogue at `root`, which holds models/, accelerators/, interconnects/, instances/ and engines/. Throws
  /// InputError if it is not a folder.
  explicit Catalogue(std::string root);
  /// Returns $PLIMSOLL_CONFIGS, else configs/ or share/plimsoll/configs near the executable, else the source tree's.
  [[nodiscard]] static std::string default_root();

  /// Returns the user's own folders in order of precedence: those of $PLIMSOLL_CATALOGUE (separated by colons), which
  /// must exist, then the existing ones of plimsoll/catalogue under $XDG_DATA_HOME and $XDG_CONFIG_HOME (or their
  /// defaults).
  [[nodiscard]] static std::vector<std::string> default_overlays();
  /// Adds an overlay. Its files (models/ID.yaml …) replace those of the same name in the catalogue and in earlier
  /// overlays; other files are added. Call before threads share the catalogue. Throws InputError if the folder has none
  /// of the five subfolders.
  void add_overlay(const std::string& folder);
  /// Returns the overlays in order of precedence, then the root.
  [[nodiscard]] const std::vector<std::string>& folders() const { return folders_; }
  /// Returns folders() and those of user_folder(): everything that an entry may come from.
  [[nodiscard]] std::vector<std::string> content_folders() const;

  /// Returns where `calibrate` puts profiles of the user's own engines: $XDG_DATA_HOME/plimsoll (or its default). The
  /// folder need not exist. Its files are read after all others, so they never replace a shipped one.
  [[nodiscard]] static std::string user_folder();
  /// Adds an entry that has no file, such as a profile that is being fitted. It takes precedence over files. `kind` is
  /// a folder's name. Call before threads share the catalogue.
  void add_entry(const std::string& kind, const std::string& id, Document document);
  /// Returns whether the shipped catalogue or an overlay has an entry of this name; user_folder() does not count.
  [[nodiscard]] bool ships(std::string_view kind, const std::string& name) const;
  /// Returns the identifier of an entry; nothing for an unknown name.
  [[nodiscard]] std::optional<std::string> identifier(std::string_view kind, const std::string& name) const;
  /// Returns the YAML document of an entry. That of an engine includes what it inherits through `like`. Throws
  /// InputError as the lookups do.
  [[nodiscard]] Document document(std::string_view kind, const std::string& name, const Where& where = {}) const;

  /// Returns a model by its catalogue name or by the path of a Hugging Face config.json.
  [[nodiscard]] std::shared_ptr<const model::LlmShape> model(const std::string& name, const Where& where = {}) const;
  /// Returns an accelerator by its catalogue name.
  [[nodiscard]] std::shared_ptr<const model::Accelerator> accelerator(const std::string& name,
                                                                      const Where& where = {}) const;
  /// Returns an accelerator that a study states inline. Missing efficiencies are the catalogue's estimates, as in
  /// files.
  [[nodiscard]] std::shared_ptr<const model::Accelerator> accelerator(const Node& stated) const;
  /// Returns an interconnect by its catalogue name.
  [[nodiscard]] std::shared_ptr<const model::Interconnect> interconnect(const std::string& name,
                                                                        const Where& where = {}) const;
  /// Returns the link between accelerators of one kind. "nvswitch", "nvlink" and "pcie" alone mean the accelerator's
  /// own link if it is of that kind. An empty name means its own link of any kind. Returns nullptr if it has none.
  [[nodiscard]] std::shared_ptr<const model::Interconnect> link(const model::Accelerator& accelerator,
                                                                const std::string& name, const Where& where = {}) const;
  /// Returns an instance, such as "p4d.24xlarge". A leading "ml." is accepted; the caller then takes the SageMaker
  /// price.
  [[nodiscard]] std::shared_ptr<const Instance> instance(const std::string& name, const Where& where = {}) const;
  /// Returns true if there is such an instance.
  [[nodiscard]] bool has_instance(const std::string& name) const;
  /// Returns whether a file or an alias has this name. Reads files only for their aliases.
  [[nodiscard]] bool has_accelerator(const std::string& name) const;
  /// Throws InputError with suggestions for a name that is neither an instance nor an accelerator.
  [[noreturn]] void refuse_hardware(const std::string& name, const Where& where) const;
  /// Returns an engine by its catalogue name.
  [[nodiscard]] std::shared_ptr<const Engine> engine(const std::string& name, const Where& where = {}) const;

  /// Returns this machine's device ("cpu", "cuda") as calibrated; if it is not calibrated, as measured by the probe.
  [[nodiscard]] std::shared_ptr<const ThisMachine> this_machine(const std::string& device,
                                                                const Where& where = {}) const;
  /// Sets the probe, which measures the capabilities of an uncalibrated machine in about two seconds when first needed.
  /// Call before threads share the catalogue.
  void set_machine_probe(std::function<ThisMachine(const std::string& device)> probe) {
    machine_probe_ = std::move(probe);
  }
  /// Sets what this_machine() returns from now on, regardless of calibration files.
  void set_machine(const std::string& device, ThisMachine machine);

  /// Replaces accelerators and interconnects of the catalogue by the files in `folder` (accelerators/ID.yaml …, as
  /// written by `calibrate --from --out`). Call before threads share the catalogue. Throws InputError if it is not a
  /// folder.
  void set_calibration(const std::string& folder);

  /// Makes lookups return accelerators without their measured kernels, whose files are then not opened. Code that
  /// writes those files needs this. Call before threads share the catalogue.
  void leave_kernels_out() { kernels_ = false; }

  /// Returns the names of the entries of a kind: models, accelerators, interconnects, instances, engines. Reads no
  /// entry, so those that cannot be read are included.
  [[nodiscard]] std::vector<std::string> names(std::string_view kind) const;
  /// Describes the entries of a kind. Entries from overlays are marked.
  [[nodiscard]] std::vector<Listing> list(std::string_view kind) const;
  /// The catalogue that ships with the program; overlays come before it.
  [[nodiscard]] const std::string& root() const { return folders_.back(); }

 private:
  // The entries of one kind that were read so far, by name.
  template <class T>
  struct Shelf {
    std::string_view kind;  // the folder
    std::unordered_map<std::string, std::shared_ptr<const T>> entries = {};
  };
  template <class T, class Read>
  std::shared_ptr<const T> lookup(Shelf<T>& shelf, const std::string& name, const Where& where, Read&& read) const;
  struct File {
    std::string id, path;
  };
  [[nodiscard]] std::optional<File> find_file(std::string_view kind, const std::string& name) const;
  [[nodiscard]] std::optional<File> find_among(const std::vector<File>& all, const std::string& name) const;
  [[nodiscard]] std::vector<File> files(std::string_view kind) const;
  [[nodiscard]] std::vector<File> user_files(std::string_view kind) const;
  [[nodiscard]] const Document* entry(std::string_view kind, const std::string& name) const;
  [[noreturn]] void fail_unknown(std::string_view kind, const std::string& name, const Where& where) const;
  [[nodiscard]] Document with_neighbour(const Node& root, const std::string& id) const;
  [[nodiscard]] std::string model_hint(const std::string& name) const;
  [[nodiscard]] std::vector<File> all_files(std::string_view kind) const;
  [[nodiscard]] std::string overlay_text(std::string_view kind, const File& file) const;
  void estimate(model::Accelerator& accelerator) const;
  [[nodiscard]] std::shared_ptr<const model::LlmShape> model_file(const std::string& path) const;

  std::vector<std::string> folders_;
  std::string user_, calibration_;                        // user_: user_folder(); empty: not read
  std::map<std::string, Document, std::less<>> entries_;  // "engines/ID"
  bool kernels_ = true;
  mutable std::mutex mutex_;
  mutable Shelf<model::LlmShape> models_{"models"};
  mutable std::unordered_map<std::string, std::shared_ptr<const model::LlmShape>>
      model_files_;  // by path and modification time
  mutable Shelf<model::Accelerator> accelerators_{"accelerators"};
  mutable Shelf<model::Interconnect> interconnects_{"interconnects"};
  mutable Shelf<Instance> instances_{"instances"};
  mutable Shelf<Engine> engines_{"engines"};
  mutable std::unordered_map<std::string, std::shared_ptr<const ThisMachine>> machines_;
  std::function<ThisMachine(const std::string&)> machine_probe_;
};

/// Returns a name in the catalogue's spelling: lower case, words joined by hyphens, without an organisation before a
/// slash and without suffixes that only describe packaging (-hf).
[[nodiscard]] std::string canonical_name(std::string_view name);

// Read single files from their `root` node, for the catalogue and its tests.
[[nodiscard]] model::LlmShape read_model(const Node& root, const std::string& id);
[[nodiscard]] model::LlmShape read_hf_config(const std::string& path);
[[nodiscard]] model::Accelerator read_accelerator(const Node& root, const std::string& id);
/// Reads an accelerator without its measured kernels.
[[nodiscard]] model::Accelerator read_accelerator_alone(const Node& root, const std::string& id);
/// Reads the efficiencies of configs/estimates.yaml for an accelerator that states none.
void read_estimates(const Node& root, model::Accelerator& accelerator);
/// Reads an accelerator that a study states inline (docs/study-file.md). Missing efficiencies stay unset.
[[nodiscard]] model::Accelerator read_inline_accelerator(const Node& node);
[[nodiscard]] model::Interconnect read_interconnect(const Node& root, const std::string& id);
[[nodiscard]] Instance read_instance(const Node& root, const std::string& id);
[[nodiscard]] Engine read_engine(const Node& root, const std::string& id);

/// Reads an engine's captured graphs: off, vllm or their increasing token counts.
void read_graph_sizes(const Node& node, model::EngineProfile& e);

// Reads everything needed to compute a model from its Hugging Face config.json. read_hf_config (catalogue.h) reads only
// the shape and accepts more models.

/// Throws InputError with file, line and field if the file is not a config.json, if read_hf_config refuses it, or if
/// the model is of a variant that is not implemented (YaRN, ALiBi, expert weights that do not sum to 1 …). The caller
/// checks model::execution_problem, which depends on more than this file.
[[nodiscard]] model::Architecture read_hf_architecture(const std::string& path);

}  // namespace plimsoll::configs
