// TapAudit: who changed which tap, as JSON lines in memory and in a file.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "debug.pb.h"

namespace opstep {

// Who changed which tap, and when: the last changes, as JSON lines.
//
// Thread: one, from the first line that goes to a file. It alone waits for that file's disk, and is
// abandoned when that takes too long at the end.
class TapAudit {
 public:
  explicit TapAudit(std::string file) : file_(std::move(file)) {}
  ~TapAudit();
  // Waits a moment until all lines are written.
  void Finish();
  void Write(const std::string& who, const std::string& did, const proto::Tap& tap,
             const std::string& why = "");
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  struct Writer;

  const std::string file_;
  std::deque<std::string> lines_;
  std::shared_ptr<Writer> writer_;
};

}  // namespace opstep
