// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/recovery.h"

#include <QDir>
#include <QFile>
#include <QSaveFile>

#include "gui/core/text.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

const QString kEnding = QStringLiteral(".plimsoll-session.yaml");

// Returns "FOLDER/unsaved", "FOLDER/unsaved-2" and so on.
QString numbered(const QString& folder, const QString& name, int number) {
  return folder + QChar(u'/') + name + (number > 1 ? QStringLiteral("-%1").arg(number) : QString());
}

// The lock is stale only once its process has ended.
std::unique_ptr<QLockFile> lock_of(const QString& copy) {
  auto lock = std::make_unique<QLockFile>(copy.chopped(kEnding.size()) + QStringLiteral(".lock"));
  lock->setStaleLockTime(0);
  return lock;
}

}  // namespace

Recovery::Recovery(Session& session, const QString& folder, int delay_ms, QObject* parent)
    : QObject(parent), session_(session), folder_(folder) {
  if (!QDir().mkpath(folder)) return;
  int number = 1;
  for (;; ++number) {  // the first copy that no running program keeps
    copy_ = numbered(folder, QStringLiteral("unsaved"), number) + kEnding;
    lock_ = lock_of(copy_);
    if (lock_->tryLock(0)) break;
    if (lock_->error() != QLockFile::LockFailedError) return;
  }
  move_aside(copy_);
  if (number == 1) find_left();
  soon_.setSingleShot(true);
  soon_.setInterval(delay_ms);
  connect(&soon_, &QTimer::timeout, this, &Recovery::keep);
  connect(&session, &Session::changed, &soon_, [this] {
    if (!soon_.isActive()) soon_.start();  // at most one copy per delay, even during a long drag
  });
}

// Frees the name of a copy. Earlier copies that the user has neither recovered nor dismissed stay.
void Recovery::move_aside(const QString& copy) const {
  // A name that another program takes first makes the rename fail.
  for (int number = 1; QFile::exists(copy) && number < 1000; ++number)
    QFile::rename(copy, numbered(folder_, QStringLiteral("recovered"), number) + kEnding);
}

void Recovery::find_left() {
  const QDir dir(folder_);
  for (const QString& name : dir.entryList({QStringLiteral("unsaved*") + kEnding}, QDir::Files)) {
    const std::unique_ptr<QLockFile> lock = lock_of(dir.filePath(name));
    if (lock->tryLock(0)) move_aside(dir.filePath(name));
  }
  for (const QString& name : dir.entryList({QStringLiteral("recovered*") + kEnding}, QDir::Files, QDir::Time))
    found_ << dir.filePath(name);
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
  QFile in(found());
  if (!in.open(QIODevice::ReadOnly))
    throw InputError(Where{utf8(found()), 0, 0}, "cannot be read: " + utf8(in.errorString()));
  SessionState state = parse_session(in.readAll().toStdString(), utf8(found()));
  session_.edit(tr("Recover the unsaved session"), {}, [&](SessionState& s) { s = std::move(state); });
  keep();
  // Remove the old file only when the new copy exists.
  if (QFile::exists(copy_)) dismiss();
}

void Recovery::dismiss() {
  if (!found_.isEmpty()) QFile::remove(found_.takeFirst());
}

void Recovery::done() {
  soon_.stop();
  if (lock_ != nullptr && lock_->isLocked()) QFile::remove(copy_);
}

}  // namespace plimsoll::gui
