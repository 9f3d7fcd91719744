// Ops that the registry refuses: those whose slots or attributes could not be named in Python.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ops/lib/shape_rules.h"
#include "ops/op.h"

using namespace opstep;

namespace {

void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::abort();
}

Op Complete(const std::string& type) {
  Op op(type);
  op.Doc("Does nothing.")
      .In("X", "any shape", kEvery)
      .Out("out", "as X", kEvery)
      .Shape(OutLikeInput<0>)
      .Prepare([](const PrepareContext&) { return Kernel{}; })
      .OwnTest();
  return op;
}

// The error names the op, and what about it is wrong.
void Refuses(const std::string& type, Op op, const std::string& wrong) {
  std::string error = "(none)";
  try {
    op.Register();
  } catch (const Error& e) {
    error = e.what();
  }
  Check(
      error == "op " + type + " has " + wrong + ", which is a Python keyword: choose another name",
      type + ": " + error);
  Check(FindOp(type) == nullptr, type + " is registered nevertheless");
}

}  // namespace

int main() {
  Refuses("test_attr", Complete("test_attr").Attr(FloatAttr("lambda", 0.5), "a weight"),
          "an attribute 'lambda'");
  Refuses("test_required", Complete("test_required").Required("from", AttrType::kInt, "an index"),
          "an attribute 'from'");
  Refuses("test_in", Complete("test_in").In("in", "any shape", kEvery), "a slot 'in'");
  Refuses("test_out", Complete("test_out").Out("yield", "as X", kEvery), "a slot 'yield'");
  Check(Complete("test_plain").Attr(FloatAttr("lambda_", 0.5), "a weight").Register(), "lambda_");
  Check(FindOp("test_plain") != nullptr, "an op with other names is not registered");
  return 0;
}
