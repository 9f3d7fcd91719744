// Matchers: ops by line, listing line, pattern, number and written variable; nearest names.
#include "debug/breakpoints/op_matcher.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>

#include "debug/plans/bound_plans.h"
#include "debug/plans/slots.h"

namespace opstep {
namespace {

constexpr std::string_view kGradPrefix = "grad:";
constexpr std::string_view kBlockPrefix = "block:";
// How far below a loop's first line its second may be: an empty line and a comment between.
constexpr uint32_t kBelow = 3;

// Does the op give a parameter its first value?
bool IsFirstValue(const proto::OpDesc& op, const Plan& plan) {
  if (IsGradient(op) || op.inputs_size() != 0 || op.outputs_size() == 0) return false;
  for (const proto::Slot& slot : op.outputs()) {
    for (const std::string& name : slot.vars()) {
      if (plan.slots[plan.FindSlot(0, name)].storage != Storage::kScope) return false;
    }
  }
  return true;
}

// An op made besides the one that the user's line asked for: a gradient, or the op that gives a
// parameter its first value. A stop at a layer does not mean these ops.
bool Beside(const proto::OpDesc& op, const Plan& plan) {
  return IsGradient(op) || IsFirstValue(op, plan);
}

// Any frame of the op's creation stack is on the line.
class LineMatcher : public Matcher {
 public:
  LineMatcher(const proto::SourceLine& line, bool gradients, const Plan& plan)
      : plan_(plan), gradients_(gradients) {
    const std::string file = RealPath(line.file());
    std::unordered_map<uint32_t, bool> same_file;
    for (int i = 0; i < plan.desc.frames_size(); ++i) {
      const proto::CodeFrame& frame = plan.desc.frames(i);
      if (frame.line() != line.line()) continue;
      const auto [it, is_new] = same_file.try_emplace(frame.file());
      if (is_new) it->second = RealPath(plan.desc.strings(frame.file())) == file;
      if (it->second) frames_.insert(i);
    }
  }

  bool Matches(const proto::OpDesc& op) const override {
    return (gradients_ || !Beside(op, plan_)) && IsOn(op);
  }

  // … whatever kind of op it is.
  bool IsOn(const proto::OpDesc& op) const {
    if (frames_.empty()) return false;
    for (uint32_t frame : op.stack()) {
      if (frames_.contains(frame)) return true;
    }
    return false;
  }

  uint32_t Frame(const proto::OpDesc& op) const override {
    const auto frame = std::find_if(op.stack().begin(), op.stack().end(),
                                    [this](uint32_t f) { return frames_.contains(f); });
    return static_cast<uint32_t>(op.stack().end() - frame);
  }

 private:
  const Plan& plan_;
  bool gradients_;
  std::unordered_set<uint32_t> frames_;
};

class FirstValueMatcher : public Matcher {
 public:
  FirstValueMatcher(const proto::SourceLine& line, const Plan& plan)
      : plan_(plan), line_(line, false, plan) {}
  bool Matches(const proto::OpDesc& op) const override {
    return IsFirstValue(op, plan_) && line_.IsOn(op);
  }
  uint32_t Frame(const proto::OpDesc& op) const override { return line_.Frame(op); }

 private:
  const Plan& plan_;
  LineMatcher line_;
};

class OpMatcher : public Matcher {
 public:
  explicit OpMatcher(uint32_t id) : id_(id) {}
  bool Matches(const proto::OpDesc& op) const override { return id_ && op.id() == id_; }

 private:
  uint32_t id_;
};

class PatternMatcher : public Matcher {
 public:
  PatternMatcher(std::string_view pattern, const Plan& plan) : pattern_(pattern) {
    if (!pattern_.starts_with(kGradPrefix)) return;
    pattern_.erase(0, kGradPrefix.size());
    gradients_only_ = true;
    for (const proto::BlockDesc& block : plan.desc.blocks()) {
      for (const proto::OpDesc& op : block.ops()) {
        if (Fits(op)) forward_.insert(op.id());
      }
    }
  }

  // A gradient op matches by its own name and by that of its forward op.
  bool Matches(const proto::OpDesc& op) const override {
    if (gradients_only_ && !IsGradient(op)) return false;
    return Fits(op) || (gradients_only_ && (forward_.contains(op.forward_op()) ||
                                            (op.has_forward() && Fits(op.forward()))));
  }

