// LogLine: the values of a log point's message at one op.
#include "debug/breakpoints/log_line.h"

namespace opstep {
namespace {

// Larger values are shown without their elements.
constexpr uint64_t kElements = 8;
// A record is a line for people: nothing larger is intended.
constexpr size_t kMostLineBytes = 64 << 10;

}  // namespace

std::shared_ptr<const LogLine> LogLine::Bind(const proto::LogMessage& message, const Plan& plan,
                                             int block, const proto::OpDesc* op,
                                             const PythonNames* python, NamesReport* report) {
  auto line = std::make_shared<LogLine>();
  for (const proto::LogMessage::Piece& piece : message.pieces()) {
    Piece& bound = line->pieces_.emplace_back();
    if (!piece.has_value()) {
      bound.text = piece.text();
      continue;
    }
    try {
      bound.value = Expression::Bind(piece.value(), plan, block, op, python, report);
      line->needs_outputs_ |= bound.value->needs_outputs();
    } catch (const Error& error) {
      bound.text = error.what();
      bound.failed = true;
      if (line->problem_.empty()) line->problem_ = error.what();
    }
  }
  return line;
}

void LogLine::Write(const FrameView& frame, proto::LogRecord* record) const {
  size_t bytes = 0;
  for (const Piece& piece : pieces_) {
    proto::LogPart* part = record->add_parts();
    if (piece.failed) {
      part->set_error(piece.text);
    } else if (!piece.value) {
      part->set_text(piece.text);
    } else {
      try {
        piece.value->Evaluate({frame, frame.top()}, kElements, 0, 0, part->mutable_value());
      } catch (const Error& error) {
        part->set_error(error.what());
      }
    }
    bytes += part->ByteSizeLong();
    if (bytes > kMostLineBytes) {
      part->set_error("the rest is too long for a log message");
      return;
    }
  }
}

}  // namespace opstep
