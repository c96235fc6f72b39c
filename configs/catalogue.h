// SPDX-License-Identifier: Apache-2.0
// The catalogue of models, accelerators, links, instances and engines: one YAML file each, read when it is asked for.
// Names may be spelt freely: "Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf" and "Llama 2 7B" are llama-2-7b.
#pragma once

#include <functional>
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
#include "model/engine_profile.h"
#include "model/llm_shape.h"

namespace plimsoll::configs {

/// An engine's profile with the scheduler defaults of its file (keys of a study's `scheduler`; null: none).
struct Engine {
  std::shared_ptr<const model::EngineProfile> profile;
  std::optional<Node> scheduler;
  /// Scheduler keys that replace the former on accelerators with at least this much memory (bytes), other than
  /// `except`.
  struct Larger {
    double memory = 0;
    std::vector<std::string> except;  // accelerator ids begin with one of these
    Node scheduler;
  };
  std::optional<Larger> larger;
};

/// One line of `plimsoll list`.
struct Listing {
  std::string name, description;
};

/// Any number of threads may ask at once. All lookups throw InputError at `where` for a name that is not there, with
/// the nearest ones that are, or at the file's own place for a file that is wrong.
class Catalogue {
 public:
  /// The installed one: default_root() under default_overlays().
  Catalogue();
  /// `root` holds models/, accelerators/, interconnects/, instances/ and engines/. Throws InputError if it is no
  /// folder.
  explicit Catalogue(std::string root);
  /// $PLIMSOLL_CONFIGS, else configs/ or share/plimsoll/configs near the executable, else the source tree's.
  [[nodiscard]] static std::string default_root();

  /// Folders of the user's own, the first one first: those of $PLIMSOLL_CATALOGUE (with colons between), which must
  /// exist, then plimsoll/catalogue under $XDG_DATA_HOME and $XDG_CONFIG_HOME (or their defaults), where they do.
  [[nodiscard]] static std::vector<std::string> default_overlays();
  /// Files in `folder` (models/ID.yaml …) go before those of the same name in the catalogue and in earlier overlays,
  /// and add to them. To be called before threads share the catalogue. Throws InputError if there is none of the five
  /// folders in it.
  void add_overlay(const std::string& folder);
  /// Overlays, the strongest first, then the root.
  [[nodiscard]] const std::vector<std::string>& folders() const { return folders_; }

  /// A catalogue name, or a path to a Hugging Face config.json.
  [[nodiscard]] std::shared_ptr<const model::LlmShape> model(const std::string& name, const Where& where = {}) const;
  [[nodiscard]] std::shared_ptr<const model::Accelerator> accelerator(const std::string& name,
                                                                      const Where& where = {}) const;
  /// One that a study states itself. What has no efficiencies takes the catalogue's estimates, as files do.
  [[nodiscard]] std::shared_ptr<const model::Accelerator> accelerator(const Node& stated) const;
  [[nodiscard]] std::shared_ptr<const model::Interconnect> interconnect(const std::string& name,
                                                                        const Where& where = {}) const;
  /// The link between accelerators of one kind. "nvswitch", "nvlink" and "pcie" alone are the accelerator's own link,
  /// if that is of the kind; an empty name is its own link too, whatever the kind. nullptr: it has none.
  [[nodiscard]] std::shared_ptr<const model::Interconnect> link(const model::Accelerator& accelerator,
                                                                const std::string& name, const Where& where = {}) const;
  /// "p4d.24xlarge"; a leading "ml." is accepted (and means the SageMaker price to the caller).
  [[nodiscard]] std::shared_ptr<const Instance> instance(const std::string& name, const Where& where = {}) const;
  /// Whether there is such an instance.
  [[nodiscard]] bool has_instance(const std::string& name) const;
  [[nodiscard]] bool has_accelerator(const std::string& name) const;
  /// Says what may have been meant by a name that is neither an instance nor an accelerator. Throws InputError.
  [[noreturn]] void refuse_hardware(const std::string& name, const Where& where) const;
  [[nodiscard]] std::shared_ptr<const Engine> engine(const std::string& name, const Where& where = {}) const;

