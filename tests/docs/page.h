// SPDX-License-Identifier: Apache-2.0
// The blocks of a documentation page that a test runs or compares. CONTRIBUTING.md, "Documentation", lists the marks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::docs {

/// A fenced block with the marks (`<!-- test: … -->`) on the lines right above it.
struct Block {
  std::size_t line = 0;  // of the opening fence, from 1
  std::string language;  // "sh", "yaml", "csv" or empty
  std::vector<std::string> lines;
  std::vector<std::string>
      marks;  // "skip REASON", "output", "output of COMMAND", "figures vary", "file NAME", "exit N"

  [[nodiscard]] bool has(const std::string& mark) const;
  /// What follows `word` in the marks that begin with it.
  [[nodiscard]] std::vector<std::string> after(const std::string& word) const;
};

[[nodiscard]] std::vector<Block> read_page(const std::string& path);
/// The commands of a block of `sh`: lines that continue are joined, comments at their ends and empty lines left out.
[[nodiscard]] std::vector<std::string> commands_of(const Block& block);
/// The words between backquotes that call the program: "plimsoll list engines".
[[nodiscard]] std::vector<std::string> inline_commands(const std::string& path);

/// Why `shown` is no excerpt of `output`, or nothing. Every shown line occurs in the output, in its order; one that
/// ends with " …" is the beginning of a line, and one that is "…" alone stands for any lines. `figures_vary`: any
/// number stands for any other.
[[nodiscard]] std::string difference(const std::vector<std::string>& shown, const std::string& output,
                                     bool figures_vary);

/// The shown lines with the figures of `output`: each that is not printed becomes the most similar line after the one
/// before.
[[nodiscard]] std::vector<std::string> renewed(const std::vector<std::string>& shown, const std::string& output);
/// Puts `lines` into the block of the page that begins at its line.
void replace_block(const std::string& path, const Block& block, const std::vector<std::string>& lines);

}  // namespace plimsoll::docs
