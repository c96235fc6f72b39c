// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/run_files.h"

#include <QFile>

#include "gui/core/overlay.h"
#include "gui/core/text.h"
#include "model/error.h"

namespace plimsoll::gui {

std::string read_text(const QString& file) {
  constexpr qint64 kMaxBytes = 16 << 20;
  QFile in(file);
  if (!in.open(QIODevice::ReadOnly))
    throw InputError(Where{utf8(file), 0, 0}, "cannot be read: " + utf8(in.errorString()));
  if (in.size() > kMaxBytes) throw InputError(Where{utf8(file), 0, 0}, "is larger than 16 MiB");
  return in.readAll().toStdString();
}

bool is_packed(const QString& file) { return file.endsWith(QStringLiteral(".gz")); }

FileKind kind_of(const QString& file, const std::string& text) {
  if (is_packed(file)) return FileKind::trace;
  if (text.find("plimsoll_session:") != std::string::npos) return FileKind::session;
  if (is_overlay(text)) return FileKind::table;
  if (file.endsWith(QStringLiteral(".json"))) {
    const bool model =
        text.find("\"model_type\"") != std::string::npos || text.find("\"architectures\"") != std::string::npos;
    return model ? FileKind::model : FileKind::unknown_json;
  }
  if (file.endsWith(QStringLiteral(".csv")))
    return text.starts_with("model,") ? FileKind::table
                                      : FileKind::trace;  // its reader reports what is wrong with an invalid table
  return file.endsWith(QStringLiteral(".jsonl")) ? FileKind::trace : FileKind::study;
}

}  // namespace plimsoll::gui
