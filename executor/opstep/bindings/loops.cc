// Loops over readers and the outside data of a program, as `opstep run` shows and changes them.
#include <pybind11/stl.h>

#include <set>

#include "ir/op_view.h"
#include "ir/verify.h"
#include "ops/op.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

const proto::OpDesc* WriterOf(const Program& program, const std::string& name) {
  for (const proto::OpDesc& op : program.block(0).ops()) {
    for (const proto::Slot& slot : op.outputs()) {
      for (const std::string& var : slot.vars()) {
        if (var == name) return &op;
      }
    }
  }
  return nullptr;
}

// The ops that supply the data of a reader, through any processing on the way.
void AddSources(const Program& program, const std::string& reader, std::vector<uint32_t>& found) {
  const proto::OpDesc* op = WriterOf(program, reader);
  if (op == nullptr) return;
  if (GetOp(op->type()).role == OpRole::kSource) found.push_back(op->id());
  for (const proto::Slot& slot : op->inputs()) {
    for (const std::string& name : slot.vars()) {
      const proto::VarDesc* var = program.FindVar(0, name);
      if (var != nullptr && var->kind() == proto::READER) AddSources(program, name, found);
    }
  }
}

// Loops of the program itself come first, in the order in which they run.
py::list Loops(const Program& program) {
  py::list loops;
  for (const proto::BlockDesc& block : program.desc().blocks()) {
    for (const proto::OpDesc& op : block.ops()) {
      if (GetOp(op.type()).role != OpRole::kReaderLoop) continue;
      const OpView view(op);
      std::vector<uint32_t> sources;
      AddSources(program, view.Input("reader"), sources);
      py::dict loop;
      loop["op"] = op.id();
      loop["name"] = op.name();
      loop["step"] = view.Input("step");
      loop["total"] = view.Output("total_out");
      loop["shown"] = view.Strings("shown");
      loop["sources"] = sources;
      loops.append(loop);
    }
  }
  return loops;
}

std::vector<uint32_t> Sources(const Program& program) {
  std::vector<uint32_t> ids;
  for (const proto::BlockDesc& block : program.desc().blocks()) {
    for (const proto::OpDesc& op : block.ops()) {
      if (GetOp(op.type()).role == OpRole::kSource) ids.push_back(op.id());
    }
  }
  return ids;
}

// "#3 save_0 (train.py:12)" for the first op that names a file or brings data from outside and is
// not in `known`; or "".
std::string FileOp(const Program& program, const std::set<uint32_t>& known) {
  for (const proto::BlockDesc& block : program.desc().blocks()) {
    for (const proto::OpDesc& op : block.ops()) {
      const OpRole role = GetOp(op.type()).role;
      if (role != OpRole::kFile && role != OpRole::kSource) continue;
      if (known.count(op.id()) != 0) continue;
      const std::string where = program.Where(op);
      return Cat("#", op.id(), " ", op.name(), where.empty() ? "" : " (" + where + ")");
    }
  }
  return "";
}

// Changes an op, or throws and leaves the program as it was.
template <typename F>
void Change(Program& program, uint32_t id, F&& change) {
  OPSTEP_CHECK(program.FindOp(id) != nullptr, "program '", program.name(), "' has no op #", id);
  const proto::ProgramDesc earlier = program.desc();
  try {
    change(*program.MutableOp(id));
    Verify(program.desc(), &FindSchema);
  } catch (...) {
    program.Restore(earlier);
    throw;
  }
}

proto::Attr MakeAttr(const std::string& type, const std::string& name, py::handle value) {
  const AttrSchema* known = GetOp(type).schema.FindAttr(name);
  OPSTEP_CHECK(known != nullptr, "[", type, "] has no attribute '", name, "'");
  return ToAttr(type, *known, value);
}

void SetAttr(Program& program, uint32_t id, const std::string& name, py::handle value) {
  Change(program, id, [&](proto::OpDesc& op) {
    const proto::Attr made = MakeAttr(op.type(), name, value);
    for (proto::Attr& attr : *op.mutable_attrs()) {
      if (attr.name() == name) attr = made;
    }
  });
}

// Another op over the same variables, with the same id, name and line.
void ReplaceOp(Program& program, uint32_t id, const std::string& type, const py::dict& attrs) {
  Change(program, id, [&](proto::OpDesc& op) {
    op.set_type(type);
    op.clear_attrs();
    for (const auto& [name, value] : attrs) {
      *op.add_attrs() = MakeAttr(type, name.cast<std::string>(), value);
    }
  });
}

}  // namespace

void BindLoops(py::module_& m) {
  m.def("loops", &Loops);
  m.def("sources", &Sources);
  m.def("file_op", &FileOp, py::arg("program"), py::arg("known") = std::set<uint32_t>());
  m.def("set_attr", &SetAttr);
  m.def("replace_op", &ReplaceOp);
}

}  // namespace opstep::python
