// The program as the Python accessors see it: everything by block index, name and op id.
#include <pybind11/stl.h>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "debug/agent.h"
#include "ir/op_view.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "opstep/bindings/bindings.h"
#include "passes/backward.h"
#include "passes/body.h"
#include "passes/build.h"
#include "passes/join.h"
#include "passes/merge.h"
#include "passes/select.h"

namespace opstep::python {
namespace {

// A dict of slot → variable name or list of names.
void AddSlots(const py::dict& slots, google::protobuf::RepeatedPtrField<proto::Slot>& out) {
  for (const auto& [key, value] : slots) {
    proto::Slot& slot = *out.Add();
    slot.set_name(key.cast<std::string>());
    if (py::isinstance<py::str>(value)) {
      slot.add_vars(value.cast<std::string>());
    } else {
      for (py::handle name : value) slot.add_vars(name.cast<std::string>());
    }
  }
}

// A frame of Python code: file, line and function.
using Line = std::tuple<std::string, uint32_t, std::string>;

// What made an op, for a caller that knows better than Python's stack does: the lines, innermost
// first, their calls and visits (see OpDesc; empty: not known), and the name and type of the op of
// another program whose gradient it computes.
struct OpOrigin {
  std::vector<Line> stack;
  std::vector<uint32_t> calls, visits;
  std::optional<std::pair<std::string, std::string>> forward;
};

void SetOrigin(Program& program, const OpOrigin& made_by, proto::OpDesc& op) {
  const size_t frames = made_by.stack.size();
  for (const std::vector<uint32_t>& numbers : {made_by.calls, made_by.visits}) {
    OPSTEP_CHECK(numbers.empty() || numbers.size() == frames, "op '", op.name(), "' has ", frames,
                 " lines, but ", numbers.size(), " calls or visits");
  }
  for (const auto& [file, line, function] : made_by.stack)
    op.add_stack(program.InternFrame({.file = file, .function = function, .line = line}));
  op.mutable_calls()->Assign(made_by.calls.begin(), made_by.calls.end());
  op.mutable_visits()->Assign(made_by.visits.begin(), made_by.visits.end());
  if (!made_by.forward) return;
  op.mutable_forward()->set_name(made_by.forward->first);
  op.mutable_forward()->set_type(made_by.forward->second);
}

uint32_t Append(Program& program, int block, const std::string& type, const std::string& name,
                const py::dict& inputs, const py::dict& outputs, const py::dict& attrs,
                int position, bool stop, const OpOrigin* made_by) {
  proto::OpDesc op;
  op.set_type(type);
  op.set_name(name);
  op.set_stop(stop);
  if (made_by != nullptr) {
    SetOrigin(program, *made_by, op);
  } else {
    SetMadeBy(program, op);
  }
  try {
    const OpSchema& schema = GetOp(type).schema;
    AddSlots(inputs, *op.mutable_inputs());
    AddSlots(outputs, *op.mutable_outputs());
    AddAttrs(attrs, schema, op);
  } catch (const Error& e) {
    const std::string where = program.Where(op);
    if (where.empty()) throw;
    Fail(e.what(), " (", where, ")");
  }
  return AppendOp(program, block, std::move(op), position).id();
}

const proto::VarDesc& GetVar(const Program& program, int block, const std::string& name) {
  const proto::VarDesc* var = program.FindVarHere(block, name);
  OPSTEP_CHECK(var != nullptr, "block ", block, " of program '", program.name(),
               "' has no variable '", name, "'");
  return *var;
}

proto::VarDesc& MutableVar(Program& program, int block, const std::string& name) {
  GetVar(program, block, name);
  return *program.MutableVar(block, name);
}

int CheckBlock(const Program& program, int block) {
  OPSTEP_CHECK(block >= 0 && block < program.block_count(), "program '", program.name(), "' has ",
               program.block_count(), " blocks, not block ", block);
  return block;
}

int BlockOfVar(const Program& program, int block, const std::string& name) {
  for (int b = CheckBlock(program, block); b >= 0; b = program.block(b).parent()) {
    if (program.FindVarHere(b, name) != nullptr) return b;
  }
  return -1;
}

void CreateVar(Program& program, int block, const std::string& name, py::handle dtype,
               py::handle shape, bool persistable, bool parameter, bool trainable,
               bool stop_gradient) {
  proto::VarDesc var;
  var.set_name(name);
  var.set_kind(proto::TENSOR);
  SetType(var, {ToDType(dtype), Dims(ToDims(shape))});
  var.set_persistable(persistable);
  var.set_parameter(parameter);
  var.set_trainable(trainable);
  var.set_stop_gradient(stop_gradient);
  program.CreateVar(CheckBlock(program, block), std::move(var));
}

py::dict VarAttrs(const Program& program, int block, const std::string& name) {
  py::dict attrs;
  for (const proto::Attr& attr : GetVar(program, block, name).attrs()) {
    attrs[py::str(attr.name())] = FromAttr(attr);
  }
  return attrs;
}

void SetVarAttrs(Program& program, int block, const std::string& name,
                 const std::map<std::string, double>& attrs) {
  proto::VarDesc& var = MutableVar(program, block, name);
  var.clear_attrs();
  for (const auto& [key, value] : attrs) *var.add_attrs() = FloatAttr(key, value);
}

using VariableFields = std::vector<std::tuple<std::string, py::object, py::object, int>>;

// Name, dtype, sizes and lod level of each value of a reader's records.
void SetFields(Program& program, int block, const std::string& name, const VariableFields& fields) {
  proto::VarDesc& var = MutableVar(program, block, name);
  var.clear_fields();
  for (const auto& [field, dtype, shape, levels] : fields) {
    proto::FieldDesc& made = *var.add_fields();
    made.set_name(field);
    made.set_dtype(static_cast<proto::DataType>(ToDType(dtype)));
    for (const int64_t size : ToDims(shape)) made.add_dims(size);
    made.set_lod_level(levels);
  }
}

py::list FieldsOf(const Program& program, int block, const std::string& name) {
  py::list fields;
  for (const proto::FieldDesc& field : GetVar(program, block, name).fields()) {
    const Dims dims(std::vector<int64_t>(field.dims().begin(), field.dims().end()));
    fields.append(py::make_tuple(field.name(), NameOf(static_cast<DType>(field.dtype())),
                                 FromDims(dims), field.lod_level()));
  }
  return fields;
}

// A variable that keeps values of a block's runs.
void CreateStack(Program& program, int block, const std::string& name, py::handle dtype,
                 py::handle shape) {
  proto::VarDesc var;
  var.set_name(name);
  var.set_kind(proto::STACK);
  SetType(var, {ToDType(dtype), Dims(ToDims(shape))});
  program.CreateVar(CheckBlock(program, block), std::move(var));
}

// The last op of the block that writes the variable, or 0.
uint32_t WriterId(const Program& program, int block, const std::string& name) {
  const auto& ops = program.block(CheckBlock(program, block)).ops();
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    for (const proto::Slot& slot : op->outputs()) {
      for (const std::string& var : slot.vars()) {
        if (var == name) return op->id();
      }
    }
  }
  return 0;
}

py::dict FromSlots(const google::protobuf::RepeatedPtrField<proto::Slot>& slots) {
  py::dict out;
  for (const proto::Slot& slot : slots) {
    py::list names;
    for (const std::string& name : slot.vars()) names.append(name);
    out[py::str(slot.name())] = names;
  }
  return out;
}

py::dict OpFields(const Program& program, uint32_t id) {
  int block = 0;
  const proto::OpDesc* op = program.FindOp(id, &block);
  OPSTEP_CHECK(op != nullptr, "program '", program.name(), "' has no op #", id);
  py::dict attrs, out;
  for (const proto::Attr& attr : op->attrs()) attrs[py::str(attr.name())] = FromAttr(attr);
  py::list stack;
  for (const uint32_t index : op->stack()) {
    const SourceFrame frame = program.frame(index);
    stack.append(py::make_tuple(frame.file, frame.line, frame.function));
  }
  out["type"] = op->type();
  out["name"] = op->name();
  out["block"] = block;
  out["inputs"] = FromSlots(op->inputs());
  out["outputs"] = FromSlots(op->outputs());
  out["attrs"] = attrs;
  out["stack"] = stack;
  out["visits"] = std::vector<uint32_t>(op->visits().begin(), op->visits().end());
  out["forward_op"] = op->forward_op();
  out["forward_name"] = op->forward().name();
  out["gradient"] = IsGradient(*op);
  return out;
}

std::vector<uint32_t> OpIds(const Program& program, int block) {
  std::vector<uint32_t> ids;
  for (const proto::OpDesc& op : program.block(CheckBlock(program, block)).ops()) {
    ids.push_back(op.id());
  }
  return ids;
}

std::vector<std::string> VarNames(const Program& program, int block) {
  std::vector<std::string> names;
  for (const proto::VarDesc& var : program.block(CheckBlock(program, block)).vars()) {
    names.push_back(var.name());
  }
  return names;
}

std::vector<std::string> OpNames(const Program& program) {
  std::vector<std::string> names;
  for (const proto::BlockDesc& block : program.desc().blocks()) {
    for (const proto::OpDesc& op : block.ops()) names.push_back(op.name());
  }
  return names;
}

// The original program of a chain of derived programs, by id. Leaked.
struct Lineages {
  std::mutex mutex;
  std::unordered_map<uint32_t, uint32_t> first;

