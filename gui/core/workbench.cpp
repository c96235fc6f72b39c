// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/workbench.h"

#include <QCryptographicHash>
#include <QDir>
#include <QFileInfo>
#include <QRegularExpression>
#include <QSaveFile>
#include <algorithm>
#include <thread>

#include "gui/core/answer_rows.h"
#include "gui/core/import_form.h"
#include "gui/core/plan_question.h"
#include "gui/core/run_files.h"
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

constexpr std::size_t kColours = 8;  // of a theme

}  // namespace

Workbench::Workbench(int threads, QObject* parent)
    : QObject(parent), catalogue_(load_catalogue()), sides_(catalogue_), lane_(catalogue_, threads) {
  // A drag changes the session many times within a frame; one request a frame is enough.
  coalesce_.setSingleShot(true);
  coalesce_.setInterval(kFrameMs);
  coalesce_.setTimerType(Qt::PreciseTimer);
  connect(&coalesce_, &QTimer::timeout, this, [this] {
    if (!std::exchange(dirty_, false)) return;
    submit();
    if (!is_busy()) Q_EMIT settled();  // the edits cancel each other, so nothing is simulated
  });
  connect(&session_, &Session::changed, this, &Workbench::session_changed);
  connect(&lane_, &CurveLane::outlined, this, [this](quint64 generation, const CurveOutline& outline) {
    failure_.reset();
    awaits_ = awaits_ && generation != generation_;
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
    sides_.hold(false);
    Q_EMIT curves_changed();
  });
  connect(&lane_, &CurveLane::finished, this, [this](quint64 generation) {
    finished_ = generation == generation_;
    if (finished_) sides_.put(*submitted_, curves_);
    finish();
  });
  connect(&lane_, &CurveLane::failed, this, [this](quint64 /*generation*/, const LaneFailure& failure) {
    failure_ = failure;
    awaits_ = false;
    Q_EMIT curves_changed();
    finish();
  });
  connect(&sides_, &SideCurves::changed, this, &Workbench::curves_changed);
  connect(&sides_, &SideCurves::settled, this, [this] {
    if (!is_busy()) Q_EMIT settled();
  });
}

void Workbench::finish() {
  tasks_.set_paused(false);
  sides_.hold(false);
  find_load();
  Q_EMIT settled();
}

CurveQuestion Workbench::question_of(const Scenario& scenario) const {
  return {scenario.file, scenario.document.dump(), scenario.edits,
          refinement_limit(drawn_limit(session_.state().view))};
}

LaneRequest Workbench::request_for(const Scenario& scenario) const {
  return {scenario, true, true, refinement_limit(drawn_limit(session_.state().view))};
}

void Workbench::session_changed() {
  load_tables();
  // The first change is simulated at once; further changes within a frame are combined. Another scenario must not be
  // drawn with the curves of this one.
  if (coalesce_.isActive() && session_.scenario().name == submitted_name_) {
    dirty_ = true;
  } else {
    submit();
    coalesce_.start();
  }
  // What is drawn may change without a new simulation, also by undo.
  const SessionState& state = session_.state();
  std::vector<std::tuple<QString, bool, std::size_t>> scenarios;
  for (const Scenario& scenario : state.scenarios)
    scenarios.emplace_back(scenario.name, scenario.shown, scenario.colour);
  if (seen_view_ == state.view && seen_scenarios_ == scenarios) return;
  seen_view_ = state.view;
  seen_scenarios_ = std::move(scenarios);
  Q_EMIT curves_changed();
}

