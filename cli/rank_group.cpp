// SPDX-License-Identifier: Apache-2.0
#include "cli/rank_group.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <sstream>

#include "configs/catalogue.h"
#include "exec/group/follower.h"
#include "model/error.h"
#include "study/digest.h"

namespace plimsoll::cli {
namespace {

namespace group = exec::group;
namespace fs = std::filesystem;

constexpr std::size_t kLongestMeeting = 4096;
constexpr std::chrono::seconds kComeWithin{30};
constexpr int kLookEvery = 100;        // milliseconds

// What connections are for, as they introduce themselves.
constexpr std::string_view kControl = "control", kSteps = "steps", kMesh = "mesh";

struct Hello {
  std::string token, what, program;
  int process = -1;
  std::int32_t replica = 0;
};

Hello read_hello(const std::string& text) {
  Hello hello;
  std::istringstream words(text);
  words >> hello.token >> hello.process >> hello.what >> hello.replica >> hello.program;
  return hello;
}

// Equal texts: the same program means the same by every message.
std::string program_name() {
  const std::string both = study::hex(study::program_digest()) + study::hex(study::digest_of_folder(configs::Catalogue::default_root()));
  return study::hex(study::digest_of(both));
}

std::string random_word() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

// Throws what ends the wait: nobody else comes.
class Door {
 public:
  Door(const study::Socket& listening, std::string token) : listening_(listening), token_(std::move(token)) {}
  // The next connection of a process of this group, with what it says.
  std::pair<study::Socket, Hello> next(std::size_t missing) const {
    const auto until = std::chrono::steady_clock::now() + kComeWithin;
    while (std::chrono::steady_clock::now() < until) {
      study::Socket socket = study::accept_within(listening_, kLookEvery);
      if (!socket.is_open()) continue;
      int patience = 10;
      const auto text = study::receive_text(socket, [&] { return --patience < 0; });
      if (!text) continue;
      Hello hello = read_hello(*text);
      if (hello.token == token_) return {std::move(socket), std::move(hello)};   // whoever does not know the token is none of ours
    }
    throw DeviceError(fmt::format("{} connection{} of the other processes did not come within {} s", missing, missing == 1 ? "" : "s", kComeWithin.count()));
  }

