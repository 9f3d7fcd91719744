// The calls, visits and names that are recorded with an op.
#include "debug/plans/made_by.h"

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

// The op after which Python continued: for a gradient this is the forward op, whose line it has.
uint32_t TimeOf(const proto::ProgramDesc& program, const proto::OpDesc& op) {
  uint32_t time = op.id();
  for (const proto::OpDesc* at = &op; at && at->forward_op();
       at = FindOp(program, at->forward_op()))
    time = at->forward_op();
  // A gradient made on its own line: the first one.
  return op.visits_size() > 0 ? std::max(time, FirstOpOf(op.visits(0))) : time;
}

bool Writes(const proto::OpDesc& op, const std::string& variable) {
  return std::any_of(op.outputs().begin(), op.outputs().end(), [&](const proto::Slot& slot) {
    return std::find(slot.vars().begin(), slot.vars().end(), variable) != slot.vars().end();
  });
}

// The values of the names in calls, and their later changes.
class History {
 public:
  History(const Plan& plan, const proto::OpDesc& op, bool after)
      : program_(plan.desc), op_(op), after_(after), time_(TimeOf(plan.desc, op)) {
    for (const proto::BlockDesc& block : program_.blocks()) {
      for (const proto::VarDesc& var : block.vars()) {
        if (var.persistable()) persistable_.insert(var.name());
      }
    }
  }

  // Adds the names of one frame; names that are already present hide them.
  void Add(size_t frames) {
    const size_t at = static_cast<size_t>(op_.calls_size()) - frames;
    call_ = op_.calls(static_cast<int>(at));
    visit_ = op_.visits(static_cast<int>(at));
    frame_ = &program_.frames(static_cast<int>(op_.stack(static_cast<int>(at))));
    Collect();
    std::map<std::string, NameAt> names;
    std::map<std::string, std::map<std::string, uint32_t>> later;  // name → variable → line
    bool next = true;                                              // the first change after the op
    for (const proto::NameChange& change : program_.names()) {
      if (change.call() != call_) continue;
      const bool before = change.op() <= time_;
      for (const proto::Naming& named : change.names()) {
        const std::string& name = Text(named.name());
        NameAt found{name, named.variable() ? Text(named.variable() - 1) : "",
                     named.assigned() ? LineBefore(change.op()) : 0};
        const bool gone = found.variable.empty() && !named.other();
        if (before && gone) {
          names.erase(name);
        } else if (before) {
          names[name] = std::move(found);
        } else if (!found.variable.empty()) {
          if (next && after_ && named.assigned() && IsWritten(found.variable)) names[name] = found;
          later[name].emplace(found.variable, found.line);
        }
      }
      if (!before) next = false;
    }
    // The last assignment in a call has no later change.
    for (const auto& [visit, result] : results_) {
      const std::string variable = result.Variable();
      if (variable.empty() || (FirstOpOf(visit) < FirstOpOf(visit_))) continue;
      if (visit == visit_ && after_ && IsWritten(variable))
        names[result.target] = {result.target, variable, result.line};
      later[result.target].emplace(variable, result.line);
    }
    for (const auto& [name, variables] : later) {
      // Names of the module are looked up there.
      if (variables.size() != 1 || names.contains(name) || !IsOwn(name)) continue;
      const auto& [variable, line] = *variables.begin();
      // A value from before the op did not have this name.
      if (IsMadeLater(variable) || variable == name)
        names.emplace(name, NameAt{name, variable, line});
    }
    names_.merge(names);
  }

  // Names in the code that held no variable.
  template <typename Names>
  void AddOthers(const Names& names, bool known) {
    for (const uint32_t index : names)
      names_.emplace(Text(index), NameAt{Text(index), "", 0, known});
  }

  std::vector<NameAt> Take() const {
    std::vector<NameAt> all;
    for (const auto& [name, at] : names_) all.push_back(at);
    return all;
  }

 private:
  // The ops that one execution of a line made in a function of opstep, and the name of its result:
  // the only value made there that no other op there used.
  struct Result {
    std::string target;
    uint32_t line = 0;
    std::set<std::string> made, used;

    std::string Variable() const {
      std::string found;
      for (const std::string& name : made) {
        if (used.contains(name)) continue;
        if (!found.empty()) return "";
        found = name;
      }
      return found;
    }
  };

  const std::string& Text(uint32_t index) const {
    return program_.strings(static_cast<int>(index));
  }

