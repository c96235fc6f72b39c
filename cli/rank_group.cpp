// SPDX-License-Identifier: Apache-2.0
#include "cli/rank_group.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <utility>

#include "configs/catalogue.h"
#include "exec/group/follower.h"
#include "model/error.h"
#include "study/run/digest.h"

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
  const std::string both = study::hex(study::program_digest()) + study::hex(study::digest_of_folders(configs::Catalogue().folders()));
  return study::hex(study::digest_of(both));
}

std::string random_word() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

[[noreturn]] void refuse_hello() { throw DeviceError("a process of this group introduces itself as none that is missing"); }

// Throws what ends the wait: nobody else comes.
class Door {
 public:
  Door(const study::Socket& listening, std::string token) : listening_(listening), token_(std::move(token)) {}
  // The next connection of a process of this group, with what it says; nullopt where none comes in time.
  std::optional<std::pair<study::Socket, Hello>> next() const {
    const auto until = std::chrono::steady_clock::now() + kComeWithin;
    const auto is_late = [until] { return std::chrono::steady_clock::now() >= until; };
    while (!is_late()) {
      study::Socket socket = study::accept_within(listening_, kLookEvery);
      if (!socket.is_open()) continue;
      const auto text = study::receive_text(socket, is_late);
      if (!text) continue;
      Hello hello = read_hello(*text);
      if (hello.token == token_) return std::pair(std::move(socket), std::move(hello));   // whoever does not know the token is none of ours
    }
    return {};
  }

 private:
  const study::Socket& listening_;
  std::string token_;
};

[[noreturn]] void nobody_came(const std::set<std::size_t>& missing, const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::size_t rank : missing) names += fmt::format("{}rank {} on {}", names.empty() ? "" : ", ", rank, hosts[rank]);
  throw DeviceError(fmt::format("{} did not connect within {} s", names, kComeWithin.count()));
}

std::int32_t read_replicas(const std::string& welcome) {
  std::int32_t replicas = 0;
  const auto [end, error] = std::from_chars(welcome.data(), welcome.data() + welcome.size(), replicas);
  if (error != std::errc() || end != welcome.data() + welcome.size() || replicas < 1) throw DeviceError("rank 0 did not say how many replicas there are");
  return replicas;
}

group::Link link_of(study::Socket socket) { return group::Link(socket.release()); }

exec::OpenModel open_order(const group::EngineOrder& order) {
  if (model_digest(order.model) != order.digest) throw InputError(fmt::format("{} is another file here than where rank 0 is", order.model));
  const configs::Catalogue catalogue;
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
  std::set<std::size_t> missing;
  for (std::size_t p = 1; p < count; ++p) missing.insert(p);
  while (!missing.empty()) {
    auto next = door.next();
    if (!next) nobody_came(missing, member_.hosts);
    auto& [socket, greeting] = *next;
    const auto process = static_cast<std::size_t>(greeting.process);
    if (greeting.what != kControl || missing.erase(process) == 0) refuse_hello();
    if (greeting.program != program)
      throw DeviceError(fmt::format("rank {} on {} has another program or catalogue than rank 0 on {}: install the same on every host", process,
                                    member_.hosts[process], member_.hosts.front()));
    sockets[process] = std::move(socket);
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
  const auto missing = [&] {           // ranks of which some connection is
    std::set<std::size_t> ranks;
    for (std::size_t i = 0; i < mesh_.size(); ++i)
      for (auto p = static_cast<std::size_t>(place_.rank) + 1; p < static_cast<std::size_t>(place_.count); ++p)
        if (!mesh_[i][p].is_open() || (leads() && !member_.lanes[i].steps[p].is_open())) ranks.insert(p);
    return ranks;
  };
  for (auto ranks = missing(); !ranks.empty(); ranks = missing()) {
    auto next = door.next();
    if (!next) nobody_came(ranks, member_.hosts);
    auto& [socket, greeting] = *next;
    const auto replica = static_cast<std::size_t>(greeting.replica), process = static_cast<std::size_t>(greeting.process);
    const bool steps = greeting.what == kSteps;
    if ((steps ? !leads() : greeting.what != kMesh) || replica >= mesh_.size() || !ranks.contains(process)) refuse_hello();
    group::Link& link = (steps ? member_.lanes[replica].steps : mesh_[replica])[process];
    if (link.is_open()) refuse_hello();
    link = link_of(std::move(socket));
  }
  for (std::size_t i = 0; i < mesh_.size(); ++i) member_.lanes[i].mesh = std::make_unique<group::Mesh>(place_.rank, std::move(mesh_[i]));
  listening_.close();
}

// ---- the others -----------------------------------------------------------------------------------------------

void RankGroup::follow() {
  std::signal(SIGINT, SIG_IGN);        // the leader ends the run, and with it this process
  std::signal(SIGTERM, SIG_IGN);
  const std::string greeting = hello(std::string(kControl), 0);   // reads the program and the catalogue: nobody waits for it yet
  study::Socket socket = study::reach(meetings_.front());
  if (!socket.is_open() || !study::send_text(socket, greeting)) return;
  const auto welcome = study::receive_text(socket);
  if (!welcome) return;                // the leader says why
  const std::int32_t replicas = read_replicas(*welcome);
  member_.control.push_back(link_of(std::move(socket)));
  make_lanes(replicas);
  connect_down(replicas);
  accept_up();
  group::follow(member_, open_order);
}

}  // namespace plimsoll::cli
