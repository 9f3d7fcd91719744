// Where a step ends, for every mode and unit.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "debug/call_path.h"
#include "debug/stepping.h"

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

// run, depth, block, iteration, line
const Position kOuter{1, 0, 0, 0, 5};
const Position kOuterSameLine{1, 0, 0, 0, 5};
const Position kOuterNextLine{1, 0, 0, 0, 6};
const Position kBody{1, 1, 1, 0, 8};
const Position kBodyOfSameLine{1, 1, 1, 0, 5};
const Position kBodyNextIteration{1, 1, 1, 1, 8};
const Position kNextRun{2, 1, 1, 0, 5};

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
  Check(stepper.EndsAt({1, 1, 2, 0, 8}), "the block that is meant");
  Check(stepper.EndsAt(kOuterNextLine), "or behind the op, when it never came to that block");
}

void Iterations() {
  for (StepUnit unit : {StepUnit::kOp, StepUnit::kLine}) {
    const StepMode mode = StepMode::kIteration;
    Check(!Ends(mode, unit, kBody, {1, 1, 1, 0, 9}), "the rest of the iteration is run");
    Check(Ends(mode, unit, kBody, kBodyNextIteration), "the next one");
    Check(!Ends(mode, unit, kBody, {1, 2, 2, 1, 9}), "not inside a block of the block");
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

// Imperative mode: each op is a run, and has the lines that it was called in, outermost first.
class Calls {
 public:
  Position At(std::vector<uint32_t> lines, uint32_t op) {
    path_.Enter(lines, op);
    return {++run_, 0, 0, 0, lines.back(), false, op, path_.entries()};
  }

 private:
  CallPath path_;
  uint64_t run_ = 0;
};

void LineByLine() {
  const StepUnit line = StepUnit::kLine, op = StepUnit::kOp;
  Calls calls;
  const Position a = calls.At({5}, 1), b = calls.At({5}, 2), inner = calls.At({5, 20}, 3),
                 next_inner = calls.At({5, 21}, 4), c = calls.At({5}, 5), d = calls.At({6}, 6);
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
  const Position again = calls.At({6}, 6), other = calls.At({5}, 1);
  Check(Ends(StepMode::kOver, line, d, again), "a loop of one line comes around");
  Check(Ends(StepMode::kIteration, line, a, other), "the same call once more");
  Check(!Ends(StepMode::kIteration, line, a, again), "and no other");
  Position gradient = kOuter;
  gradient.run = 100;
  Check(Ends(StepMode::kOver, line, a, gradient), "gradients are another program");
  Check(!Ends(StepMode::kOut, line, inner, gradient), "that out runs through");
  Check(Ends(StepMode::kOver, line, gradient, d), "and that ends with its run");
}

}  // namespace

int main() {
  LineByLine();
  ByOp();
  ByLine();
  IntoOneBlock();
  Iterations();
  ToTheEnd();
  Runs();
}
