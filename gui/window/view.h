// SPDX-License-Identifier: GPL-3.0-or-later
// A view: a picture of the workbench, its data as a table, and its name for menus and `--view`.
#pragma once

#include <QStringList>
#include <QTableWidgetItem>
#include <QWidget>
#include <optional>
#include <vector>

#include "gui/core/workbench.h"
#include "gui/plot/plot_view.h"

namespace plimsoll::gui {

/// The data of a picture, for assistive technology, the clipboard and CSV.
struct TableData {
  QStringList headers;
  std::vector<QStringList> rows;
};
/// What an exported picture shows of a view: its charts from top to bottom, without controls, and the text below them.
struct PictureParts {
  std::vector<QWidget*> charts;
  QStringList text;
};
/// Formats the table as in RFC 4180 for ",", or as tab-separated text for "\t".
[[nodiscard]] QString table_text(const TableData& table, QChar separator);

/// Shows or hides a row of text below a plot. Until the results have `settled`, a row on the screen stays and does not
/// become lower, so that the plot keeps its height.
void show_row(QWidget& row, bool shown, bool settled);

/// Views keep no results: they draw those of the workbench, which outlives them.
class View : public QWidget {
  Q_OBJECT
 public:
  explicit View(Workbench& bench, QWidget* parent = nullptr) : QWidget(parent), bench_(bench) {}
  /// Returns the name that `--view` and --list-views use.
  [[nodiscard]] virtual QString id() const = 0;
  /// Returns the translated name for menus and tabs.
  [[nodiscard]] virtual QString title() const = 0;
  /// Draws the workbench's results; cheap if nothing has changed. Parts may follow a few milliseconds later.
  virtual void refresh() = 0;
  /// Draws what refresh() has left for later.
  virtual void complete() {}
  virtual void set_theme(const Theme& theme) = 0;
  /// Returns the figures of the picture.
  [[nodiscard]] virtual TableData table() const = 0;
  /// Returns what an exported picture shows (picture.h).
  [[nodiscard]] virtual PictureParts picture() const = 0;
  [[nodiscard]] const Workbench& bench() const { return bench_; }
  /// Starts computations that the picture needs in addition to the curves. Called when the view comes to the front.
  virtual void prepare() {}
  virtual void reset_zoom() {}
  virtual void zoom_back() {}
  /// Returns true when every result that the view requested has arrived.
  [[nodiscard]] virtual bool is_ready() const { return true; }

 Q_SIGNALS:
  void message(const QString& text);  // for the status bar

 protected:
  Workbench& bench_;
};

/// Returns every series of a plot as rows: series, x, y, and the half-width of the interval if any point has one.
[[nodiscard]] TableData table_of(const PlotContent& content);

/// A table cell that sorts by its number if it has one, else by its text. Numbers come first.
class SortedItem final : public QTableWidgetItem {
 public:
  SortedItem(const QString& text, std::optional<double> number) : QTableWidgetItem(text), number_(number) {
    if (number_) setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
  }
  void show(const QString& now, std::optional<double> number) {
    number_ = number;
    if (text() != now) setText(now);
  }
  bool operator<(const QTableWidgetItem& other) const override {
    const auto* item = dynamic_cast<const SortedItem*>(&other);
    const std::optional<double> theirs = item != nullptr ? item->number_ : std::nullopt;
    if (number_ && theirs) return *number_ < *theirs;
    return number_ || (!theirs && text() < other.text());
  }

 private:
  std::optional<double> number_;
};

}  // namespace plimsoll::gui
