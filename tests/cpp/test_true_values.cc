// A debugger that joins a run half-way meets the fast shape of its plan, in which memory is shared:
// what is called present there must be what the inspectable shape shows at the same target.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "ops/lib/shape_rules.h"
#include "ops/op.h"
#include "passes/build.h"
#include "runtime/executor.h"

using namespace opstep;

namespace {

void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::abort();
}

// Called between the two turns of a body that says so.
std::function<void()> join;

struct Twice {
  int block;
  bool joins;
};

void RunTwice(KernelContext& ctx) {
  const auto& state = ctx.state<Twice>();
  ctx.RunBlock(state.block, 0);
  if (state.joins) join();
  ctx.RunBlock(state.block, 1);
}

const bool kTwice =
    Op("test_twice")
        .Doc("Runs a block twice.")
        .In("X", "what the block writes", kEvery)
        .Variadic()
        .Attr(BoolAttr("joins", false), "a debugger comes after the first turn")
        .Required("block", AttrType::kBlock, "the body")
        .Out("out", "the same", kEvery)
        .Variadic()
        .Shape(GradsLikeInputs)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState<Twice>(RunTwice, {ctx.op().Block("block"), ctx.op().Bool("joins")});
        })
        .OwnTest()
        .Register();

// Writes down all that is present at each op, once it is switched on.
class Recorder : public Hook {
 public:
  struct Event {
    std::string where;
    std::map<uint32_t, std::string> values;
  };
  bool on = false;
  std::vector<Event> events;
  int fast = 0, released = 0;
  std::function<void(const FrameView&)> failed;

  void EnterBlock(const FrameView& frame) override {
    for (const BlockPlan& block : frame.plan().blocks) {
      for (const Instruction& instruction : block.code) {
        instruction.watch.fetch_or(watch::kBefore | watch::kAfter);
      }
    }
  }
  void BeforeOp(FrameEditor& frame) override { Record(frame); }
  void AfterOp(FrameEditor& frame) override { Record(frame); }
  void OnError(FrameEditor& frame, const Error&) override { failed(frame); }

