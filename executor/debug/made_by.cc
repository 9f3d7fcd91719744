#include "debug/made_by.h"

#include <algorithm>
#include <map>
#include <set>

namespace opstep {
namespace {

constexpr uint64_t kHashed = uint64_t{1} << 62;

uint64_t Mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 1099511628211u; }

const proto::OpDesc* FindOp(const proto::ProgramDesc& program, uint32_t id) {
  for (const proto::BlockDesc& block : program.blocks()) {
    for (const proto::OpDesc& op : block.ops()) {
      if (op.id() == id) return &op;
    }
  }
  return nullptr;
}

// The op after which Python went on: for a gradient that is the forward op, whose line it has.
uint32_t TimeOf(const proto::ProgramDesc& program, const proto::OpDesc& op) {
  uint32_t time = op.id();
  for (const proto::OpDesc* at = &op; at && at->forward_op(); at = FindOp(program, at->forward_op()))
    time = at->forward_op();
  // One that was made on a line of its own: the first gradient.
  return op.visits_size() > 0 ? std::max(time, FirstOpOf(op.visits(0))) : time;
}

bool Writes(const proto::OpDesc& op, const std::string& variable) {
  return std::any_of(op.outputs().begin(), op.outputs().end(), [&](const proto::Slot& slot) {
    return std::find(slot.vars().begin(), slot.vars().end(), variable) != slot.vars().end();
  });
}

// Was the variable written by an op of that execution of a line, and not later than `last`?
bool WrittenBy(const proto::ProgramDesc& program, const std::string& variable, uint32_t visit,
               size_t frames, uint32_t last) {
  for (const proto::BlockDesc& block : program.blocks()) {
    for (const proto::OpDesc& op : block.ops()) {
      if (op.id() > last || static_cast<size_t>(op.visits_size()) < frames) continue;
      const uint32_t made = op.visits(op.visits_size() - static_cast<int>(frames));
      if (made == visit && Writes(op, variable)) return true;
    }
  }
  return false;
}

class History {
 public:
  History(const Plan& plan, const proto::OpDesc& op, bool after)
      : program_(plan.desc), op_(op), after_(after), time_(TimeOf(plan.desc, op)) {}

  // The names of one frame come before those that are there already.
  void Add(size_t frames) {
    const int at = op_.calls_size() - static_cast<int>(frames);
    std::map<std::string, std::string> names;
    std::map<std::string, std::set<std::string>> later;
    bool next = true;  // the first change behind the op
    for (const proto::NameChange& change : program_.names()) {
      if (change.call() != op_.calls(at)) continue;
      for (const proto::Naming& named : change.names()) {
        const std::string& name = program_.strings(static_cast<int>(named.name()));
        const std::string variable =
            named.variable() ? program_.strings(static_cast<int>(named.variable()) - 1) : "";
        if (change.op() > time_) {
          if (!variable.empty()) later[name].insert(variable);
          if (next && after_ && named.assigned() && !variable.empty() &&
              WrittenBy(program_, variable, op_.visits(at), frames, time_))
            names[name] = variable;
        } else if (variable.empty()) {
          names.erase(name);
        } else {
          names[name] = variable;
        }
      }
      if (change.op() > time_) next = false;
    }
    for (const auto& [name, variables] : later) {
      if (variables.size() == 1) names.try_emplace(name, *variables.begin());
    }
    for (const auto& [name, variable] : names) names_.try_emplace(name, variable);
  }

  std::vector<std::pair<std::string, std::string>> Take() const {
    return {names_.begin(), names_.end()};
  }

 private:
  const proto::ProgramDesc& program_;
  const proto::OpDesc& op_;
  const bool after_;
  const uint32_t time_;
  std::map<std::string, std::string> names_;
};

}  // namespace

MadeBy MadeByOf(const Plan& plan, const proto::OpDesc& op) {
  MadeBy made(static_cast<size_t>(op.stack_size()));
  const uint64_t gradient = op.forward_op() != 0;
  const bool known = op.calls_size() == op.stack_size() && op.visits_size() == op.stack_size();
  // Of a program that does not know: the same lines are taken for the same calls.
  uint64_t around = 1469598103934665603u;
  for (size_t i = 0; i < made.size(); ++i) {
    const int at = op.stack_size() - 1 - static_cast<int>(i);
    uint64_t call = 0, visit = 0;
    if (known) {
      call = op.calls(at);
      visit = op.visits(at);
    } else {
      const proto::CodeFrame& frame = plan.desc.frames(static_cast<int>(op.stack(at)));
      call = Mix(Mix(around, frame.file()), frame.function()) | kHashed;
      visit = around = Mix(call, frame.line()) | kHashed;
    }
    made[i] = {call << 1 | gradient, visit << 1 | gradient};
  }
  return made;
}

size_t SameVisits(const MadeBy& a, const MadeBy& b) {
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  return same;
}

size_t SameCalls(const MadeBy& a, const MadeBy& b) {
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[same].call == b[same].call) ++same;
  return same;
}

std::vector<std::pair<std::string, std::string>> NamesAt(const Plan& plan, const proto::OpDesc& op,
                                                         size_t frames, bool after) {
  if (frames == 0 || static_cast<size_t>(op.calls_size()) < frames) return {};
  History history(plan, op, after);
  history.Add(frames);
  // A function also sees the names of its module.
  const auto frame = [&](size_t number) -> const proto::CodeFrame& {
    const int at = op.stack_size() - static_cast<int>(number);
    return plan.desc.frames(static_cast<int>(op.stack(at)));
  };
  for (size_t outer = frames - 1; outer > 0; --outer) {
    const proto::CodeFrame& module = frame(outer);
    if (module.file() != frame(frames).file() ||
        plan.desc.strings(static_cast<int>(module.function())) != "<module>")
      continue;
    history.Add(outer);
    break;
  }
  return history.Take();
}

std::vector<std::string> VariablesNamed(const proto::ProgramDesc& program,
                                        const std::string& name) {
  std::set<std::string> variables;
  for (const proto::NameChange& change : program.names()) {
    for (const proto::Naming& named : change.names()) {
      if (named.variable() && program.strings(static_cast<int>(named.name())) == name)
        variables.insert(program.strings(static_cast<int>(named.variable()) - 1));
    }
  }
  return {variables.begin(), variables.end()};
}

}  // namespace opstep
