// SPDX-License-Identifier: Apache-2.0
// plimsoll serve --backend: real engines behind the server. serve/ has the server and the text, exec/ the engines; they
// do not know each other, and meet here.
#pragma once

#include <memory>

#include "cli/console.h"
#include "cli/measured_points.h"
#include "cli/options.h"
#include "serve/serve.h"
#include "study/run/resolve.h"

namespace plimsoll::cli {

class ServedEngines {
 public:
  /// `device` is that of --backend. Study and point must outlive this object. Throws InputError for what an engine on
  /// this machine cannot serve, and DeviceError without a GPU.
  ServedEngines(const study::Study& study, const study::ResolvedPoint& point, const MeasureSettings& settings,
                Console& console);

  /// Loads text and weights, warms the engines up, and puts them behind the server. Call it once; this object must
  /// outlive the server. Throws InputError and DeviceError.
  void put_behind(serve::ServeSettings& settings);

 private:
  void check_point() const;
  [[nodiscard]] std::shared_ptr<const serve::Vocabulary> vocabulary(double chars_per_token);

  const study::Study& study_;
  const study::ResolvedPoint& point_;
  const study::PointSpec spec_;
  exec::DeviceKind device_;
  Console& console_;
  MeasuredPoints points_;
};

}  // namespace plimsoll::cli
