// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/side_curves.h"

#include <algorithm>

namespace plimsoll::gui {

SideCurves::SideCurves(std::shared_ptr<const configs::Catalogue> catalogue, QObject* parent)
    : QObject(parent), lane_(std::move(catalogue), 1) {
  connect_lane();
}

SideCurves::~SideCurves() = default;

void SideCurves::connect_lane() {
  connect(&lane_, &CurveLane::outlined, this, [this](quint64 generation, const CurveOutline& outline) {
    if (Entry* entry = running()) entry->curves->begin(generation, outline);
    Q_EMIT changed();
  });
  connect(&lane_, &CurveLane::points, this, [this](quint64 generation, const std::vector<LanePoint>& points) {
    if (Entry* entry = running()) entry->curves->add(generation, points);
    Q_EMIT changed();
  });
  connect(&lane_, &CurveLane::study_done, this, [this](quint64 generation, double /*seconds*/) {
    if (Entry* entry = running()) entry->curves->complete(generation);
    Q_EMIT changed();
  });
  connect(&lane_, &CurveLane::finished, this, &SideCurves::end_running);
  connect(&lane_, &CurveLane::failed, this, [this](quint64 /*generation*/, const LaneFailure& failure) {
    if (Entry* entry = running()) entry->failure = failure;
    end_running();
  });
}

const SideCurves::Entry* SideCurves::find(const QString& name) const {
  const auto found = std::find_if(wanted_.begin(), wanted_.end(), [&](const Entry& e) { return e.name == name; });
  return found == wanted_.end() ? nullptr : &*found;
}

SideCurves::Entry* SideCurves::running() {
  const auto found =
      std::find_if(wanted_.begin(), wanted_.end(), [](const Entry& e) { return e.state == State::running; });
  return found == wanted_.end() ? nullptr : &*found;
}

// Points of the interrupted scenario that the lane still delivers have an old generation, so the model ignores them.
void SideCurves::interrupt() {
  Entry* entry = running();
  if (entry == nullptr) return;
  lane_.cancel();
  entry->state = State::waiting;
}

void SideCurves::start_next() {
  if (held_ || running() != nullptr) return;
  const auto next =
      std::find_if(wanted_.begin(), wanted_.end(), [](const Entry& e) { return e.state == State::waiting; });
  if (next == wanted_.end()) return;
  next->state = State::running;
  lane_.submit(next->request);
}

void SideCurves::end_running() {
  if (Entry* entry = running()) entry->state = State::done;
  start_next();
  Q_EMIT changed();
  if (!busy()) Q_EMIT settled();
}

// A failed scenario has no curves to keep; it is computed again when it is wanted.
void SideCurves::keep(Entry entry) {
  if (entry.state != State::done || entry.failure) return;
  std::erase_if(kept_, [&](const Entry& e) { return e.question == entry.question; });
  kept_.push_back(std::move(entry));
  if (kept_.size() > kKept) kept_.erase(kept_.begin());
}

void SideCurves::want(std::vector<Wanted> wanted) {
  const bool same =
      std::equal(wanted.begin(), wanted.end(), wanted_.begin(), wanted_.end(),
                 [](const Wanted& a, const Entry& b) { return a.name == b.name && a.question == b.question; });
  if (same) {
    start_next();
    return;
  }
  std::vector<Entry> before;
  before.swap(wanted_);
  const auto taken_from = [&](std::vector<Entry>& entries, const auto& fits) {
    const auto found = std::find_if(entries.begin(), entries.end(), fits);
    if (found == entries.end()) return false;
    wanted_.push_back(std::move(*found));
    entries.erase(found);
    return true;
  };
  for (Wanted& one : wanted) {
    const auto answers = [&](const Entry& e) { return e.question == one.question; };
    const bool known = taken_from(before, answers) || taken_from(kept_, answers);
    if (!known && taken_from(before, [&](const Entry& e) { return e.name == one.name; })) {
      // Another question: its former curves stay until the new ones are complete.
      Entry& entry = wanted_.back();
      if (entry.state == State::running) lane_.cancel();
      entry.state = State::waiting;
      entry.failure.reset();
    } else if (!known) {
      wanted_.push_back({one.name, {}, {}, std::make_unique<CurveModel>(), {}, State::waiting});
    }
    Entry& entry = wanted_.back();
    entry.name = std::move(one.name);
    entry.question = std::move(one.question);
    entry.request = std::move(one.request);
  }
  for (Entry& entry : before) {
    if (entry.state == State::running) lane_.cancel();
    keep(std::move(entry));
  }
  start_next();
  Q_EMIT changed();
}

void SideCurves::hold(bool held) {
  held_ = held;
  held ? interrupt() : start_next();
}

const CurveModel* SideCurves::curves(const QString& name) const {
  const Entry* entry = find(name);
  return entry != nullptr ? entry->curves.get() : nullptr;
}

const LaneFailure* SideCurves::failure(const QString& name) const {
  const Entry* entry = find(name);
  return entry != nullptr && entry->failure ? &*entry->failure : nullptr;
}

void SideCurves::put(const CurveQuestion& question, const CurveModel& curves) {
  for (Entry& entry : wanted_) {
    if (entry.question != question || entry.state == State::done) continue;
    if (entry.state == State::running) lane_.cancel();
    entry.curves->adopt(curves);
    entry.state = State::done;
    start_next();
    Q_EMIT changed();
    return;
  }
  if (std::any_of(wanted_.begin(), wanted_.end(), [&](const Entry& e) { return e.question == question; })) return;
  Entry entry{{}, question, {}, std::make_unique<CurveModel>(), {}, State::done};
  entry.curves->adopt(curves);
  keep(std::move(entry));
}

bool SideCurves::take(const CurveQuestion& question, CurveModel& into) const {
  for (const std::vector<Entry>* entries : {&wanted_, &kept_}) {
    for (const Entry& entry : *entries) {
      if (entry.question != question || entry.state != State::done || entry.failure) continue;
      into.adopt(*entry.curves);
      return true;
    }
  }
  return false;
}

bool SideCurves::busy() const {
  return std::any_of(wanted_.begin(), wanted_.end(), [](const Entry& e) { return e.state != State::done; });
}

void SideCurves::set_catalogue(std::shared_ptr<const configs::Catalogue> catalogue) {
  lane_.cancel();
  lane_.set_catalogue(std::move(catalogue));
  kept_.clear();
  wanted_.clear();
}

}  // namespace plimsoll::gui
