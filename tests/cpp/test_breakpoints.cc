// Which ops a breakpoint binds to, where a line is entered, and what is said when nothing fits.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "debug/breakpoints/breakpoints.h"
#include "debug/breakpoints/op_matcher.h"
#include "debug/faults/fault_filters.h"

using namespace opstep;

namespace {

void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::abort();
}

void CheckEqual(const std::string& got, const std::string& wanted) {
  Check(got == wanted, "expected: " + wanted + "\n     got: " + got);
}

// A plan made by hand: ops on lines of /no/train.py, a body inside op #3.
class Fixture {
 public:
  Fixture() {
    plan = std::make_shared<Plan>();
    plan->id = 1;
    plan->program_id = 7;
    plan->program_name = "main";
    plan->slots.resize(1);
    plan->desc.add_strings("/no/train.py");
    plan->desc.add_strings("f");
    plan->desc.add_blocks()->set_parent(-1);
    plan->desc.add_blocks()->set_parent(0);
    Add(0, 1, "mul", "fc_0.mul", 10);
    Add(0, 2, "plus", "fc_0.plus", 10);
    Add(0, 3, "loop", "loop_0", 12);
    Add(0, 4, "plus", "plus_1", 10);
    Add(0, 5, "mul_back", "fc_0.mul.grad", 10, 1);
    Add(1, 6, "bump", "bump_0", 12);
    Add(1, 7, "bump", "bump_1", 14);
    // Ops 1 and 7 write w; so does the loop, because of 7.
    plan->slots.resize(2);
    plan->slots[1].name = "w";
    plan->args = {1};
    plan->blocks.resize(2);
    plan->slot_of.resize(2);
    plan->slot_of[0]["w"] = 1;
    plan->blocks[1].parent = 0;
    plan->blocks[1].parent_index = 2;
    uint32_t line = 1;
    for (int b = 0; b < 2; ++b) {
      for (const proto::OpDesc& op : plan->desc.blocks(b).ops()) {
        Instruction instruction;
        instruction.index = static_cast<uint32_t>(plan->blocks[b].code.size());
        instruction.op_id = op.id();
        instruction.op = &op;
        instruction.args = plan->args.data();
        instruction.n_out = op.id() == 1 || op.id() == 3 || op.id() == 7;
        plan->blocks[b].code.push_back(instruction);
        plan->listing.line_of[op.id()] = ++line;
      }
    }
    bound = &plans.Add(*plan);
  }

  void Add(int block, uint32_t id, const char* type, const char* name, uint32_t line,
           uint32_t forward = 0) {
    int frame = 0;
    while (frame < plan->desc.frames_size() && plan->desc.frames(frame).line() != line) ++frame;
    if (frame == plan->desc.frames_size()) {
      plan->desc.add_frames()->set_function(1);
      plan->desc.mutable_frames(frame)->set_line(line);
    }
    proto::OpDesc* op = plan->desc.mutable_blocks(block)->add_ops();
    op->set_id(id);
    op->set_type(type);
    op->set_name(name);
    op->set_forward_op(forward);
    op->add_stack(static_cast<uint32_t>(frame));
  }

  proto::BreakpointStatus Set(const std::function<void(proto::Breakpoint&)>& fill) {
    proto::SetBreakpoints wanted;
    wanted.add_breakpoints()->set_id(1);
    fill(*wanted.mutable_breakpoints(0));
    breakpoints.Replace(wanted);
    bound->ClearWork();
    breakpoints.Bind(*plan, *bound);
    plans.Watch(*plan, *bound);
    return breakpoints.Tell().statuses(0);
  }
  proto::BreakpointStatus SetLine(uint32_t line, bool gradients = false) {
    return Set([&](proto::Breakpoint& b) {
      b.mutable_line()->set_file("/no/train.py");
      b.mutable_line()->set_line(line);
      b.set_gradients(gradients);
    });
  }
  proto::BreakpointStatus SetPattern(const std::string& pattern) {
    return Set([&](proto::Breakpoint& b) { b.set_pattern(pattern); });
  }

  // Ids of the ops that are watched.
  std::string Watched(uint8_t bit = watch::kBefore) const {
    std::string ids;
    for (const BlockPlan& block : plan->blocks) {
      for (const Instruction& i : block.code) {
        if (i.watch.load() & bit) ids += std::to_string(i.op_id) + " ";
      }
    }
    return ids;
  }

