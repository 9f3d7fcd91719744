// Where a step ends, for every mode and unit.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <vector>

#include "debug/session/stepper.h"

using namespace opstep;

namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::abort();
}

bool Ends(StepMode mode, StepUnit unit, Position from, Position at) {
  Stepper stepper;
  stepper.Start(mode, unit, from);
  return stepper.EndsAt(at);
}

// The calls and visits of an op's frames, outermost first.
std::shared_ptr<const MadeBy> Made(MadeBy made) { return std::make_shared<const MadeBy>(made); }

// An op made on a line of the script itself, in its first call.
Position In(uint64_t run, int depth, int block, uint64_t iteration, uint64_t line) {
  Position at;
  at.run = run;
  at.depth = depth;
  at.block = block;
  at.iteration = iteration;
  at.made = Made({{1, line}});
  at.shown = at.base = at.goes_on = 1;
  return at;
}

const Position kOuter = In(1, 0, 0, 0, 5);
const Position kOuterSameLine = In(1, 0, 0, 0, 5);
const Position kOuterNextLine = In(1, 0, 0, 0, 6);
const Position kBody = In(1, 1, 1, 0, 8);
const Position kBodyOfSameLine = In(1, 1, 1, 0, 5);
const Position kBodyNextIteration = In(1, 1, 1, 1, 8);
const Position kNextRun = In(2, 1, 1, 0, 5);

void ByOp() {
  const StepUnit op = StepUnit::kOp;
  Check(Ends(StepMode::kOver, op, kOuter, kOuterSameLine), "over stops at the next op");
  Check(!Ends(StepMode::kOver, op, kOuter, kBody), "over runs a body");
  Check(Ends(StepMode::kOver, op, kBody, kOuterNextLine), "over leaves a body at its end");
  Check(Ends(StepMode::kOver, op, kBody, kBodyNextIteration), "over goes into the next iteration");
  Check(Ends(StepMode::kInto, op, kOuter, kBody), "into enters a body");
  Check(!Ends(StepMode::kOut, op, kBody, kBodyNextIteration), "out runs the other iterations");
  Check(Ends(StepMode::kOut, op, kBody, kOuterNextLine), "out stops behind the body");
  Check(!Ends(StepMode::kOut, op, kOuter, kOuterNextLine), "out of the run runs to its end");
}

void ByLine() {
  const StepUnit line = StepUnit::kLine;
  Check(!Ends(StepMode::kOver, line, kOuter, kOuterSameLine), "a line's ops are one step");
  Check(Ends(StepMode::kOver, line, kOuter, kOuterNextLine), "the next line ends it");
  Check(!Ends(StepMode::kOver, line, kOuter, kBody), "over runs a body by lines too");
  Check(Ends(StepMode::kOver, line, kBody, kBodyNextIteration),
        "a body of one line stops each time");
  Check(Ends(StepMode::kInto, line, kOuter, kBodyOfSameLine),
        "into enters a body of the same line");
  Check(Ends(StepMode::kOut, line, kBodyOfSameLine, kOuter),
        "out stops behind the body, same line or not");
}

void IntoOneBlock() {
  Stepper stepper;
  stepper.Start(StepMode::kInto, StepUnit::kOp, kOuter, 2);
  Check(!stepper.EndsAt(kBody), "another block is run through");
  Check(stepper.EndsAt(In(1, 1, 2, 0, 8)), "the block that is meant");
  Check(stepper.EndsAt(kOuterNextLine), "or behind the op, when it never came to that block");
}

void Iterations() {
  for (StepUnit unit : {StepUnit::kOp, StepUnit::kLine}) {
    const StepMode mode = StepMode::kIteration;
    Check(!Ends(mode, unit, kBody, In(1, 1, 1, 0, 9)), "the rest of the iteration is run");
    Check(Ends(mode, unit, kBody, kBodyNextIteration), "the next one");
    Check(!Ends(mode, unit, kBody, In(1, 2, 2, 1, 9)), "not inside a block of the block");
    Check(Ends(mode, unit, kBody, kOuterNextLine), "or behind the loop");
    Check(!Ends(mode, unit, kOuter, kOuterNextLine), "block 0 has one iteration in a run");
    Check(Ends(mode, unit, kOuter, kNextRun), "the next run is its next");
  }
}

void ToTheEnd() {
  Stepper stepper;
  stepper.Start(StepMode::kRun, StepUnit::kOp, kBody);
  Check(!stepper.EndsAt(kOuterNextLine) && !stepper.EndsAt(kBodyNextIteration), "no op ends it");
  Check(stepper.EndsWithRun(1) && !stepper.EveryOp(1), "nothing but its end is watched");
  Check(!stepper.EndsWithRun(2) && stepper.EveryOp(2), "it went by: the next op ends it");
  Check(stepper.EndsAt(kNextRun), "the next run");
  stepper.Cancel();
  Check(!stepper.EndsWithRun(1) && !stepper.EveryOp(1), "cancelled");
}

