// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/recovery.h"

#include <QDir>
#include <QFile>
#include <QSaveFile>

#include "gui/core/text.h"
#include "model/error.h"

namespace plimsoll::gui {

Recovery::Recovery(Session& session, const QString& folder, int delay_ms, QObject* parent)
    : QObject(parent),
      session_(session),
      copy_(folder + QStringLiteral("/unsaved.plimsoll-session.yaml")),
      lock_(folder + QStringLiteral("/unsaved.lock")) {
  lock_.setStaleLockTime(0);  // the lock is stale only once its process has ended
  // What an earlier start found and the user neither recovered nor dismissed.
  const QString left = folder + QStringLiteral("/recovered.plimsoll-session.yaml");
  if (!QDir().mkpath(folder) || !lock_.tryLock(0)) return;
  if (QFile::exists(copy_)) {  // move it aside, because this program writes its own copy there
    QFile::remove(left);
    QFile::rename(copy_, left);
  }
  if (QFile::exists(left)) found_ = left;
  soon_.setSingleShot(true);
  soon_.setInterval(delay_ms);
  connect(&soon_, &QTimer::timeout, this, &Recovery::keep);
  connect(&session, &Session::changed, &soon_, [this] {
    if (!soon_.isActive()) soon_.start();  // at most one copy per delay, even during a long drag
  });
}

void Recovery::keep() {
  if (!session_.is_modified()) {
    QFile::remove(copy_);
    return;
  }
  QSaveFile out(copy_);
  if (out.open(QIODevice::WriteOnly)) out.write(QByteArray::fromStdString(session_text(session_.state())));
  out.commit();
}

void Recovery::restore() {
  QFile in(found_);
  if (!in.open(QIODevice::ReadOnly))
    throw InputError(Where{utf8(found_), 0, 0}, "cannot be read: " + utf8(in.errorString()));
  SessionState state = parse_session(in.readAll().toStdString(), utf8(found_));
  session_.edit(tr("Recover the unsaved session"), {}, [&](SessionState& s) { s = std::move(state); });
  keep();
  // The file that held it so far goes only when the copy is there.
  if (QFile::exists(copy_)) dismiss();
}

void Recovery::dismiss() {
  QFile::remove(found_);
  found_.clear();
}

void Recovery::done() {
  soon_.stop();
  if (lock_.isLocked()) QFile::remove(copy_);
}

}  // namespace plimsoll::gui
