// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/answer_card.h"

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QPainter>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QStyledItemDelegate>
#include <QTableWidget>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <iterator>

#include "gui/core/text.h"
#include "gui/plot/plot_painter.h"
#include "gui/window/flow_layout.h"
#include "study/file/cell.h"

namespace plimsoll::gui {

/// A cell of the table: what it shows, and the number that it sorts by.
struct AnswerCard::Column {
  QString title;
  QString text;
  std::optional<double> number = {};
  bool figure = false;  // the number is the whole cell, which is copied with all its digits
};

namespace {

constexpr QChar kIndent(0x2003);  // as wide as the letter m
constexpr int kMostRows = 5;      // more are scrolled
constexpr int kNameRole = Qt::UserRole + 1, kScenarioRole = Qt::UserRole + 2, kLookRole = Qt::UserRole + 3;

/// Keeps texts away from the figures on their left, which end at the edge of their column.
class Indented final : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

 protected:
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    QStyledItemDelegate::initStyleOption(option, index);
    const bool text = (option->displayAlignment & Qt::AlignLeft) != 0;
    if (index.column() > 0 && text && !option->text.isEmpty()) option->text.prepend(kIndent);
  }
};

std::optional<double> carried(const AnswerRow& row, double value) {
  return row.answer && row.answer->carried ? std::optional(value) : std::nullopt;
}

QIcon swatch(const DrawnCurve& drawn, const Theme& theme, double ratio) {
  const QSize size(26, 14);
  QPixmap pixmap(size * ratio);
  pixmap.setDevicePixelRatio(ratio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  PlotSeries series;
  series.colour = drawn.colour;
  if (drawn.stale) series.line = LineLook::faded;
  draw_swatch(painter, QRectF(QPointF(1, 0), QSizeF(24, 14)), series, theme);
  return QIcon(pixmap);
}

// Returns the answer of one row, with the name of its curve if there are others.
QString headline_of(const AnswerRow& row, bool named, bool limited) {
  const SloAnswer& answer = *row.answer;
  QString text = row.verdict + QChar(u' ') + (named ? row.drawn.name + QStringLiteral(": ") : QString()) + row.load;
  if (limited && answer.every) text += AnswerCard::tr(" (every simulated load)");
  text += QStringLiteral(" · ") +
          AnswerCard::tr("%1 tokens/s").arg(reader_text(answer.tokens_per_s, answer.between ? 3 : 4));
  if (answer.usd_per_million)
    text += QStringLiteral(" · ") + AnswerCard::tr("%1 USD/M tokens").arg(reader_text(*answer.usd_per_million, 3));
  return text;
}

}  // namespace

AnswerCard::AnswerCard(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 2, 0, 0);
  column->setSpacing(2);
  auto* first = new QHBoxLayout();
  headline_ = new QLabel(this);
  QFont font = headline_->font();
  font.setPointSizeF(1.15 * font.pointSizeF());
  font.setWeight(QFont::DemiBold);
  headline_->setFont(font);
  headline_->setWordWrap(true);
  headline_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  headline_->setAccessibleName(tr("Answer"));
  auto* copy = new QToolButton(this);
  copy->setText(tr("Copy"));
  copy->setToolTip(tr("Copy the table of answers"));
  copy->setAccessibleName(copy->toolTip());
  copy->setAutoRaise(true);
  connect(copy, &QToolButton::clicked, this, &AnswerCard::copy);
  longer_ = new QToolButton(this);
  longer_->setToolTip(tr("With this many requests a run shows whether the deployment keeps up with this load"));
  longer_->setAccessibleName(tr("Simulate enough requests"));
  longer_->hide();
  connect(longer_, &QToolButton::clicked, this, [this] { Q_EMIT longer_runs_wanted(offered_.first, offered_.second); });
  first->addWidget(headline_, 1);
  first->addWidget(longer_, 0, Qt::AlignTop);
  first->addWidget(copy, 0, Qt::AlignTop);
  column->addLayout(first);
  limits_ = new QLabel(this);
  limits_->setWordWrap(true);
  limits_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  limits_->setAccessibleName(tr("Limits"));
  column->addWidget(limits_);
  chips_ = new QWidget(this);
  new FlowLayout(chips_);
  column->addWidget(chips_);
  make_rows();
  column->addWidget(rows_);
  make_actions();
}

