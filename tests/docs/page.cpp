// SPDX-License-Identifier: Apache-2.0
#include "tests/docs/page.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

namespace plimsoll::docs {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos ? std::string() : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::string without_end(const std::string& text) { return text.substr(0, text.find_last_not_of(" \t\r") + 1); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(without_end(line));
  return lines;
}

// Removes numbers and the blanks before them, because columns move with the width of their figures.
std::string without_figures(const std::string& line) {
  static const std::regex kNumber(R"([ ]*[-+]?[0-9][0-9.,]*)");
  static const std::regex kRule("(─|-)+");
  return std::regex_replace(std::regex_replace(line, kNumber, " #"), kRule, "-");
}

bool is_line(const std::string& shown, const std::string& line) {
  static const std::string kMore = " …";
  if (!shown.ends_with(kMore)) return shown == line;
  return line.starts_with(shown.substr(0, shown.size() - kMore.size()));
}

}  // namespace

bool Block::has(const std::string& mark) const { return std::find(marks.begin(), marks.end(), mark) != marks.end(); }

std::vector<std::string> Block::after(const std::string& word) const {
  std::vector<std::string> rest;
  for (const std::string& mark : marks) {
    if (mark.starts_with(word + ' ')) rest.push_back(trimmed(mark.substr(word.size())));
  }
  return rest;
}

std::vector<Block> read_page(const std::string& path) {
  static const std::string kMark = "<!-- test:", kMarkEnd = "-->", kFence = "```";
  std::ifstream file(path);
  std::vector<Block> blocks;
  std::vector<std::string> marks;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const std::string text = trimmed(line);
    if (text.starts_with(kMark) && text.ends_with(kMarkEnd)) {
      marks.push_back(trimmed(text.substr(kMark.size(), text.size() - kMark.size() - kMarkEnd.size())));
      continue;
    }
    if (!text.starts_with(kFence)) {
      if (!text.empty()) marks.clear();
      continue;
    }
    Block block{number, text.substr(kFence.size()), {}, std::move(marks)};
    marks.clear();
    const std::size_t indent = line.find('`');
    while (std::getline(file, line) && !trimmed(line).starts_with(kFence)) {
      ++number;
      block.lines.push_back(without_end(line.size() > indent ? line.substr(indent) : std::string()));
    }
    ++number;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::vector<std::string> commands_of(const Block& block) {
  std::vector<std::string> commands;
  std::string open;
  for (const std::string& line : block.lines) {
    std::string text = line;
    if (const std::size_t comment = text.find(" # "); comment != std::string::npos) text.resize(comment);
    text = trimmed(text);
    if (text.empty() || text.starts_with('#')) continue;
    const bool continues = text.ends_with('\\');
    if (continues) text.pop_back();
    open += (open.empty() ? "" : " ") + trimmed(text);
    if (continues) continue;
    commands.push_back(std::move(open));
    open.clear();
  }
  return commands;
}

std::vector<std::string> inline_commands(const std::string& path) {
  static const std::regex kCommand("`(?:\\./)?plimsoll ([^`]*)`");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  std::vector<std::string> commands;
  for (std::sregex_iterator at(page.begin(), page.end(), kCommand), end; at != end; ++at) {
    std::string command = (*at)[1].str();
    std::replace(command.begin(), command.end(), '\n', ' ');
    commands.push_back(std::move(command));
  }
  return commands;
}

std::string difference(const std::vector<std::string>& shown, const std::string& output, bool figures_vary) {
  std::vector<std::string> printed = lines_of(output);
  if (figures_vary) {
    for (std::string& line : printed) line = without_figures(line);
  }
  std::size_t next = 0;
  for (const std::string& line : shown) {
    if (line.empty() || trimmed(line) == "…") continue;
    const std::string wanted = figures_vary ? without_figures(line) : line;
    while (next < printed.size() && !is_line(wanted, printed[next])) ++next;
    if (next == printed.size()) return line;
    ++next;
  }
  return {};
}

std::vector<std::string> renewed(const std::vector<std::string>& shown, const std::string& output) {
  static const std::string kMore = " …";
  const std::vector<std::string> printed = lines_of(output);
  std::vector<std::string> lines;
  std::size_t next = 0;
  for (const std::string& line : shown) {
    lines.push_back(line);
    if (line.empty() || trimmed(line) == "…") continue;
    std::size_t best = printed.size(), most = 5;  // a line must share more than this many leading letters
    for (std::size_t i = next; i < printed.size(); ++i) {
      const std::string a = without_figures(line), b = without_figures(printed[i]);
      const std::size_t common =
          is_line(line, printed[i])
              ? a.size() + b.size()
              : static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
      if (common <= most) continue;
      most = common;
      best = i;
    }
    if (best == printed.size()) continue;
    next = best + 1;
    if (is_line(line, printed[best])) continue;
    const auto words = std::count(line.begin(), line.end(), ' ');
    std::size_t end = 0;
    for (auto word = words; line.ends_with(kMore) && word > 0 && end != std::string::npos; --word)
      end = printed[best].find(' ', end + 1);
    lines.back() =
        line.ends_with(kMore) && end != std::string::npos ? printed[best].substr(0, end) + kMore : printed[best];
  }
  return lines;
}

void replace_block(const std::string& path, const Block& block, const std::vector<std::string>& lines) {
  std::vector<std::string> page;
  {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) page.push_back(line);
  }
  for (std::size_t i = 0; i < lines.size(); ++i) page[block.line + i] = lines[i];
  std::ofstream file(path);
  for (const std::string& line : page) file << line << '\n';
}

}  // namespace plimsoll::docs
