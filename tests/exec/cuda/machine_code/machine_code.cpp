// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/cuda/machine_code/machine_code.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>

namespace plimsoll::exec {

namespace {

// "_ZN8plimsoll4exec4cuda…gemv_kernelINS1_4Bf16EfLi1ELi2ELi8EEEvNS1_13GemvArgumentsE" becomes
// "gemv_kernel<Bf16, float, 1, 2, 8>".
std::string short_name(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  if (text == nullptr) return mangled;
  std::string name(text);
  std::free(text);
  for (const char* prefix : {"void ", "plimsoll::exec::cuda::", "(anonymous namespace)::"}) {
    const std::string_view word(prefix);
    for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word)) name.erase(at, word.size());
  }
  return name.substr(0, name.rfind('('));
}

int number_before(std::string_view line, std::string_view what) {
  const std::size_t at = line.find(what);
  if (at == std::string_view::npos) return 0;
  std::size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1])) != 0) --begin;
  int number = 0;
  std::from_chars(line.data() + begin, line.data() + at, number);
  return number;
}

// Calls see(line) for every line.
template <class See>
void for_each_line(std::string_view text, const See& see) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    see(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Returns the word that follows `before`; empty if the line does not have it.
std::string_view word_after(std::string_view line, std::string_view before) {
  const std::size_t at = line.find(before);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + before.size());
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_word);
  return rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
}

// The numbers of the registers R0, R1, ... of the operands; neither UR4 nor RZ.
std::set<int> registers_of(std::string_view operands) {
  std::set<int> found;
  for (std::size_t at = operands.find('R'); at != std::string_view::npos; at = operands.find('R', at + 1)) {
    if (at > 0 && is_word(operands[at - 1])) continue;
    int number = 0;
    const auto end = std::from_chars(operands.data() + at + 1, operands.data() + operands.size(), number);
    if (end.ec == std::errc()) found.insert(number);
  }
  return found;
}

// Returns the instruction of a line such as "  /*02f0*/   @!P6 LDG.E.128 R8, [R2.64] ;", without its predicate; empty
// for other lines.
std::string_view instruction_of(std::string_view line) {
  const std::size_t open = line.find("/*"), close = line.find("*/"), end = line.rfind(';');
  if (open == std::string_view::npos || close == std::string_view::npos || end == std::string_view::npos || end < close)
    return {};
  const auto trim = [](std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
  };
  std::string_view text = trim(line.substr(close + 2, end - close - 2));
  if (text.starts_with('@')) text = trim(text.substr(std::min(text.find(' '), text.size())));
  return text;
}

std::string_view mnemonic_of(const std::string& instruction) {
  return std::string_view(instruction).substr(0, instruction.find(' '));
}

bool has_part(std::string_view mnemonic, std::string_view part) {
  for (std::size_t dot = mnemonic.find('.'); dot != std::string_view::npos; dot = mnemonic.find('.', dot + 1)) {
    if (mnemonic.substr(dot + 1, mnemonic.find('.', dot + 1) - dot - 1) == part) return true;
  }
  return false;
}

bool is(std::string_view mnemonic, std::string_view name) { return mnemonic.substr(0, mnemonic.find('.')) == name; }

}  // namespace

std::vector<KernelResources> read_resources(std::string_view log) {
  std::vector<KernelResources> kernels;
  for_each_line(log, [&](std::string_view line) {
    if (const std::string_view name = word_after(line, "Compiling entry function '"); !name.empty()) {
      kernels.push_back({.name = short_name(std::string(name))});
    } else if (!kernels.empty() && line.find("bytes stack frame") != std::string_view::npos) {
      kernels.back().stack = number_before(line, " bytes stack frame");
      kernels.back().spill_stores = number_before(line, " bytes spill stores");
      kernels.back().spill_loads = number_before(line, " bytes spill loads");
    } else if (!kernels.empty() && line.find(" registers") != std::string_view::npos) {
      kernels.back().registers = number_before(line, " registers");
    }
  });
  return kernels;
}

std::vector<KernelCode> read_code(std::string_view text) {
  std::vector<KernelCode> kernels;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with(".text.")) {
      kernels.push_back({.name = short_name(std::string(word_after(line, ".text."))), .instructions = {}});
    } else if (!kernels.empty()) {
      if (const std::string_view instruction = instruction_of(line); !instruction.empty())
        kernels.back().instructions.emplace_back(instruction);
    }
  });
  return kernels;
}

int count_of(const KernelCode& code, std::string_view mnemonic, std::string_view part) {
  return static_cast<int>(std::count_if(code.instructions.begin(), code.instructions.end(), [&](const auto& i) {
    return is(mnemonic_of(i), mnemonic) && (part.empty() || has_part(mnemonic_of(i), part));
  }));
}

int loads_before(const KernelCode& code, std::string_view mnemonic) {
  const auto end = std::find_if(code.instructions.begin(), code.instructions.end(),
                                [&](const auto& i) { return is(mnemonic_of(i), mnemonic); });
  return static_cast<int>(std::count_if(code.instructions.begin(), end, [](const auto& i) {
    return is(mnemonic_of(i), "LDG") && has_part(mnemonic_of(i), "128");
  }));
}

int loads_in_flight(const KernelCode& code) {
  constexpr int kRegistersOfALoad = 4;
  std::map<int, int> waiting;  // the first register of a load's result -> the load's number
  std::size_t most = 0;
  int number = 0;
  for (const std::string& instruction : code.instructions) {
    const std::string_view mnemonic = mnemonic_of(instruction);
    const bool is_load = is(mnemonic, "LDG") && has_part(mnemonic, "128");
    if (!is_load && waiting.empty()) continue;
    const std::set<int> used = registers_of(std::string_view(instruction).substr(mnemonic.size()));
    // Any instruction that names one of the result's registers either uses or overwrites it.
    std::erase_if(waiting, [&](const auto& load) {
      const auto first = used.lower_bound(load.first);
      return first != used.end() && *first < load.first + kRegistersOfALoad;
    });
    if (!is_load) continue;
    const std::size_t at = instruction.find('R', mnemonic.size());
    waiting[std::stoi(instruction.substr(at + 1))] = ++number;
    most = std::max(most, waiting.size());
  }
  return static_cast<int>(most);
}

}  // namespace plimsoll::exec
