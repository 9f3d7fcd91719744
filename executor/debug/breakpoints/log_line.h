// LogLine: the message of a log point, resolved against one op of one plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "debug.pb.h"
#include "debug/expr/expression.h"

namespace opstep {

// Immutable.
class LogLine {
 public:
  static std::shared_ptr<const LogLine> Bind(const proto::LogMessage& message, const Plan& plan,
                                             int block, const proto::OpDesc* op,
                                             const PythonNames* python,
                                             NamesReport* report = nullptr);

  // One of its values reads an output of the op.
  bool needs_outputs() const { return needs_outputs_; }
  // Why one of its values is not available at this op; empty when all are.
  const std::string& problem() const { return problem_; }

  // One part for each piece of the message; a value that is not available is a sentence.
  void Write(const FrameView& frame, proto::LogRecord* record) const;

 private:
  struct Piece {
    std::string text;  // or why there is no value
    std::shared_ptr<const Expression> value;
    bool failed = false;
  };

  std::vector<Piece> pieces_;
  bool needs_outputs_ = false;
  std::string problem_;
};

}  // namespace opstep
