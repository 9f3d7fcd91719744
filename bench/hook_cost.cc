// Runs a chain of tiny adds, with `traced` after ops of imperative mode; how many instructions that
// takes is counted from outside.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ir/op_view.h"
#include "passes/build.h"
#include "runtime/executor.h"
#include "runtime/tracer.h"

namespace {

void Slot(google::protobuf::RepeatedPtrField<opstep::proto::Slot>* slots, const char* name,
          std::string var) {
  opstep::proto::Slot& slot = *slots->Add();
  slot.set_name(name);
  slot.add_vars(std::move(var));
}

opstep::proto::OpDesc Add(std::string x, std::string y, std::string out) {
  opstep::proto::OpDesc add;
  add.set_type("add");
  Slot(add.mutable_inputs(), "X", std::move(x));
  Slot(add.mutable_inputs(), "Y", std::move(y));
  Slot(add.mutable_outputs(), "out", std::move(out));
  return add;
}

// A chain in imperative mode.
void Trace(const opstep::Tensor& x, int ops) {
  const auto type = x.type();
  const auto op = opstep::MakeTracedOp(std::make_shared<opstep::Program>("imperative"),
                                       Add("x", "y", "out"), {type, type}, {opstep::VarType{}});
  const opstep::ValuePtr first = opstep::MakeValue(x);
  first->stop_gradient = false;
  opstep::ValuePtr last = first;
  for (int i = 0; i < ops; ++i) {
    const opstep::ValuePtr inputs[] = {last, first};
    opstep::ValuePtr outputs[] = {nullptr};
    opstep::RunTracedOp(op, inputs, outputs, true);
    last = outputs[0];
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ops = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 10;

  const auto program = std::make_shared<opstep::Program>("chain");
  opstep::proto::VarDesc x;
  x.set_name("x");
  opstep::SetType(x, {opstep::DType::kFloat32, {8}});
  program->CreateVar(0, x);
  std::string last = "x";
  for (int i = 0; i < ops; ++i) {
    const std::string next = "v" + std::to_string(i);
    opstep::AppendOp(*program, 0, Add(last, "x", next));
    last = next;
  }
  opstep::Executor executor;
  opstep::Scope scope;
  opstep::Tensor value = opstep::Tensor::Allocate({opstep::DType::kFloat32, {8}});
  for (int i = 0; i < 8; ++i) value.as<float>()[i] = 1.0f;
  if (argc > 3 && std::string_view(argv[3]) == "traced") Trace(value, ops);
  float sum = 0;
  for (int i = 0; i < runs; ++i) {
    sum += executor.Run(program, {{"x", value}}, {last}, scope)[0].as<float>()[0];
  }
  const bool right = sum == static_cast<float>(runs) * static_cast<float>(ops + 1);
  if (!right) std::fprintf(stderr, "wrong sum %g\n", static_cast<double>(sum));
  return right ? 0 : 1;
}
