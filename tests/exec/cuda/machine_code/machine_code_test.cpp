// SPDX-License-Identifier: Apache-2.0
// Properties of the compiled kernels. Whether a kernel keeps memory busy shows in its instructions, without a GPU: a
// compiler may put a load back behind the use of the previous one, or keep an array in slow local memory.
#include "tests/exec/cuda/machine_code/machine_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace plimsoll::exec {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_90a", "sm_100a"};
constexpr const char* kSources[] = {"decode_attention", "expert_gemm",       "experts", "gemv", "plain_attention",
                                    "pointwise",        "prefill_attention", "reduce",  "rope", "sample"};

std::string text_of(const std::string& source, const std::string& architecture, const char* kind) {
  std::ifstream file(std::string(PLIMSOLL_MACHINE_CODE) + "/" + source + "." + architecture + kind);
  EXPECT_TRUE(file.good()) << source << " " << architecture;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<KernelResources> resources_of(const std::string& source, const std::string& architecture) {
  return read_resources(text_of(source, architecture, ".log"));
}

const std::vector<KernelCode>& code_of(const std::string& source, const std::string& architecture) {
  static std::map<std::pair<std::string, std::string>, std::vector<KernelCode>> read;
  const auto [at, is_new] = read.try_emplace({source, architecture});
  if (is_new) at->second = read_code(text_of(source, architecture, ".sass"));
  return at->second;
}

#define PLIMSOLL_NEEDS_NVDISASM()                                                  \
  do {                                                                             \
    if (std::string(PLIMSOLL_NVDISASM).ends_with("NOTFOUND"))                      \
      GTEST_SKIP() << "no nvdisasm: scripts/setup_cuda.sh --nvdisasm installs it"; \
  } while (false)

struct Named {
  std::string kernel;
  const KernelCode* code;
};
// The kernels of a source whose names begin with a prefix, on every architecture.
std::vector<Named> kernels_named(const std::string& source, const std::string& begin) {
  std::vector<Named> found;
  for (const char* architecture : kArchitectures) {
    for (const KernelCode& code : code_of(source, architecture))
      if (code.name.starts_with(begin)) found.push_back({architecture + (" " + code.name), &code});
  }
  return found;
}

int registers_of_kernel(const std::string& source, const std::string& architecture, const std::string& name) {
  for (const KernelResources& kernel : resources_of(source, architecture))
    if (kernel.name == name) return kernel.registers;
  ADD_FAILURE() << "no kernel " << name << " for " << architecture;
  return 0;
}

// Blocks of a multiprocessor of sm_80 and later by registers alone: 65536, handed out to a warp in units of 256.
int blocks_by_registers(int registers, int threads) {
  const int of_a_warp = (registers * 32 + 255) / 256 * 256;
  return 65536 / of_a_warp / (threads / 32);
}

TEST(MachineCode, no_kernel_spills_or_keeps_arrays_in_local_memory) {
  // The sine of a large angle reduces it by a table of 2/pi whose entries are chosen at run time.
  constexpr const char* kReducesAngles = "table_kernel";
  // The assembler for sm_80 spills a few words of the reference kernel, which runs where speed does not count.
  constexpr const char* kReference = "plain_kernel";
  for (const char* source : kSources) {
    for (const char* architecture : kArchitectures) {
      const std::vector<KernelResources> kernels = resources_of(source, architecture);
      EXPECT_FALSE(kernels.empty()) << source << " " << architecture;
      for (const KernelResources& kernel : kernels) {
        if (kernel.name.starts_with(kReference)) continue;
        EXPECT_EQ(kernel.spill_stores + kernel.spill_loads, 0) << architecture << " " << kernel.name;
        if (kernel.name.starts_with(kReducesAngles)) continue;
        EXPECT_EQ(kernel.stack, 0) << architecture << " " << kernel.name;
      }
    }
  }
}

// A multiprocessor of an H100 must have 800 ns x 3.35 TB/s / 132 = 20 KB on its way to keep its share of the memory
// busy, and twice that in practice.
TEST(MachineCode, products_of_few_rows_keep_enough_loads_in_flight) {
  PLIMSOLL_NEEDS_NVDISASM();
  struct Case {
    int rows, of_weights, loads;
  };
  // Loads of weights that gemv.cu issues before it uses the first: rows of W times steps ahead.
  for (const Case& c : {Case{1, 2, 8}, Case{2, 2, 16}, Case{4, 4, 16}, Case{8, 4, 8}}) {
    for (const std::string types : {"Bf16, Bf16", "Bf16, float", "float, float"}) {
      const std::string numbers = types.starts_with("Bf16") ? "8" : "4";
      const std::string name = "gemv_kernel<" + types + ", " + std::to_string(c.rows) + ", " +
                               std::to_string(c.of_weights) + ", " + numbers + ">";
      const std::vector<Named> kernels = kernels_named("gemv", name);
      EXPECT_EQ(kernels.size(), std::size(kArchitectures)) << name;
      for (const Named& kernel : kernels) EXPECT_GE(loads_in_flight(*kernel.code), c.loads) << kernel.kernel;
      constexpr int kThreads = 128, kBytesOfALoad = 16 * kThreads;
      for (const char* architecture : kArchitectures) {
        const int blocks = blocks_by_registers(registers_of_kernel("gemv", architecture, name), kThreads);
        EXPECT_GE(blocks * c.loads * kBytesOfALoad, 32 * 1024) << architecture << " " << name;
      }
    }
  }
}

// On sm_90 and later, a kernel is launched before the previous one has ended, so each kernel must wait for that
// (ACQBULK). All but the sums over ranks then let the next kernel start (PREEXIT). Older architectures have neither
// instruction.
TEST(MachineCode, every_kernel_waits_for_the_previous_one_where_it_can_start_early) {
  PLIMSOLL_NEEDS_NVDISASM();
  for (const std::string source : kSources) {
    for (const std::string architecture : kArchitectures) {
      const bool early = architecture != "sm_80";
      EXPECT_FALSE(code_of(source, architecture).empty()) << source;
      for (const KernelCode& kernel : code_of(source, architecture)) {
        EXPECT_EQ(count_of(kernel, "ACQBULK") > 0, early) << architecture << " " << kernel.name;
        EXPECT_EQ(count_of(kernel, "PREEXIT") > 0, early && source != "reduce") << architecture << " " << kernel.name;
      }
    }
  }
}

// Weights are on their way before the wait. The assembler for sm_100a puts some of those loads behind it, which is only
// slower.
TEST(MachineCode, products_load_their_first_weights_before_they_wait) {
  PLIMSOLL_NEEDS_NVDISASM();
  const std::pair<const char*, int> cases[] = {{"1, 2", 8}, {"2, 2", 16}, {"4, 4", 16}, {"8, 4", 8}};
  for (const auto& [rows, loads] : cases) {
    const std::string name = std::string("gemv_kernel<Bf16, Bf16, ") + rows + ", 8>";
    for (const KernelCode& kernel : code_of("gemv", "sm_90a")) {
      if (kernel.name != name) continue;
      EXPECT_EQ(loads_before(kernel, "ACQBULK"), loads) << name;
    }
  }
}

TEST(MachineCode, the_all_reduce_reads_its_peers_by_128_bits) {
  PLIMSOLL_NEEDS_NVDISASM();
  for (const char* const name : {"peer_kernel<", "sum_kernel<"}) {
    const std::vector<Named> kernels = kernels_named("reduce", name);
    EXPECT_EQ(kernels.size(), 2 * std::size(kArchitectures));  // two types
    for (const Named& kernel : kernels) {
      // Eight ranks at once; the compiler may put the last load behind the use of the first.
      EXPECT_GE(loads_in_flight(*kernel.code), 7) << kernel.kernel;
      // Pointers stay out of local memory.
      EXPECT_EQ(count_of(*kernel.code, "LDL"), 0) << kernel.kernel;
      EXPECT_GE(count_of(*kernel.code, "STG", "128"), 1) << kernel.kernel;
    }
  }
}

TEST(MachineCode, attention_and_experts_use_tensor_cores_and_asynchronous_copies) {
  PLIMSOLL_NEEDS_NVDISASM();
  struct Case {
    const char *source, *kernel;
    std::size_t kernels;  // of an architecture
  };
  for (const Case& c : {Case{"decode_attention", "decode_kernel<", 5}, Case{"prefill_attention", "prefill_kernel<", 5},
                        Case{"expert_gemm", "expert_kernel_bf16", 1}}) {
    const std::vector<Named> kernels = kernels_named(c.source, c.kernel);
    EXPECT_GE(kernels.size(), c.kernels * std::size(kArchitectures)) << c.kernel;
    for (const Named& kernel : kernels) {
      EXPECT_GE(count_of(*kernel.code, "HMMA"), 8) << kernel.kernel;
      EXPECT_GE(count_of(*kernel.code, "LDSM"), 4) << kernel.kernel;
      EXPECT_GE(count_of(*kernel.code, "LDGSTS", "128"), 4) << kernel.kernel;
    }
  }
}

// Shared memory lets three blocks of 128 threads of decode attention run on a multiprocessor of an H100 (72.3 of
// 227 KiB each, head dimension 128); registers must not allow fewer.
TEST(MachineCode, registers_allow_the_blocks_that_shared_memory_does) {
  for (const char* architecture : kArchitectures) {
    EXPECT_GE(blocks_by_registers(registers_of_kernel("decode_attention", architecture, "decode_kernel<128>"), 128), 3);
    EXPECT_GE(blocks_by_registers(registers_of_kernel("prefill_attention", architecture, "prefill_kernel<128>"), 256),
              1);
  }
}

TEST(MachineCode, loads_count_as_in_flight_until_their_result_is_used) {
  const auto code = [](std::initializer_list<const char*> lines) {
    std::string text = ".text._Z1fv:\n";
    for (const char* line : lines) text += "        /*0010*/              " + std::string(line) + " ;\n";
    return read_code(text).at(0);
  };
  EXPECT_EQ(loads_in_flight(code(
                {"LDG.E.128 R4, desc[UR6][R2.64]", "@!P1 LDG.E.128 R8, desc[UR6][R2.64+0x10]", "FADD R0, R4, R8"})),
            2);
  // The first result is used, by its third register, before the second load.
  EXPECT_EQ(loads_in_flight(code({"LDG.E.128 R4, [R2.64]", "FADD R0, R6, R0", "LDG.E.128 R8, [R2.64]"})), 1);
  // Narrow loads do not count.
  EXPECT_EQ(loads_in_flight(code({"LDG.E R4, [R2.64]", "LDG.E.64 R8, [R2.64]"})), 0);
}

TEST(MachineCode, loads_are_counted_up_to_an_instruction) {
  const KernelCode code{"f", {"LDG.E.128 R4, [R2.64]", "LDG.E R8, [R2.64]", "ACQBULK", "LDG.E.128 R12, [R2.64]"}};
  EXPECT_EQ(loads_before(code, "ACQBULK"), 1);
  EXPECT_EQ(loads_before(code, "PREEXIT"), 2);  // there is none
}

TEST(MachineCode, the_words_of_the_assembler_are_read) {
  const std::vector<KernelResources> kernels = read_resources(
      "ptxas info    : Compiling entry function '_Z1fIiEvv' for 'sm_80'\n"
      "ptxas info    : Function properties for _Z1fIiEvv\n"
      "    40 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 188 registers, used 0 barriers, 416 bytes cmem[0]\n");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].name, "f<int>");
  EXPECT_EQ(kernels[0].registers, 188);
  EXPECT_EQ(kernels[0].stack, 40);
  EXPECT_EQ(kernels[0].spill_stores, 12);
  EXPECT_EQ(kernels[0].spill_loads, 16);
}

}  // namespace
}  // namespace plimsoll::exec
