// Where a step ends, for every mode and unit.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

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
constexpr Position kOuter{1, 0, 0, 0, 5};
constexpr Position kOuterSameLine{1, 0, 0, 0, 5};
constexpr Position kOuterNextLine{1, 0, 0, 0, 6};
constexpr Position kBody{1, 1, 1, 0, 8};
constexpr Position kBodyOfSameLine{1, 1, 1, 0, 5};
constexpr Position kBodyNextIteration{1, 1, 1, 1, 8};
constexpr Position kNextRun{2, 1, 1, 0, 5};

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

}  // namespace

int main() {
  ByOp();
  ByLine();
  IntoOneBlock();
  Iterations();
  ToTheEnd();
  Runs();
}