  uint32_t Of(uint32_t program) {
    const auto found = first.find(program);
    return found == first.end() ? program : found->second;
  }
};
Lineages& AllLineages() {
  static auto* lineages = new Lineages;
  return *lineages;
}

bool HaveOneOrigin(uint32_t program, uint32_t other) {
  const std::lock_guard lock(AllLineages().mutex);
  return AllLineages().Of(program) == AllLineages().Of(other);
}

std::shared_ptr<Program> MadeFrom(const Program& source, std::shared_ptr<Program> made) {
  const std::lock_guard lock(AllLineages().mutex);
  AllLineages().first[made->id()] = AllLineages().Of(source.id());
  return made;
}

std::shared_ptr<Program> FromDesc(proto::ProgramDesc desc, std::string name) {
  auto program = std::make_shared<Program>("");
  desc.set_name(std::move(name));
  program->Restore(desc);
  return program;
}

// The variables that a caller feeds, in the order in which they were declared. A ragged variable
// includes its offsets and steps.
std::vector<std::string> FeedNames(const Program& program) {
  std::vector<std::string> names;
  std::set<std::string> companions;
  for (const proto::OpDesc& op : program.block(0).ops()) {
    if (GetOp(op.type()).role != OpRole::kFeed) continue;
    names.push_back(FlatOutputs(op)[0]);
    for (const proto::LodLevel& level : GetVar(program, 0, names.back()).lod()) {
      companions.insert({level.offsets(), level.steps()});
    }
  }
  std::erase_if(names, [&](const std::string& name) { return companions.count(name) != 0; });
  return names;
}

using Levels = std::vector<std::pair<std::string, std::string>>;

// The names of a ragged variable's offsets and steps, outermost first.
Levels GetLod(const Program& program, int block, const std::string& name) {
  Levels levels;
  for (const proto::LodLevel& level : GetVar(program, block, name).lod()) {
    levels.emplace_back(level.offsets(), level.steps());
  }
  return levels;
}

void SetLod(Program& program, int block, const std::string& name, const Levels& levels) {
  proto::VarDesc& var = MutableVar(program, block, name);
  var.clear_lod();
  for (const auto& [offsets, steps] : levels) {
    proto::LodLevel& level = *var.add_lod();
    level.set_offsets(offsets);
    level.set_steps(steps);
  }
}

// The offsets of the ragged variables of block 0.
std::map<std::string, std::vector<std::string>> OffsetsOf(const Program& program,
                                                          const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::string>> found;
  for (const std::string& name : names) {
    const proto::VarDesc* var = program.FindVarHere(0, name);
    if (var == nullptr || var->lod_size() == 0) continue;
    std::vector<std::string>& offsets = found[name];
    offsets.clear();
    for (const proto::LodLevel& level : var->lod()) offsets.push_back(level.offsets());
  }
  return found;
}

// The variables that say whether work that is done once was done in a scope.
std::vector<std::string> OnceFlags(const Program& program) {
  std::vector<std::string> names;
  for (const proto::BlockDesc& block : program.desc().blocks()) {
    for (const proto::OpDesc& op : block.ops()) {
      if (GetOp(op.type()).role == OpRole::kOnce) names.push_back(FlatInputs(op)[0]);
    }
  }
  return names;
}

std::shared_ptr<Program> Merged(const Program& program, const Program& startup, std::string name) {
  std::shared_ptr<Program> made = MadeFrom(program, FromDesc(program.desc(), program.name()));
  SetMadeBy(*made, *made->MutableOp(Merge(*made, startup)));
  made->set_name(std::move(name));
  return made;
}

std::vector<std::string> JoinInto(Program& program, int block, const Program& added,
                                  std::map<std::string, std::string> connect,
                                  const std::vector<std::string>& wanted) {
  const JoinOptions options{
      .block = CheckBlock(program, block), .connect = std::move(connect), .share = false};
  return Join(program, added, options, wanted);
}

std::shared_ptr<Program> Joined(const Program& program, const Program& added,
                                std::map<std::string, std::string> connect, bool share,
                                std::string name) {
  std::shared_ptr<Program> made = FromDesc(program.desc(), program.name());
  Join(*made, added, {.block = 0, .connect = std::move(connect), .share = share});
  Verify(made->desc(), &FindSchema);
  made->set_name(std::move(name));
  return made;
}

}  // namespace

