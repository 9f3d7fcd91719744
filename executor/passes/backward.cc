// AppendBackward: checks the loss, starts the gradients, names the parameters' gradients.
#include "passes/backward.h"

#include <algorithm>

#include "ir/verify.h"
#include "ops/op.h"
#include "passes/block_gradient.h"
#include "passes/build.h"
#include "passes/captures.h"

namespace opstep {
namespace {

using Gradients = std::vector<std::pair<std::string, std::string>>;

VarType CheckLoss(const Program& program, int block, const std::string& loss) {
  const proto::VarDesc* var = program.FindVarHere(block, loss);
  OPSTEP_CHECK(var != nullptr, "'", loss, "' is not a variable of block ", block,
               ", to which layers are added now");
  const VarType type = TypeOf(*var);
  OPSTEP_CHECK(type.dims.known() && type.dims.numel() == 1 && IsFloat(type.dtype),
               "a loss must be one float, but '", loss, "' is ", type.ToString(),
               ": take its mean or sum first");
  OPSTEP_CHECK(program.FindVarHere(block, GradName(loss)) == nullptr, "the gradient of '", loss,
               "' is in the program already");
  return type;
}

// The op that computes the loss; the gradient 1 that the pass starts from is linked to it.
const proto::OpDesc& WriterOf(const Program& program, int block, const std::string& loss) {
  const auto& ops = program.block(block).ops();
  for (int i = ops.size() - 1; i >= 0; --i) {
    for (const proto::Slot& slot : ops[i].outputs()) {
      const auto& vars = slot.vars();
      if (std::find(vars.begin(), vars.end(), loss) != vars.end()) return ops[i];
    }
  }
  Fail("no op computes '", loss, "'");
}

void AddSeed(Program& program, int block, const std::string& loss, const VarType& type,
             const proto::OpDesc* made_by) {
  const proto::OpDesc& writer = WriterOf(program, block, loss);
  const OpSchema& fill = GetOp(OpRole::kFill).schema;
  proto::OpDesc op;
  op.set_type(fill.type);
  op.set_name(program.UniqueOpName(writer.name() + ".grad_seed"));
  op.set_forward_op(writer.id());
  CopyMadeBy(made_by != nullptr ? *made_by : writer, op);
  *op.add_attrs() = DTypeAttr("dtype", type.dtype);
  *op.add_attrs() = IntsAttr("shape", {type.dims.begin(), type.dims.end()});
  *op.add_attrs() = FloatAttr("value", 1.0);
  proto::Slot& out = *op.add_outputs();
  out.set_name(fill.outputs[0].name);
  out.add_vars(GradName(loss));
  AppendOp(program, block, std::move(op));
}

// For a source that is written on the way: a parameter's value at the start of the run, or the last
// value of another variable that the loss was computed from.
std::string GradientOf(const Program& program, int block, BlockGradient& pass,
                       const std::string& name, const std::string& loss) {
  const std::vector<int> versions = pass.VersionsWithGradient(name);
  if (versions.empty()) return "";
  const auto& ops = program.block(block).ops();
  for (size_t i = 0; i + 1 < versions.size(); ++i) {
    OPSTEP_CHECK(pass.WrittenOnPath({name, versions[i] + 1}), "'", name,
                 "' is overwritten on the way to '", loss,
                 "', so its gradient is not defined: write into a new variable",
                 ops.empty() ? "" : program.Place(WriterOf(program, block, name)));
  }
  const proto::VarDesc* var = program.FindVar(block, name);
  const bool first = var != nullptr && var->persistable();
  return pass.Gradient({name, first ? versions.front() : versions.back()});
}

Gradients Append(Program& program, int block, const std::string& loss,
                 const std::vector<std::string>& wanted, const proto::OpDesc* made_by) {
  const VarType type = CheckLoss(program, block, loss);
  std::vector<std::string> names = wanted;
  if (wanted.empty()) {
    for (const proto::VarDesc& var : program.block(0).vars()) {
      if (var.parameter() && var.trainable()) names.push_back(var.name());
    }
  }
  BlockGradient pass(program, block, block, nullptr, 0);
  std::set<Value> sources;
  for (const std::string& name : names) {
    for (int v = 0; v <= pass.FinalVersion(name); ++v) sources.insert({name, v});
  }
  AddSeed(program, block, loss, type, made_by);
  pass.Run({{loss, GradName(loss)}}, sources);
  Gradients result;
  for (const std::string& name : names) {
    const std::string gradient = GradientOf(program, block, pass, name, loss);
    if (!gradient.empty()) result.emplace_back(name, gradient);
    OPSTEP_CHECK(!gradient.empty() || wanted.empty(), "'", loss, "' does not depend on '", name,
                 "', so there is no gradient for it");
  }
  // Only ops with blocks have captures.
  if (program.block_count() > 1) {
    proto::ProgramDesc complete = program.desc();
    RefreshCaptures(complete);
    program.Restore(complete);
  }
  Verify(program.desc(), FindSchema);
  return result;
}

}  // namespace

Gradients AppendBackward(Program& program, int block, const std::string& loss,
                         const std::vector<std::string>& wanted, const proto::OpDesc* made_by) {
  const proto::ProgramDesc before = program.desc();
  try {
    return Append(program, block, loss, wanted, made_by);
  } catch (...) {
    program.Restore(before);
    throw;
  }
}

}  // namespace opstep
