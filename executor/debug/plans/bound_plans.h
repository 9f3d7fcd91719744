// BoundPlans: the plans that the debugger knows, the work at each op, and watch bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "debug/breakpoints/hit_count.h"
#include "debug/breakpoints/log_line.h"
#include "debug/expr/expression.h"
#include "debug/faults/fault_search.h"
#include "debug/plans/made_by.h"
#include "debug/taps/tap.h"
#include "plan/plan.h"

namespace opstep {

// A breakpoint on one instruction.
struct Binding {
  uint32_t breakpoint = 0;
  std::shared_ptr<const Expression> condition;  // null: always
  // A line is entered once: at the first op that one execution of it made.
  bool once_in_visit = false;
  // It stops nothing by itself: a stop that comes anyway is a stop of this breakpoint.
  bool joins = false;
  // Of a line: the number of its frame in the op's stack; 1 is the outermost.
  uint32_t frames = 0;
  std::shared_ptr<HitCount> hits;      // null: every visit counts
  std::shared_ptr<const LogLine> log;  // null: it stops
  // Of a data breakpoint: the slot that the op writes, and whether its bytes must change.
  uint32_t written = 0;
  bool changed = false;
  // In imperative mode, when condition or message name values of Python: both are bound again at
  // each visit, with the names of that moment.
  std::shared_ptr<const proto::Breakpoint> late;
};

// A tap on one value of an instruction.
struct TapBinding {
  std::shared_ptr<LiveTap> tap;
  std::shared_ptr<const TapPoint> point;
  std::shared_ptr<const Expression> condition;  // null: always
  uint32_t slot = 0;
  std::shared_ptr<const Expression> value;  // instead of a slot
};

// The debugger's work at one instruction. Never changed once it is published: threads use it
// without the lock.
struct OpWork {
  std::vector<Binding> before, after;
  std::vector<uint32_t> written;     // slots that data breakpoints read before the op runs
  std::vector<FaultBinding> faults;  // of numbers
  std::vector<FaultBinding> errors;
  std::vector<TapBinding> taps_before, taps_after;
};

// Facts about one instruction.
struct OpFacts {
  std::shared_ptr<const MadeBy> made;  // see Position
  // How many of its calls, from the outermost, the next op of the block was made in.
  size_t goes_on = 0;
  bool quiet = false;          // see Position
  bool stop = false;           // the program itself asks for a stop
  bool float_outputs = false;  // NaN and Inf are looked for
  // An input is also an output, so it must be looked at before the op runs.
  bool rewrites_input = false;
  bool runs_blocks = false;
  std::shared_ptr<OpWork> work;  // null: none
};

// A plan that has run under the debugger. The plan itself belongs to the executor, which may drop
// it.
struct BoundPlan {
  std::weak_ptr<const Plan> plan;
  uint32_t program_id = 0;
  // An op in imperative mode.
  bool traced = false;
  // Python's names of variables when that op was first run; null: not known.
  std::shared_ptr<const PythonNames> python;
  // Of each block: how many calls, from the outermost, made all of its ops.
  std::vector<size_t> base;
  std::vector<int> depth;                      // of each block
  std::vector<std::vector<OpFacts>> facts;     // by block and index
  std::vector<std::shared_ptr<LiveTap>> taps;  // bound to an op of it
  bool stale = false;        // taps have changed: it is bound again at its next run
  int tapped = 0;            // active runs that a tap looks at
  bool armed = false;        // every op is watched: someone steps or pauses
  bool end_watched = false;  // the last op is watched: a step asks for the run's end
  bool after_armed = false;  // every op is watched after it has run, too: someone steps out

  const OpFacts& At(const Activation& where) const {
    return facts[where.block][where.instruction->index];
  }
  bool IsLast(const Activation& where) const {
    return !where.parent && where.instruction->index + 1 == facts[where.block].size();
  }
  // Breakpoints and filters will be bound again: no op has work until then.
  void ClearWork();
  // Created if missing.
  OpWork& WorkAt(size_t block, uint32_t index);
  // The meaning of names at an op.
  PythonNames NamesAt(const Plan& plan, const proto::OpDesc& op) const;
};

// Not thread-safe: the session's lock guards it.
class BoundPlans {
 public:
  // Null when it is not known yet.
  BoundPlan* Find(uint64_t plan_id) const;
  BoundPlan& Add(const Plan& plan);
  // Only plans that are alive; the others are forgotten.
  void ForEach(const std::function<void(const Plan&, BoundPlan&)>& f);
  bool IsNewest(const Plan& plan) const {
    const auto it = newest_.find(plan.program_id);
    return it != newest_.end() && it->second == plan.id;
  }
  // The newest plan of a program, or null.
  std::shared_ptr<const Plan> OfProgram(uint32_t program_id);
  // Imperative mode: the newest plan of each op, by the ops' ids.
  std::vector<std::shared_ptr<const Plan>> Traced();
  // The number of such plans so far.
  uint32_t traced() const { return traced_count_; }

  // Sets each watch byte of the plan from its facts.
  void Watch(const Plan& plan, const BoundPlan& bound) const;
  // Clears all watch bytes and forgets everything.
  void Clear();

 private:
  std::unordered_map<uint64_t, std::unique_ptr<BoundPlan>> plans_;
  std::unordered_map<uint32_t, uint64_t> newest_;         // program → plan
  std::map<uint32_t, std::weak_ptr<const Plan>> traced_;  // by op
  uint32_t traced_count_ = 0;
};

// Does the op only save a value for the gradient?
bool IsQuiet(const proto::OpDesc& op);

}  // namespace opstep
