// SPDX-License-Identifier: GPL-3.0-or-later
// The workbench's edits: fields, loads, the view, the list of scenarios. Each is one step that can be undone.
#include <QRegularExpression>
#include <algorithm>
#include <array>
#include <map>

#include "gui/core/answer_rows.h"
#include "gui/core/load_range.h"
#include "gui/core/text.h"
#include "gui/core/workbench.h"

namespace plimsoll::gui {
namespace {

// Returns `wanted`, or that name with a number if a scenario has it. A number at its end is replaced.
QString fresh_name(const std::vector<Scenario>& scenarios, const QString& wanted) {
  const auto is_free = [&](const QString& name) {
    return std::none_of(scenarios.begin(), scenarios.end(), [&](const Scenario& s) { return s.name == name; });
  };
  if (is_free(wanted)) return wanted;
  static const QRegularExpression number(QStringLiteral(" \\d+$"));
  const QString base = QString(wanted).remove(number);
  for (int i = 2;; ++i) {
    const QString name = QStringLiteral("%1 %2").arg(base).arg(i);
    if (is_free(name)) return name;
  }
}

// The theme's colours in the order in which scenarios get them. Black is left for the Pareto front; the sixth is close
// to the first.
constexpr std::array<std::size_t, 7> kScenarioColours = {0, 1, 2, 3, 4, 7, 5};

std::size_t fresh_colour(const std::vector<Scenario>& scenarios) {
  for (const std::size_t colour : kScenarioColours) {
    if (std::none_of(scenarios.begin(), scenarios.end(), [&](const Scenario& s) { return s.colour == colour; }))
      return colour;
  }
  return kScenarioColours[scenarios.size() % kScenarioColours.size()];
}

QString values_text(const std::vector<double>& loads) {
  QStringList words;
  for (const double load : loads) words << qs(study::number_text(load));
  return words.join(QStringLiteral(", "));
}

// Returns the footprint of a scenario whose curves all have the same number of replicas on the same number of GPUs.
std::optional<Footprint> single_footprint(const CurveModel& model) {
  const std::vector<Footprint>& all = model.outline().footprints;
  const auto differs = [&](const Footprint& f) {
    return f.gpus != all.front().gpus || f.replicas != all.front().replicas || f.paid != all.front().paid;
  };
  // It is not known which of two pools should get more replicas.
  if (all.empty() || !all.front().pools.isEmpty() || std::any_of(all.begin(), all.end(), differs)) return {};
  return all.front();
}

}  // namespace

void Workbench::set_value(const QString& path, const QString& text) {
  session_.edit(tr("Set %1").arg(path), QStringLiteral("set ") + path, [&](SessionState& s) {
    Scenario& scenario = s.scenarios[s.current];
    if (path == QStringLiteral("engine"))
      set_engine(scenario, text);
    else
      set_field(scenario, utf8(path), text);
  });
}

std::optional<std::int64_t> Workbench::filling_replicas() const {
  const auto footprint = failure_ ? std::nullopt : single_footprint(curves_);
  if (!footprint || footprint->gpus == 0 || footprint->fitting_replicas <= footprint->replicas) return {};
  return footprint->fitting_replicas;
}

void Workbench::fill_instances() {
  if (const auto replicas = filling_replicas())
    set_value(QStringLiteral("deployment.replicas"), QString::number(*replicas));
}

QStringList Workbench::equalise_gpus() {
  const SessionState& state = session_.state();
  std::vector<std::pair<std::size_t, Footprint>> found;
  QStringList inexact;
  std::int64_t most = 0;
  for (std::size_t s = 0; s < state.scenarios.size(); ++s) {
    if (!state.scenarios[s].shown) continue;
    const CurveModel* model = curves_of(s);
    const auto footprint = model != nullptr && failure_of(s) == nullptr ? single_footprint(*model) : std::nullopt;
    if (footprint && footprint->gpus > 0) {
      found.emplace_back(s, *footprint);
      most = std::max(most, footprint->gpus);
    } else {
      inexact << state.scenarios[s].name;
    }
  }
  session_.edit(tr("Use equal numbers of GPUs"), {}, [&](SessionState& s) {
    for (const auto& [index, footprint] : found) {
      const std::int64_t replicas = std::max<std::int64_t>(1, most / footprint.gpus_per_replica());
      if (replicas * footprint.gpus_per_replica() != most) inexact << s.scenarios[index].name;
      if (replicas != footprint.replicas)
        set_field(s.scenarios[index], "deployment.replicas", QString::number(replicas));
    }
  });
  return inexact;
}

void Workbench::lengthen_runs(std::size_t scenario, qint64 requests) {
  if (scenario >= session_.state().scenarios.size()) return;
  session_.edit(tr("Simulate more requests"), {}, [&](SessionState& s) {
    set_field(s.scenarios[scenario], "workload.requests", QString::number(requests));
  });
}

void Workbench::change_load(const QString& kind, const QString& values) {
  const bool kind_only = values == load_field(session_.scenario()).values;
  session_.edit(tr("Change the load"), {}, [&](SessionState& s) {
    Scenario& scenario = s.scenarios[s.current];
    set_load(scenario, kind, values);
    // Loads that the user states are never replaced by found ones.
    if (!kind_only) scenario.finds_load = false;
  });
}

std::optional<Workbench::LoadQuestion> Workbench::load_question() const {
  Scenario scenario = session_.scenario();
  const LoadField field = load_field(scenario);
  if (!scenario.finds_load || failure_ || field.kind.isEmpty() || field.values.isEmpty()) return {};
  set_load(scenario, field.kind, QStringLiteral("1"));  // whatever the loads are now
  const ViewState& view = session_.state().view;
  return LoadQuestion{question_of(scenario), view.limit > 0 ? view.y : std::string(), view.limit, view.margin};
}

// Searches the loads of a scenario that finds them by itself, unless nothing has changed since the last search.
void Workbench::find_load() {
  const auto question = load_question();
  if (!question || question == asked_load_) return;
  asked_load_ = question;
  tasks_.start(tr("Load range"), [this, question, scenario = session_.scenario(), catalogue = catalogue_,
                                  limit = drawn_limit(session_.state().view)](study::RunControl& control) {
    std::vector<double> loads;
    try {
      loads = find_loads(scenario, catalogue, limit, control);
    } catch (const std::exception&) {
      loads.clear();  // the curves report what is wrong with the scenario
    }
    return std::function<void()>([this, question, loads] {
      // The scenario has changed meanwhile; its new loads are searched when its curves are complete.
      if (loads.empty() || load_question() != question) return;
      const LoadField field = load_field(session_.scenario());
      if (field.values != values_text(loads))
        session_.amend([&](SessionState& s) { set_load(s.scenarios[s.current], field.kind, values_text(loads)); });
    });
  });
}

void Workbench::follow_load(bool on) {
  asked_load_.reset();
  session_.edit(on ? tr("Find the loads") : tr("Keep the loads"), {},
                [&](SessionState& s) { s.scenarios[s.current].finds_load = on; });
  if (!is_busy()) find_load();
}

void Workbench::find_all_loads() {
  tasks_.start(tr("Load ranges"), [this, scenarios = session_.state().scenarios, catalogue = catalogue_,
                                   limit = drawn_limit(session_.state().view)](study::RunControl& control) {
    std::map<QString, std::pair<QString, std::vector<double>>> found;  // kind and loads, by scenario
    for (const Scenario& scenario : scenarios) {
      try {
        if (scenario.shown)
          found[scenario.name] = {load_field(scenario).kind, find_loads(scenario, catalogue, limit, control)};
      } catch (const std::exception&) {
        continue;  // the curves report what is wrong with the scenario
      }
    }
    return std::function<void()>([this, found] {
      session_.edit(tr("Find the loads"), {}, [&](SessionState& s) {
        for (Scenario& scenario : s.scenarios) {
          const auto entry = found.find(scenario.name);
          if (entry == found.end() || entry->second.second.empty()) continue;
          const auto& [kind, loads] = entry->second;
          if (load_field(scenario).kind == kind) set_load(scenario, kind, values_text(loads));
        }
      });
    });
  });
}

void Workbench::set_view(const QString& label, const QString& merge, const std::function<void(ViewState&)>& change) {
  session_.edit(label, merge, [&](SessionState& s) { change(s.view); });
}

void Workbench::duplicate_scenario() {
  add_copy(tr("Duplicate the scenario"), [](Scenario& /*unchanged*/) {});
}

void Workbench::add_copy(const QString& label, const std::function<void(Scenario&)>& change) {
  session_.edit(label, {}, [&](SessionState& s) {
    Scenario copy = s.scenarios[s.current];
    change(copy);
    copy.name = fresh_name(s.scenarios, copy.name);
    copy.colour = fresh_colour(s.scenarios);
    copy.shown = true;
    s.compared = s.current;
    s.current = s.scenarios.size();
    s.scenarios.push_back(std::move(copy));
  });
}

void Workbench::add_scenarios(const QString& label, std::vector<Scenario> scenarios) {
  if (scenarios.empty()) return;
  session_.edit(label, {}, [&](SessionState& s) {
    s.current = s.scenarios.size();
    for (Scenario& scenario : scenarios) {
      scenario.name = fresh_name(s.scenarios, scenario.name);
      scenario.colour = fresh_colour(s.scenarios);
      s.scenarios.push_back(std::move(scenario));
    }
  });
}

void Workbench::rename_scenario(std::size_t index, const QString& name) {
  const QString wanted = name.simplified(), before = session_.state().scenarios[index].name;
  if (wanted.isEmpty() || wanted == before) return;
  session_.edit(tr("Rename the scenario"), {}, [&](SessionState& s) {
    s.scenarios[index].name.clear();
    const QString fresh = fresh_name(s.scenarios, wanted);
    s.scenarios[index].name = fresh;
    for (Pin& pin : s.pins) {
      if (pin.scenario == before) pin.scenario = fresh;
    }
  });
}

void Workbench::show_scenario(std::size_t index, bool shown) {
  if (session_.state().scenarios[index].shown == shown) return;
  session_.edit(shown ? tr("Show a scenario") : tr("Hide a scenario"), {},
                [&](SessionState& s) { s.scenarios[index].shown = shown; });
}

void Workbench::colour_scenario(std::size_t index, std::size_t colour) {
  if (session_.state().scenarios[index].colour == colour) return;
  session_.edit(tr("Colour a scenario"), {}, [&](SessionState& s) { s.scenarios[index].colour = colour; });
}

void Workbench::remove_scenario(std::size_t index) {
  if (session_.state().scenarios.size() < 2) return;
  session_.edit(tr("Remove a scenario"), {}, [&](SessionState& s) {
    s.scenarios.erase(s.scenarios.begin() + static_cast<std::ptrdiff_t>(index));
    if (s.compared == index) s.compared.reset();
    if (s.compared && *s.compared > index) --*s.compared;
    if (s.current > index || s.current == s.scenarios.size()) --s.current;
    if (s.compared == s.current) s.compared.reset();
  });
}

void Workbench::choose_scenario(std::size_t index) {
  if (index == session_.state().current) return;
  session_.edit(tr("Choose a scenario"), {}, [&](SessionState& s) {
    // The scenario that was compared with is now itself shown as the current one.
    if (s.compared == index) s.compared = s.current;
    s.current = index;
  });
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

}  // namespace plimsoll::gui
