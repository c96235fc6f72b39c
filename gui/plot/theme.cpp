// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/plot/theme.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::gui {
namespace {

QColor rgb(unsigned value) { return QColor::fromRgb(value); }

double luminance(const QColor& colour) {
  const auto linear = [](double c) { return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); };
  return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) + 0.0722 * linear(colour.blueF());
}

Theme make_light() {
  Theme t;
  t.background = rgb(0xffffff);
  t.panel = rgb(0xf4f5f7);
  t.text = rgb(0x1b1f24);
  t.soft_text = rgb(0x57606a);
  t.grid = rgb(0xe6e9ed);
  t.frame = rgb(0xc4cad1);
  t.accent = rgb(0x0b5cad);
  t.good = rgb(0x0a6b45);
  t.bad = rgb(0xb3261e);
  t.shade = QColor(179, 38, 30, 16);
  t.series = {rgb(0x0072b2), rgb(0xc65200), rgb(0x008660), rgb(0xa8458c),
              rgb(0x8f6a00), rgb(0x3c7ca5), rgb(0x000000), rgb(0x6b4fbb)};
  return t;
}

Theme make_dark() {
  Theme t;
  t.dark = true;
  t.background = rgb(0x15191e);
  t.panel = rgb(0x1e242b);
  t.text = rgb(0xe8ecf0);
  t.soft_text = rgb(0xa4aeb9);
  t.grid = rgb(0x2b333c);
  t.frame = rgb(0x46515c);
  t.accent = rgb(0x7cb7f5);
  t.good = rgb(0x5fd3a0);
  t.bad = rgb(0xff8a80);
  t.shade = QColor(255, 138, 128, 20);
  t.series = {rgb(0x56b4e9), rgb(0xff9442), rgb(0x2fcf9d), rgb(0xe79ac6),
              rgb(0xf0c04a), rgb(0x9ad0f5), rgb(0xffffff), rgb(0xb9a3f5)};
  return t;
}

}  // namespace

const Theme& light_theme() {
  static const Theme theme = make_light();
  return theme;
}

const Theme& dark_theme() {
  static const Theme theme = make_dark();
  return theme;
}

QColor Theme::colour(std::size_t index) const {
  constexpr std::size_t kShades = 4;
  const QColor& base = series[index % series.size()];
  const auto step = static_cast<int>(index / series.size() % kShades);
  if (step == 0) return base;
  return dark ? base.lighter(100 + 14 * step) : base.darker(100 + 35 * step);
}

QPalette Theme::palette() const {
  QPalette p;
  p.setColor(QPalette::Window, panel);
  p.setColor(QPalette::WindowText, text);
  p.setColor(QPalette::Base, background);
  p.setColor(QPalette::AlternateBase, panel);
  p.setColor(QPalette::Text, text);
  p.setColor(QPalette::PlaceholderText, soft_text);
  p.setColor(QPalette::Button, dark ? rgb(0x3a4652) : rgb(0xeceff2));
  p.setColor(QPalette::ButtonText, text);
  p.setColor(QPalette::BrightText, bad);
  p.setColor(QPalette::Highlight, accent);
  p.setColor(QPalette::HighlightedText, dark ? rgb(0x10151a) : rgb(0xffffff));
  p.setColor(QPalette::ToolTipBase, dark ? rgb(0x2a323b) : rgb(0xffffff));
  p.setColor(QPalette::ToolTipText, text);
  p.setColor(QPalette::Link, accent);
  p.setColor(QPalette::Light, dark ? rgb(0x39434e) : rgb(0xffffff));
  p.setColor(QPalette::Midlight, dark ? rgb(0x323b45) : rgb(0xf8f9fa));
  p.setColor(QPalette::Mid, frame);
  p.setColor(QPalette::Dark, dark ? rgb(0x0c0f12) : rgb(0x9aa3ad));
  p.setColor(QPalette::Shadow, dark ? rgb(0x000000) : rgb(0x6b747d));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
    p.setColor(QPalette::Disabled, role, soft_text);
  return p;
}

QColor mixed(const QColor& over, const QColor& under, double part) {
  const auto mix = [part](int a, int b) { return static_cast<int>(part * a + (1 - part) * b + 0.5); };
  return {mix(over.red(), under.red()), mix(over.green(), under.green()), mix(over.blue(), under.blue())};
}

double contrast(const QColor& a, const QColor& b) {
  const double la = luminance(a), lb = luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

QColor text_on(const QColor& fill) {
  const double white = contrast(fill, Qt::white);
  return white >= 4.5 || white > contrast(fill, Qt::black) ? Qt::white : Qt::black;
}

QString style_sheet(const Theme& theme) {
  constexpr double kFill = 0.3, kHint = 0.08;
  // Groups are told apart by a heading and space. Only what is pressed, filled or focused gets the accent.
  return QStringLiteral(
             "QLabel#problem{color:%1;}"
             "QLabel#soft{color:%5;}"
             "QGroupBox{border:0;margin-top:1.6em;padding:0;}"
             "QGroupBox::title{subcontrol-origin:margin;subcontrol-position:top left;left:0;top:0.3em;color:%2;"
             "font-weight:600;}"
             "QProgressBar{border:1px solid %4;border-radius:3px;background:%6;color:%2;text-align:center;}"
             "QProgressBar::chunk{background:%7;border-radius:2px;}"
             "QFrame#welcome{background:%8;border:0;border-bottom:1px solid %4;}"
             "QToolButton#series{border:1px solid transparent;padding:1px 3px;}"
             "QToolButton#series:hover,QToolButton#series:focus{border:1px solid %4;border-radius:3px;}"
             "QToolButton#header{font-weight:600;border:1px solid transparent;padding:1px 0px;}"
             "QToolButton#header:hover,QToolButton#header:focus{border:1px solid %4;border-radius:3px;}"
             "QLabel#chip{border:1px solid %4;border-radius:8px;padding:0px 7px;color:%5;}"
             "QToolTip{color:%2;background:%3;border:1px solid %4;}")
      .arg(theme.bad.name(), theme.text.name(), theme.panel.name(), theme.frame.name(), theme.soft_text.name(),
           theme.background.name(), mixed(theme.accent, theme.background, kFill).name(),
           mixed(theme.accent, theme.background, kHint).name());
}

}  // namespace plimsoll::gui
