// SPDX-License-Identifier: Apache-2.0
#include "sched/request_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

namespace plimsoll::sched {
namespace {

Request request(std::uint32_t serial, Tok prompt) { return {.serial = serial, .prompt = prompt, .max_new = 100}; }

/// Adds a member of the decode group whose whole prompt is computed and whose first token is produced.
ReqId decoding(RequestTable& table, std::uint32_t serial, Tok prompt) {
  const ReqId id = table.add(request(serial, prompt));
  table.prefill(id, prompt);
  table.emit(id);
  table.join_group(id);
  return id;
}

TEST(RequestTable, MembersAdvanceWithTheGroupsClock) {
  RequestTable table;
  const ReqId a = decoding(table, 0, 10);
  table.advance_group(3);
  const ReqId b = decoding(table, 1, 4);
  table.advance_group(2);
  EXPECT_EQ(table.generated(a), 6);  // the token of the prefill, and five steps
  EXPECT_EQ(table.computed(a), 15);
  EXPECT_EQ(table.length(a), 16);
  EXPECT_EQ(table.generated(b), 3);
  EXPECT_EQ(table.group_context(), 16 + 7);
  EXPECT_EQ(table.clock(), 5);
}

TEST(RequestTable, LeavingKeepsTheCounters) {
  RequestTable table;
  const ReqId a = decoding(table, 0, 10);
  table.advance_group(3);
  table.leave_group(a);
  table.advance_group(9);
  EXPECT_EQ(table.generated(a), 4);
  EXPECT_EQ(table.computed(a), 13);
  EXPECT_FALSE(table.decoding(a));
  EXPECT_EQ(table.group_context(), 0);
}

TEST(RequestTable, HandlesAreReusedAndStartAfresh) {
  RequestTable table;
  const ReqId a = decoding(table, 0, 10);
  table.advance_group(3);
  table.remove(a);
  EXPECT_EQ(table.size(), 0);
  EXPECT_EQ(table.group_size(), 0);
  const ReqId b = table.add(request(1, 5));
  EXPECT_EQ(b, a);
  EXPECT_EQ(table.generated(b), 0);
  EXPECT_EQ(table.computed(b), 0);
  EXPECT_EQ(table[b].serial, 1u);
}

TEST(RequestTable, TheWindowCapsEachMembersShare) {
  RequestTable table(8);
  (void)decoding(table, 0, 20);  // attends to 21 tokens, of which the window counts 8
  (void)decoding(table, 1, 4);   // attends to 5
  EXPECT_EQ(table.group_context(), 26);
  EXPECT_EQ(table.group_context_windowed(), 13);
  EXPECT_EQ(table.window_growing(), 1);
  EXPECT_EQ(table.steps_to_window_kink(), 3);
  table.advance_group(3);
  EXPECT_EQ(table.group_context_windowed(), 16);
  EXPECT_EQ(table.window_growing(), 0);
  EXPECT_EQ(table.steps_to_window_kink(), kForever);
}

/// A simple model that counts every request separately.
struct Model {
  struct Row {
    Tok prompt = 0, generated = 0, computed = 0;
    bool member = false;
  };
  Tok window = 0;
  std::map<ReqId, Row> rows;

  [[nodiscard]] std::int64_t context(Tok cap) const {
    std::int64_t sum = 0;
    for (const auto& [id, row] : rows)
      if (row.member) sum += cap > 0 ? std::min(row.computed + 1, cap) : row.computed + 1;
    return sum;
  }
  [[nodiscard]] std::int64_t growing() const {
    return std::count_if(rows.begin(), rows.end(), [this](const auto& entry) {
      return entry.second.member && (window == 0 || entry.second.computed + 1 < window);
    });
  }
  [[nodiscard]] std::int64_t kink() const {
    std::int64_t steps = kForever;
    for (const auto& [id, row] : rows)
      if (window > 0 && row.member && row.computed + 1 < window)
        steps = std::min<std::int64_t>(steps, window - row.computed - 1);
    return steps;
  }
  void advance(Row& row, Tok steps) const {
    row.generated += steps;
    row.computed += steps;
  }
};

void compare(RequestTable& table, const Model& model) {
  std::int64_t members = 0;
  for (const auto& [id, row] : model.rows) {
    members += row.member;
    RC_ASSERT(table.decoding(id) == row.member);
    RC_ASSERT(table.generated(id) == row.generated);
    RC_ASSERT(table.computed(id) == row.computed);
    RC_ASSERT(table.length(id) == row.prompt + row.generated);
  }
  RC_ASSERT(table.size() == static_cast<std::int64_t>(model.rows.size()));
  RC_ASSERT(table.group_size() == members);
  RC_ASSERT(table.group_context() == model.context(0));
  RC_ASSERT(table.group_context_windowed() == model.context(model.window));
  RC_ASSERT(table.window_growing() == model.growing());
  RC_ASSERT(table.steps_to_window_kink() == model.kink());
}

void add(RequestTable& table, Model& model, std::uint32_t serial) {
  const Tok prompt = *rc::gen::inRange<Tok>(1, 30);
  const ReqId id = table.add(request(serial, prompt));
  RC_ASSERT(!model.rows.contains(id));
  table.prefill(id, prompt);
  table.emit(id);
  model.rows[id] = {prompt, 1, prompt, false};
}

void change(RequestTable& table, Model& model, ReqId id, int what) {
  Model::Row& row = model.rows[id];
  if (what == 0) {  // moves a request into or out of the group
    row.member ? table.leave_group(id) : table.join_group(id);
    row.member = !row.member;
  } else if (what == 1) {
    table.remove(id);
    model.rows.erase(id);
  } else if (row.member) {
    table.advance_member(id);
    model.advance(row, 1);
  } else {  // preempts and recomputes a request: its output stays
    table.set_computed(id, 0);
    table.prefill(id, row.prompt + row.generated);
    row.computed = row.prompt + row.generated;
    table.emit(id);
    ++row.generated;
  }
}

// Leaps end at the kink of the windowed sum, as in the simulator.
void advance(RequestTable& table, Model& model) {
  const auto steps = std::min<std::int64_t>(*rc::gen::inRange<std::int64_t>(1, 12), model.kink());
  table.advance_group(steps);
  for (auto& [id, row] : model.rows)
    if (row.member) model.advance(row, static_cast<Tok>(steps));
}

RC_GTEST_PROP(RequestTable, AgreesWithCountingOneByOne, ()) {
  const Tok window = *rc::gen::element<Tok>(0, 1, 7, 16);
  RequestTable table(window);
  // The clock goes on for as long as the replica lives: counters must survive the end of 32 bits.
  table.advance_group(*rc::gen::element<std::int64_t>(0, (std::int64_t{1} << 32) - 20));
  Model model{window, {}};
  const int operations = *rc::gen::inRange(1, 120);
  for (int i = 0; i < operations; ++i) {
    const int kind = *rc::gen::inRange(0, 6);
    if (kind == 0 || model.rows.empty()) {
      add(table, model, static_cast<std::uint32_t>(i));
    } else if (kind <= 2) {
      advance(table, model);
    } else {
      auto row = model.rows.begin();
      std::advance(row, *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(model.rows.size())));
      change(table, model, row->first, kind - 3);
    }
    compare(table, model);
  }
}

}  // namespace
}  // namespace plimsoll::sched