 private:
  // An op, or the one of another program that it belongs to.
  template <typename NamedOp>
  bool Fits(const NamedOp& op) const {
    return op.type() == pattern_ || MatchesGlob(pattern_, op.name());
  }
  std::string pattern_;
  bool gradients_only_ = false;
  std::unordered_set<uint32_t> forward_;
};

// The first op of blocks, which are named by their number or by the op that runs them: "while_0",
// "cond", "cond_0.true_block".
class BlockMatcher : public Matcher {
 public:
  BlockMatcher(const std::string& wanted, const Plan& plan) {
    for (size_t block = 1; block < plan.blocks.size(); ++block) {
      const BlockPlan& b = plan.blocks[block];
      if (b.parent < 0) continue;
      const proto::OpDesc& runs = *plan.blocks[b.parent].code[b.parent_index].op;
      if (wanted != std::to_string(block) && !Fits(wanted, runs, static_cast<int64_t>(block)))
        continue;
      auto first = std::find_if(b.code.begin(), b.code.end(),
                                [](const Instruction& i) { return !IsQuiet(*i.op); });
      if (first == b.code.end()) first = b.code.begin();
      if (first != b.code.end()) ops_.insert(first->op_id);
    }
  }

  bool Matches(const proto::OpDesc& op) const override { return ops_.contains(op.id()); }

 private:
  static bool Fits(const std::string& wanted, const proto::OpDesc& runs, int64_t block) {
    if (runs.type() == wanted || MatchesGlob(wanted, runs.name())) return true;
    return std::any_of(runs.attrs().begin(), runs.attrs().end(), [&](const proto::Attr& attr) {
      return attr.value_case() == proto::Attr::kBlock && attr.block() == block &&
             MatchesGlob(wanted, runs.name() + "." + attr.name());
    });
  }
  std::unordered_set<uint32_t> ops_;
};

// Ops that write the variable. A write by an op of a block counts for that op only, not for the op
// that runs the block.
class WriteMatcher : public Matcher {
 public:
  WriteMatcher(const std::string& variable, const Plan& plan) {
    std::vector<Write> writes;
    for (size_t block = 0; block < plan.blocks.size(); ++block) {
      const uint32_t slot = plan.FindSlot(static_cast<int>(block), variable);
      if (!slot || !HoldsTensor(plan.slots[slot])) continue;
      for (const Instruction& instruction : plan.blocks[block].code) {
        const uint32_t* out = instruction.args + instruction.n_in;
        if (std::find(out, out + instruction.n_out, slot) == out + instruction.n_out) continue;
        writes.push_back({static_cast<int>(block), slot, &instruction});
      }
    }
    for (const Write& write : writes) {
      const bool inside = std::any_of(writes.begin(), writes.end(), [&](const Write& other) {
        return other.slot == write.slot && RunBy(plan, other.block, write);
      });
      if (!inside) ops_.insert(write.instruction->op_id);
    }
  }

  bool Matches(const proto::OpDesc& op) const override { return ops_.contains(op.id()); }

