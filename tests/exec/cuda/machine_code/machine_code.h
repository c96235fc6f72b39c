// SPDX-License-Identifier: Apache-2.0
// Reads compiled kernels: the assembler's report about them, and their instructions as printed by nvdisasm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::exec {

/// The resources of a multiprocessor that one kernel needs.
struct KernelResources {
  std::string name;  // demangled, without namespaces: "gemv_kernel<Bf16, float, 1, 2, 8>"
  int registers = 0;
  int stack = 0, spill_stores = 0, spill_loads = 0;  // bytes
};
/// Reads the text that `ptxas -v` prints.
[[nodiscard]] std::vector<KernelResources> read_resources(std::string_view log);

/// The instructions of one kernel in the order of their addresses, without predicates: "LDG.E.128 R4, [R2.64]".
struct KernelCode {
  std::string name;
  std::vector<std::string> instructions;
};
/// Reads the text that `nvdisasm -c` prints.
[[nodiscard]] std::vector<KernelCode> read_code(std::string_view text);

/// Returns how many instructions have that mnemonic: "LDG" counts LDG.E and LDG.E.128. With `part`, only those that
/// also have it after a dot.
[[nodiscard]] int count_of(const KernelCode& code, std::string_view mnemonic, std::string_view part = {});

/// Returns how many 128-bit loads from global memory come before the first instruction of that mnemonic.
[[nodiscard]] int loads_before(const KernelCode& code, std::string_view mnemonic);

/// Returns the largest number of 128-bit loads from global memory whose results no instruction has used yet, in the
/// order of addresses. So many loads of a thread are on their way at once.
[[nodiscard]] int loads_in_flight(const KernelCode& code);

}  // namespace plimsoll::exec
