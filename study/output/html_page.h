// SPDX-License-Identifier: Apache-2.0
// A report as one HTML page that needs nothing else: text, tables and SVG pictures; no scripts, no files beside it.
#pragma once

#include <string>
#include <vector>

#include "study/output/chart.h"
#include "study/output/table_view.h"

namespace plimsoll::study {

/// Text within an element or a quoted attribute.
[[nodiscard]] std::string html_escaped(const std::string& text);

class HtmlPage {
 public:
  explicit HtmlPage(const std::string& title);
  HtmlPage& heading(const std::string& text);
  HtmlPage& paragraph(const std::string& text);
  /// Nothing where there are no items.
  HtmlPage& list(const std::vector<std::string>& items);
  HtmlPage& table(const TextTable& table);
  HtmlPage& picture(const Chart& chart);
  /// Preformatted text.
  HtmlPage& preformatted(const std::string& text);
  /// The same, folded away below `summary`.
  HtmlPage& folded(const std::string& summary, const std::string& text);
  /// HTML of the caller's own making.
  HtmlPage& raw(const std::string& html);
  [[nodiscard]] std::string text() const { return page_ + "</body></html>\n"; }

 private:
  std::string page_;
};

}  // namespace plimsoll::study
