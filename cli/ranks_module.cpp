// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <limits>
#include <sstream>
#include <thread>

#include "model/error.h"
#include "net/endpoint.h"

namespace plimsoll::cli {

int ranks_of_mpirun() {
  const char* const text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text == nullptr ? 1 : std::atoi(text);
}

int own_rank_of_mpirun() {
  const char* const text = std::getenv("OMPI_COMM_WORLD_RANK");
  return text == nullptr ? 0 : std::atoi(text);
}

void let_mpirun_end_this() {
  constexpr std::chrono::seconds kPatience{2};
  const bool started = std::getenv("PMIX_RANK") != nullptr || std::getenv("PMIX_NAMESPACE") != nullptr;
  if (started) std::this_thread::sleep_for(kPatience);
}

RanksModule::RanksModule() {
  std::error_code none;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "libplimsoll_mpi.so";
  handle_ = ::dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle_ != nullptr) return;
  throw DeviceError(
      fmt::format("mpirun started {} ranks, but this build has no MPI support ({}): install libopenmpi-dev and "
                  "openmpi-bin, build again, "
                  "or start one process without mpirun",
                  ranks_of_mpirun(), ::dlerror()));
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
  if (call("plimsoll_mpi_begin", &place.rank, &place.count) != 0) throw DeviceError("MPI cannot begin");
  call("plimsoll_mpi_host", &place.local, &place.locals, &one_host);
  place.one_host = one_host == 1;
  return place;
}

std::string RanksModule::share(const std::string& text) const {
  std::string shared = text.substr(0, kMaxText - 1);
  shared.resize(kMaxText);
  call("plimsoll_mpi_share", shared.data(), static_cast<int>(shared.size()));
  return shared.c_str();  // NOLINT: up to the first NUL
}

std::vector<std::string> RanksModule::gather(const std::string& text, int count) const {
  std::string mine = text.substr(0, kMaxText - 1);
  mine.resize(kMaxText);
  std::vector<char> all(kMaxText * static_cast<std::size_t>(count));
  call("plimsoll_mpi_gather", mine.data(), all.data(), static_cast<int>(kMaxText));
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += kMaxText) texts.emplace_back(all.data() + at);
  return texts;
}

void RanksModule::end() const { call("plimsoll_mpi_end"); }

std::vector<std::string> RanksModule::listening_addresses(const Introduction& place) const {
  if (place.one_host) return {std::string(net::kLoopback)};
  const char* const named = std::getenv("OMPI_MCA_btl_tcp_if_include");
  const std::vector<net::Interface> own = net::chosen_interfaces(net::interfaces(), named == nullptr ? "" : named);
  std::string mine = net::host_name();
  for (const net::Interface& each : own) mine += ' ' + each.address;
  std::vector<std::vector<std::string>> peers;
  for (const std::string& text : gather(mine, place.count)) {
    if (text == mine) continue;  // on this host
    std::istringstream words(text);
    words.ignore(std::numeric_limits<std::streamsize>::max(), ' ');
    peers.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  std::vector<std::string> addresses = net::shared_addresses(own, peers);
  if (addresses.empty()) {
    throw DeviceError(fmt::format("no network of {} reaches the hosts of all other ranks{}", net::host_name(),
                                  named == nullptr ? "" : fmt::format(" (btl_tcp_if_include: {})", named)));
  }
  return addresses;
}

}  // namespace plimsoll::cli
