// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/request_stages.h"

#include <algorithm>
#include <map>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

/// Cuts the time of a request into stages.
class Spans {
 public:
  explicit Spans(Nanos from) : at_(from) {}
  // Ends the stage at `to`; -1: the request did not reach it.
  Spans& until(Nanos to, RequestStage stage) {
    if (to <= at_) return *this;
    out_.push_back({stage, at_, to});
    at_ = to;
    return *this;
  }
  [[nodiscard]] std::vector<StageSpan> take() { return std::move(out_); }

 private:
  Nanos at_;
  std::vector<StageSpan> out_;
};

// As in the means of docs/pools.md (sched::stage_times).
void add_pool_stages(const sim::RequestRow& row, Spans& spans) {
  const sched::Stages& s = *row.stages;
  if (s.local() || s.prefill_end < 0 || s.transfer_end < 0) {
    spans.until(s.decode_start < 0 ? row.end : s.decode_start, RequestStage::queue_decode)
        .until(row.first_token, RequestStage::prefill);
  } else {
    if (s.pushed) spans.until(s.prefill_arrived, RequestStage::queue_decode);
    spans.until(s.prefill_start, RequestStage::queue_prefill)
        .until(s.prefill_end, RequestStage::prefill)
        .until(s.transfer_start, RequestStage::queue_decode)
        .until(s.transfer_end, RequestStage::transfer)
        .until(s.decode_start < 0 ? row.end : s.decode_start, RequestStage::queue_decode);
  }
  spans.until(row.end, RequestStage::decode);
}

}  // namespace

QString stage_words(RequestStage stage) {
  switch (stage) {
    case RequestStage::client_wait: return tr("client wait");
    case RequestStage::to_first_token: return tr("queue + prefill");
    case RequestStage::queue_prefill: return tr("queue, prefill");
    case RequestStage::prefill: return tr("prefill");
    case RequestStage::transfer: return tr("KV transfer");
    case RequestStage::queue_decode: return tr("queue, decode");
    case RequestStage::decode: return tr("decode");
  }
  return {};
}

std::vector<StageSpan> stage_spans(const sim::RequestRow& row) {
  Spans spans(row.arrival);
  // A request that never reached a server waits until its end.
  spans.until(row.dispatched >= 0 ? row.dispatched : row.end, RequestStage::client_wait);
  if (row.stages) {
    add_pool_stages(row, spans);
  } else {
    spans.until(row.first_token >= 0 ? row.first_token : row.end, RequestStage::to_first_token)
        .until(row.end, RequestStage::decode);
  }
  return spans.take();
}

bool has_stages(const std::vector<sim::RequestRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const sim::RequestRow& row) { return row.stages.has_value(); });
}

std::vector<TimedValue> transfers_under_way(const std::vector<sim::RequestRow>& rows) {
  std::map<Nanos, int> changes;
  for (const sim::RequestRow& row : rows) {
    if (!row.stages || row.stages->transfer_start < 0 || row.stages->transfer_end <= row.stages->transfer_start)
      continue;
    ++changes[row.stages->transfer_start];
    --changes[row.stages->transfer_end];
  }
  std::vector<TimedValue> out;
  double now = 0;
  for (const auto& [at, change] : changes) out.push_back({seconds(at), now += change});
  return out;
}

}  // namespace plimsoll::gui
