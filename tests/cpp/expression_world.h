#pragma once

#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/half.h"
#include "debug/expr/expression.h"
#include "expression_text.h"

namespace opstep {

inline void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::abort();
}

// A run that stands at one op of a plan made by hand.
class World : public FrameView {
 public:
  World() {
    const float kNan = std::nanf(""), kInf = std::numeric_limits<float>::infinity();
    plan_.slots.resize(1);
    plan_.blocks.resize(2);
    plan_.blocks[1].parent = 0;
    plan_.slot_of.resize(2);
    plan_.desc.add_blocks()->set_parent(-1);
    plan_.desc.add_blocks()->set_parent(0);
    plan_.desc.mutable_blocks(0)->add_vars()->set_name("unused");
    tensors_.resize(1);
    Add<float>("x", {2, 3}, {1.5, -2, 3, 0.5, 0, 4});
    Add<float>("bad", {6}, {1, kNan, -kInf, 4, kInf, kNan});
    Add<double>("d", {3}, {0.25, -8, 1e300});
    Add<int32_t>("i", {4}, {7, -3, 0, 5});
    Add<int64_t>("k", {2, 3}, {1, 2, 3, -4, 5, 6});
    Add<uint8_t>("u", {3}, {0, 200, 255});
    Add<int8_t>("b8", {3}, {-128, 127, 3});
    Add<float>("s", {}, {2.5});
    Add<float>("one", {1}, {3});
    Add<float>("e", {0, 3}, {});
    std::vector<float> t;
    for (int n = 0; n < 24; ++n) t.push_back(static_cast<float>(n - 7));
    Add<float>("t", {2, 3, 4}, t);
    AddRaw("m", DType::kBool, {2, 3}, std::vector<uint8_t>{1, 0, 1, 0, 0, 2});
    AddRaw("h", DType::kFloat16, {3},
           std::vector<uint16_t>{FloatToHalf(1), FloatToHalf(0.333f), FloatToHalf(-65504)});
    AddRaw("bf", DType::kBFloat16, {2},
           std::vector<uint16_t>{FloatToBFloat16(1), FloatToBFloat16(-2.5f)});
    Add<float>("fc_0.w", {2}, {3, 4});
    Add<float>("fc_0.w@grad", {2}, {0.3f, 0.4f});
    Add<float>("fc_0.out", {2}, {1, 2});
    Add<float>("gone", {5}, {1, 2, 3, 4, 5});
    Add<float>("later", {7, 2}, std::vector<float>(14, 1));
    Add<int64_t>("axis", {}, {3});
    Add<int64_t>("counter", {1}, {41});
    Add<int64_t>("inner", {}, {5}, 1);
    op_.set_id(12);
    op_.set_type("no_such_type");
    op_.set_name("fc_0.matmul");
    AddSlot(op_.add_inputs(), "X", {"x"});
    AddSlot(op_.add_inputs(), "Y", {"fc_0.w"});
    AddSlot(op_.add_inputs(), "Many", {"s", "one", "counter"});
    AddSlot(op_.add_inputs(), "bias", {});
    AddSlot(op_.add_outputs(), "out", {"fc_0.out"});
    AddSlot(op_.add_outputs(), "count", {"counter"});
    auto attr = [&](const char* name) {
      op_.add_attrs()->set_name(name);
      return op_.mutable_attrs(op_.attrs_size() - 1);
    };
    attr("alpha")->set_f(0.5);
    attr("axis")->set_i(-1);
    attr("axes")->mutable_ints()->add_values(4);
    attr("kind")->set_s("valid");
    attr("step")->set_i(99);
    releaser_.op = &op_;
    releaser_.op_id = 12;
    top_.block = 1;
    top_.parent = &outer_;
    top_.iteration = 8;
  }

  template <typename T>
  void Add(const std::string& name, const Dims& dims, const std::vector<T>& values, int block = 0) {
    AddRaw(name, DTypeOf<T>::value, dims, values, block);
  }
  template <typename T>
  void AddRaw(const std::string& name, DType dtype, const Dims& dims, const std::vector<T>& values,
              int block = 0) {
    Tensor t = Tensor::Allocate({dtype, dims});
    assert(t.bytes() == values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(t.data, values.data(), t.bytes());
    plan_.slot_of[block][name] = static_cast<uint32_t>(tensors_.size());
    SlotPlan& slot = plan_.slots.emplace_back();
    slot.name = name;
    slot.block = block;
    slot.type = t.type();
    tensors_.push_back(std::move(t));
  }

  const Plan& plan() const override { return plan_; }
  PlanShape shape() const override { return PlanShape::kInspect; }
  uint64_t step() const override { return 20; }
  const Activation& top() const override { return top_; }
  bool after() const override { return true; }
  ValueState StateOf(uint32_t slot, const Instruction** by) const override {
    if (plan_.slots[slot].name == "later") return ValueState::kNotWritten;
    if (plan_.slots[slot].name != "gone") return ValueState::kPresent;
    if (by) *by = &releaser_;
    return ValueState::kReleased;
  }
  const Tensor& tensor(uint32_t slot) const override { return tensors_[slot]; }

  std::shared_ptr<const Expression> Bind(const proto::Expr& e) const {
    return Expression::Bind(e, plan_, 1, &op_);
  }
  std::shared_ptr<const Expression> Bind(const std::string& text) const {
    return Bind(ExpressionText::Parse(text));
  }
  Expression::Env env() const { return {*this, top_}; }
  proto::Value Eval(const std::string& text) const {
    proto::Value value;
    Bind(text)->Evaluate(env(), 1000, 0, 0, &value);
    return value;
  }
  bool Test(const std::string& text) const { return Bind(text)->Test(env()); }
  std::string ErrorOf(const std::string& text) const {
    try {
      Eval(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  const proto::OpDesc& op() const { return op_; }

 private:
  static void AddSlot(proto::Slot* slot, const char* name, const std::vector<std::string>& vars) {
    slot->set_name(name);
    for (const auto& var : vars) slot->add_vars(var);
  }

  Plan plan_;
  std::vector<Tensor> tensors_;
  proto::OpDesc op_;
  Instruction releaser_;
  Activation outer_, top_;
};

}  // namespace opstep
