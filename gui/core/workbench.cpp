// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/workbench.h"

#include <QFileInfo>
#include <QSaveFile>
#include <algorithm>
#include <thread>

#include "gui/core/file_kind.h"
#include "gui/core/plan_question.h"
#include "gui/core/text.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

constexpr int kFrameMs = 16;

// Writes a temporary file and renames it, so a failure leaves the old file intact.
void write_file(const QString& file, const std::string& text) {
  QSaveFile out(file);
  const QByteArray bytes = QByteArray::fromStdString(text);
  if (!out.open(QIODevice::WriteOnly) || out.write(bytes) != bytes.size() || !out.commit()) {
    throw DeviceError(utf8(file) + " cannot be written: " + utf8(out.errorString()));
  }
}

void add_run_files(PointDetails& details, const std::string& folder, std::size_t index) {
  if (folder.empty()) return;
  try {
    details.measured = read_run_files(folder, index);
    details.measured_from = qs(folder);
  } catch (const std::exception& error) {  // the simulated results are still useful
    details.measured_from = qs(error.what());
  }
}

// Describes this machine before it is calibrated. The window links no executor that could probe it, so it uses the
// catalogue's typical CPU, and every point is marked as not calibrated.
configs::ThisMachine assumed_machine(const std::string& device) {
  if (device != "cpu")
    throw InputError(
        "the window cannot detect this machine's GPU: state hardware as {accelerator: h100-sxm, count: "
        "1}");
  const configs::Catalogue catalogue;  // the caller's catalogue is busy with this call
  model::Accelerator typical = *catalogue.accelerator("generic-cpu");
  typical.id = "this-machine";
  typical.fit_source = "this machine is not calibrated: a typical CPU is assumed; Run > Calibrate this machine";
  configs::ThisMachine machine;
  machine.description = "not calibrated";
  machine.cores = static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  machine.shares.push_back({.accelerator = std::make_shared<const model::Accelerator>(std::move(typical))});
  machine.interconnect = catalogue.interconnect("shared-memory");
  return machine;
}

std::shared_ptr<const configs::Catalogue> load_catalogue() {
  auto catalogue = std::make_shared<configs::Catalogue>();
  catalogue->set_machine_probe(assumed_machine);
  return catalogue;
}

// Returns a name that no scenario has.
QString fresh_name(const std::vector<Scenario>& scenarios, const QString& base) {
  for (int i = 2;; ++i) {
    const QString name = QStringLiteral("%1 %2").arg(base).arg(i);
    if (std::none_of(scenarios.begin(), scenarios.end(), [&](const Scenario& s) { return s.name == name; }))
      return name;
  }
}

}  // namespace

Workbench::Workbench(int threads, QObject* parent)
    : QObject(parent), catalogue_(load_catalogue()), lane_(catalogue_, threads), compared_lane_(catalogue_, 1) {
  // A drag changes the session many times within a frame; one request a frame is enough.
  coalesce_.setSingleShot(true);
  coalesce_.setInterval(kFrameMs);
  coalesce_.setTimerType(Qt::PreciseTimer);
  connect(&coalesce_, &QTimer::timeout, this, [this] {
    if (std::exchange(dirty_, false)) submit();
  });
  connect(&session_, &Session::changed, this, &Workbench::session_changed);
  connect(&lane_, &CurveLane::outlined, this, [this](quint64 generation, const CurveOutline& outline) {
    failure_.reset();
    curves_.begin(generation, outline);
    Q_EMIT curves_changed();
  });
  connect(&lane_, &CurveLane::points, this, [this](quint64 generation, const std::vector<LanePoint>& points) {
    curves_.add(generation, points);
    Q_EMIT curves_changed();
  });
  connect(&lane_, &CurveLane::study_done, this, [this](quint64 generation, double seconds) {
    last_seconds_ = seconds;
    curves_.complete(generation);
    tasks_.set_paused(false);  // refined points and bands must not delay a timeline
    Q_EMIT curves_changed();
  });
  connect(&lane_, &CurveLane::finished, this, &Workbench::finish);
  connect(&lane_, &CurveLane::failed, this, [this](quint64 generation, const LaneFailure& failure) {
    failure_ = failure;
    Q_EMIT curves_changed();
    finish(generation);
  });
  // The compared curve has a lane of its own with one thread, which never delays the edited one.
  connect(&compared_lane_, &CurveLane::outlined, &compared_, &CurveModel::begin);
  connect(&compared_lane_, &CurveLane::points, &compared_, &CurveModel::add);
  connect(&compared_lane_, &CurveLane::study_done, this, [this](quint64 generation, double /*seconds*/) {
    compared_.complete(generation);
    Q_EMIT curves_changed();
  });
  connect(&compared_lane_, &CurveLane::failed, this, [this] { compared_.clear(); });
}

