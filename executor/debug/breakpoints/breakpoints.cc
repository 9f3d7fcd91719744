// Breakpoints: binding to the ops of a plan, and the status of each.
#include "debug/breakpoints/breakpoints.h"

#include <algorithm>

#include "debug/breakpoints/op_matcher.h"
#include "debug/plans/program_messages.h"
#include "runtime/traced_program.h"

namespace opstep {
namespace {

// Which ops of a plan match, and where the ops of one execution of a line begin.
struct Matches {
  const Plan* plan;
  std::vector<std::vector<char>> hit;
  // Of a line: its frame in the op's stack (1 is the outermost), and which execution.
  std::vector<std::vector<uint32_t>> frames;
  std::vector<std::vector<CallVisit>> visit;

  Matches(const Plan& p, const BoundPlan& bound, const Matcher& matcher) : plan(&p) {
    for (size_t b = 0; b < p.blocks.size(); ++b) {
      hit.emplace_back();
      frames.emplace_back();
      visit.emplace_back();
      for (const Instruction& instruction : p.blocks[b].code) {
        const bool hits = matcher.Matches(*instruction.op);
        const uint32_t frame = hits ? matcher.Frame(*instruction.op) : 0;
        const MadeBy& made = *bound.facts[b][instruction.index].made;
        hit.back().push_back(hits);
        frames.back().push_back(frame);
        visit.back().push_back(frame ? made[frame - 1] : CallVisit());
      }
    }
  }
  bool Any() const {
    return std::any_of(hit.begin(), hit.end(), [](const std::vector<char>& block) {
      return std::find(block.begin(), block.end(), 1) != block.end();
    });
  }
  // A body whose op was made on the same line is part of that op's visit.
  bool StartsVisit(size_t block, uint32_t index) const {
    const BlockPlan& b = plan->blocks[block];
    for (uint32_t before = index; before-- > 0;) {
      if (IsQuiet(*b.code[before].op)) continue;
      return !hit[block][before] || visit[block][before] != visit[block][index];
    }
    return b.parent < 0 || !hit[b.parent][b.parent_index];
  }
};

// Why it may not be logged at the op; empty when it may.
std::string Refusal(const TapLimits& limits, const proto::Breakpoint& spec,
                    const proto::OpDesc& op) {
  if (!limits.Allows(op)) return Cat("this process does not let '", op.name(), "' be logged");
  try {
    if (spec.has_condition()) limits.CheckAllowed(spec.condition(), op);
    for (const proto::LogMessage::Piece& piece : spec.log().pieces()) {
      if (piece.has_value()) limits.CheckAllowed(piece.value(), op);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

void Breakpoints::Replace(const proto::SetBreakpoints& wanted) {
  std::unordered_map<uint32_t, Entry> old = std::move(entries_);
  entries_.clear();
  for (const proto::Breakpoint& spec : wanted.breakpoints()) {
    Entry entry;
    const auto it = old.find(spec.id());
    if (it != old.end() && it->second.spec.SerializeAsString() == spec.SerializeAsString()) {
      entry = it->second;
    } else if (spec.has_hits()) {
      entry.hits = std::make_shared<HitCount>(spec.hits());
    }
    entry.spec = spec;
    entry.order = entries_.size();
    entries_.insert_or_assign(spec.id(), std::move(entry));
  }
  for (auto& [id, entry] : entries_) Refresh(entry);
}

bool Breakpoints::Take(uint32_t id, bool* gone) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return false;
  if (it->second.spec.temporary()) {
    entries_.erase(it);
    *gone = true;
  }
  return true;
}

void Breakpoints::Bind(const Plan& plan, BoundPlan& bound) {
  for (Entry* entry : InOrder()) {
    BindOne(*entry, plan, bound);
    Refresh(*entry);
  }
}

void Breakpoints::BindOne(Entry& entry, const Plan& plan, BoundPlan& bound) {
  const proto::Breakpoint spec = WithVariable(entry.spec, plan, bound);
  const bool line = spec.where_case() == proto::Breakpoint::kLine;
  if (!entry.target.MayBeIn(spec, plan)) return;
  Matches matches(plan, bound, *Matcher::For(spec, plan));
  if (line && !matches.Any() && (entry.ops.empty() || entry.moved)) {
    if (const uint32_t below = BlockOpBelow(plan, spec.line())) {
      proto::Breakpoint moved = spec;
      moved.mutable_line()->set_line(below);
      matches = Matches(plan, bound, *Matcher::For(moved, plan));
      entry.moved = below;
    }
  }
  size_t bound_ops = 0, unfit = 0;
  for (size_t block = 0; block < plan.blocks.size(); ++block) {
    uint32_t start = 0;
    bool inside = false;  // of a visit that began in an outer block
    bool any = false;
    for (const Instruction& instruction : plan.blocks[block].code) {
      const uint32_t index = instruction.index;
      if (!matches.hit[block][index]) continue;
      const bool starts = matches.StartsVisit(block, index);
      if (starts || !any) {
        start = index;
        inside = !starts;
      }
      any = true;
      // Without a condition only the first op of a visit counts; with a condition, any of its ops
      // may hold.
      if (line && !spec.has_condition() && (inside || start != index)) {
        entry.ops.emplace(plan.program_id, instruction.op_id);
        ++bound_ops;
        continue;
      }
      if (limits_ != nullptr) {
        std::string why = Refusal(*limits_, spec, *instruction.op);
        if (!why.empty()) {
          entry.refused = std::move(why);
          continue;
        }
      }
      Binding binding;
      binding.breakpoint = spec.id();
      binding.once_in_visit = line;
      binding.frames = matches.frames[block][index];
      try {
        BindAt(entry, spec, plan, static_cast<int>(block), instruction, std::move(binding), bound);
      } catch (const Error& error) {
        entry.condition_error = error.what();
        ++unfit;
        continue;
      }
      if (!entry.status.has_first()) {
        FillOpInfo(plan, static_cast<int>(block), *instruction.op, entry.status.mutable_first());
        entry.status.set_first_program(plan.program_id);
      }
      entry.ops.emplace(plan.program_id, instruction.op_id);
      ++bound_ops;
    }
  }
  if (line && IsTraced(plan)) JoinStops(entry, spec, plan, bound);
  // In imperative mode more ops can always follow: a missing one may still come.
  line_by_line_ |= IsTraced(plan);
  const bool whole = !IsTraced(plan) && !(line_by_line_ && OnlyFirstValues(plan));
  entry.target.seen_plan |= whole;
  if (bound_ops) {
    entry.unfit = unfit;
    entry.target.program = plan.program_id;
    entry.target.program_name = plan.program_name;
  }
  if (entry.ops.empty() && whole) entry.target.Explain(entry.spec, plan);
}

// In imperative mode the first call of a layer gives its parameters their values on the way to the
// line's own op. A step that ends there has reached the line: its own op is no second stop.
void Breakpoints::JoinStops(Entry& entry, const proto::Breakpoint& spec, const Plan& plan,
                            BoundPlan& bound) const {
  if (spec.gradients() || spec.has_condition() || spec.has_log()) return;
  const auto matcher = Matcher::ForFirstValues(spec.line(), plan);
  for (size_t block = 0; block < plan.blocks.size(); ++block) {
    for (const Instruction& instruction : plan.blocks[block].code) {
      if (!matcher->Matches(*instruction.op)) continue;
      Binding binding;
      binding.breakpoint = spec.id();
      binding.once_in_visit = true;
      binding.joins = true;
      binding.frames = matcher->Frame(*instruction.op);
      BindAt(entry, spec, plan, static_cast<int>(block), instruction, std::move(binding), bound);
    }
  }
}

// Throws when the condition cannot be evaluated at the op.
void Breakpoints::BindAt(Entry& entry, const proto::Breakpoint& spec, const Plan& plan, int block,
                         const Instruction& instruction, Binding binding, BoundPlan& bound) const {
  bool after = spec.has_data();
  binding.hits = entry.hits;
  const PythonNames names = bound.NamesAt(plan, *instruction.op);
  // On a line of Python its names are in view; where only values of ops may be shown, Python's are
  // not read.
  NamesReport found;
  found.may_be_late = bound.traced && limits_ == nullptr;
  const bool on_line = spec.where_case() == proto::Breakpoint::kLine;
  NamesReport* report = on_line || found.may_be_late ? &found : nullptr;
  if (spec.has_condition()) {
    binding.condition =
        Expression::Bind(spec.condition(), plan, block, instruction.op, &names, report);
    after |= binding.condition->needs_outputs();
  }
  if (spec.has_log()) {
    binding.log = LogLine::Bind(spec.log(), plan, block, instruction.op, &names, report);
    after |= binding.log->needs_outputs();
    if (!binding.log->problem().empty()) entry.log_problem = binding.log->problem();
  }
  if (on_line && entry.hidden.empty()) entry.hidden = found.hidden;
  if (found.may_be_late && found.late) binding.late = std::make_shared<proto::Breakpoint>(spec);
  OpWork& work = bound.WorkAt(static_cast<size_t>(block), instruction.index);
  if (spec.has_data()) {
    binding.written = plan.FindSlot(block, spec.data().variable());
    binding.changed = spec.data().changed();
    work.written.push_back(binding.written);
  }
  (after ? work.after : work.before).push_back(std::move(binding));
}

void Breakpoints::Refresh(Entry& entry) const {
  proto::BreakpointStatus& status = entry.status;
  status.set_id(entry.spec.id());
  status.set_op_count(static_cast<uint32_t>(entry.ops.size()));
  status.set_verified(!entry.ops.empty() && status.has_first());
  if (!status.verified() && !entry.refused.empty()) {
    status.set_message(entry.refused);
  } else if (!status.verified()) {
    status.set_message(entry.condition_error.empty()
                           ? entry.target.WhyUnbound(entry.spec)
                           : Cat("the condition '", entry.spec.condition_text(),
                                 "' cannot be used: ", entry.condition_error));
  } else if (!entry.condition_failed.empty()) {
    status.set_message(
        Cat("the condition '", entry.spec.condition_text(), "' failed: ", entry.condition_failed));
  } else if (entry.unfit) {
    status.set_message(Cat("the condition '", entry.spec.condition_text(),
                           "' cannot be evaluated at ", entry.unfit,
                           " of the ops: ", entry.condition_error));
  } else if (!entry.refused.empty()) {
    status.set_message(Cat("some ops are not logged: ", entry.refused));
  } else if (!entry.log_problem.empty()) {
    status.set_message(Cat("the log message has no value at some ops: ", entry.log_problem));
  } else if (entry.moved) {
    status.set_message(
        Cat("moved to line ", entry.moved, ", where the op that runs the block was made"));
  } else if (BindTarget::NamesNoProgram(entry.spec)) {
    status.set_message(Cat("bound to program '", entry.target.program_name, "'"));
  } else {
    status.clear_message();
  }
  if (status.verified() && !entry.hidden.empty()) {
    status.set_message(status.message().empty() ? entry.hidden
                                                : Cat(status.message(), "; ", entry.hidden));
  }
}

void Breakpoints::ConditionFailed(uint32_t id, const std::string& error) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.condition_failed.empty()) return;
  it->second.condition_failed = error;
  Refresh(it->second);
}

std::vector<Breakpoints::Entry*> Breakpoints::InOrder() {
  std::vector<Entry*> entries;
  for (auto& [id, entry] : entries_) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return a->order < b->order; });
  return entries;
}

proto::BreakpointStatuses Breakpoints::Tell() {
  proto::BreakpointStatuses all;
  for (Entry* entry : InOrder()) {
    *all.add_statuses() = entry->status;
    entry->told = entry->status.SerializeAsString();
  }
  return all;
}

std::vector<proto::BreakpointStatus> Breakpoints::TakeChanges() {
  std::vector<proto::BreakpointStatus> changes;
  for (Entry* entry : InOrder()) {
    std::string now = entry->status.SerializeAsString();
    if (now == entry->told) continue;
    entry->told = std::move(now);
    changes.push_back(entry->status);
  }
  return changes;
}

}  // namespace opstep
