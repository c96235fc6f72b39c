// SPDX-License-Identifier: Apache-2.0
// The messages between the processes of a group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "exec/group/messages.h"
#include "model/error.h"

namespace plimsoll::exec::group {
namespace {

using ::testing::HasSubstr;

template <class Work>
std::string device_error(const Work& work) {
  try {
    work();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return {};
}

bool equal(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void expect_equal(const ForwardInput& got, const ForwardInput& sent) {
  EXPECT_EQ(got.all_logits, sent.all_logits);
  EXPECT_EQ(got.sampling.temperature, sent.sampling.temperature);
  EXPECT_EQ(got.sampling.seed, sent.sampling.seed);
  ASSERT_EQ(got.prefill.size(), sent.prefill.size());
  for (std::size_t i = 0; i < sent.prefill.size(); ++i) {
    const PrefillRows &a = got.prefill[i], &b = sent.prefill[i];
    EXPECT_TRUE(equal(a.tokens, b.tokens) && equal(a.blocks, b.blocks)) << i;
    EXPECT_EQ(std::tuple(a.context, a.slot, a.request, a.padding, a.emits),
              std::tuple(b.context, b.slot, b.request, b.padding, b.emits));
  }
  ASSERT_EQ(got.decode.size(), sent.decode.size());
  for (std::size_t i = 0; i < sent.decode.size(); ++i) {
    const DecodeRow &a = got.decode[i], &b = sent.decode[i];
    EXPECT_TRUE(equal(a.blocks, b.blocks)) << i;
    EXPECT_EQ(std::tuple(a.token, a.context, a.slot, a.request, a.charged, a.dead),
              std::tuple(b.token, b.context, b.slot, b.request, b.charged, b.dead));
  }
}

// Random forwards, not only those that a scheduler makes: tables grow, shrink, change in the middle, or have no slot.
class Forwards {
 public:
  explicit Forwards(std::uint64_t seed) : random_(seed), tables_(12) {}
  const ForwardInput& next() {
    tokens_.clear();
    input_ = {};
    input_.all_logits = draw(4) == 0;
    input_.sampling = {static_cast<float>(draw(3)), random_()};
    for (std::size_t slot = 0; slot < tables_.size(); ++slot) {
      change(tables_[slot]);
      const auto named = static_cast<std::int32_t>(draw(6) == 0 ? -1 : static_cast<int>(slot));
      if (draw(3) == 0)
        prefill(slot, named);
      else
        decode(slot, named);
    }
    return input_;
  }

 private:
  int draw(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }
  void change(std::vector<std::int32_t>& table) {
    if (draw(5) == 0) table.resize(static_cast<std::size_t>(draw(static_cast<int>(table.size()) + 1)));
    if (draw(5) == 0 && !table.empty())
      table[static_cast<std::size_t>(draw(static_cast<int>(table.size())))] = draw(1000);
    for (int more = draw(4); more > 0; --more) table.push_back(draw(1 << 26));
  }
  void prefill(std::size_t slot, std::int32_t named) {
    PrefillRows span;
    span.tokens = tokens_.emplace_back(random_tokens());
    span.context = draw(100'000);
    span.blocks = tables_[slot];
    span.slot = named;
    span.request = random_();
    span.padding = draw(3);
    span.emits = draw(2) == 0;
    input_.prefill.push_back(span);
  }
  void decode(std::size_t slot, std::int32_t named) {
    DecodeRow row;
    if (draw(2) == 0) row.token = draw(128'000);
    row.context = draw(100'000);
    row.blocks = tables_[slot];
    row.slot = named;
    row.request = random_();
    row.charged = draw(2) * draw(4096);
    row.dead = draw(8) == 0;
    input_.decode.push_back(row);
  }
  std::vector<std::int32_t> random_tokens() {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(draw(20)));
    for (std::int32_t& token : tokens) token = draw(128'000);
    return tokens;
  }

  std::mt19937_64 random_;
  std::vector<std::vector<std::int32_t>> tables_;
  std::deque<std::vector<std::int32_t>> tokens_;
  ForwardInput input_;
};

TEST(GroupWire, numbers_of_every_size_come_back) {
  using Whole = std::numeric_limits<std::uint64_t>;
  using Number = std::numeric_limits<std::int64_t>;
  const std::vector<std::uint64_t> wholes{0, 127, 128, 16'383, 16'384, std::uint64_t{1} << 63U, Whole::max()};
  const std::vector<std::int64_t> numbers{0, -1, 1, -64, 64, 1'000'000, Number::min(), Number::max()};
  Writer out(Kind::times);
  for (const std::uint64_t value : wholes) out.whole(value);
  for (const std::int64_t value : numbers) out.number(value);
  out.f32(-0.5F);
  out.f64(1e-300);
  out.text("no line\nend");
  Reader in(out.bytes());
  EXPECT_EQ(in.kind(), Kind::times);
  for (const std::uint64_t value : wholes) EXPECT_EQ(in.whole(), value);
  for (const std::int64_t value : numbers) EXPECT_EQ(in.number(), value);
  EXPECT_EQ(in.f32(), -0.5F);
  EXPECT_EQ(in.f64(), 1e-300);
  EXPECT_EQ(in.text(), "no line\nend");
  in.end();
}

TEST(GroupWire, forwards_come_back_as_they_were_sent) {
  Forwards forwards(3);
  ForwardEncoder encoder;
  ForwardDecoder decoder;
  for (int step = 0; step < 200; ++step) {
    const ForwardInput& sent = forwards.next();
    const net::Bytes message = encoder.encode(sent);
    Reader in(message);
    expect_equal(decoder.decode(in), sent);
  }
}

// Two forwards are in flight while the third is decoded.
TEST(GroupWire, a_forward_stays_while_the_next_two_are_read) {
  Forwards first(5), others(6);
  ForwardEncoder encoder;
  ForwardDecoder decoder;
  const net::Bytes message = encoder.encode(first.next());
  Reader in(message);
  const ForwardInput& kept = decoder.decode(in);
  const std::vector<DecodeRow> rows = kept.decode;
  for (int i = 0; i < 2; ++i) {
    const net::Bytes next = encoder.encode(others.next());
    Reader next_in(next);
    static_cast<void>(decoder.decode(next_in));
  }
  Forwards again(5);
  expect_equal(kept, again.next());
}

// Kind, version and the rest of the heading. Then per row: flags, slot, request (two bytes), context (two), and how
// many blocks of the table stay and follow (two): 8 bytes. Whole tables would take 64 blocks of three bytes each.
TEST(GroupWire, a_decode_row_takes_eight_bytes_while_its_table_stays) {
  constexpr int kRows = 60;  // so that a slot takes one byte
  std::vector<std::vector<std::int32_t>> tables(kRows);
  ForwardInput input;
  for (int i = 0; i < kRows; ++i) {
    for (int block = 0; block < 64; ++block) tables[static_cast<std::size_t>(i)].push_back(100'000 + 64 * i + block);
    DecodeRow row;
    row.slot = i;
    row.request = static_cast<std::uint64_t>(1000 + i);
    row.context = 1000;
    row.blocks = tables[static_cast<std::size_t>(i)];
    input.decode.push_back(row);
  }
  ForwardEncoder encoder;
  EXPECT_GT(encoder.encode(input).size(), kRows * 64 * 3U);
  EXPECT_EQ(encoder.encode(input).size(), 2 + 1 + 4 + 1 + 1 + 1 + kRows * 8U);
}

TEST(GroupWire, a_forward_that_is_cut_off_anywhere_is_refused) {
  ForwardEncoder encoder;
  Forwards forwards(9);
  const net::Bytes whole = encoder.encode(forwards.next());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string error = device_error([&] {
      Reader in{std::span<const std::byte>(whole).first(size)};
      ForwardDecoder decoder;
      static_cast<void>(decoder.decode(in));
    });
    EXPECT_THAT(error, HasSubstr("a message from another process is cut off")) << size;
  }
  net::Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_THAT(device_error([&] {
                Reader in(longer);
                ForwardDecoder decoder;
                static_cast<void>(decoder.decode(in));
              }),
              HasSubstr("has surplus bytes at its end"));
}

TEST(GroupWire, other_versions_and_kinds_are_refused) {
  net::Bytes message = plain(Kind::end);
  message[0] = std::byte{kWireVersion + 1};
  EXPECT_EQ(device_error([&] { Reader in(message); }),
            "a message from another process is of version 4, this program uses version 3");
  message = plain(Kind::peer_failed);
  message[1] = std::byte{99};
  EXPECT_THAT(device_error([&] { Reader in(message); }), HasSubstr("of an unknown kind"));
}

TEST(GroupWire, tables_that_were_never_sent_are_refused) {
  ForwardEncoder encoder;
  std::vector<std::int32_t> table{1, 2, 3};
  ForwardInput input;
  DecodeRow row;
  row.blocks = table;
  input.decode.push_back(row);
  static_cast<void>(encoder.encode(input));
  const net::Bytes second = encoder.encode(input);  // refers to the first
  EXPECT_THAT(device_error([&] {
                Reader in(second);
                ForwardDecoder decoder;
                static_cast<void>(decoder.decode(in));
              }),
              HasSubstr("refers to blocks that were never sent"));
}

TEST(GroupWire, numbers_and_names_that_do_not_fit_are_refused) {
  using Small = std::numeric_limits<std::int32_t>;
  Writer out(Kind::load);
  for (const std::int64_t value : {std::int64_t{Small::min()}, std::int64_t{Small::max()},
                                   std::int64_t{Small::max()} + 1, std::int64_t{1}, std::int64_t{2}, std::int64_t{-1}})
    out.number(value);
  Reader in(out.bytes());
  EXPECT_EQ(in.number32(), Small::min());
  EXPECT_EQ(in.number32(), Small::max());
  EXPECT_THAT(device_error([&] { static_cast<void>(in.number32()); }), HasSubstr("a number that is too large"));
  EXPECT_EQ(in.one_of(DeviceKind::cuda), DeviceKind::cuda);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(device_error([&] { static_cast<void>(in.one_of(DeviceKind::cuda)); }),
                HasSubstr("holds an unknown value"));
}

// A program of another version may have devices that this one does not know.
TEST(GroupWire, an_order_for_an_unknown_device_is_refused) {
  EngineOrder order{.model = "m", .weights = {}, .seed = 0, .digest = {}, .replicas = 1, .config = {}};
  order.config.device = static_cast<DeviceKind>(7);
  EXPECT_THAT(device_error([&] { static_cast<void>(decode_order(encode(order))); }),
              HasSubstr("holds an unknown value"));
}

TEST(GroupWire, an_order_of_engines_comes_back) {
  EngineOrder order{
      .model = "llama-3-8b", .weights = "w.safetensors", .seed = 7, .digest = "abc", .replicas = 3, .config = {}};
  order.config.device = DeviceKind::cuda;
  order.config.tp = 8;
  order.config.weight_dtype = model::DType::fp32;
  order.config.kv_blocks = std::int64_t{1} << 26;
  order.config.block_tokens = 32;
  order.config.sequences = 77;
  order.config.step_rows = 8192;
  order.config.threads = 5;
  order.config.graphs = false;
  order.config.poison = true;
  order.config.host_memory = 3e9;
  const EngineOrder got = decode_order(encode(order));
  EXPECT_EQ(std::tie(got.model, got.weights, got.seed, got.digest, got.replicas),
            std::tie(order.model, order.weights, order.seed, order.digest, order.replicas));
  const EngineConfig &a = got.config, &b = order.config;
  EXPECT_EQ(std::tie(a.device, a.tp, a.weight_dtype, a.kv_dtype, a.kv_blocks, a.block_tokens, a.sequences, a.step_rows,
                     a.threads, a.graphs, a.poison, a.host_memory),
            std::tie(b.device, b.tp, b.weight_dtype, b.kv_dtype, b.kv_blocks, b.block_tokens, b.sequences, b.step_rows,
                     b.threads, b.graphs, b.poison, b.host_memory));
  net::Bytes cut = encode(order);
  cut.pop_back();
  EXPECT_THAT(device_error([&] { static_cast<void>(decode_order(cut)); }), HasSubstr("is cut off"));
}

}  // namespace
}  // namespace plimsoll::exec::group