  std::shared_ptr<Plan> plan;
  BoundPlans plans;
  BoundPlan* bound = nullptr;
  Breakpoints breakpoints;
};

void Lines(Fixture& f) {
  proto::BreakpointStatus status = f.SetLine(10);
  Check(status.verified() && status.op_count() == 3 && status.first().id() == 1, "line 10");
  CheckEqual(f.Watched(), "1 4 ");  // entered twice, not at each op
  Check(f.SetLine(10, true).op_count() == 4, "with gradients");
  CheckEqual(f.Watched(), "1 4 5 ");  // the way back is another visit
  Check(f.SetLine(12).op_count() == 2, "a loop with its body");
  CheckEqual(f.Watched(), "3 ");  // the body is part of the line's run
  f.SetLine(14);
  CheckEqual(f.Watched(), "7 ");
  status = f.SetLine(11);
  Check(!status.verified(), "line 11 has no op");
  CheckEqual(status.message(), "no op was made on train.py:11 (nearest lines with ops: 10, 12)");
  CheckEqual(f.Watched(), "");
}

void Patterns(Fixture& f) {
  f.SetPattern("plus");
  CheckEqual(f.Watched(), "2 4 ");
  f.SetPattern("fc_0*");
  CheckEqual(f.Watched(), "1 2 5 ");
  f.SetPattern("grad:mul");
  CheckEqual(f.Watched(), "5 ");
  f.SetPattern("bump_?");
  CheckEqual(f.Watched(), "6 7 ");
  CheckEqual(f.SetPattern("fx_0*").message(), "no op matches 'fx_0*'; nearest: fc_0.mul");
}

// Op 5 becomes the gradient of an op of another program.
void ForwardElsewhere(Fixture& f) {
  proto::OpDesc& op = *f.plan->desc.mutable_blocks(0)->mutable_ops(4);
  op.clear_forward_op();
  op.mutable_forward()->set_name("layer.linear");
  op.mutable_forward()->set_type("product");
  f.SetLine(10);
  CheckEqual(f.Watched(), "1 4 ");
  f.SetLine(10, true);
  CheckEqual(f.Watched(), "1 4 5 ");
  f.SetPattern("grad:layer.*");
  CheckEqual(f.Watched(), "5 ");
  f.SetPattern("grad:product");
  CheckEqual(f.Watched(), "5 ");
  f.SetPattern("layer.*");
  CheckEqual(f.Watched(), "");
}

void Others(Fixture& f) {
  const auto listing = [](uint32_t line) {
    return [line](proto::Breakpoint& b) {
      b.mutable_listing()->set_program_name("main");
      b.mutable_listing()->set_line(line);
    };
  };
  f.Set(listing(3));
  CheckEqual(f.Watched(), "2 ");
  CheckEqual(f.Set(listing(1)).message(),
             "no op that runs is on line 1 of program 'main' (nearest lines with ops: 2)");
  f.Set([](proto::Breakpoint& b) {
    b.mutable_op()->set_program(7);
    b.mutable_op()->set_op(6);
  });
  CheckEqual(f.Watched(), "6 ");
  const auto wrong = f.Set([](proto::Breakpoint& b) {
    b.set_pattern("plus");
    b.mutable_condition()->set_name("no_such_name");
    b.set_condition_text("no_such_name");
  });
  Check(!wrong.verified() &&
            wrong.message().starts_with("the condition 'no_such_name' cannot be used: "),
        wrong.message());
  CheckEqual(f.Watched(), "");
}

void Data(Fixture& f) {
  const auto written = [](const char* name) {
    return [name](proto::Breakpoint& b) { b.mutable_data()->set_variable(name); };
  };
  Check(f.Set(written("w")).op_count() == 2, "written in two places");
  CheckEqual(f.Watched(watch::kAfter), "1 7 ");
  CheckEqual(f.Watched(), "1 7 ");  // what was there before
  const proto::BreakpointStatus status = f.Set(written("v"));
  Check(!status.verified(), "nobody writes it");
  CheckEqual(status.message().substr(0, 16), "no op writes 'v'");
  CheckEqual(f.Watched(watch::kAfter), "");
}