 private:
  void Record(const FrameView& frame) {
    if (!on) return;
    Event& event = events.emplace_back();
    event.where = Cat(frame.top().instruction->op->name(), frame.after() ? " after" : " before");
    for (const Activation* at = &frame.top(); at != nullptr; at = at->parent) {
      event.where += Cat(" ", at->iteration);
    }
    for (uint32_t slot = 1; slot < frame.plan().slots.size(); ++slot) {
      const ValueState state = frame.StateOf(slot);
      if (state == ValueState::kReleased) ++released;
      if (state != ValueState::kPresent) continue;
      const Tensor& tensor = frame.tensor(slot);
      event.values[slot].assign(tensor.as<char>(), tensor.bytes());
    }
    if (frame.shape() == PlanShape::kFast) ++fast;
  }
};

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed), program(std::make_shared<Program>("random")) {
    Fill(0);
    for (int i = Number(1, 4); i > 0; --i) One(0);
    Body(0, true);
    for (int i = Number(3, 12); i > 0; --i) One(0);
  }

  std::string Any() {
    size_t all = 0;
    for (const auto& names : visible_) all += names.size();
    size_t i = Number(0, 2) ? all - 1 : static_cast<size_t>(Number(0, static_cast<int>(all) - 1));
    for (const auto& names : visible_) {
      if (i < names.size()) return names[i];
      i -= names.size();
    }
    std::abort();
  }

 private:
  std::mt19937 random_;
  std::vector<std::vector<std::string>> visible_{1};
  int made_ = 0;

 public:
  const std::shared_ptr<Program> program;

 private:
  int Number(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  using Slots = std::vector<std::pair<std::string, std::vector<std::string>>>;
  void Add(int block, const std::string& type, const Slots& in, const Slots& out,
           const std::vector<proto::Attr>& attrs = {}) {
    proto::OpDesc op;
    op.set_type(type);
    op.set_name("op" + std::to_string(++made_));
    for (const bool output : {false, true}) {
      for (const auto& [name, vars] : output ? out : in) {
        proto::Slot& slot = output ? *op.add_outputs() : *op.add_inputs();
        slot.set_name(name);
        slot.mutable_vars()->Assign(vars.begin(), vars.end());
      }
    }
    op.mutable_attrs()->Assign(attrs.begin(), attrs.end());
    AppendOp(*program, block, op);
  }

  // A new variable, or one that is there already.
  std::string Target(int block) {
    if (!visible_[0].empty() && Number(0, 4) == 0) return Any();
    std::string name = "v" + std::to_string(++made_);
    proto::VarDesc var;
    var.set_name(name);
    program->CreateVar(block, var);
    return name;
  }

  void Written(const std::string& name) {
    for (const auto& names : visible_) {
      if (std::find(names.begin(), names.end(), name) != names.end()) return;
    }
    visible_.back().push_back(name);
  }

  void Fill(int block) {
    const std::string out = Target(block);
    Add(block, "fill", {}, {{"out", {out}}},
        {DTypeAttr("dtype", DType::kFloat32), IntsAttr("shape", {24}),
         FloatAttr("value", Number(-9, 9) / 8.0)});
    Written(out);
  }

  void One(int block) {
    static const char* const kUnary[] = {"neg", "relu", "abs", "tanh", "assign", "sigmoid"};
    static const char* const kBinary[] = {"add", "sub", "mul", "maximum"};
    const int kind = Number(0, 9);
    if (kind == 0) return Fill(block);
    if (kind == 1 && visible_.size() < 4) return Body(block, false);
    const std::string x = Any(), y = Any();
    if (kind < 4) {
      Add(block, "increment", {{"X", {x}}}, {{"out", {x}}}, {FloatAttr("step", 0.25)});
      return;
    }
    const std::string out = Target(block);
    if (kind < 7) {
      Add(block, kUnary[Number(0, 5)], {{"X", {x}}}, {{"out", {out}}});
    } else {
      if (out == y) return;  // only X may be overwritten
      Add(block, kBinary[Number(0, 3)], {{"X", {x}}, {"Y", {y}}}, {{"out", {out}}});
    }
    Written(out);
  }

  void Body(int block, bool joins) {
    const int body = program->CreateBlock(block);
    visible_.emplace_back();
    // The debugger may come deep inside: then several blocks around it are in the fast shape.
    const bool deeper = joins && visible_.size() < 4 && Number(0, 1);
    for (int i = Number(1, 5); i > 0; --i) One(body);
    if (deeper) Body(body, true);
    for (int i = Number(1, 5); i > 0; --i) One(body);
    visible_.pop_back();
    std::vector<std::string> outer;
    for (const proto::OpDesc& op : program->block(body).ops()) {
      for (const proto::Slot& slot : op.outputs()) {
        for (const std::string& name : slot.vars()) {
          const bool own = program->FindVarHere(body, name) != nullptr;
          const bool there = std::find(outer.begin(), outer.end(), name) != outer.end();
          if (!own && !there) outer.push_back(name);
        }
      }
    }
    proto::Attr attr;
    attr.set_name("block");
    attr.set_block(body);
    Add(block, "test_twice", {{"X", outer}}, {{"out", outer}},
        {attr, BoolAttr("joins", joins && !deeper)});
  }
};