void AnswerCard::make_rows() {
  rows_ = new QTableWidget(this);
  rows_->setAccessibleName(tr("What each curve carries; the check boxes show and hide curves"));
  rows_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  rows_->setSelectionBehavior(QAbstractItemView::SelectRows);
  rows_->setSelectionMode(QAbstractItemView::SingleSelection);
  rows_->setTabKeyNavigation(false);
  rows_->setFrameShape(QFrame::NoFrame);
  rows_->setShowGrid(false);
  rows_->setAlternatingRowColors(true);
  rows_->setWordWrap(false);
  rows_->setIconSize(QSize(26, 14));
  rows_->setItemDelegate(new Indented(rows_));
  rows_->verticalHeader()->hide();
  rows_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
  rows_->horizontalHeader()->setHighlightSections(false);
  rows_->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  rows_->horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
  rows_->setSortingEnabled(true);
  rows_->installEventFilter(this);
  connect(rows_, &QTableWidget::itemChanged, this, [this](const QTableWidgetItem* item) {
    if (item->column() == 0) toggle(item->row());
  });
  connect(rows_, &QTableWidget::cellActivated, this,
          [this](int row) { Q_EMIT chosen(rows_->item(row, 0)->data(kScenarioRole).toULongLong()); });
}

void AnswerCard::make_actions() {
  rows_->setContextMenuPolicy(Qt::ActionsContextMenu);
  const auto add = [&](const QString& text, const auto& run) {
    auto* action = new QAction(text, rows_);
    connect(action, &QAction::triggered, this, run);
    rows_->addAction(action);
  };
  add(tr("Copy the table"), [this] { copy(); });
  add(tr("Show this curve alone"), [this] { show_alone(rows_->currentRow()); });
  add(tr("Show all curves"), [this] {
    hidden_.clear();
    Q_EMIT changed();
  });
}

// Ctrl+C copies the table; the base class would copy one cell.
bool AnswerCard::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(event)->matches(QKeySequence::Copy)) {
    copy();
    return true;
  }
  return QWidget::eventFilter(watched, event);
}

void AnswerCard::copy() const { QApplication::clipboard()->setText(table_text(table(), QChar(u'\t'))); }

void AnswerCard::toggle(int row) {
  const QTableWidgetItem* item = rows_->item(row, 0);
  const QString name = item->data(kNameRole).toString();
  const bool hides = item->checkState() == Qt::Unchecked;
  if (hides == hidden_.contains(name)) return;
  hides ? void(hidden_.insert(name)) : void(hidden_.erase(name));
  // Emits later, because the slot fills the table again, which must not happen while the table handles this item.
  QMetaObject::invokeMethod(this, &AnswerCard::changed, Qt::QueuedConnection);
}

void AnswerCard::show_alone(int row) {
  if (row < 0) return;
  hidden_.clear();
  for (int r = 0; r < rows_->rowCount(); ++r) {
    if (r != row) hidden_.insert(rows_->item(r, 0)->data(kNameRole).toString());
  }
  Q_EMIT changed();
}

void AnswerCard::show_rows(const std::vector<AnswerRow>& rows, const QString& limits, bool settled) {
  // A hidden curve keeps its row, but it is not the answer.
  std::vector<AnswerRow> visible;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(visible),
               [this](const AnswerRow& row) { return !hidden_.contains(row.drawn.name); });
  const AnswerRow* best = best_row(visible);
  const bool limited = !limits.isEmpty();
  QString text;
  if (best != nullptr && limited)
    text = headline_of(*best, rows.size() > 1, true);
  else if (best != nullptr)
    text = tr("No SLO is set. Cheapest: %1").arg(headline_of(*best, rows.size() > 1, false));
  else if (visible.size() == 1)
    text = answer_words(visible.front());
  else if (visible.empty() && !rows.empty())
    text = tr("All curves are hidden");
  else if (!rows.empty())
    text = tr("✗ No curve carries any load within its limits");
  // Until a new curve is complete, its answer is known only if some load is carried.
  const bool complete = std::all_of(visible.begin(), visible.end(), [](const AnswerRow& row) {
    return row.drawn.stale || row.drawn.model->is_complete();
  });
  if (headline_->text() != text && (best != nullptr || complete)) headline_->setText(text);
  const QString kept = limited ? tr("Within the SLO: %1").arg(limits) : QString();
  if (limits_->text() != kept) limits_->setText(kept);
  show_row(*limits_, limited, settled);
  const AnswerRow* rival = possibly_better_row(visible);
  show_chips(best, rival, settled);
  // Offers longer runs for the answer, or for a better answer that is still uncertain.
  const AnswerRow* unsure = rival != nullptr ? rival : best;
  offered_ = unsure != nullptr ? std::pair(unsure->drawn.scenario, static_cast<qint64>(unsure->requests_needed))
                               : std::pair<std::size_t, qint64>();
  const QString offer = offered_.second > 0
                            ? tr("Simulate %1 requests").arg(reader_text(static_cast<double>(offered_.second), 6))
                            : QString();
  if (longer_->text() != offer) longer_->setText(offer);
  longer_->setVisible(offered_.second > 0);
  fill(rows);
}