void Workbench::finish(quint64 /*generation*/) {
  tasks_.set_paused(false);
  Q_EMIT settled();
}

// Returns everything that the curves depend on. Equal questions have equal answers, so they are not simulated again.
Workbench::CurveQuestion Workbench::question_of(const Scenario& scenario, const ViewState& view) {
  // Points are refined around the limit of this metric only, so other limits do not change the curves.
  const bool refines = view.y == "latency_per_token_p90_s";
  return {scenario.file, scenario.document.dump(), scenario.edits, refines ? view.limit : 0};
}

LaneRequest Workbench::request_for(const Scenario& scenario) const {
  const ViewState& view = session_.state().view;
  const Metric* y = find_metric(view.y);
  const bool per_token = view.y == "latency_per_token_p90_s" && y != nullptr;
  return {scenario, true, true, per_token ? view.limit / y->scale : 0};
}

void Workbench::session_changed() {
  load_tables();
  // The first change is simulated at once; further changes within a frame are combined.
  if (coalesce_.isActive()) {
    dirty_ = true;
  } else {
    submit();
    coalesce_.start();
  }
}

// Pauses the window's tasks until the study is done: the curves come first.
void Workbench::submit() {
  CurveQuestion question = question_of(session_.scenario(), session_.state().view);
  if (question != submitted_) {
    submitted_ = std::move(question);
    tasks_.set_paused(true);
    lane_.submit(request_for(session_.scenario()));
  }
  submit_compared();
}

// Simulates scenario B without refined points and bands, at the points of its study only.
void Workbench::submit_compared() {
  const auto& other = session_.state().compared;
  if (!other || *other == session_.state().current) {
    if (submitted_compared_) {
      submitted_compared_.reset();
      compared_lane_.cancel();
      compared_.clear();
      Q_EMIT curves_changed();
    }
    return;
  }
  const Scenario& scenario = session_.state().scenarios[*other];
  CurveQuestion question = question_of(scenario, {});
  if (question == submitted_compared_) return;
  submitted_compared_ = std::move(question);
  compared_lane_.submit({scenario, false, false, 0});
}

void Workbench::read_files() {
  files_.clear();
  loaded_ = session_.state().measured;
  for (const std::string& file : loaded_) {
    try {
      files_.push_back(read_overlay(file));
    } catch (const std::exception& error) {  // a session may outlive the files that were added to it
      files_.push_back({qs(file), {}, false, {}, {qs(error.what())}, {}});
    }
  }
}

// Reads the session's tables again if the list of files changed. The published tables are read once.
void Workbench::load_tables() {
  const bool same_files = published_read_ && loaded_ == session_.state().measured;
  if (same_files && loaded_runs_ == session_.state().runs) return;
  if (!published_read_) {
    published_ = published_tables();
    published_read_ = true;
  }
  // The files are not read again for the points of a live run.
  if (!same_files) read_files();
  loaded_runs_ = session_.state().runs;
  tables_ = published_;
  tables_.insert(tables_.end(), files_.begin(), files_.end());
  for (const auto& run : loaded_runs_) {
    tables_.push_back({run->name, run->rows, false, {}, {}, run->folder});
    if (!run->note.isEmpty()) tables_.back().notes.push_back(run->note);
  }
  Q_EMIT overlays_changed();
}

