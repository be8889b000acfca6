//===- Records.h - What tuning found, as a file ---------------------------===//
//
// A record says which choices a kernel's schedules take on a target (Knobs.h).
// The file is JSON:
//
//   {"knapper_tuning": 1,
//    "records": [{"signature": "16 hex digits", "target": "cpu",
//                 "choice": {"panel": 32, "rows": 96}, "gain": 1.07,
//                 "machine": "...", "threads": 2, "sizes": "batch=1"}]}
//
// Which machine code a record leads to depends on nothing but signature, target
// and choice; the rest says how it was found.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tune/Choice.h"
#include "runtime/base/Error.h"
#include <string_view>

namespace knapper::tune {

/// "panel=32,rows=96".
std::string textOf(const Choice &choice);

struct Record {
  std::string signature; ///< of the kernel, as in the report
  std::string target;    ///< "cpu", "cuda:sm_90a"
  Choice choice;
  double gain = 1;     ///< untuned time over tuned time
  std::string machine; ///< where it was measured
  std::string sizes;   ///< "batch=1,seq=128"
  int64_t threads = 0;
};

/// At most one record for a signature and target, in the order of both.
class Records {
public:
  /// UserError with what is wrong and where; `where` names the file.
  static Expected<Records> parse(std::string_view text, std::string where);
  /// A file.
  static Expected<Records> read(const std::string &path);
  std::string json() const;

  const Record *find(std::string_view signature, std::string_view target) const;
  /// Replaces what is known of the same signature and target.
  void set(Record record);
  /// Adds those of `other`; of two for one kernel the greater gain stays, of
  /// equal ones the older. Returns how many came in.
  size_t merge(const Records &other);

  using Key = std::pair<std::string, std::string>; ///< signature, target
  const std::map<Key, Record> &all() const { return records; }

private:
  std::map<Key, Record> records;
};

} // namespace knapper::tune