// The window's tasks and the other scenarios wait until the study is done: the edited curves come first.
void Workbench::submit() {
  const Scenario& scenario = session_.scenario();
  CurveQuestion question = question_of(scenario);
  const bool other = scenario.name != submitted_name_, changed = question != submitted_;
  submitted_name_ = scenario.name;
  if (changed) {
    submitted_ = std::move(question);
    finished_ = sides_.take(*submitted_, curves_);
    if (finished_ || other) failure_.reset();
    awaits_ = !finished_;
    if (finished_) {
      lane_.cancel();
    } else {
      // The former curves of another scenario are drawn as its own.
      if (other) curves_.clear();
      tasks_.set_paused(true);
      sides_.hold(true);
      generation_ = lane_.submit(request_for(scenario));
    }
  }
  want_sides();
  if (!changed) return;
  Q_EMIT curves_changed();
  if (finished_) finish();
}

void Workbench::want_sides() {
  const SessionState& state = session_.state();
  std::vector<SideCurves::Wanted> wanted;
  for (std::size_t i = 0; i < state.scenarios.size(); ++i) {
    const Scenario& scenario = state.scenarios[i];
    if (i != state.current && scenario.shown)
      wanted.push_back({scenario.name, question_of(scenario), request_for(scenario)});
  }
  sides_.want(std::move(wanted));
  // A copied scenario asks the question that has just been answered.
  if (finished_) sides_.put(*submitted_, curves_);
}

const CurveModel* Workbench::curves_of(std::size_t scenario) const {
  const SessionState& state = session_.state();
  return scenario == state.current ? &curves_ : sides_.curves(state.scenarios[scenario].name);
}

const LaneFailure* Workbench::failure_of(std::size_t scenario) const {
  const SessionState& state = session_.state();
  if (scenario == state.current) return failure_ ? &*failure_ : nullptr;
  return sides_.failure(state.scenarios[scenario].name);
}

QString Workbench::curve_name(std::size_t scenario, const Curve& curve) const {
  const std::vector<Scenario>& all = session_.state().scenarios;
  if (curve.name.isEmpty()) return all[scenario].name;
  return all.size() == 1 ? curve.name : QStringLiteral("%1: %2").arg(all[scenario].name, curve.name);
}

std::vector<DrawnCurve> Workbench::drawn() const {
  const SessionState& state = session_.state();
  std::vector<DrawnCurve> out;
  for (std::size_t s = 0; s < state.scenarios.size(); ++s) {
    const Scenario& scenario = state.scenarios[s];
    const CurveModel* model = scenario.shown ? curves_of(s) : nullptr;
    if (model == nullptr) continue;
    for (std::size_t c = 0; c < model->curves().size(); ++c) {
      const Curve& curve = model->curves()[c];
      // A single scenario's curves differ in colour. With several, the colour names the scenario and its shade the
      // curve.
      const std::size_t colour = scenario.colour + (state.scenarios.size() == 1 ? c : c * kColours);
      out.push_back({s, c, model, &curve, curve_name(s, curve), colour, s == state.current, failure_of(s) != nullptr});
    }
  }
  return out;
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
    tables_.push_back({run->name, run->rows, false, run->tool, {}, run->folder});
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
  const OverlayTable table = read_overlay(path);
  session_.edit(tr("Add %1").arg(QFileInfo(file).fileName()), {}, [&](SessionState& s) {
    if (std::find(s.measured.begin(), s.measured.end(), path) == s.measured.end()) s.measured.push_back(path);
    show_rows(s, table.rows);
  });
}

void Workbench::open_trace(const QString& file) {
  session_.edit(tr("Use the trace %1").arg(QFileInfo(file).fileName()), {},
                [&](SessionState& s) { set_trace(s.scenarios[s.current], utf8(file)); });
}

void Workbench::begin(SessionState state, const QString& file) {
  // Set first: the session's signal refreshes what shows the file's name.
  session_file_ = file;
  const bool selected = std::exchange(selection_, std::nullopt).has_value();
  session_.replace(std::move(state));
  if (selected) Q_EMIT selection_changed();
}

void Workbench::open(const QString& file) { read(file)(); }