const LanePoint* Workbench::selected_point() const {
  return selection_ ? curves_.find(selection_->curve, selection_->load) : nullptr;
}

const PointDetails* Workbench::details() {
  if (!curves_.is_complete() || curves_.curves().empty()) return nullptr;
  const LanePoint* point = selected_point();
  if (point == nullptr) {
    std::vector<const LanePoint*> stated;  // the study's own points: refined points change with the SLO line
    for (const LanePoint& one : curves_.curves().back().points) {
      if (one.stage == PointStage::study) stated.push_back(&one);
    }
    if (stated.empty()) return nullptr;
    // Without a selection, show the middle load.
    point = stated[stated.size() / 2];
  }
  const double load = point->row.result.labels.load_value;
  const auto [folder, measured_index] = run_of(*point);
  const DetailQuestion question{submitted_, point->curve, load, folder};
  // An equal question is not simulated again, even while its answer is still being computed.
  if (question == asked_details_) return details_ ? &*details_ : nullptr;
  asked_details_ = question;
  details_.reset();
  details_failure_.clear();
  const QString curve = curves_.curves()[point->curve].name;
  const QString name = curve.isEmpty() ? session_.scenario().name : curve;
  tasks_.start(tr("Point in detail"),
               [this, question, name, load, folder = folder, measured_index = measured_index, index = point->index,
                scenario = session_.scenario(), catalogue = catalogue_](study::RunControl& control) {
                 std::optional<PointDetails> found;
                 QString failure;
                 try {
                   found = simulate_details(make_study(scenario, catalogue), index, load, control);
                   found->name = name;
                   add_run_files(*found, folder, measured_index);
                 } catch (const std::exception& error) {
                   failure = qs(error.what());
                 }
                 return std::function<void()>([this, question, found = std::move(found), failure] {
                   // Another point was selected while this one was simulated.
                   if (question != asked_details_) return;
                   details_ = found;
                   details_failure_ = failure;
                   Q_EMIT details_changed();
                 });
               });
  return nullptr;
}

// Returns the folder and point index of this point's measured run; an empty folder if there is none.
std::pair<std::string, std::size_t> Workbench::run_of(const LanePoint& point) const {
  for (const OverlayPoint& measured : overlay_points(curves_, tables_)) {
    const study::PointResult& result = measured.row->result;
    if (measured.curve != point.curve || result.labels.load_value != point.row.result.labels.load_value) continue;
    if (has_run_files(measured.table->folder, result.index)) return {measured.table->folder, result.index};
  }
  return {};
}

void Workbench::add_measured(const QString& file) {
  const std::string path = utf8(QFileInfo(file).absoluteFilePath());
  // Read before it is added: a file that cannot be read must not enter the session.
  static_cast<void>(read_overlay(path));
  session_.edit(tr("Add %1").arg(QFileInfo(file).fileName()), {}, [&](SessionState& s) {
    if (std::find(s.measured.begin(), s.measured.end(), path) == s.measured.end()) s.measured.push_back(path);
  });
}

void Workbench::open_trace(const QString& file) {
  session_.edit(tr("Use the trace %1").arg(QFileInfo(file).fileName()), {},
                [&](SessionState& s) { set_trace(s.scenarios[s.current], utf8(file)); });
}

void Workbench::open(const QString& file) {
  const std::string path = utf8(file);
  const std::string text = is_packed(file) ? std::string() : read_text(file);
  switch (kind_of(file, text)) {
    case FileKind::trace: return open_trace(file);
    case FileKind::table: return add_measured(file);
    case FileKind::study: return open_study(file);
    case FileKind::session:
      session_.replace(parse_session(text, path));
      session_file_ = file;
      return;
    case FileKind::model: static_cast<void>(catalogue_->model(path)); return set_value(QStringLiteral("model"), file);
    case FileKind::unknown_json:
      throw InputError(Where{path, 0, 0},
                       "is neither a model's config.json nor a result that can be imported: of vllm bench serve, "
                       "guidellm, AIPerf, GenAI-Perf, InferenceX");
  }
}