void AnswerCard::show_chips(const AnswerRow* row, const AnswerRow* rival, bool settled) {
  QStringList words;
  if (rival != nullptr) words << possibly_better_words(*rival);
  if (row != nullptr) {
    if (row->answer->saturates)
      words << row->limited_by;
    else if (row->answer->binding && !row->answer->every)
      words << tr("limited by %1").arg(row->answer->binding->name);
    if (!row->margin.isEmpty()) words << row->margin;
    words << row->warnings;
  }
  auto chips = chips_->findChildren<QLabel*>(QString(), Qt::FindDirectChildrenOnly);
  while (chips.size() > words.size()) delete chips.takeLast();
  while (chips.size() < words.size()) {
    auto* chip = new QLabel(chips_);
    chip->setObjectName(QStringLiteral("chip"));
    chips_->layout()->addWidget(chip);
    chip->show();
    chips << chip;
  }
  for (qsizetype i = 0; i < words.size(); ++i) {
    if (chips[i]->text() != words[i]) chips[i]->setText(words[i]);
  }
  show_row(*chips_, !words.isEmpty(), settled);
}

// The columns after the name of the curve.
std::vector<AnswerCard::Column> AnswerCard::columns_of(const AnswerRow& row) {
  const SloAnswer answer = row.answer.value_or(SloAnswer());
  const auto number = [](const QString& title, std::optional<double> value, int digits) {
    return Column{title, value ? reader_text(*value, digits) : QString(), value, value.has_value()};
  };
  const int digits = answer.between ? 3 : 4;
  const QString load = row.load.isEmpty() ? row.verdict : row.verdict + QChar(u' ') + row.load;
  const auto hourly = row.footprint ? row.footprint->usd_per_hour : std::nullopt;
  return {
      {tr("carries"), load, carried(row, answer.labels.load_value)},
      number(tr("tokens/s"), carried(row, answer.tokens_per_s), digits),
      number(tr("tokens/s/GPU"), row.tokens_per_s_per_gpu, digits),
      number(tr("USD/M tokens"), answer.carried ? answer.usd_per_million : std::nullopt, 3),
      number(tr("USD/h"), hourly, 4),
      {tr("footprint"), row.footprint ? footprint_text(*row.footprint) : QString(),
       row.footprint ? std::optional<double>(static_cast<double>(row.footprint->gpus)) : std::nullopt},
      {tr("limited by"), row.limited_by},
      {tr("90 % band"), row.margin},
      {tr("warnings"), row.warnings.join(QStringLiteral(", "))},
  };
}

// Changes only what differs: this runs at every step of a drag.
void AnswerCard::fill(const std::vector<AnswerRow>& rows) {
  TableData now{{tr("curve")}, {}};
  std::vector<std::vector<Column>> cells;
  QStringList looks;
  for (const AnswerRow& row : rows) {
    cells.push_back(columns_of(row));
    QStringList texts{row.drawn.name};
    for (const Column& column : cells.back()) {
      if (cells.size() == 1) now.headers << column.title;
      texts << (column.figure ? qs(study::number_text(*column.number)) : column.text);
    }
    now.rows.push_back(texts);
    looks << QStringLiteral("%1 %2 %3 %4 %5")
                 .arg(row.drawn.colour)
                 .arg(row.drawn.stale)
                 .arg(hidden_.contains(row.drawn.name))
                 .arg(row.drawn.scenario)
                 .arg(theme_->dark);
  }
  const QString look = looks.join(QChar(u';'));
  if (now.headers == shown_.headers && now.rows == shown_.rows && rows_->property("look").toString() == look) return;
  const bool anew = now.headers != shown_.headers || now.rows.size() != shown_.rows.size();
  shown_ = std::move(now);
  rows_->setProperty("look", look);
  const QSignalBlocker quiet(rows_);
  const QString current =
      rows_->currentRow() >= 0 ? rows_->item(rows_->currentRow(), 0)->data(kNameRole).toString() : QString();
  // Sorting again repaints every cell. An unsorted table keeps the order of the scenarios.
  const bool sorted = rows_->horizontalHeader()->sortIndicatorSection() >= 0;
  if (sorted) rows_->setSortingEnabled(false);
  if (anew) {
    rows_->setColumnCount(static_cast<int>(shown_.headers.size()));
    rows_->setHorizontalHeaderLabels(shown_.headers);
    rows_->setRowCount(static_cast<int>(rows.size()));
  }
  for (std::size_t r = 0; r < rows.size(); ++r)
    fill_row(static_cast<int>(r), rows[r], cells[r], looks[static_cast<qsizetype>(r)]);
  if (sorted) rows_->setSortingEnabled(true);
  for (int r = 0; r < rows_->rowCount() && !current.isEmpty(); ++r) {
    if (rows_->item(r, 0)->data(kNameRole).toString() == current) rows_->setCurrentCell(r, 0);
  }
  if (anew) fit_height();
  arrange_columns(cells, anew);
}

