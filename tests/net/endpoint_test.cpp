// SPDX-License-Identifier: Apache-2.0
#include "net/endpoint.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace plimsoll::net {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Addresses = std::vector<std::string>;

const auto kNoRoute = [](const std::string&) { return std::string(); };
// The interfaces of a host with a slow network, a fast network and a bridge for containers.
const std::vector<Interface> kNode = {
    {"eth0", "10.0.0.7", 24}, {"ib0", "192.168.1.7", 16}, {"docker0", "172.17.0.1", 16}};

TEST(SharedAddresses, AreThoseOfTheNetworkThatAllAreIn) {
  EXPECT_THAT(shared_addresses(kNode, {{"10.0.0.8", "172.17.0.1"}, {"10.0.0.9"}}, kNoRoute), ElementsAre("10.0.0.7"));
  EXPECT_THAT(shared_addresses(kNode, {{"192.168.200.1"}}, kNoRoute), ElementsAre("192.168.1.7"));
}

TEST(SharedAddresses, ComeFromTheFirstInterfaceWhereSeveralDo) {
  EXPECT_THAT(shared_addresses(kNode, {{"192.168.1.8", "10.0.0.8"}}, kNoRoute), ElementsAre("10.0.0.7"));
}

TEST(SharedAddresses, AreSeveralWhereNoneIsEnough) {
  EXPECT_THAT(shared_addresses(kNode, {{"10.0.0.8"}, {"192.168.1.9"}}, kNoRoute),
              ElementsAre("10.0.0.7", "192.168.1.7"));
  EXPECT_THAT(shared_addresses(kNode, {{"10.0.0.8"}, {"192.168.1.9"}, {"192.168.1.8", "10.0.0.9"}}, kNoRoute),
              ElementsAre("10.0.0.7", "192.168.1.7"));
}

// 172.17.0.1 is also an address of the peer, so there it would connect the peer to itself.
TEST(SharedAddresses, ABridgeThatBothHaveDoesNotCount) {
  EXPECT_THAT(shared_addresses(kNode, {{"172.17.0.1"}}, [](const std::string&) { return std::string("172.17.0.1"); }),
              IsEmpty());
}

TEST(SharedAddresses, APeerOfAnotherNetworkIsReachedByTheRoute) {
  const auto route = [](const std::string& address) {
    return address == "8.8.4.4" ? std::string("192.168.1.7") : std::string();
  };
  EXPECT_THAT(shared_addresses(kNode, {{"8.8.4.4"}}, route), ElementsAre("192.168.1.7"));
  EXPECT_THAT(shared_addresses(kNode, {{"9.9.9.9"}}, route), IsEmpty());
  EXPECT_THAT(shared_addresses(kNode, {{}}, route), IsEmpty());
}

TEST(ChosenInterfaces, AreNamedByNameAddressOrNetwork) {
  const auto names = [](std::string_view list) {
    Addresses all;
    for (const Interface& each : chosen_interfaces(kNode, list)) all.push_back(each.name);
    return all;
  };
  EXPECT_THAT(names(""), ElementsAre("eth0", "ib0", "docker0"));
  EXPECT_THAT(names("ib0"), ElementsAre("ib0"));
  EXPECT_THAT(names("172.17.0.1,eth0"), ElementsAre("eth0", "docker0"));
  EXPECT_THAT(names("192.168.0.0/16"), ElementsAre("ib0"));
  EXPECT_THAT(names("10.0.0.0/99,nonsense,,/,0.0.0.0"), IsEmpty());
}

TEST(Endpoint, TheLoopbackRoutesToItself) { EXPECT_EQ(source_address("127.0.0.1"), "127.0.0.1"); }

TEST(Endpoint, ListeningIsAtThatAddressAlone) {
  const Socket listening = listen_at("127.0.0.1");
  EXPECT_TRUE(connect_to("127.0.0.1", port_of(listening), within(std::chrono::minutes(5))).is_open());
  EXPECT_FALSE(connect_to("127.0.0.2", port_of(listening), within(std::chrono::minutes(5))).is_open());
}

TEST(Endpoint, NothingIsConnectedOrAcceptedWhereNothingIs) {
  EXPECT_FALSE(accept_from(listen_at(kLoopback), within(std::chrono::milliseconds(1))).is_open());
  EXPECT_FALSE(connect_to("not an address", 1, kNever).is_open());
}

}  // namespace
}  // namespace plimsoll::net
