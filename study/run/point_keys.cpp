// SPDX-License-Identifier: Apache-2.0
#include "study/run/point_keys.h"

#include <utility>

#include "configs/this_machine.h"

namespace plimsoll::study {

PointKeys::PointKeys(const Study& study, std::string options) : study_(study) {
  // The calibration file of this machine is not part of the catalogue.
  const std::string machine =
      hex(digest_of_file(configs::machine_file("cpu"))) + hex(digest_of_file(configs::machine_file("cuda")));
  common_ = "program " + hex(program_digest()) + "\ncatalogue " +
            hex(digest_of_folders(study.catalogue().content_folders())) + "\nmachine " + machine + "\noptions " +
            std::move(options) + '\n';
}

Digest PointKeys::of_point(std::size_t index, const std::string& extra, std::span<const Setting> settings) const {
  const PointFile file = study_.point_file(index, settings);
  std::string text = common_ + extra + '\n' + file.yaml;
  for (const std::string& path : file.files) text += "\nfile " + hex(of_file(path));
  return digest_of(text);
}

Digest PointKeys::of_file(const std::string& path) const {
  const std::lock_guard lock(mutex_);  // held while reading, because other threads mostly need the same file
  const auto found = files_.find(path);
  return found != files_.end() ? found->second : files_.emplace(path, digest_of_file(path)).first->second;
}

}  // namespace plimsoll::study
