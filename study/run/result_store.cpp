// SPDX-License-Identifier: Apache-2.0
// Uses a write-ahead log without a sync at each commit. A killed process loses nothing that was committed; a power
// failure may lose the last commits, but never the store.
#include "study/run/result_store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstring>
#include <utility>

#include "model/error.h"

namespace plimsoll::study {
namespace {

constexpr auto kCommitEvery = std::chrono::milliseconds(100);
constexpr int kPatience = 1000;                    // ms to wait for another process that is about to release the store
constexpr std::int64_t kApplication = 0x506c696d;  // "Plim", in the header of the file
constexpr std::int64_t kVersion = 2;
constexpr int kChecksumBytes = 8;

// Detects a damaged page that SQLite does not notice, so that it cannot become a result.
std::string checksum(std::string_view text) {
  const Digest digest = digest_of(text);
  return {reinterpret_cast<const char*>(digest.data()), kChecksumBytes};  // NOLINT: bytes as characters
}

std::string advice(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return "the disk is full: free some space and run again; stored points are kept and not run again";
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "another run is using it: wait for that or state another --out";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return "it is damaged or not a store of results: move it away to start again";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN: return "it cannot be written: state another --out or change its permissions";
    case SQLITE_IOERR: return "make its folder readable and writable; stored points are kept; run again to continue";
    default: return "stored points are kept; run again to continue";
  }
}

}  // namespace

void ResultStore::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void ResultStore::Close::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

// A failed statement ends its transaction, and later statements of other threads fail because of that. So the first
// failure is the one reported.
void ResultStore::refuse(int code) {
  if (failure_ == SQLITE_OK) failure_ = code;
  throw DeviceError(fmt::format("cannot use '{}': {}; {}", file_, sqlite3_errstr(failure_), advice(failure_)));
}

ResultStore::ResultStore(std::string file) : file_(std::move(file)) {
  open();
  claim();
  find_ = prepare("SELECT text, checksum FROM results WHERE key = ?");
  put_ = prepare("INSERT OR REPLACE INTO results (key, text, checksum) VALUES (?, ?, ?)");
}

ResultStore::~ResultStore() {
  if (in_transaction_) sqlite3_exec(database_.get(), "COMMIT", nullptr, nullptr, nullptr);
}

void ResultStore::open() {
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(file_.c_str(), &database,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) refuse(code);
  sqlite3_extended_result_codes(database, 1);
  sqlite3_busy_timeout(database, kPatience);
  // The lock is exclusive, so no other process can take half a sweep for a whole one, and no shared memory file is
  // needed.
  execute("PRAGMA locking_mode = EXCLUSIVE");
  execute("PRAGMA synchronous = OFF");  // an empty store may be lost in a power failure
  execute("PRAGMA journal_mode = WAL");
  execute("PRAGMA synchronous = NORMAL");
}

// Creates a new store, or checks that the existing one is ours.
void ResultStore::claim() {
  execute("BEGIN EXCLUSIVE");
  if (number("SELECT count(*) FROM sqlite_schema") == 0) {
    execute(fmt::format("PRAGMA application_id = {}", kApplication).c_str());
    execute(fmt::format("PRAGMA user_version = {}", kVersion).c_str());
    execute("CREATE TABLE results (key BLOB NOT NULL UNIQUE, text TEXT NOT NULL, checksum BLOB NOT NULL)");
  } else if (number("PRAGMA application_id") != kApplication) {
    throw DeviceError(fmt::format("cannot use '{}': it is another program's database; state another --out", file_));
  } else if (number("PRAGMA user_version") != kVersion) {
    throw DeviceError(
        fmt::format("cannot use '{}': another version of this program wrote it; move it away to start again", file_));
  }
  execute("COMMIT");
}

void ResultStore::execute(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) refuse(code);
}

std::int64_t ResultStore::number(const char* sql) {
  const Statement statement = prepare(sql);
  const int code = sqlite3_step(statement.get());
  if (code != SQLITE_ROW) refuse(code);
  return sqlite3_column_int64(statement.get(), 0);
}

ResultStore::Statement ResultStore::prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) refuse(code);
  return Statement(statement);
}

std::optional<std::string> ResultStore::find(const Digest& key) {
  const std::lock_guard lock(mutex_);
  sqlite3_stmt* const statement = find_.get();
  sqlite3_bind_blob(statement, 1, key.data(), static_cast<int>(key.size()), SQLITE_STATIC);
  const int code = sqlite3_step(statement);
  std::optional<std::string> text;
  bool sound = true;
  if (code == SQLITE_ROW) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, 0));
    text.emplace(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement, 0)));
    const std::string sum = checksum(*text);
    sound = sqlite3_column_bytes(statement, 1) == kChecksumBytes &&
            std::memcmp(sqlite3_column_blob(statement, 1), sum.data(), sum.size()) == 0;
  }
  sqlite3_reset(statement);
  if (code != SQLITE_ROW && code != SQLITE_DONE) refuse(code);
  if (!sound) refuse(SQLITE_CORRUPT);
  return text;
}

void ResultStore::put(const Digest& key, std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (!in_transaction_) execute("BEGIN");
  in_transaction_ = true;
  const std::string sum = checksum(text);
  sqlite3_stmt* const statement = put_.get();
  sqlite3_bind_blob(statement, 1, key.data(), static_cast<int>(key.size()), SQLITE_STATIC);
  sqlite3_bind_text(statement, 2, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  sqlite3_bind_blob(statement, 3, sum.data(), static_cast<int>(sum.size()), SQLITE_STATIC);
  const int code = sqlite3_step(statement);
  sqlite3_reset(statement);
  if (code != SQLITE_DONE) refuse(code);
  if (std::chrono::steady_clock::now() - last_commit_ >= kCommitEvery) commit_locked();
}

void ResultStore::tick() {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // if it is taken, another thread is using the store
  if (lock && in_transaction_ && std::chrono::steady_clock::now() - last_commit_ >= kCommitEvery) commit_locked();
}

void ResultStore::commit() {
  const std::lock_guard lock(mutex_);
  if (in_transaction_) commit_locked();
}

void ResultStore::commit_locked() {
  execute("COMMIT");
  in_transaction_ = false;
  last_commit_ = std::chrono::steady_clock::now();
}

}  // namespace plimsoll::study
