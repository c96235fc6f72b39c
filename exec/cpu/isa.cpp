// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/kernels.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "model/error.h"

namespace plimsoll::exec {

std::vector<const KernelSet*> runnable_kernels() {
  std::vector<const KernelSet*> sets;
#ifdef PLIMSOLL_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) sets.push_back(&kAvx512Kernels);
  if (avx2) sets.push_back(&kAvx2Kernels);
#endif
  sets.push_back(&kPortableKernels);
  return sets;
}

const KernelSet& select_kernels() {
  const std::vector<const KernelSet*> sets = runnable_kernels();
  const char* wanted = std::getenv("PLIMSOLL_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return *sets.front();
  const auto found =
      std::find_if(sets.begin(), sets.end(), [&](const KernelSet* set) { return std::string(wanted) == set->name; });
  if (found != sets.end()) return **found;
  std::string allowed;
  for (const KernelSet* set : sets) allowed += std::string(allowed.empty() ? "" : ", ") + set->name;
  throw DeviceError("PLIMSOLL_CPU_ISA is \"" + std::string(wanted) + "\"; this machine runs " + allowed);
}

std::vector<const IntegerKernels*> runnable_integers(const KernelSet& kernels) {
#ifdef PLIMSOLL_X86
  if (&kernels == &kAvx512Kernels) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vnni")) return {&kVnniIntegers, &kAvx512Integers};
    return {&kAvx512Integers};
  }
  if (&kernels == &kAvx2Kernels) return {&kAvx2Integers};
#endif
  PLIMSOLL_CHECK(&kernels == &kPortableKernels, "every set of kernels has integer kernels");
  return {&kPortableIntegers};
}

std::size_t attention_scratch(const KernelSet& kernels, std::int64_t rows, std::int64_t head_dim) {
  const std::int64_t columns = kernels.panels(head_dim) * kernels.panel;
  return static_cast<std::size_t>(rows * (head_dim + kAttentionTile + columns + kernels.panel / 2 + 2) +
                                  head_dim * kernels.panel);
}

std::size_t attention_padding(std::int64_t head_dim) {
  constexpr std::int64_t kMaxPanel = 32;
  return static_cast<std::size_t>(head_dim + kMaxPanel) * sizeof(float);
}

}  // namespace plimsoll::exec
