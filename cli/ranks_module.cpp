// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "model/error.h"

namespace plimsoll::cli {

int ranks_of_mpirun() {
  const char* const text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text == nullptr ? 1 : std::atoi(text);
}

RanksModule::RanksModule() {
  std::error_code none;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "libplimsoll_mpi.so";
  handle_ = ::dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle_ != nullptr) return;
  throw DeviceError(fmt::format("mpirun started {} ranks, but this build has no part for MPI ({}): install libopenmpi-dev and openmpi-bin, build again, "
                                "or start one process without mpirun", ranks_of_mpirun(), ::dlerror()));
}

template <class... Arguments>
int RanksModule::call(const char* name, Arguments... arguments) const {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(handle_, name));  // NOLINT: what dlsym is for
  PLIMSOLL_CHECK(function != nullptr, "the module has the function");
  return function(arguments...);
}

Introduction RanksModule::begin() const {
  Introduction place;
  int one_host = 0;
  if (call("plimsoll_mpi_begin", &place.rank, &place.count, &place.local, &place.locals, &one_host) != 0) throw DeviceError("MPI cannot begin");
  place.one_host = one_host == 1;
  return place;
}

void RanksModule::share(std::span<char> text) const { call("plimsoll_mpi_share", text.data(), static_cast<int>(text.size())); }

std::vector<std::string> RanksModule::gather(const std::string& text, std::size_t longest, int count) const {
  std::string mine = text.substr(0, longest - 1);
  mine.resize(longest);
  std::vector<char> all(longest * static_cast<std::size_t>(count));
  call("plimsoll_mpi_gather", mine.data(), all.data(), static_cast<int>(longest));
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += longest) texts.emplace_back(all.data() + at);
  return texts;
}

void RanksModule::end() const { call("plimsoll_mpi_end"); }

}  // namespace plimsoll::cli
