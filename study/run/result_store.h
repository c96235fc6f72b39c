// SPDX-License-Identifier: Apache-2.0
// results.sqlite, the store of a sweep: results computed once are found again, however the run ended. It stores texts
// under digests of everything they depend on (point_keys.h), so that a stale result is never used.
//
// A text survives the end of a process once its transaction has ended: at once if little is written, else at most 100
// ms later (tick()). Only one process at a time can open a store.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "study/run/digest.h"

struct sqlite3;
struct sqlite3_stmt;

namespace plimsoll::study {

/// Every failure (a full disk; a store that is damaged, in use, or of another program) is a DeviceError that names the
/// file and what to do. The store keeps what was committed. Thread-safe.
class ResultStore {
 public:
  explicit ResultStore(std::string file);
  /// Commits what is left, if possible.
  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  /// Returns the text stored under the key; nullopt if there is none.
  [[nodiscard]] std::optional<std::string> find(const Digest& key);
  /// Stores a text; replaces an existing one.
  void put(const Digest& key, std::string_view text);
  /// Ends a transaction that is due. Call from time to time while work goes on.
  void tick();
  /// Commits all texts stored so far.
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
  int failure_ = 0;  // SQLite's code of the first failure
  std::chrono::steady_clock::time_point last_commit_{};
};

}  // namespace plimsoll::study