  /// This machine's device ("cpu", "cuda") as calibrated, else as the probe finds it.
  [[nodiscard]] std::shared_ptr<const ThisMachine> this_machine(const std::string& device,
                                                                const Where& where = {}) const;
  /// Measures what a machine without calibration can do, in some two seconds, when first asked for. To be set before
  /// threads share the catalogue.
  void set_machine_probe(std::function<ThisMachine(const std::string& device)> probe) {
    machine_probe_ = std::move(probe);
  }
  /// What this_machine() answers from now on, whatever is kept in a file.
  void set_machine(const std::string& device, ThisMachine machine);

  /// Files of accelerators and interconnects in `folder` (accelerators/ID.yaml …, as `calibrate --from --out` writes
  /// them) stand in for those of the catalogue. To be set before threads share the catalogue. Throws InputError if it
  /// is none.
  void set_calibration(const std::string& folder);

  /// Accelerators come without their measured kernels, whose files are not opened: for those who write them. To be
  /// called before threads share the catalogue.
  void leave_kernels_out() { kernels_ = false; }

  /// `kind`: models, accelerators, interconnects, instances, engines. Entries of overlays say so.
  [[nodiscard]] std::vector<Listing> list(std::string_view kind) const;
  [[nodiscard]] const std::string& root() const { return folders_.back(); }

 private:
  template <class T, class Read>
  std::shared_ptr<const T> lookup(std::unordered_map<std::string, std::shared_ptr<const T>>& cache,
                                  std::string_view kind, const std::string& name, const Where& where,
                                  Read&& read) const;
  struct File {
    std::string id, path;
  };
  [[nodiscard]] std::optional<File> find_file(std::string_view kind, const std::string& name) const;
  [[nodiscard]] std::vector<File> files(std::string_view kind) const;
  [[noreturn]] void fail_unknown(std::string_view kind, const std::string& name, const Where& where) const;
  [[nodiscard]] std::string model_hint(const std::string& name) const;
  [[nodiscard]] std::string overlay_text(std::string_view kind, const File& file) const;
  void estimate(model::Accelerator& accelerator) const;
  [[nodiscard]] std::shared_ptr<const model::LlmShape> model_file(const std::string& path) const;

  std::vector<std::string> folders_;
  std::string calibration_;
  bool kernels_ = true;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::shared_ptr<const model::LlmShape>> models_;
  mutable std::unordered_map<std::string, std::shared_ptr<const model::LlmShape>> model_files_;  // by path and time
  mutable std::unordered_map<std::string, std::shared_ptr<const model::Accelerator>> accelerators_;
  mutable std::unordered_map<std::string, std::shared_ptr<const model::Interconnect>> interconnects_;
  mutable std::unordered_map<std::string, std::shared_ptr<const Instance>> instances_;
  mutable std::unordered_map<std::string, std::shared_ptr<const Engine>> engines_;
  mutable std::unordered_map<std::string, std::shared_ptr<const ThisMachine>> machines_;
  std::function<ThisMachine(const std::string&)> machine_probe_;
};

/// A name in the catalogue's spelling: lower case, words joined by hyphens, no organisation before a slash, no suffix
/// that only names a packaging (-hf).
[[nodiscard]] std::string canonical_name(std::string_view name);

// Readers of single files (their `root` node), for the catalogue and its tests.
[[nodiscard]] model::LlmShape read_model(const Node& root, const std::string& id);
[[nodiscard]] model::LlmShape read_hf_config(const std::string& path);
[[nodiscard]] model::Accelerator read_accelerator(const Node& root, const std::string& id);
/// Without its measured kernels.
[[nodiscard]] model::Accelerator read_accelerator_alone(const Node& root, const std::string& id);
/// The efficiencies of configs/estimates.yaml, for an accelerator that states none.
void read_estimates(const Node& root, model::Accelerator& accelerator);
/// An accelerator that a study states itself (docs/study-file.md), without efficiencies where it has none.
[[nodiscard]] model::Accelerator read_inline_accelerator(const Node& node);
[[nodiscard]] model::Interconnect read_interconnect(const Node& root, const std::string& id);
[[nodiscard]] Instance read_instance(const Node& root, const std::string& id);
[[nodiscard]] Engine read_engine(const Node& root, const std::string& id);

}  // namespace plimsoll::configs
