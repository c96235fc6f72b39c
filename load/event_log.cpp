// SPDX-License-Identifier: Apache-2.0
#include "load/event_log.h"

#include <fmt/format.h>

#include <iterator>

#include "sched/policy_config.h"

namespace plimsoll::load {

namespace {
// Names need no escaping: they contain neither quotes nor backslashes (script.cpp), or are r<number>.
template <class... Args>
void append(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

// Besides the study, decisions of these replicas depend on these values.
void add_pool(std::string& text, const Scenario& pool) {
  append(text,
         R"("replicas":{},"kv_blocks":{},"block_tokens":{},"prefix_caching":{},"swap_blocks":{},"model_max_len":{})",
         pool.replicas, pool.kv.blocks, pool.kv.block_tokens, pool.kv.prefix_caching, pool.policy.swap_blocks,
         pool.policy.model_max_len);
}
}  // namespace

void EventLog::begin(const Scenario& scenario, std::size_t point) {
  if (!enabled_) return;
  append(text_, R"({{"v":1,"event":"run","point":{},"policy":"{}",)", point, sched::name(scenario.policy.policy));
  add_pool(text_, scenario);
  append(text_, R"(,"window":{})", scenario.shape->sliding_window);
  if (scenario.pools) {
    text_ += R"(,"prefill":{)";
    add_pool(text_, *scenario.pools->prefill);
    text_ += '}';
  }
  text_ += "}\n";
}

void EventLog::arrival(std::size_t replica, const sched::NewRequest& request, Nanos now) {
  if (!enabled_) return;
  append(text_, R"({{"t":{},"event":"arrival","replica":{},"id":{},"input":{},"output":{},"max_new":{},"sent":{})", now,
         replica, request.serial, request.input, request.output, request.max_new, request.sent);
  if (request.session != 0) append(text_, R"(,"session":{})", request.session);
  if (request.priority != 0) append(text_, R"(,"priority":{})", request.priority);
  if (!request.name.empty()) append(text_, R"(,"name":"{}")", request.name);
  if (!request.prefix_hashes.empty())
    append(text_, R"(,"hash_tokens":{},"hashes":[{}])", request.hash_block_tokens,
           fmt::join(request.prefix_hashes, ","));
  if (request.remote > 0) append(text_, R"(,"remote":{},"seeded":{})", request.remote, request.seeded);
  if (request.hold) text_ += R"(,"hold":true)";
  text_ += "}\n";
}

void EventLog::cancel(std::size_t replica, std::uint64_t serial, Nanos now) {
  if (enabled_)
    append(text_,
           R"({{"t":{},"event":"cancel","replica":{},"id":{}}})"
           "\n",
           now, replica, serial);
}

void EventLog::land(std::size_t replica, std::uint64_t serial, bool arrived, Nanos now) {
  if (enabled_)
    append(text_,
           R"({{"t":{},"event":"land","replica":{},"id":{},"arrived":{}}})"
           "\n",
           now, replica, serial, arrived);
}

void EventLog::release(std::size_t replica, std::uint64_t serial, Nanos now) {
  if (enabled_)
    append(text_,
           R"({{"t":{},"event":"release","replica":{},"id":{}}})"
           "\n",
           now, replica, serial);
}

void EventLog::decide(std::size_t replica, Nanos now) {
  if (enabled_)
    append(text_,
           R"({{"t":{},"event":"decide","replica":{}}})"
           "\n",
           now, replica);
}

void EventLog::step(std::size_t replica, Nanos start, Nanos end) {
  if (enabled_)
    append(text_,
           R"({{"t":{},"event":"step","replica":{},"start":{}}})"
           "\n",
           end, replica, start);
}

void EventLog::end(Nanos now) {
  if (enabled_)
    append(text_,
           R"({{"t":{},"event":"end"}})"
           "\n",
           now);
}

}  // namespace plimsoll::load
