// SPDX-License-Identifier: Apache-2.0
// A study stated on the command line: `--model … --hardware … --rate …` instead of a file, or instead of values in a
// file. The options become values of a study document, so that every check and message for study files applies to them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "configs/catalogue.h"
#include "configs/yaml_document.h"
#include "study/file/study.h"

namespace plimsoll::cli {

inline constexpr const char* kCommandLine = "command line";  // the file name in messages

/// Adds the options --model, --hardware, --engine, --rate … that `kind` accepts.
void add_study_options(po::options_description& options, StudyOptions kind);
/// Returns whether any of these options is given. Throws InputError for an empty value.
[[nodiscard]] bool states_study(const Parsed& parsed);

/// One value of a study: from an option, or a default.
struct StatedValue {
  std::string path;  // "deployment.tp", "slo.p99_ttft", "sweep.workload.rate"
  std::string yaml;
  std::string option;   // as given: "--rate 4"; empty: a default
  std::string comment;  // comment for a reader of the file
};

/// Returns whether the value is the name of a trace file.
[[nodiscard]] bool names_trace(const StatedValue& value);

struct StatedStudy {
  std::vector<StatedValue> values;  // values of one map are adjacent
  std::vector<std::string> notes;   // defaults that were used, and which engine a product's name selected
};

/// Makes a whole study from the options alone. Throws InputError for what is missing, all in one message, and for
/// options that exclude each other.
[[nodiscard]] StatedStudy stated_study(const Parsed& parsed,
                                       const std::shared_ptr<const configs::Catalogue>& catalogue);
/// Converts its values to a document; errors in a value name its option.
[[nodiscard]] configs::Document document_of(const StatedStudy& stated);
/// Reads the study `file` and replaces its values by those of the options, also in its sweep and its search.
[[nodiscard]] configs::Document document_with_options(const std::string& file, const Parsed& parsed,
                                                      const std::shared_ptr<const configs::Catalogue>& catalogue,
                                                      std::vector<std::string>& notes);
/// The same for a study that has been read.
[[nodiscard]] configs::Document with_options(configs::Document document, const Parsed& parsed,
                                             const std::shared_ptr<const configs::Catalogue>& catalogue,
                                             std::vector<std::string>& notes);
/// Formats the values as a study file called `file`, with a comment on each, and further keys to uncomment.
[[nodiscard]] std::string commented_study(const StatedStudy& stated, const std::string& file);

// The study that a verb's arguments name or state, with --set and --seed applied.

/// Reads STUDY, the options instead of it (cli/stated_study.h), or both. Prints the study's notes. Throws InputError.
[[nodiscard]] study::Study load_study(const Parsed& parsed, Console& console);

}  // namespace plimsoll::cli
