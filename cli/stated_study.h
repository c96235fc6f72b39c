// SPDX-License-Identifier: Apache-2.0
// A study stated on the command line: `--model … --hardware … --rate …` in place of a file, or of values of one. The
// options become values of a study document, so that every check and message of a study file holds for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "configs/catalogue.h"
#include "configs/yaml_document.h"
#include "study/file/study.h"

namespace plimsoll::cli {

inline constexpr const char* kCommandLine = "command line";  // used as the file's name in messages

/// Adds the options --model, --hardware, --engine, --rate … that `kind` accepts.
void add_study_options(po::options_description& options, StudyOptions kind);
/// Whether any of them is given. Throws InputError for an empty value.
[[nodiscard]] bool states_study(const Parsed& parsed);

/// One value of a study: stated by an option, or a default.
struct StatedValue {
  std::string path;  // "deployment.tp", "slo.p99_ttft", "sweep.workload.rate"
  std::string yaml;
  std::string option;   // as given: "--rate 4"; empty: not given
  std::string comment;  // for a reader of the file
};

/// Whether the value is the name of a trace file.
[[nodiscard]] bool names_trace(const StatedValue& value);

struct StatedStudy {
  std::vector<StatedValue> values;  // those of one map follow each other
  std::vector<std::string> notes;   // defaults that were used, and which engine a product's name selected
};

/// A whole study from the options alone. Throws InputError for what is missing, all in one message, and for options
/// that exclude each other.
[[nodiscard]] StatedStudy stated_study(const Parsed& parsed,
                                       const std::shared_ptr<const configs::Catalogue>& catalogue);
/// Its values as a document; errors in a value name its option.
[[nodiscard]] configs::Document document_of(const StatedStudy& stated);
/// The study `file` with its values replaced by those of the options, including the values in its sweep and its
/// search.
[[nodiscard]] configs::Document document_with_options(const std::string& file, const Parsed& parsed,
                                                      const std::shared_ptr<const configs::Catalogue>& catalogue,
                                                      std::vector<std::string>& notes);
/// The values as a study file with a comment on each, and further keys to uncomment. `file`: its name.
[[nodiscard]] std::string commented_study(const StatedStudy& stated, const std::string& file);

// The study that a verb's arguments name or state, with --set and --seed applied.

/// Reads STUDY, options instead of it (cli/stated_study.h), or both. Prints the study's notes. Throws
/// InputError.
[[nodiscard]] study::Study load_study(const Parsed& parsed, Console& console);

}  // namespace plimsoll::cli
