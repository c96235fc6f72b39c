// SPDX-License-Identifier: Apache-2.0
#include "cli/rank_group.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "configs/catalogue.h"
#include "exec/group/follower.h"
#include "model/error.h"
#include "net/endpoint.h"
#include "study/run/digest.h"

namespace plimsoll::cli {
namespace {

namespace group = exec::group;
namespace fs = std::filesystem;

constexpr std::chrono::seconds kComeWithin{30};
constexpr std::size_t kMaxWelcome = 64;     // bytes
constexpr std::string_view kOver = "done";  // sent instead of a welcome if the run is over

// Purposes of a connection, stated in its first message.
constexpr std::string_view kControl = "control", kSteps = "steps", kMesh = "mesh";

struct Hello {
  std::string what, program;
  int process = -1;
  std::int32_t replica = 0;
};

Hello read_hello(const std::string& text) {
  Hello hello;
  std::istringstream words(text);
  words >> hello.process >> hello.what >> hello.replica >> hello.program;
  return hello;
}

// Processes with equal texts run the same program and catalogue, so they interpret messages alike.
std::string program_name() {
  const std::string both = study::hex(study::program_digest()) +
                           study::hex(study::digest_of_folders(configs::Catalogue().content_folders()));
  return study::hex(study::digest_of(both));
}

[[noreturn]] void refuse_hello() {
  throw DeviceError("a process claims a rank that is already connected or not part of this group");
}

// Names every missing rank and its host, because the user will look for the cause there.
[[noreturn]] void nobody_came(const std::set<std::size_t>& missing, const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::size_t rank : missing)
    names += fmt::format("{}rank {} on {}", names.empty() ? "" : ", ", rank, hosts[rank]);
  throw DeviceError(fmt::format("{} did not connect within {} s", names, kComeWithin.count()));
}

std::int32_t read_replicas(const std::string& welcome) {
  std::int32_t replicas = 0;
  const auto [end, error] = std::from_chars(welcome.data(), welcome.data() + welcome.size(), replicas);
  if (error != std::errc() || end != welcome.data() + welcome.size() || replicas < 1)
    throw DeviceError("rank 0 did not say how many replicas there are");
  return replicas;
}

}  // namespace

exec::OpenModel open_order(const group::EngineOrder& order) {
  if (model_digest(order.model) != order.digest)
    throw InputError(fmt::format("{} differs from the same file on the host of rank 0", order.model));
  const configs::Catalogue catalogue;
  const exec::OpenModel named = exec::open_model(order.model, order.seed, catalogue);
  return exec::open_weights(named.architecture, order.weights, order.seed);
}

// Compares only the configuration: weights may be gigabytes, and the usual mistake is a different shape.
std::string model_digest(const std::string& model) {
  std::error_code error;
  fs::path file = model;
  if (fs::is_directory(file, error))
    file /= "config.json";
  else if (model.find(".safetensors") != std::string::npos)
    file = file.parent_path() / "config.json";
  return fs::is_regular_file(file, error) ? study::hex(study::digest_of_file(file.string())) : std::string();
}

std::unique_ptr<RankGroup> RankGroup::join() {
  if (ranks_of_mpirun() < 2) return nullptr;
  const RanksModule module;
  std::unique_ptr<RankGroup> group(new RankGroup);
  group->place_ = module.begin();
  group->lobby_ = std::make_unique<net::Lobby>(module.listening_addresses(group->place_));
  for (const std::string& text : module.gather(group->lobby_->meeting().text(), group->place_.count))
    group->meetings_.push_back(net::Meeting::read(text));
  if (!group->leads())
    group->to_leader_ = group->connect(0, kControl, 0);  // MPI still holds all ranks together, so rank 0 exists
  module.end();                                          // from here on, a process that dies closes its connection
  group::Member& member = group->member_;
  member.process = group->place_.rank;
  member.processes = group->place_.count;
  member.local = group->place_.local;
  member.locals = group->place_.locals;
  for (const net::Meeting& meeting : group->meetings_) member.hosts.push_back(meeting.host);
  return group;
}

RankGroup::~RankGroup() {
  if (leads() && std::uncaught_exceptions() == 0) finish();
}

// ---- rank 0 ---------------------------------------------------------------------------------------------------

group::Leader& RankGroup::open(std::int32_t replicas) {
  welcome(replicas);
  make_lanes(replicas);
  accept_up();
  leader_ = std::make_unique<group::Leader>(member_);
  return *leader_;
}

// Ranks not yet accepted have connected and are waiting.
void RankGroup::finish() {
  if (leader_) return leader_->finish();
  while (const auto guest = lobby_->next(net::Deadline::min())) guest->link.send(kOver, net::within(kComeWithin));
}

