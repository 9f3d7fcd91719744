// Runs a chain of tiny adds; how many instructions that takes is counted from outside.
#include <cstdio>
#include <cstdlib>

#include "ir/op_view.h"
#include "passes/build.h"
#include "runtime/executor.h"

namespace {

void Slot(google::protobuf::RepeatedPtrField<opstep::proto::Slot>* slots, const char* name, std::string var) {
  opstep::proto::Slot& slot = *slots->Add();
  slot.set_name(name);
  slot.add_vars(std::move(var));
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
    opstep::proto::OpDesc add;
    add.set_type("add");
    Slot(add.mutable_inputs(), "X", last);
    Slot(add.mutable_inputs(), "Y", "x");
    last = "v" + std::to_string(i);
    Slot(add.mutable_outputs(), "out", last);
    opstep::AppendOp(*program, 0, std::move(add));
  }
  opstep::Executor executor;
  opstep::Scope scope;
  opstep::Tensor value = opstep::Tensor::Allocate({opstep::DType::kFloat32, {8}});
  for (int i = 0; i < 8; ++i) value.as<float>()[i] = 1.0f;
  float sum = 0;
  for (int i = 0; i < runs; ++i) {
    sum += executor.Run(program, {{"x", value}}, {last}, scope)[0].as<float>()[0];
  }
  const bool right = sum == static_cast<float>(runs) * static_cast<float>(ops + 1);
  if (!right) std::fprintf(stderr, "wrong sum %g\n", static_cast<double>(sum));
  return right ? 0 : 1;
}
