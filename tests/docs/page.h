// SPDX-License-Identifier: Apache-2.0
// The blocks of a documentation page that a test runs or compares. CONTRIBUTING.md, "Documentation", lists the marks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::docs {

/// A fenced block with the marks (`<!-- test: … -->`) on the lines directly above it.
struct Block {
  std::size_t line = 0;  // line of the opening fence, from 1
  std::string language;  // "sh", "yaml", "csv" or empty
  std::vector<std::string> lines;
  std::vector<std::string>
      marks;  // "skip REASON", "output", "output of COMMAND", "figures vary", "file NAME", "exit N"

  [[nodiscard]] bool has(const std::string& mark) const;
  /// Returns the text after `word` of each mark that begins with it.
  [[nodiscard]] std::vector<std::string> after(const std::string& word) const;
};

[[nodiscard]] std::vector<Block> read_page(const std::string& path);
/// Returns the commands of an `sh` block: joins continued lines, removes comments at line ends and empty lines.
[[nodiscard]] std::vector<std::string> commands_of(const Block& block);
/// Returns the calls of the program that the page has between backquotes: "plimsoll list engines".
[[nodiscard]] std::vector<std::string> inline_commands(const std::string& path);

/// Returns why `shown` is not an excerpt of `output`; empty if it is. Every shown line must occur in the output, in
/// this order. A line that ends with " …" is the beginning of a line, and "…" alone stands for any lines. With
/// `figures_vary`, any number matches any other.
[[nodiscard]] std::string difference(const std::vector<std::string>& shown, const std::string& output,
                                     bool figures_vary);

/// Returns the shown lines with the figures of `output`: each line that was not printed is replaced by the most similar
/// line after the one before.
[[nodiscard]] std::vector<std::string> renewed(const std::vector<std::string>& shown, const std::string& output);
/// Replaces the content of the block on the page by `lines`.
void replace_block(const std::string& path, const Block& block, const std::vector<std::string>& lines);

}  // namespace plimsoll::docs