  // The ops that the call made: their lines, the variables that they wrote, and results that have a
  // name.
  void Collect() {
    lines_.clear();
    written_.clear();
    results_.clear();
    for (const proto::BlockDesc& block : program_.blocks()) {
      for (const proto::OpDesc& op : block.ops()) {
        if (IsGradient(op)) continue;
        const auto found = std::find(op.calls().begin(), op.calls().end(), call_);
        if (found == op.calls().end()) continue;
        const auto at = static_cast<int>(found - op.calls().begin());
        const uint32_t line = program_.frames(static_cast<int>(op.stack(at))).line();
        lines_[op.id()] = line;
        if (op.visits(at) == visit_ && op.id() <= time_) {
          for (const proto::Slot& slot : op.outputs())
            written_.insert(slot.vars().begin(), slot.vars().end());
        }
        if (at != 0 || op.targets_size() != 1) continue;
        Result& result = results_[op.visits(0)];
        result.target = Text(op.targets(0));
        result.line = line;
        for (const proto::Slot& slot : op.inputs())
          result.used.insert(slot.vars().begin(), slot.vars().end());
        for (const proto::Slot& slot : op.outputs()) {
          for (const std::string& name : slot.vars()) {
            if (!persistable_.contains(name)) result.made.insert(name);
          }
        }
      }
    }
  }

  // Is it, or the object whose attribute it is, a name of that function?
  bool IsOwn(const std::string& name) const {
    if (Text(frame_->function()) == "<module>") return true;
    const std::string first = name.substr(0, name.find('.'));
    return std::any_of(frame_->locals().begin(), frame_->locals().end(),
                       [&](uint32_t index) { return Text(index) == first; });
  }

  // Was it written only by ops that were made after this one?
  bool IsMadeLater(const std::string& variable) const {
    bool later = false;
    for (const proto::BlockDesc& block : program_.blocks()) {
      for (const proto::OpDesc& op : block.ops()) {
        if (!Writes(op, variable)) continue;
        if (op.id() < time_) return false;
        later = true;
      }
    }
    return later;
  }

  bool IsWritten(const std::string& variable) const { return written_.contains(variable); }

  // The line of the last op that the call made before that one.
  uint32_t LineBefore(uint32_t op) const {
    const auto found = lines_.lower_bound(op);
    return found == lines_.begin() ? 0 : std::prev(found)->second;
  }

  const proto::ProgramDesc& program_;
  const proto::OpDesc& op_;
  const bool after_;
  const uint32_t time_;
  std::set<std::string> persistable_;
  uint32_t call_ = 0, visit_ = 0;
  const proto::CodeFrame* frame_ = nullptr;
  std::map<uint32_t, uint32_t> lines_;  // by op
  std::set<std::string> written_;       // by the line that is executed, so far
  std::map<uint32_t, Result> results_;  // by visit
  std::map<std::string, NameAt> names_;
};

}  // namespace

bool IsInside(const std::string& function, const std::string& other) {
  static const std::set<std::string> kParts = {"<listcomp>", "<setcomp>", "<dictcomp>",
                                               "<genexpr>"};
  return kParts.contains(function) || function.starts_with(other + ".<locals>.");
}

MadeBy MadeByOf(const Plan& plan, const proto::OpDesc& op) {
  MadeBy made(static_cast<size_t>(op.stack_size()));
  const uint64_t gradient = IsGradient(op);
  const bool known = op.calls_size() == op.stack_size() && op.visits_size() == op.stack_size();
  // For a program without this record, the same lines count as the same calls.
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

std::vector<NameAt> NamesAt(const Plan& plan, const proto::OpDesc& op, size_t frames, bool after) {
  if (frames == 0 || static_cast<size_t>(op.stack_size()) < frames) return {};
  const bool known = op.calls_size() == op.stack_size();
  History history(plan, op, after);
  const auto frame = [&](size_t number) -> const proto::CodeFrame& {
    const int at = op.stack_size() - static_cast<int>(number);
    return plan.desc.frames(static_cast<int>(op.stack(at)));
  };
  const auto function = [&](size_t number) -> const std::string& {
    return plan.desc.strings(static_cast<int>(frame(number).function()));
  };
  const auto add = [&](size_t number) {
    if (known) history.Add(number);
    history.AddOthers(frame(number).locals(), known);
  };
  add(frames);
  // A function also sees the names of its enclosing functions and of its module.
  size_t inner = frames;
  for (size_t outer = frames - 1; outer > 0; --outer) {
    if (frame(outer).file() != frame(frames).file()) continue;
    const bool module = function(outer) == "<module>";
    if (!module && !IsInside(function(inner), function(outer))) continue;
    add(outer);
    inner = outer;
    if (module) break;
  }
  history.AddOthers(frame(frames).globals(), known);
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
