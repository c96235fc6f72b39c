// SPDX-License-Identifier: Apache-2.0
// The file of gemm.h's measured choices: one line per shape, numbers only.
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

#include "exec/cuda/gemm.h"

namespace plimsoll::exec::cuda {

namespace {

constexpr const char* kHeader = "plimsoll gemm 1";  // includes the version of the format

void write(std::ostream& out, const GemmKey& key, const GemmChoice& choice) {
  const MatmulShape& s = key.shape;
  out << static_cast<int>(s.x) << ' ' << static_cast<int>(s.y) << ' ' << s.n << ' ' << s.k << ' ' << s.m << ' '
      << s.bias << ' ' << s.accumulate << ' ' << choice.has_value();
  if (choice) {
    for (const std::uint64_t word : *choice) out << ' ' << word;
  }
  out << '\n';
}

bool read(std::istream& in, GemmKey& key, GemmChoice& choice) {
  int x = 0, y = 0;
  bool blas = false;
  MatmulShape& s = key.shape;
  if (!(in >> x >> y >> s.n >> s.k >> s.m >> s.bias >> s.accumulate >> blas)) return false;
  if (x < 0 || x > 1 || y < 0 || y > 1 || s.n <= 0 || s.k <= 0 || s.m <= 0) return false;
  s.x = static_cast<Element>(x);
  s.y = static_cast<Element>(y);
  choice.reset();
  if (!blas) return true;
  choice.emplace();
  for (std::uint64_t& word : *choice) {
    if (!(in >> word)) return false;
  }
  return true;
}

}  // namespace

std::filesystem::path gemm_file(const std::string& name) {
  std::string safe;
  for (const char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != '\0')
    folder = cache;
  else if (home != nullptr && *home != '\0')
    folder = std::filesystem::path(home) / ".cache";
  else
    return {};
  return folder / "plimsoll" / "gemm" / (safe + ".txt");
}

// A file of another format or a damaged line is skipped: the choice is then measured again.
GemmChoices load_choices(const std::filesystem::path& file) {
  GemmChoices choices;
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || line != kHeader) return choices;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    GemmKey key;
    GemmChoice choice;
    if (read(words, key, choice)) choices[key] = choice;
  }
  return choices;
}

void save_choices(const std::filesystem::path& file, const GemmChoices& choices) {
  GemmChoices all = load_choices(file);  // other ranks and programs add choices too
  for (const auto& [key, choice] : choices) all[key] = choice;
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  // Write under a name that no other process or thread uses, then rename: readers never see half a file.
  const std::filesystem::path fresh =
      file.string() + "." + std::to_string(getpid()) + "-" + std::to_string(reinterpret_cast<std::uintptr_t>(&all));
  {
    std::ofstream out(fresh);
    out << kHeader << '\n';
    for (const auto& [key, choice] : all) write(out, key, choice);
    if (!out.flush()) {
      std::filesystem::remove(fresh, ignored);
      return;
    }
  }
  // The file only saves time, so a failure to write it is no error.
  std::filesystem::rename(fresh, file, ignored);
}

}  // namespace plimsoll::exec::cuda