void TestRandomPrograms() {
  int compared = 0, fast = 0, released = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Maker maker(seed);
    Scope scope;
    const std::vector<std::string> fetches{"v1"};
    // All the time there, but silent before the other one comes.
    auto always = std::make_shared<Recorder>();
    join = [&] { always->on = true; };
    SetHook(always);
    const auto a = Executor().Run(maker.program, {}, fetches, scope);
    SetHook(nullptr);

    auto late = std::make_shared<Recorder>();
    late->on = true;
    join = [&] { SetHook(late); };
    const auto b = Executor().Run(maker.program, {}, fetches, scope);
    SetHook(nullptr);

    Check(std::memcmp(a[0].data, b[0].data, a[0].bytes()) == 0, Cat("fetched, seed ", seed));
    Check(always->released == 0 && always->fast == 0, "the inspectable shape keeps everything");
    Check(late->events.size() > 1, Cat("events, seed ", seed));
    // Ops that ran already when the debugger came are not told to it when they end.
    auto truth = always->events.begin();
    for (const Recorder::Event& event : late->events) {
      while (truth != always->events.end() && truth->where != event.where) ++truth;
      const std::string where = Cat(", seed ", seed, ", ", event.where);
      Check(truth != always->events.end(), "an event of its own" + where);
      for (const auto& [slot, value] : event.values) {
        const auto it = truth->values.find(slot);
        Check(it != truth->values.end(), Cat("slot ", slot, " is not written yet", where));
        Check(it->second == value, Cat("slot ", slot, " has another value", where));
        ++compared;
      }
    }
    fast += late->fast;
    released += late->released;
  }
  Check(compared > 10000 && fast > 1000 && released > 1000, "the test looked at something");
}

// Half of the quotient has been written where X was when the 0 is met.
void TestAnOpThatFailsInPlace() {
  auto program = std::make_shared<Program>("fails");
  const auto add = [&](const std::string& type, const std::vector<std::string>& in,
                       const std::string& out, const std::vector<proto::Attr>& attrs) {
    static const char* const kNames[] = {"X", "Y"};
    proto::OpDesc op;
    op.set_type(type);
    for (size_t i = 0; i < in.size(); ++i) {
      proto::Slot& slot = *op.add_inputs();
      slot.set_name(kNames[i]);
      slot.add_vars(in[i]);
    }
    if (!out.empty()) {
      proto::Slot& slot = *op.add_outputs();
      slot.set_name("out");
      slot.add_vars(out);
    }
    op.mutable_attrs()->Assign(attrs.begin(), attrs.end());
    AppendOp(*program, type == "fill" && out.empty() ? 1 : 0, op);
  };
  const auto constant = [&](const std::string& out, std::vector<int32_t> values) {
    proto::Attr attr;
    attr.set_name("value");
    attr.mutable_tensor()->set_dtype(proto::INT32);
    attr.mutable_tensor()->add_dims(static_cast<int64_t>(values.size()));
    attr.mutable_tensor()->set_data(values.data(), values.size() * sizeof(int32_t));
    add("constant", {}, out, {attr});
  };
  constant("x", {7, 7, 7, 7});
  // Written twice, so that it is no constant of the plan.
  add("increment", {"x"}, "x", {FloatAttr("step", 1)});
  constant("y", {2, 2, 2, 0});
  proto::Attr body;
  body.set_name("block");
  body.set_block(program->CreateBlock(0));
  add("test_twice", {}, "", {body, BoolAttr("joins", true)});
  add("div", {"x", "y"}, "quotient", {});

  auto hook = std::make_shared<Recorder>();
  bool seen = false;
  hook->failed = [&](const FrameView& frame) {
    seen = true;
    const Plan& plan = frame.plan();
    Check(frame.shape() == PlanShape::kFast, "joined half-way");
    Check(frame.StateOf(plan.FindSlot(0, "y")) == ValueState::kPresent, "y is there");
    Check(frame.StateOf(plan.FindSlot(0, "quotient")) == ValueState::kNotWritten, "no quotient");
    const Instruction* by = nullptr;
    Check(frame.StateOf(plan.FindSlot(0, "x"), &by) == ValueState::kReleased && by != nullptr,
          "x is no longer what it was");
  };
  join = [&] { SetHook(hook); };
  Scope scope;
  bool threw = false;
  try {
    Executor().Run(program, {}, {}, scope);
  } catch (const Error&) {
    threw = true;
  }
  SetHook(nullptr);
  Check(threw && seen, "an integer divided by 0 is an error");
}

}  // namespace

int main() {
  TestRandomPrograms();
  TestAnOpThatFailsInPlace();
}