 private:
  const study::Socket& listening_;
  std::string token_;
};

group::Link link_of(study::Socket socket) { return group::Link(socket.release()); }

exec::OpenModel open_order(const group::EngineOrder& order) {
  if (model_digest(order.model) != order.digest) throw InputError(fmt::format("{} is another file here than where rank 0 is", order.model));
  const configs::Catalogue catalogue(configs::Catalogue::default_root());
  const exec::OpenModel named = exec::open_model(order.model, order.seed, catalogue);
  return exec::open_weights(named.architecture, order.weights, order.seed);
}

}  // namespace

std::string model_digest(const std::string& model) {
  std::error_code error;
  fs::path file = model;
  if (fs::is_directory(file, error)) file /= "config.json";
  else if (model.find(".safetensors") != std::string::npos) file = file.parent_path() / "config.json";
  return fs::is_regular_file(file, error) ? study::hex(study::digest_of_file(file.string())) : std::string();
}

std::unique_ptr<RankGroup> RankGroup::join() {
  if (ranks_of_mpirun() < 2) return nullptr;
  const RanksModule module;
  std::unique_ptr<RankGroup> group(new RankGroup);
  group->place_ = module.begin();
  group->listening_ = study::listen_somewhere(group->place_.one_host);
  const study::Meeting own{.host = study::host_name(), .addresses = group->place_.one_host ? std::string() : study::host_addresses(),
                           .port = study::port_of(group->listening_), .token = random_word()};
  for (const std::string& text : module.gather(own.text(), kLongestMeeting, group->place_.count)) group->meetings_.push_back(study::Meeting::read(text));
  module.end();                        // from here on a process that dies is a connection that closes
  group::Member& member = group->member_;
  member.process = group->place_.rank;
  member.processes = group->place_.count;
  member.local = group->place_.local;
  member.locals = group->place_.locals;
  for (const study::Meeting& meeting : group->meetings_) member.hosts.push_back(meeting.host);
  return group;
}

std::string RankGroup::hello(const std::string& what, std::int32_t replica) const {
  return fmt::format("{} {} {} {} {}", meetings_.front().token, place_.rank, what, replica, what == kControl ? program_name() : "-");
}

// ---- rank 0 ---------------------------------------------------------------------------------------------------

group::Leader& RankGroup::open(std::int32_t replicas) {
  welcome(replicas);
  make_lanes(replicas);
  accept_up();
  leader_ = std::make_unique<group::Leader>(member_);
  return *leader_;
}

void RankGroup::welcome(std::int32_t replicas) {
  const Door door(listening_, meetings_.front().token);
  const auto count = static_cast<std::size_t>(place_.count);
  const std::string program = program_name();
  member_.control.resize(count);
  std::vector<study::Socket> sockets(count);
  for (std::size_t missing = count - 1; missing > 0; --missing) {
    auto [socket, greeting] = door.next(missing);
    const auto process = static_cast<std::size_t>(greeting.process);
    if (greeting.program != program)
      throw DeviceError(fmt::format("rank {} on {} has another program or catalogue than rank 0 on {}: install the same on every host", process,
                                    member_.hosts.at(process), member_.hosts.front()));
    sockets.at(process) = std::move(socket);
  }
  for (std::size_t p = 1; p < count; ++p) {
    static_cast<void>(study::send_text(sockets[p], fmt::format("{}", replicas)));
    member_.control[p] = link_of(std::move(sockets[p]));
  }
}

// ---- all ------------------------------------------------------------------------------------------------------

void RankGroup::make_lanes(std::int32_t replicas) {
  member_.lanes.resize(static_cast<std::size_t>(replicas));
  mesh_.resize(member_.lanes.size());
  for (std::size_t i = 0; i < mesh_.size(); ++i) {
    mesh_[i].resize(static_cast<std::size_t>(place_.count));
    member_.lanes[i].steps.resize(leads() ? static_cast<std::size_t>(place_.count) : 1);
  }
}

// Everybody connects to those before it, which then accept.
void RankGroup::connect_down(std::int32_t replicas) {
  const auto connect = [&](std::size_t process, std::string_view what, std::int32_t replica) {
    study::Socket socket = study::reach(meetings_[process]);
    if (!socket.is_open() || !study::send_text(socket, hello(std::string(what), replica)))
      throw DeviceError(fmt::format("rank {} on {} cannot reach rank {} on {}", place_.rank, study::host_name(), process, member_.hosts[process]));
    return link_of(std::move(socket));
  };
  for (std::int32_t replica = 0; replica < replicas; ++replica) {
    const auto i = static_cast<std::size_t>(replica);
    member_.lanes[i].steps.front() = connect(0, kSteps, replica);
    for (std::size_t process = 0; process < static_cast<std::size_t>(place_.rank); ++process) mesh_[i][process] = connect(process, kMesh, replica);
  }
}

void RankGroup::accept_up() {
  const Door door(listening_, meetings_.front().token);
  const std::size_t above = static_cast<std::size_t>(place_.count - place_.rank - 1);
  for (std::size_t missing = above * member_.lanes.size() * (leads() ? 2 : 1); missing > 0; --missing) {
    auto [socket, greeting] = door.next(missing);
    const auto replica = static_cast<std::size_t>(greeting.replica), process = static_cast<std::size_t>(greeting.process);
    auto& links = greeting.what == kSteps ? member_.lanes.at(replica).steps : mesh_.at(replica);
    links.at(process) = link_of(std::move(socket));
  }
  for (std::size_t i = 0; i < mesh_.size(); ++i) member_.lanes[i].mesh = std::make_unique<group::Mesh>(place_.rank, std::move(mesh_[i]));
  listening_.close();
}

// ---- the others -----------------------------------------------------------------------------------------------

void RankGroup::follow() {
  std::signal(SIGINT, SIG_IGN);        // the leader ends the run, and with it this process
  std::signal(SIGTERM, SIG_IGN);
  study::Socket socket = study::reach(meetings_.front());
  if (!socket.is_open() || !study::send_text(socket, hello(std::string(kControl), 0))) return;
  const auto welcome = study::receive_text(socket);
  if (!welcome) return;                // the leader says why
  const std::int32_t replicas = std::stoi(*welcome);
  member_.control.push_back(link_of(std::move(socket)));
  make_lanes(replicas);
  connect_down(replicas);
  accept_up();
  group::follow(member_, open_order);
}

}  // namespace plimsoll::cli
