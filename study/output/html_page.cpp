// SPDX-License-Identifier: Apache-2.0
#include "study/output/html_page.h"

#include <fmt/format.h>

namespace plimsoll::study {
namespace {

std::string row_html(const std::vector<std::string>& cells, std::size_t left, const char* tag) {
  std::string row = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool flush_left = i < left || i + 1 == cells.size();
    row += fmt::format("<{0}{1}>{2}</{0}>", tag, flush_left ? " class=\"l\"" : "", html_escaped(cells[i]));
  }
  return row + "</tr>\n";
}

}  // namespace

// Names come from the user's files and must not act as HTML.
std::string html_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

HtmlPage::HtmlPage(const std::string& title)
    : page_(fmt::format(
          "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
          "charset=\"utf-8\"><title>{0}</title>\n<style>body{{font:15px/1.4 sans-serif;max-width:90em;"
          "margin:2em auto;padding:0 1em}}table{{border-collapse:collapse;font-variant-numeric:tabular-nums}}"
          "td,th{{padding:.15em .7em;text-align:right;border-bottom:1px solid #ddd}}td.l,th.l{{text-align:left}}"
          "svg{{max-width:100%;height:auto}}pre{{background:#f6f8fa;padding:1em;overflow:auto}}</style></"
          "head>\n<body><h1>{0}</h1>\n",
          html_escaped(title))) {}

HtmlPage& HtmlPage::heading(const std::string& text) { return raw("<h2>" + html_escaped(text) + "</h2>\n"); }
HtmlPage& HtmlPage::paragraph(const std::string& text) { return raw("<p>" + html_escaped(text) + "</p>\n"); }

HtmlPage& HtmlPage::list(const std::vector<std::string>& items) {
  if (items.empty()) return *this;
  raw("<ul>\n");
  for (const std::string& item : items) raw("<li>" + html_escaped(item) + "</li>\n");
  return raw("</ul>\n");
}

HtmlPage& HtmlPage::table(const TextTable& table) {
  raw("<table>\n");
  for (const auto& cells : table.header) raw(row_html(cells, table.left, "th"));
  for (const auto& cells : table.rows) raw(row_html(cells, table.left, "td"));
  return raw("</table>\n");
}

HtmlPage& HtmlPage::picture(const Chart& chart) { return raw(svg_chart(chart)); }

HtmlPage& HtmlPage::preformatted(const std::string& text) { return raw("<pre>" + html_escaped(text) + "</pre>\n"); }

HtmlPage& HtmlPage::folded(const std::string& summary, const std::string& text) {
  return raw("<details><summary>" + html_escaped(summary) + "</summary><pre>" + html_escaped(text) +
             "</pre></details>\n");
}

HtmlPage& HtmlPage::raw(const std::string& html) {
  page_ += html;
  return *this;
}

}  // namespace plimsoll::study
