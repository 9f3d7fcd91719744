// BindTarget: the sentences that say why no op is bound.
#include "debug/breakpoints/bind_target.h"

#include <algorithm>

#include "debug/breakpoints/op_matcher.h"

namespace opstep {
namespace {

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// "; nearest lines with ops: 10, 14"
std::string NearestLines(const std::set<uint32_t>& lines, uint32_t line) {
  if (lines.empty()) return "";
  const auto after = lines.lower_bound(line);
  std::string text;
  if (after != lines.begin()) text = std::to_string(*std::prev(after));
  if (after != lines.end()) text += (text.empty() ? "" : ", ") + std::to_string(*after);
  return " (nearest lines with ops: " + text + ")";
}

// "a, b and 3 more"
std::string Several(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > kMost ? Cat(text, " and ", names.size() - kMost, " more") : text;
}

bool IsBlock(const proto::Breakpoint& spec) {
  return spec.has_pattern() && spec.pattern().starts_with("block:");
}

// The names of the first few, for people.
std::string OpsWithBlocks(const Plan& plan) {
  constexpr size_t kMost = 4;
  std::vector<std::string> names;
  for (const BlockPlan& block : plan.blocks) {
    if (block.parent < 0) continue;
    const std::string& name = plan.blocks[block.parent].code[block.parent_index].op->name();
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > kMost ? text + ", …" : text;
}

}  // namespace

bool BindTarget::NamesNoProgram(const proto::Breakpoint& spec) {
  return (spec.has_op() && spec.op().program() == 0) ||
         (spec.has_listing() && spec.listing().program_name().empty());
}

bool BindTarget::MayBeIn(const proto::Breakpoint& spec, const Plan& plan) const {
  if (!NamesNoProgram(spec)) return true;
  return !(program && program != plan.program_id) && !OnlyFirstValues(plan);
}

void BindTarget::Explain(const proto::Breakpoint& spec, const Plan& plan) {
  if (spec.where_case() == proto::Breakpoint::kLine) {
    lines.merge(LinesWithOps(plan, spec.line().file(), spec.gradients()));
    beside |= !spec.gradients() &&
              LinesWithOps(plan, spec.line().file(), true).contains(spec.line().line());
  } else if (IsBlock(spec)) {
    if (std::string names = OpsWithBlocks(plan); !names.empty()) nearest = names;
  } else if (spec.where_case() == proto::Breakpoint::kPattern) {
    if (std::string near = NearestOp(plan, spec.pattern()); !near.empty()) nearest = near;
  } else if (spec.where_case() == proto::Breakpoint::kData) {
    if (std::string near = NearestVariable(plan, spec.data().variable()); !near.empty())
      nearest = near;
    const std::vector<std::string> named = VariablesNamed(plan.desc, spec.data().variable());
    if (named.size() > 1) several = Several(named);
  } else if (spec.where_case() == proto::Breakpoint::kOp) {
    if (spec.op().program() == plan.program_id) program_name = plan.program_name;
  } else if (spec.where_case() == proto::Breakpoint::kListing &&
             (NamesNoProgram(spec) || spec.listing().program_name() == plan.program_name)) {
    for (const BlockPlan& block : plan.blocks) {
      for (const Instruction& instruction : block.code) {
        const auto line = plan.listing.line_of.find(instruction.op_id);
        if (line != plan.listing.line_of.end()) lines.insert(line->second);
      }
    }
  }
}

std::string BindTarget::WhyUnbound(const proto::Breakpoint& spec) const {
  const std::string yet = seen_plan ? "" : " yet";
  switch (spec.where_case()) {
    case proto::Breakpoint::kLine:
      if (beside) {
        return Cat("only gradients and first values of parameters were made on ",
                   BaseName(spec.line().file()), ":", spec.line().line(), " so far");
      }
      return Cat("no op was made on ", BaseName(spec.line().file()), ":", spec.line().line(), yet,
                 NearestLines(lines, spec.line().line()));
    case proto::Breakpoint::kListing:
      return Cat(
          "no op that runs is on line ", spec.listing().line(), " of ",
          NamesNoProgram(spec) ? "a listing" : "program '" + spec.listing().program_name() + "'",
          yet, NearestLines(lines, spec.listing().line()));
    case proto::Breakpoint::kPattern:
      if (IsBlock(spec)) {
        return Cat("no block matches '", spec.pattern(), "'", yet,
                   nearest.empty() ? "" : "; ops that run blocks: ", nearest);
      }
      if (spec.pattern().starts_with("grad:")) {
        return Cat("no gradient matches '", spec.pattern().substr(5), "'", yet,
                   nearest.empty() ? "" : "; nearest: ", nearest);
      }
      return Cat("no op matches '", spec.pattern(), "'", yet,
                 nearest.empty() ? "" : "; nearest: ", nearest);
    case proto::Breakpoint::kOp:
      if (NamesNoProgram(spec)) return Cat("no program runs an op #", spec.op().op(), yet);
      return Cat(
          "program ",
          program_name.empty() ? std::to_string(spec.op().program()) : "'" + program_name + "'",
          " runs no op #", spec.op().op(), yet);
    case proto::Breakpoint::kData:
      if (!several.empty()) {
        return Cat("Python's '", spec.data().variable(), "' held ", several,
                   " in turn: choose one of them");
      }
      if (nearest.empty() || nearest == spec.data().variable()) {
        return Cat("no op writes '", spec.data().variable(), "'", yet);
      }
      return Cat("no op writes '", spec.data().variable(), "'", yet, "; nearest: ", nearest);
    case proto::Breakpoint::WHERE_NOT_SET:
      break;
  }
  return "this executor does not know that kind of place: install the same opstep on both "
         "sides";
}

proto::Breakpoint WithVariable(proto::Breakpoint spec, const Plan& plan, const BoundPlan& bound) {
  if (!spec.has_data()) return spec;
  const std::string& name = spec.data().variable();
  for (const auto& slots : plan.slot_of) {
    if (slots.contains(name)) return spec;
  }
  if (bound.traced) {
    const PythonName* python = bound.python ? bound.python->Find(plan.program_id, name) : nullptr;
    if (python && !python->other) spec.mutable_data()->set_variable(python->variable);
    return spec;
  }
  // The variable of a name that has held several is known only at a stop.
  const std::vector<std::string> named = VariablesNamed(plan.desc, name);
  if (named.size() == 1) spec.mutable_data()->set_variable(named[0]);
  return spec;
}

}  // namespace opstep
