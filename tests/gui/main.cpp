// SPDX-License-Identifier: Apache-2.0
// Runs GoogleTest with a QApplication that needs no display, in Debian's font and Qt's own style.
#include <gtest/gtest.h>

#include <QApplication>
#include <QSettings>
#include <QStyleFactory>
#include <QTemporaryDir>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  qputenv("QT_QPA_PLATFORM", "offscreen");
  qInstallMessageHandler([](QtMsgType type, const QMessageLogContext&, const QString& text) {
    if (type == QtFatalMsg) std::abort();
    if (text.contains(QStringLiteral("propagateSizeHints")) || text.contains(QStringLiteral("runtime directory")) ||
        text.contains(QStringLiteral("XDG_RUNTIME_DIR")))
      return;
    if (type == QtWarningMsg || type == QtCriticalMsg) ADD_FAILURE() << "Qt: " << text.toStdString();
  });
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  const QTemporaryDir settings;  // so that the user's own settings do not matter
  QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings.path());
  QCoreApplication::setOrganizationName(QStringLiteral("plimsoll-test"));
  const QApplication app(argc, argv);
  return RUN_ALL_TESTS();
}