void RankGroup::welcome(std::int32_t replicas) {
  const auto count = static_cast<std::size_t>(place_.count);
  const std::string program = program_name();
  member_.control.resize(count);
  std::set<std::size_t> missing;
  for (std::size_t p = 1; p < count; ++p) missing.insert(p);
  const auto until = net::within(kComeWithin);
  while (!missing.empty()) {
    auto guest = lobby_->next(until);
    if (!guest) nobody_came(missing, member_.hosts);
    const Hello hello = read_hello(guest->message);
    const auto process = static_cast<std::size_t>(hello.process);
    if (hello.what != kControl || missing.erase(process) == 0) refuse_hello();
    if (hello.program != program)
      throw DeviceError(
          fmt::format("rank {} on {} and rank 0 on {} differ in program or catalogue: install the same on every host",
                      process, member_.hosts[process], member_.hosts.front()));
    member_.control[process] = std::move(guest->link);
  }
  // No rank may start before all are connected.
  for (std::size_t p = 1; p < count; ++p)
    member_.control[p].send(fmt::format("{}", replicas), net::within(kComeWithin));
}

// ---- all ------------------------------------------------------------------------------------------------------

void RankGroup::make_lanes(std::int32_t replicas) {
  member_.replicas.resize(static_cast<std::size_t>(replicas));
  mesh_.resize(member_.replicas.size());
  for (std::size_t i = 0; i < mesh_.size(); ++i) {
    mesh_[i].resize(static_cast<std::size_t>(place_.count));
    member_.replicas[i].steps.resize(leads() ? static_cast<std::size_t>(place_.count) : 1);
  }
}

net::Link RankGroup::connect(std::size_t process, std::string_view what, std::int32_t replica) const {
  net::Link link = net::reach(meetings_[process]);
  const std::string hello = fmt::format("{} {} {} {} {}", meetings_[process].token, place_.rank, what, replica,
                                        what == kControl ? program_name() : "-");
  if (!link.is_open() || !link.send(hello, net::within(kComeWithin)))
    throw DeviceError(fmt::format("rank {} on {} cannot reach rank {} on {}", place_.rank, net::host_name(), process,
                                  meetings_[process].host));
  return link;
}

// Each process connects to all lower ranks, and accepts all higher ones.
void RankGroup::connect_down(std::int32_t replicas) {
  for (std::int32_t replica = 0; replica < replicas; ++replica) {
    const auto i = static_cast<std::size_t>(replica);
    member_.replicas[i].steps.front() = connect(0, kSteps, replica);
    for (std::size_t process = 0; process < static_cast<std::size_t>(place_.rank); ++process)
      mesh_[i][process] = connect(process, kMesh, replica);
  }
}

void RankGroup::accept_up() {
  const auto missing = [&] {  // ranks with a missing connection
    std::set<std::size_t> ranks;
    for (std::size_t i = 0; i < mesh_.size(); ++i)
      for (auto p = static_cast<std::size_t>(place_.rank) + 1; p < static_cast<std::size_t>(place_.count); ++p)
        if (!mesh_[i][p].is_open() || (leads() && !member_.replicas[i].steps[p].is_open())) ranks.insert(p);
    return ranks;
  };
  const auto until = net::within(kComeWithin);
  for (auto ranks = missing(); !ranks.empty(); ranks = missing()) {
    auto guest = lobby_->next(until);
    if (!guest) nobody_came(ranks, member_.hosts);
    const Hello hello = read_hello(guest->message);
    const auto replica = static_cast<std::size_t>(hello.replica), process = static_cast<std::size_t>(hello.process);
    const bool steps = hello.what == kSteps;
    // Only rank 0 has connections for steps; the mesh connects every pair of ranks.
    if ((steps ? !leads() : hello.what != kMesh) || replica >= mesh_.size() || !ranks.contains(process)) refuse_hello();
    net::Link& link = (steps ? member_.replicas[replica].steps : mesh_[replica])[process];
    if (link.is_open()) refuse_hello();
    link = std::move(guest->link);
  }
  for (std::size_t i = 0; i < mesh_.size(); ++i)
    member_.replicas[i].mesh = std::make_unique<group::Mesh>(place_.rank, std::move(mesh_[i]));
  lobby_.reset();  // stops listening
}

// ---- the others -----------------------------------------------------------------------------------------------

void RankGroup::follow() {
  std::signal(SIGINT, SIG_IGN);  // the leader ends the run and thus this process
  std::signal(SIGTERM, SIG_IGN);
  if (serve()) return;
  std::signal(SIGTERM, SIG_DFL);
  let_mpirun_end_this();
  throw DeviceError(fmt::format("rank {} on {}: rank 0 ended before the end of the run, or rejected this rank",
                                place_.rank, net::host_name()));
}

bool RankGroup::serve() {
  const auto welcome = to_leader_.receive_text(kMaxWelcome);
  if (!welcome) return false;
  if (*welcome == kOver) return true;
  const std::int32_t replicas = read_replicas(*welcome);
  member_.control.push_back(std::move(to_leader_));
  make_lanes(replicas);
  connect_down(replicas);
  accept_up();
  return group::follow(member_, open_order);
}

}  // namespace plimsoll::cli
