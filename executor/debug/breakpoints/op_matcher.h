// Matcher: which ops of a plan a breakpoint or tap means.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "debug.pb.h"
#include "plan/plan.h"

namespace opstep {

class Matcher {
 public:
  virtual ~Matcher() = default;
  virtual bool Matches(const proto::OpDesc& op) const = 0;
  // Of a line: which frame of a matching op's stack is on it (1 is the outermost); else 0.
  virtual uint32_t Frame(const proto::OpDesc&) const { return 0; }

  // An op number or listing line without a program is looked up in this plan.
  static std::unique_ptr<Matcher> For(const proto::Breakpoint& spec, const Plan& plan);
  // Ops that give parameters their first values, made on the line on the way to its own ops.
  static std::unique_ptr<Matcher> ForFirstValues(const proto::SourceLine& line, const Plan& plan);
  // The prefix "grad:" selects gradient ops only.
  static std::unique_ptr<Matcher> ForPattern(const std::string& pattern, const Plan& plan);
};

// The file with links and dots resolved; the path itself when there is none.
std::string RealPath(const std::string& path);
// Lines of the file on which ops of the plan were made.
std::set<uint32_t> LinesWithOps(const Plan& plan, const std::string& file, bool gradients);
// A loop is made on two lines, `loop = While(...)` and `with loop.block():`, and its op has the
// second: the line of such an op just below this line; 0 when there is none.
uint32_t BlockOpBelow(const Plan& plan, const proto::SourceLine& line);
// Does the program do nothing but give parameters their first values?
bool OnlyFirstValues(const Plan& plan);
// The op whose name is most like the pattern, or "".
std::string NearestOp(const Plan& plan, const std::string& pattern);
// The variable of the plan whose name is most like this one, or "".
std::string NearestVariable(const Plan& plan, const std::string& name);
// Shell patterns: * any characters, ? one.
bool MatchesGlob(std::string_view pattern, std::string_view text);

}  // namespace opstep
