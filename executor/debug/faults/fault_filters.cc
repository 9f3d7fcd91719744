// FaultFilters: binding to the ops of a plan.
#include "debug/faults/fault_filters.h"

#include "debug/breakpoints/op_matcher.h"

namespace opstep {
namespace {

// The largest float16.
constexpr double kLimit = 65504;

std::string Problem(const proto::FaultFilter& spec, const std::string& error) {
  return Cat("the condition '", spec.condition_text(), "' cannot be used: ", error);
}

}  // namespace

void FaultFilters::Replace(const proto::SetFaultFilters& wanted) {
  entries_.clear();
  for (const proto::FaultFilter& spec : wanted.filters()) entries_.emplace_back().spec = spec;
}

void FaultFilters::Bind(const Plan& plan, BoundPlan& bound) {
  for (Entry& entry : entries_) {
    const proto::FaultFilter& spec = entry.spec;
    const std::unique_ptr<Matcher> ops =
        spec.ops().empty() ? nullptr : Matcher::ForPattern(spec.ops(), plan);
    const bool error = spec.kind() == proto::FAULT_ERROR;
    for (size_t block = 0; block < plan.blocks.size(); ++block) {
      for (const Instruction& instruction : plan.blocks[block].code) {
        if (!error && !bound.facts[block][instruction.index].float_outputs) continue;
        if (ops && !ops->Matches(*instruction.op)) continue;
        FaultBinding fault{spec.kind(), spec.limit() > 0 ? spec.limit() : kLimit, nullptr};
        if (spec.has_condition()) {
          try {
            const PythonNames names = bound.NamesAt(plan, *instruction.op);
            fault.condition = Expression::Bind(spec.condition(), plan, static_cast<int>(block),
                                               instruction.op, &names);
          } catch (const Error& why) {
            entry.error = why.what();
            continue;
          }
        }
        entry.bound = true;
        OpWork& work = bound.WorkAt(block, instruction.index);
        (error ? work.errors : work.faults).push_back(std::move(fault));
      }
    }
  }
}

proto::FaultStatuses FaultFilters::Tell() {
  proto::FaultStatuses all;
  for (Entry& entry : entries_) {
    entry.told = entry.bound || entry.error.empty() ? "" : Problem(entry.spec, entry.error);
    all.add_messages(entry.told);
  }
  return all;
}

std::optional<proto::FaultStatuses> FaultFilters::TakeChanges() {
  bool changed = false;
  for (const Entry& entry : entries_) {
    const bool useless = !entry.bound && !entry.error.empty();
    changed |= useless ? entry.told != Problem(entry.spec, entry.error) : !entry.told.empty();
  }
  if (!changed) return std::nullopt;
  return Tell();
}

}  // namespace opstep