void Counts(Fixture& f) {
  const auto third = [](proto::Breakpoint& b) {
    b.set_pattern("bump_0");
    b.mutable_hits()->set_op(proto::HitCondition::MULTIPLE);
    b.mutable_hits()->set_count(3);
  };
  const auto hits = [&] { return f.bound->facts[1][0].work->before[0].hits; };
  f.Set(third);
  Check(!hits()->Visit() && !hits()->Visit(), "not yet");
  f.Set(third);
  Check(hits()->Visit(), "the same breakpoint counts on");
  f.Set([&](proto::Breakpoint& b) {
    third(b);
    b.set_temporary(true);
  });
  Check(!hits()->Visit(), "another one begins");
  proto::HitCondition wanted;
  wanted.set_count(20000);
  HitCount shared(wanted);
  std::atomic<int> reached{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) reached += shared.Visit();
    });
  }
  for (std::thread& thread : threads) thread.join();
  Check(reached == 1 && !shared.Visit(), "threads count together");
}

void LogPoints(Fixture& f) {
  const auto text = [](proto::Breakpoint& b) {
    b.set_pattern("plus_1");
    b.mutable_log()->add_pieces()->set_text("here ");
    b.mutable_log()->add_pieces()->mutable_value()->set_name("no_such_name");
  };
  const proto::BreakpointStatus status = f.Set(text);
  Check(status.verified(), "a value that cannot be had is written as that");
  Check(status.message().starts_with("the log message has no value at some ops: "),
        status.message());
  CheckEqual(f.Watched(), "4 ");
}

void Filters(Fixture& f) {
  f.breakpoints.Replace({});
  f.bound->facts[0][0].float_outputs = f.bound->facts[0][1].float_outputs = true;
  FaultFilters filters;
  proto::SetFaultFilters wanted;
  const auto bind = [&] {
    filters.Replace(wanted);
    f.bound->ClearWork();
    filters.Bind(*f.plan, *f.bound);
    f.plans.Watch(*f.plan, *f.bound);
    return f.Watched(watch::kAfter);
  };
  proto::FaultFilter* filter = wanted.add_filters();
  filter->set_kind(proto::FAULT_NAN);
  CheckEqual(bind(), "1 2 ");  // only ops that make floats
  filter->set_ops("plus");
  CheckEqual(bind(), "2 ");
  filter->mutable_condition()->set_name("no_such_name");
  filter->set_condition_text("no_such_name");
  CheckEqual(bind(), "");
  Check(filters.TakeChanges()->messages(0).starts_with("the condition 'no_such_name' cannot be "),
        "told");
  Check(!filters.TakeChanges(), "once");
  filter->set_kind(proto::FAULT_ERROR);
  filter->clear_condition();
  CheckEqual(bind(), "");
  CheckEqual(f.Watched(), "");  // an error comes by itself
  Check(f.bound->facts[0][1].work->errors.size() == 1, "the filter waits for it");
}

void Life(Fixture& f) {
  f.SetLine(10);
  Check(f.breakpoints.TakeChanges().empty(), "told already");
  f.breakpoints.ConditionFailed(1, "why");
  Check(f.breakpoints.TakeChanges().size() == 1, "told once");
  f.breakpoints.ConditionFailed(1, "again");
  Check(f.breakpoints.TakeChanges().empty(), "not twice");
  bool gone = false;
  Check(f.breakpoints.Take(1, &gone) && !gone, "stays");
  f.Set([](proto::Breakpoint& b) {
    b.set_pattern("plus");
    b.set_temporary(true);
  });
  Check(f.breakpoints.Take(1, &gone) && gone && !f.breakpoints.Take(1, &gone), "temporary");
  f.SetPattern("plus");
  f.plan->blocks[0].code[0].watch.fetch_or(watch::kPoll);
  f.plans.Clear();
  CheckEqual(f.Watched(), "");
  Check(f.plan->blocks[0].code[0].watch.load() == watch::kPoll, "the loop's own bit stays");
}

void DroppedPlans() {
  Fixture f;
  f.plan.reset();
  int alive = 0;
  f.plans.ForEach([&](const Plan&, BoundPlan&) { ++alive; });
  Check(alive == 0 && !f.plans.OfProgram(7), "a plan that the executor dropped is gone");
}

}  // namespace

int main() {
  Check(MatchesGlob("*", "") && MatchesGlob("a*b?", "axxbc") && !MatchesGlob("a*b", "abc"),
        "globs");
  Fixture f;
  Lines(f);
  Patterns(f);
  Others(f);
  Data(f);
  Counts(f);
  LogPoints(f);
  Filters(f);
  Life(f);
  DroppedPlans();
  Fixture elsewhere;
  ForwardElsewhere(elsewhere);
}
