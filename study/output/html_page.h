// SPDX-License-Identifier: Apache-2.0
// A report as a single HTML page: text, tables and SVG pictures, without scripts or other files.
#pragma once

#include <string>
#include <vector>

#include "study/output/chart.h"
#include "study/output/table_view.h"

namespace plimsoll::study {

/// Escapes text for use in an element or a quoted attribute.
[[nodiscard]] std::string html_escaped(const std::string& text);

class HtmlPage {
 public:
  explicit HtmlPage(const std::string& title);
  HtmlPage& heading(const std::string& text);
  HtmlPage& paragraph(const std::string& text);
  /// Adds a list; adds nothing if it is empty.
  HtmlPage& list(const std::vector<std::string>& items);
  HtmlPage& table(const TextTable& table);
  HtmlPage& picture(const Chart& chart);
  /// Adds preformatted text.
  HtmlPage& preformatted(const std::string& text);
  /// Adds preformatted text, collapsed below `summary`.
  HtmlPage& folded(const std::string& summary, const std::string& text);
  /// Adds HTML as it is, without escaping.
  HtmlPage& raw(const std::string& html);
  [[nodiscard]] std::string text() const { return page_ + "</body></html>\n"; }

 private:
  std::string page_;
};

}  // namespace plimsoll::study