bool Workbench::replaces_session(const QString& file) {
  if (is_packed(file)) return false;
  try {
    const FileKind kind = kind_of(file, read_text(file));
    return kind == FileKind::session || kind == FileKind::study;
  } catch (const std::exception&) {  // open() reports the reason later
    return false;
  }
}

void Workbench::open_study(const QString& file) {
  SessionState state = default_session();
  state.scenarios = {open_scenario(utf8(file))};
  const study::Study study = make_study(state.scenarios.front(), catalogue_);
  // A new study keeps the user's choice of metrics.
  state.view = session_.state().view;
  show_slo(study.point(0).slo, state.view);
  session_.replace(std::move(state));
  session_file_.clear();
}

void Workbench::save(const QString& file) {
  write_file(file, session_text(session_.state()));
  session_file_ = file;
  session_.set_saved();
}

std::string Workbench::study_text() const { return make_study(session_.scenario(), catalogue_).resolved_yaml(); }

void Workbench::save_study(const QString& file) { write_file(file, study_text()); }

void Workbench::reload_catalogue() {
  catalogue_ = load_catalogue();
  lane_.set_catalogue(catalogue_);
  // Forget the stored questions: their answers depend on the catalogue, which is not part of the question.
  compared_lane_.set_catalogue(catalogue_);
  submitted_.reset();
  submitted_compared_.reset();
  asked_details_.reset();
  submit();
}

void Workbench::set_value(const QString& path, const QString& text) {
  session_.edit(tr("Set %1").arg(path), QStringLiteral("set ") + path, [&](SessionState& s) {
    Scenario& scenario = s.scenarios[s.current];
    if (path == QStringLiteral("engine"))
      set_engine(scenario, text);
    else
      set_field(scenario, utf8(path), text);
  });
}

void Workbench::change_load(const QString& kind, const QString& values) {
  session_.edit(tr("Change the load"), {}, [&](SessionState& s) { set_load(s.scenarios[s.current], kind, values); });
}

void Workbench::set_view(const QString& label, const QString& merge, const std::function<void(ViewState&)>& change) {
  session_.edit(label, merge, [&](SessionState& s) { change(s.view); });
  Q_EMIT curves_changed();
}

void Workbench::duplicate_scenario() {
  session_.edit(tr("Duplicate the scenario"), {}, [](SessionState& s) {
    Scenario copy = s.scenarios[s.current];
    copy.name = fresh_name(s.scenarios, copy.name);
    s.scenarios.push_back(std::move(copy));
    s.compared = s.current;
    s.current = s.scenarios.size() - 1;
  });
}

void Workbench::remove_scenario(std::size_t index) {
  if (session_.state().scenarios.size() < 2) return;
  session_.edit(tr("Remove a scenario"), {}, [&](SessionState& s) {
    s.scenarios.erase(s.scenarios.begin() + static_cast<std::ptrdiff_t>(index));
    s.compared.reset();
    s.current = std::min(s.current, s.scenarios.size() - 1);
  });
}

void Workbench::choose_scenario(std::size_t index) {
  if (index == session_.state().current) return;
  session_.edit(tr("Choose a scenario"), {}, [&](SessionState& s) { s.current = index; });
}

void Workbench::compare_with(std::optional<std::size_t> index) {
  session_.edit(tr("Compare"), {}, [&](SessionState& s) { s.compared = index; });
}

void Workbench::swap_compared() {
  if (!session_.state().compared) return;
  session_.edit(tr("Swap A and B"), {}, [](SessionState& s) {
    const std::size_t other = *s.compared;
    s.compared = s.current;
    s.current = other;
  });
}

void Workbench::toggle_pin(const Pin& pin) {
  session_.edit(tr("Pin"), {}, [&](SessionState& s) {
    const auto found = std::find(s.pins.begin(), s.pins.end(), pin);
    if (found != s.pins.end())
      s.pins.erase(found);
    else
      s.pins.push_back(pin);
  });
  Q_EMIT curves_changed();
}

void Workbench::select(const Selection& selection) {
  if (selection_ == selection) return;
  selection_ = selection;
  Q_EMIT selection_changed();
}

}  // namespace plimsoll::gui