void BindProgram(py::module_& m) {
  SetSameModel(&HaveOneOrigin);
  py::class_<OpOrigin>(m, "OpOrigin")
      .def(py::init<std::vector<Line>, std::vector<uint32_t>, std::vector<uint32_t>,
                    std::optional<std::pair<std::string, std::string>>>());
  using P = Program;
  py::class_<P, std::shared_ptr<P>>(m, "Program")
      .def(py::init<std::string>())
      .def_static("parse",
                  [](const py::bytes& bytes) {
                    return Program::Parse(std::string_view(bytes), &FindSchema);
                  })
      .def("serialize", [](const P& p) { return py::bytes(p.Serialize()); })
      .def("restore",
           [](P& p, const py::bytes& data) {
             proto::ProgramDesc desc;
             OPSTEP_CHECK(desc.ParseFromString(std::string(data)), "this is not a program");
             // Frames that were recorded since then are known by their numbers.
             if (desc.frames_size() < p.desc().frames_size()) {
               *desc.mutable_frames() = p.desc().frames();
               *desc.mutable_strings() = p.desc().strings();
             }
             p.Restore(desc);
           })
      .def("verify", [](const P& p) { Verify(p.desc(), &FindSchema); })
      .def("listing", [](const P& p) { return Print(p).ToString(); })
      .def_property("name", &P::name, &P::set_name)
      .def_property_readonly("id", &P::id)
      .def_property_readonly("version", &P::version)
      .def_property_readonly("runs", [](const P& p) { return p.runs().load(); })
      .def_property_readonly("block_count", &P::block_count)
      .def("block_parent", [](const P& p, int b) { return p.block(CheckBlock(p, b)).parent(); })
      .def("set_owner", &P::set_owner)
      .def("set_owner_of", &P::SetOwnerOf)
      .def("create_block", &P::CreateBlock)
      .def("var_names", &VarNames)
      .def("block_of_var", &BlockOfVar)
      .def("create_var", &CreateVar)
      .def("dtype",
           [](const P& p, int b, const std::string& n) {
             return std::string(NameOf(TypeOf(GetVar(p, b, n)).dtype));
           })
      .def("shape", [](const P& p, int b,
                       const std::string& n) { return FromDims(TypeOf(GetVar(p, b, n)).dims); })
      .def("persistable",
           [](const P& p, int b, const std::string& n) { return GetVar(p, b, n).persistable(); })
      .def("parameter",
           [](const P& p, int b, const std::string& n) { return GetVar(p, b, n).parameter(); })
      .def("trainable",
           [](const P& p, int b, const std::string& n) { return GetVar(p, b, n).trainable(); })
      .def("stop_gradient",
           [](const P& p, int b, const std::string& n) { return GetVar(p, b, n).stop_gradient(); })
      .def("set_persistable", [](P& p, int b, const std::string& n,
                                 bool v) { MutableVar(p, b, n).set_persistable(v); })
      .def("set_trainable",
           [](P& p, int b, const std::string& n, bool v) { MutableVar(p, b, n).set_trainable(v); })
      .def("set_stop_gradient", [](P& p, int b, const std::string& n,
                                   bool v) { MutableVar(p, b, n).set_stop_gradient(v); })
      .def("var_attrs", &VarAttrs)
      .def("set_var_attrs", &SetVarAttrs)
      .def("writer", &WriterId)
      .def("feed_names", &FeedNames)
      .def("lod", &GetLod)
      .def("set_lod", &SetLod)
      .def("offsets_of", &OffsetsOf)
      .def("once_flags", &OnceFlags)
      .def("op_ids", &OpIds)
      .def("op_names", &OpNames)
      .def("has_op_name", &P::HasOpName)
      .def("op", &OpFields)
      .def("append_op", &Append)
      .def_property_readonly("next_op_id", [](const P& p) { return p.desc().next_op_id(); })
      .def("clone",
           [](const P& p, std::string name) { return MadeFrom(p, FromDesc(p.desc(), name)); })
      .def("for_test",
           [](const P& p, std::string name) {
             return MadeFrom(p, FromDesc(ForTest(p.desc()), name));
           })
      .def("set_fields", &SetFields)
      .def("fields", &FieldsOf)
      .def("create_stack", &CreateStack)
      .def("prune",
           [](const P& p, const std::vector<std::string>& targets, std::string name, bool filled) {
             return MadeFrom(p, FromDesc(Prune(p.desc(), targets, filled), name));
           })
      .def("merged", &Merged)
      .def("joined", &Joined)
      .def("add_test_of", &AddTestOf)
      .def("join_into", &JoinInto)
      .def("append_backward",
           [](P& p, int block, const std::string& loss, const std::vector<std::string>& wanted) {
             proto::OpDesc here;
             SetMadeBy(p, here);
             return AppendBackward(p, CheckBlock(p, block), loss, wanted, &here);
           });
}

}  // namespace opstep::python