void AnswerCard::fill_row(int r, const AnswerRow& row, const std::vector<Column>& cells, const QString& look) {
  const auto item_at = [&](int c) {
    auto* item = static_cast<SortedItem*>(rows_->item(r, c));
    if (item == nullptr) rows_->setItem(r, c, item = new SortedItem({}, {}));
    return item;
  };
  SortedItem* name = item_at(0);
  name->show(row.drawn.name, {});
  if (name->data(kLookRole).toString() != look) {
    name->setData(kLookRole, look);
    name->setCheckState(hidden_.contains(row.drawn.name) ? Qt::Unchecked : Qt::Checked);
    name->setIcon(swatch(row.drawn, *theme_, devicePixelRatioF()));
  }
  name->setData(kNameRole, row.drawn.name);
  name->setData(kScenarioRole, static_cast<qulonglong>(row.drawn.scenario));
  int c = 1;
  for (const Column& column : cells) {
    SortedItem* item = item_at(c++);
    item->show(column.text, column.number);
    item->setTextAlignment((column.figure ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    item->setToolTip(column.text);
  }
}

// Aligns the headings with their cells, and hides columns in which no row has anything to say. Columns keep their width
// during a drag, unless a text does not fit or leaves half of it empty.
void AnswerCard::arrange_columns(const std::vector<std::vector<Column>>& cells, bool anew) {
  if (anew) widest_.assign(static_cast<std::size_t>(rows_->columnCount()), 0);
  for (int c = 0; c < rows_->columnCount(); ++c) {
    int widest = 0;
    bool figures = false;
    for (int r = 0; r < rows_->rowCount(); ++r)
      widest = std::max(widest, fontMetrics().horizontalAdvance(rows_->item(r, c)->text()));
    for (const std::vector<Column>& row : cells)
      figures = figures || (c > 0 && row[static_cast<std::size_t>(c - 1)].figure);
    QTableWidgetItem* heading = rows_->horizontalHeaderItem(c);
    heading->setText(c == 0 || figures ? shown_.headers[c] : kIndent + shown_.headers[c]);
    heading->setTextAlignment((figures ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    rows_->setColumnHidden(c, widest == 0);
    int& known = widest_[static_cast<std::size_t>(c)];
    if (widest <= known && 2 * widest >= known) continue;
    known = widest;
    rows_->resizeColumnToContents(c);
  }
}

void AnswerCard::fit_height() {
  const int rows = std::min(rows_->rowCount(), kMostRows);
  const int height = rows_->horizontalHeader()->sizeHint().height() +
                     rows * rows_->verticalHeader()->defaultSectionSize() + 2 * rows_->frameWidth();
  const int one = rows_->horizontalHeader()->sizeHint().height() + rows_->verticalHeader()->defaultSectionSize();
  rows_->setMinimumHeight(one);
  rows_->setMaximumHeight(height + rows_->horizontalScrollBar()->sizeHint().height());
  rows_->setVisible(rows > 0);
}

void AnswerCard::set_theme(const Theme& theme) { theme_ = &theme; }

QString AnswerCard::headline() const { return headline_->text(); }

QString AnswerCard::limits() const { return limits_->text(); }

TableData AnswerCard::table() const { return shown_; }

}  // namespace plimsoll::gui
