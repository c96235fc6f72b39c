// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/kernels.h"

#include <cstdlib>
#include <string>

#ifdef PLIMSOLL_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "model/error.h"

namespace plimsoll::exec {

namespace {

std::string wanted_isa() {
  const char* const wanted = std::getenv("PLIMSOLL_CPU_ISA");
  return wanted == nullptr ? std::string() : std::string(wanted);
}

#ifdef PLIMSOLL_X86
// AMX has instructions for bf16, and Linux lets the process use its registers.
bool has_amx() {
  constexpr unsigned kLeaf = 7, kBf16 = 1U << 22U, kTile = 1U << 24U;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(kLeaf, 0, &a, &b, &c, &d) == 0) return false;
  return (d & kBf16) != 0 && (d & kTile) != 0 && ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

}  // namespace

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

std::vector<const ProductKernels*> runnable_pairs(const KernelSet& kernels) {
  std::vector<const ProductKernels*> sets;
#ifdef PLIMSOLL_X86
  if (&kernels != &kAvx512Kernels) return sets;
  __builtin_cpu_init();
  static const bool amx = has_amx();
  if (amx) sets.push_back(&kAmxPairs);
  if (__builtin_cpu_supports("avx512bf16")) sets.push_back(&kAvx512Pairs);
#else
  static_cast<void>(kernels);
#endif
  return sets;
}

const KernelSet& select_kernels() {
  const std::string wanted = wanted_isa();
  const std::vector<const KernelSet*> sets = runnable_kernels();
  if (wanted.empty()) return *sets.front();
  std::string allowed;
  for (const KernelSet* set : sets) {
    if (wanted == set->name) return *set;
    allowed += std::string(allowed.empty() ? "" : ", ") + set->name;
    for (const ProductKernels* pairs : runnable_pairs(*set)) {
      if (wanted == pairs->name) return *set;
      allowed += std::string(", ") + pairs->name;
    }
  }
  throw DeviceError("PLIMSOLL_CPU_ISA is \"" + wanted + "\"; this machine runs " + allowed);
}

const ProductKernels& select_bf16_products(const KernelSet& kernels, model::Bf16Products tuned) {
  const std::string wanted = wanted_isa();
  const std::string_view name = wanted.empty() ? model::kBf16ProductNames[static_cast<std::size_t>(tuned)] : wanted;
  for (const ProductKernels* pairs : runnable_pairs(kernels))
    if (name == pairs->name) return *pairs;
  return kernels;
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