 private:
  struct Write {
    int block;
    uint32_t slot;
    const Instruction* instruction;
  };
  static bool RunBy(const Plan& plan, int block, const Write& write) {
    for (; plan.blocks[block].parent >= 0; block = plan.blocks[block].parent) {
      if (plan.blocks[block].parent == write.block &&
          plan.blocks[block].parent_index == write.instruction->index)
        return true;
    }
    return false;
  }
  std::unordered_set<uint32_t> ops_;
};

uint32_t OpOnLine(const proto::ListingLine& where, const Plan& plan) {
  if (!where.program_name().empty() && where.program_name() != plan.program_name) return 0;
  for (const auto& [op, line] : plan.listing.line_of) {
    if (line == where.line()) return op;
  }
  return 0;
}

}  // namespace

std::unique_ptr<Matcher> Matcher::For(const proto::Breakpoint& spec, const Plan& plan) {
  switch (spec.where_case()) {
    case proto::Breakpoint::kLine:
      return std::make_unique<LineMatcher>(spec.line(), spec.gradients(), plan);
    case proto::Breakpoint::kListing:
      return std::make_unique<OpMatcher>(OpOnLine(spec.listing(), plan));
    case proto::Breakpoint::kPattern:
      if (spec.pattern().starts_with(kBlockPrefix)) {
        return std::make_unique<BlockMatcher>(spec.pattern().substr(kBlockPrefix.size()), plan);
      }
      return ForPattern(spec.pattern(), plan);
    case proto::Breakpoint::kOp: {
      const uint32_t program = spec.op().program();
      const bool ours = program == 0 || program == plan.program_id;
      return std::make_unique<OpMatcher>(ours ? spec.op().op() : 0);
    }
    case proto::Breakpoint::kData:
      return std::make_unique<WriteMatcher>(spec.data().variable(), plan);
    case proto::Breakpoint::WHERE_NOT_SET:
      break;
  }
  return std::make_unique<OpMatcher>(0);
}

std::unique_ptr<Matcher> Matcher::ForFirstValues(const proto::SourceLine& line, const Plan& plan) {
  return std::make_unique<FirstValueMatcher>(line, plan);
}

std::unique_ptr<Matcher> Matcher::ForPattern(const std::string& pattern, const Plan& plan) {
  return std::make_unique<PatternMatcher>(pattern, plan);
}

std::string RealPath(const std::string& path) {
  char* const real = ::realpath(path.c_str(), nullptr);
  if (!real) return path;
  std::string result(real);
  std::free(real);
  return result;
}

std::set<uint32_t> LinesWithOps(const Plan& plan, const std::string& file, bool gradients) {
  const std::string wanted = RealPath(file);
  std::unordered_map<uint32_t, bool> same_file;
  std::set<uint32_t> lines;
  for (const BlockPlan& block : plan.blocks) {
    for (const Instruction& instruction : block.code) {
      if (!gradients && Beside(*instruction.op, plan)) continue;
      for (uint32_t index : instruction.op->stack()) {
        const proto::CodeFrame& frame = plan.desc.frames(index);
        const auto [it, is_new] = same_file.try_emplace(frame.file());
        if (is_new) it->second = RealPath(plan.desc.strings(frame.file())) == wanted;
        if (it->second) lines.insert(frame.line());
      }
    }
  }
  return lines;
}

uint32_t BlockOpBelow(const Plan& plan, const proto::SourceLine& line) {
  const std::set<uint32_t> lines = LinesWithOps(plan, line.file(), false);
  const auto below = lines.upper_bound(line.line());
  if (below == lines.end() || *below > line.line() + kBelow) return 0;
  proto::SourceLine there = line;
  there.set_line(*below);
  const LineMatcher matcher(there, false, plan);
  for (const BlockPlan& block : plan.blocks) {
    for (const Instruction& instruction : block.code) {
      const bool runs_blocks = !OpView(*instruction.op).Blocks().empty();
      if (runs_blocks && matcher.Matches(*instruction.op)) return *below;
    }
  }
  return 0;
}

bool OnlyFirstValues(const Plan& plan) {
  for (const BlockPlan& block : plan.blocks) {
    for (const Instruction& instruction : block.code) {
      if (!Beside(*instruction.op, plan)) return false;
    }
  }
  return true;
}

std::string NearestOp(const Plan& plan, const std::string& pattern) {
  std::string stem =
      pattern.starts_with(kGradPrefix) ? pattern.substr(kGradPrefix.size()) : pattern;
  const bool glob = stem.find_first_of("*?") != std::string::npos;
  if (glob) stem.resize(stem.find_first_of("*?"));
  // The part before the star is compared with the same length of each name.
  std::vector<std::string> starts, names;
  for (const BlockPlan& block : plan.blocks) {
    for (const Instruction& instruction : block.code) {
      const proto::OpDesc& op = *instruction.op;
      starts.push_back(glob ? op.name().substr(0, stem.size()) : op.name());
      names.push_back(op.name());
      if (glob) continue;
      starts.push_back(op.type());
      names.push_back(op.type());
    }
  }
  const std::string nearest = stem.empty() ? "" : Nearest(stem, starts);
  for (size_t i = 0; !nearest.empty() && i < starts.size(); ++i) {
    if (starts[i] == nearest) return names[i];
  }
  return "";
}

std::string NearestVariable(const Plan& plan, const std::string& name) {
  std::vector<std::string> names;
  for (const SlotPlan& slot : plan.slots) {
    if (!slot.name.empty()) names.push_back(slot.name);
  }
  return Nearest(name, names);
}

bool MatchesGlob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace opstep