void Runs() {
  for (StepMode mode : {StepMode::kOver, StepMode::kInto, StepMode::kOut}) {
    for (StepUnit unit : {StepUnit::kOp, StepUnit::kLine}) {
      Check(Ends(mode, unit, kOuter, kNextRun), "a step past the end stops in the next run");
    }
  }
  Stepper stepper;
  Check(!stepper.EndsAt(kOuter), "no step, no end");
  stepper.Start(StepMode::kInto, StepUnit::kOp, kOuter);
  stepper.Cancel();
  Check(!stepper.active() && !stepper.EndsAt(kBody), "cancelled");
}

// Imperative mode: each op is a run of its own.
Position Call(uint32_t op, MadeBy made) {
  static uint64_t run = 10;
  Position at;
  at.run = ++run;
  at.call = op;
  at.made = Made(made);
  at.shown = made.size();
  return at;
}

void LineByLine() {
  const StepUnit line = StepUnit::kLine, op = StepUnit::kOp;
  // Line 5 makes two ops, calls a function of two lines, and makes another op; then line 6.
  const Position a = Call(1, {{1, 5}}), b = Call(2, {{1, 5}}), inner = Call(3, {{1, 5}, {2, 20}}),
                 next_inner = Call(4, {{1, 5}, {2, 21}}), c = Call(5, {{1, 5}}),
                 d = Call(6, {{1, 6}});
  Check(Ends(StepMode::kOver, op, a, b), "each op is a step");
  Check(!Ends(StepMode::kOver, line, a, b), "a line's ops are one step there too");
  Check(!Ends(StepMode::kOver, line, a, inner), "over runs a function that the line calls");
  Check(!Ends(StepMode::kOver, line, a, c), "the line goes on behind it");
  Check(Ends(StepMode::kOver, line, a, d), "the next line");
  Check(Ends(StepMode::kInto, line, a, inner), "into the function");
  Check(Ends(StepMode::kOver, line, inner, next_inner), "a line of the function");
  Check(!Ends(StepMode::kOut, line, inner, next_inner), "out runs the rest of the function");
  Check(Ends(StepMode::kOut, line, inner, c), "and stops where it was called");
  Check(Ends(StepMode::kOut, line, inner, d), "or behind that");
  Check(!Ends(StepMode::kOut, line, a, d), "there is nothing outside of a script");
  Check(!Ends(StepMode::kRun, line, a, d), "nor does it end with an op");
  const Position again = Call(6, {{1, 7}}), other = Call(1, {{1, 8}});
  Check(Ends(StepMode::kOver, line, d, again), "a loop of one line comes around");
  Check(Ends(StepMode::kIteration, line, a, other), "the same call once more");
  Check(!Ends(StepMode::kIteration, line, a, again), "and no other");
  // A stop on the line whose function is not entered yet: over it runs all of the function.
  Position above = inner;
  above.shown = 1;
  Check(!Ends(StepMode::kOver, line, above, next_inner), "over a call from the line that calls");
  Check(Ends(StepMode::kOver, line, above, d), "and on to the next line");
  Position gradient = kOuter;
  gradient.run = 100;
  Check(Ends(StepMode::kOver, line, a, gradient), "gradients are another program");
  Check(!Ends(StepMode::kOut, line, inner, gradient), "that out runs through");
  Check(Ends(StepMode::kOver, line, gradient, d), "and that ends with its run");
}

// A compiled program whose script calls block() twice on line 7: each makes ops on lines 2 and 3.
void Functions() {
  const StepUnit line = StepUnit::kLine;
  const auto at = [](MadeBy made, size_t goes_on) {
    Position position = In(1, 0, 0, 0, 0);
    position.made = Made(made);
    position.shown = made.size();
    position.goes_on = goes_on;
    return position;
  };
  const Position first = at({{1, 7}, {2, 20}}, 2), last = at({{1, 7}, {2, 30}}, 1),
                 second = at({{1, 70}, {3, 21}}, 2), behind = at({{1, 8}}, 1);
  Check(!Ends(StepMode::kOut, line, first, last), "out runs the rest of the function");
  Check(Ends(StepMode::kOut, line, first, second), "another call is not that one");
  Stepper out;
  out.Start(StepMode::kOut, line, first);
  Check(out.AfterEveryOp() && !out.EndsAfter(first) && out.EndsAfter(last),
        "out stops after the last op of the call");
  Check(out.ShownAt(last) == 1, "on the line that called it");
  Stepper over;
  over.Start(StepMode::kOver, line, last);
  Check(over.EndsAt(second) && over.ShownAt(second) == 1, "over goes to the line's next execution");
  Check(over.EndsAt(behind) && over.ShownAt(behind) == 1, "or to the next line");
  Stepper into;
  into.Start(StepMode::kInto, line, first);
  Check(into.EndsAt(last) && into.ShownAt(last) == 2, "into stays in the function");
  Stepper by_op;
  by_op.Start(StepMode::kOver, StepUnit::kOp, last);
  Check(by_op.ShownAt(second) == 2, "by op all calls are shown");
  Stepper leave;
  leave.Start(StepMode::kOut, line, behind);
  Check(!leave.AfterEveryOp() && !leave.EndsAt(second), "out of the script's own code is its end");
}

}  // namespace

int main() {
  LineByLine();
  Functions();
  ByOp();
  ByLine();
  IntoOneBlock();
  Iterations();
  ToTheEnd();
  Runs();
}