std::function<void()> Workbench::read(const QString& file) {
  const std::string path = utf8(file);
  const std::string text = is_packed(file) ? std::string() : read_text(file);
  switch (kind_of(file, text)) {
    case FileKind::trace: return [this, file] { open_trace(file); };
    case FileKind::table: return [this, file] { add_measured(file); };
    case FileKind::study: return read_study(file);
    case FileKind::session: return [this, file, state = parse_session(text, path)] { begin(state, file); };
    case FileKind::model:
      static_cast<void>(catalogue_->model(path));
      return [this, file] { set_value(QStringLiteral("model"), file); };
    case FileKind::unknown_json: break;
  }
  throw InputError(Where{path, 0, 0},
                   "is neither a model's config.json nor a result that can be imported: of vllm bench serve, "
                   "guidellm, AIPerf, GenAI-Perf, InferenceX");
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

void Workbench::add(const QString& file) {
  const std::string text = is_packed(file) ? std::string() : read_text(file);
  const FileKind kind = kind_of(file, text);
  if (kind == FileKind::study) {
    Scenario scenario = open_scenario(utf8(file));
    static_cast<void>(make_study(scenario, catalogue_));  // an invalid study is not added
    add_scenarios(tr("Add %1").arg(scenario.name), {scenario});
  } else if (kind == FileKind::session) {
    add_scenarios(tr("Add %1").arg(QFileInfo(file).fileName()), parse_session(text, utf8(file)).scenarios);
  } else {
    open(file);
  }
}

std::function<void()> Workbench::read_study(const QString& file) {
  SessionState state = default_session();
  state.scenarios = {open_scenario(utf8(file))};
  const sched::Slo slo = make_study(state.scenarios.front(), catalogue_).point(0).slo;
  return [this, state = std::move(state), slo]() mutable {
    // A new study keeps the user's choice of metrics.
    state.view = session_.state().view;
    show_slo(slo, state.view);
    begin(state);
  };
}

void Workbench::save(const QString& file) {
  write_file(file, session_text(session_.state()));
  session_file_ = file;  // before the session reports that it is saved
  session_.set_saved();
}

std::string Workbench::study_text() const { return make_study(session_.scenario(), catalogue_).resolved_yaml(); }

void Workbench::save_study(const QString& file) { write_file(file, study_text()); }

QString Workbench::command(const QString& verb, const QString& folder) const {
  const Scenario& scenario = session_.scenario();
  try {
    if (configs::Document::from_file(scenario.file).dump() == scenario.document.dump())
      return command_line(scenario, verb);
  } catch (const std::exception&) {  // a new study has no file, and that of an old one may be gone or damaged
  }
  const std::string text = study_text();
  // The name differs with the text, so that an earlier command keeps its study.
  const QByteArray digest = QCryptographicHash::hash(QByteArray::fromStdString(text), QCryptographicHash::Sha256);
  static const QRegularExpression odd(QStringLiteral("[^\\w.-]+"));
  const QString file = QStringLiteral("%1/%2-%3.yaml")
                           .arg(folder, QString(scenario.name).replace(odd, QStringLiteral("-")),
                                QString::fromLatin1(digest.toHex().left(8)));
  if (!QDir().mkpath(folder)) throw DeviceError(utf8(folder) + " cannot be made");
  write_file(file, text);
  return QStringLiteral("plimsoll %1 %2").arg(verb, shell_quoted(file));
}

void Workbench::reload_catalogue() {
  catalogue_ = load_catalogue();
  lane_.set_catalogue(catalogue_);
  // Forget the stored questions: their answers depend on the catalogue, which is not part of the question.
  sides_.set_catalogue(catalogue_);
  submitted_.reset();
  finished_ = false;
  asked_details_.reset();
  asked_load_.reset();
  submit();
}

void Workbench::select(const Selection& selection) {
  if (selection_ == selection) return;
  selection_ = selection;
  Q_EMIT selection_changed();
}

}  // namespace plimsoll::gui
