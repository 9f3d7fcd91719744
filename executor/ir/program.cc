// Program: parsing, indexes, adding variables and ops.
#include "ir/program.h"

#include <google/protobuf/stubs/logging.h>

#include "ir/verify.h"

namespace opstep {
namespace {

constexpr uint32_t kFormat = 1;

uint32_t NextId() {
  static std::atomic<uint32_t> next{1};
  return next++;
}

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

uint64_t FrameKey(uint64_t file, uint64_t function, uint32_t line) {
  return (file << 44) | (function << 24) | (line & 0xffffffu);
}

static_assert(static_cast<int>(DType::kFloat32) == proto::FLOAT32);
static_assert(static_cast<int>(DType::kBool) == proto::BOOL);

}  // namespace

Program::Program() : id_(NextId()) {}

Program::Program(std::string name) : Program() {
  desc_.set_format(kFormat);
  desc_.set_name(std::move(name));
  desc_.set_next_op_id(1);
  desc_.add_blocks()->set_parent(-1);
  Index();
}

std::shared_ptr<Program> Program::Parse(std::string_view bytes, SchemaLookup schemas) {
  std::shared_ptr<Program> program(new Program());
  // protobuf would write its own lines to stderr beside our sentence.
  const google::protobuf::LogSilencer silencer;
  const bool parsed = bytes.size() <= static_cast<size_t>(INT32_MAX) &&
                      program->desc_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  OPSTEP_CHECK(parsed, "this is not an opstep program, or a part of it is missing");
  OPSTEP_CHECK(program->desc_.format() == kFormat, "program format ", program->desc_.format(),
               " is not known to this version, which reads format ", kFormat);
  Verify(program->desc_, schemas);
  program->Index();
  return program;
}

std::string Program::Serialize() const { return desc_.SerializeAsString(); }

void Program::Restore(const proto::ProgramDesc& earlier) {
  ++version_;
  ++restored_;
  desc_ = earlier;
  Index();
}

void Program::Index() {
  op_names_.clear();
  strings_.clear();
  frames_.clear();
  vars_.assign(desc_.blocks_size(), {});
  for (int b = 0; b < desc_.blocks_size(); ++b) {
    const auto& vars = desc_.blocks(b).vars();
    for (int v = 0; v < vars.size(); ++v) vars_[b].emplace(vars[v].name(), v);
  }
  for (const proto::BlockDesc& block : desc_.blocks()) {
    for (const proto::OpDesc& op : block.ops()) op_names_.insert(op.name());
  }
  for (int i = 0; i < desc_.strings_size(); ++i) strings_.emplace(desc_.strings(i), i);
  for (int i = 0; i < desc_.frames_size(); ++i) {
    const proto::CodeFrame& frame = desc_.frames(i);
    frames_.emplace(FrameKey(frame.file(), frame.function(), frame.line()), i);
  }
}

std::string Program::UniqueOpName(const std::string& prefix) const {
  if (!HasOpName(prefix)) return prefix;
  for (int i = 1;; ++i) {
    std::string name = Cat(prefix, "_", i);
    if (!HasOpName(name)) return name;
  }
}

int Program::CreateBlock(int parent) {
  OPSTEP_CHECK(parent >= 0 && parent < block_count(), "block ", parent, " does not exist");
  ++version_;
  desc_.add_blocks()->set_parent(parent);
  vars_.emplace_back();
  return block_count() - 1;
}

const proto::VarDesc* Program::FindVarHere(int block, std::string_view name) const {
  const auto it = vars_[block].find(std::string(name));
  return it == vars_[block].end() ? nullptr : &desc_.blocks(block).vars(it->second);
}

const proto::VarDesc* Program::FindVar(int block, std::string_view name) const {
  for (int b = block; b >= 0; b = desc_.blocks(b).parent()) {
    if (const proto::VarDesc* var = FindVarHere(b, name)) return var;
  }
  return nullptr;
}

proto::VarDesc* Program::MutableVar(int block, std::string_view name) {
  ++version_;
  return const_cast<proto::VarDesc*>(FindVar(block, name));
}

uint64_t Program::OwnerOf(const std::string& name) const {
  const auto it = owners_.find(name);
  return it == owners_.end() ? kOfProgram : it->second;
}

void Program::SetOwnerOf(const std::string& name, uint64_t owner) {
  owners_[name] = owner;
  ++version_;
}

proto::VarDesc& Program::CreateVar(int block, proto::VarDesc var) {
  OPSTEP_CHECK(!var.name().empty(), "a variable needs a name");
  OPSTEP_CHECK(
      std::none_of(var.name().begin(), var.name().end(), [](unsigned char c) { return c < ' '; }),
      "a variable's name may not hold control characters");
  if (const proto::VarDesc* found = FindVarHere(block, var.name())) {
    return const_cast<proto::VarDesc&>(*found);
  }
  ++version_;
  proto::BlockDesc& desc = *desc_.mutable_blocks(block);
  vars_[block].emplace(var.name(), desc.vars_size());
  proto::VarDesc& added = *desc.add_vars();
  added = std::move(var);
  if (added.kind() == proto::VAR_KIND_UNSPECIFIED) added.set_kind(proto::TENSOR);
  return added;
}

proto::OpDesc& Program::InsertOp(int block, proto::OpDesc op, int position) {
  ++version_;
  op_names_.insert(op.name());
  op.set_id(desc_.next_op_id());
  desc_.set_next_op_id(op.id() + 1);
  auto& ops = *desc_.mutable_blocks(block)->mutable_ops();
  *ops.Add() = std::move(op);
  int at = ops.size() - 1;
  if (position >= 0) {
    for (; at > position; --at) ops.SwapElements(at, at - 1);
  }
  return ops[at];
}

const proto::OpDesc* Program::FindOp(uint32_t id, int* block) const {
  for (int b = 0; b < desc_.blocks_size(); ++b) {
    for (const proto::OpDesc& op : desc_.blocks(b).ops()) {
      if (op.id() != id) continue;
      if (block != nullptr) *block = b;
      return &op;
    }
  }
  return nullptr;
}

proto::OpDesc* Program::MutableOp(uint32_t id) {
  ++version_;
  return const_cast<proto::OpDesc*>(FindOp(id));
}

uint32_t Program::InternString(const std::string& text) {
  const auto [it, added] = strings_.emplace(text, desc_.strings_size());
  if (added) desc_.add_strings(text);
  return it->second;
}

uint32_t Program::InternFrame(const SourceFrame& frame) {
  const uint64_t file = InternString(frame.file);
  const uint64_t function = InternString(frame.function);
  const auto [it, added] =
      frames_.emplace(FrameKey(file, function, frame.line), desc_.frames_size());
  if (added) {
    proto::CodeFrame& desc = *desc_.add_frames();
    desc.set_file(static_cast<uint32_t>(file));
    desc.set_function(static_cast<uint32_t>(function));
    desc.set_line(frame.line);
  }
  proto::CodeFrame& desc = *desc_.mutable_frames(it->second);
  AddStrings(frame.locals, *desc.mutable_locals());
  AddStrings(frame.globals, *desc.mutable_globals());
  return it->second;
}

// Adds the missing names: unnamed functions may share a line.
void Program::AddStrings(const std::vector<std::string>& texts, Indexes& to) {
  for (const std::string& text : texts) {
    const uint32_t index = InternString(text);
    if (std::find(to.begin(), to.end(), index) == to.end()) to.Add(index);
  }
}

SourceFrame Program::frame(uint32_t index) const {
  const proto::CodeFrame& frame = desc_.frames(static_cast<int>(index));
  SourceFrame found{desc_.strings(frame.file()), desc_.strings(frame.function()), frame.line()};
  for (const uint32_t name : frame.locals()) found.locals.push_back(desc_.strings(name));
  for (const uint32_t name : frame.globals()) found.globals.push_back(desc_.strings(name));
  return found;
}

void Program::AddNames(uint32_t call, uint32_t op, const std::vector<NamedVariable>& names) {
  proto::NameChange& change = *desc_.add_names();
  change.set_call(call);
  change.set_op(op);
  for (const NamedVariable& named : names) {
    proto::Naming& added = *change.add_names();
    added.set_name(InternString(named.name));
    if (!named.variable.empty()) added.set_variable(InternString(named.variable) + 1);
    added.set_assigned(named.assigned);
    added.set_other(named.other);
  }
}

std::string Program::Where(const proto::OpDesc& op) const {
  if (op.stack().empty()) return "";
  const SourceFrame made = frame(op.stack(0));
  return Cat(BaseName(made.file), ":", made.line);
}

std::string Program::Place(const proto::OpDesc& op) const {
  const std::string where = Where(op);
  return Cat(" (", where, where.empty() ? "" : ", ", "op #", op.id(), " ", op.name(), ")");
}

void CopyMadeBy(const proto::OpDesc& from, proto::OpDesc& to) {
  *to.mutable_stack() = from.stack();
  *to.mutable_calls() = from.calls();
  *to.mutable_visits() = from.visits();
  *to.mutable_targets() = from.targets();
}

VarType TypeOf(const proto::VarDesc& var) {
  return {static_cast<DType>(var.dtype()),
          Dims(std::span<const int64_t>(var.dims().data(), static_cast<size_t>(var.dims_size())))};
}

void SetType(proto::VarDesc& var, const VarType& type) {
  var.set_dtype(static_cast<proto::DataType>(type.dtype));
  var.mutable_dims()->Assign(type.dims.begin(), type.dims.end());
}

std::string GradName(std::string_view name) { return std::string(name) + "@grad"; }

}  // namespace opstep
