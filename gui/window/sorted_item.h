// SPDX-License-Identifier: GPL-3.0-or-later
// A table cell that sorts by its number if it has one, else by its text. Numbers come first.
#pragma once

#include <QTableWidgetItem>
#include <optional>

namespace plimsoll::gui {

class SortedItem final : public QTableWidgetItem {
 public:
  SortedItem(const QString& text, std::optional<double> number) : QTableWidgetItem(text), number_(number) {
    if (number_) setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
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
