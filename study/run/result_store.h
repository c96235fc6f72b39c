// SPDX-License-Identifier: Apache-2.0
// results.sqlite, the memory of a sweep: what was computed once is found again, whatever ended the run that did it.
// Texts under digests of everything they depend on (point_keys.h), so that nothing stale is ever taken.
//
// A text is safe from a killed process once its transaction has ended: at once where little comes in, else at most 100
// ms later (tick()). One process at a time writes a store.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "study/run/digest.h"

struct sqlite3;
struct sqlite3_stmt;

namespace plimsoll::study {

/// Every failure (a full disk, a store that is damaged, in use or of another program) is a DeviceError that names the
/// file and what to do; the store keeps what was committed. Any number of threads may call at once.
class ResultStore {
 public:
  explicit ResultStore(std::string file);
  /// Commits what is left where that is possible.
  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  [[nodiscard]] std::optional<std::string> find(const Digest& key);
  /// Replaces what was there.
  void put(const Digest& key, std::string_view text);
  /// To be called now and then while work goes on: ends a transaction that is due.
  void tick();
  void commit();

 private:
  struct Close {
    void operator()(sqlite3* database) const;
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;

  void open();
  void claim();
  void execute(const char* sql);
  [[nodiscard]] std::int64_t number(const char* sql);
  [[nodiscard]] Statement prepare(const char* sql);
  void commit_locked();
  [[noreturn]] void refuse(int code);

  std::string file_;
  std::mutex mutex_;
  std::unique_ptr<sqlite3, Close> database_;
  Statement find_, put_;
  bool in_transaction_ = false;
  int failure_ = 0;  // SQLite's code of the first one
  std::chrono::steady_clock::time_point last_commit_{};
};

}  // namespace plimsoll::study
