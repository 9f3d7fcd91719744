// Program: a ProgramDesc with indexes.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/tensor.h"
#include "ir/schema.h"
#include "program.pb.h"

namespace opstep {

struct SourceFrame {
  std::string file;
  std::string function;
  uint32_t line = 0;
  // See CodeFrame.
  std::vector<std::string> locals = {}, globals = {};
};

// A name in Python code that now holds a variable, or none of the program's variables: then
// `variable` is empty.
struct NamedVariable {
  std::string name;
  std::string variable;
  bool assigned = false;  // see Naming
  bool other = false;     // see Naming
};

// A ProgramDesc with the indexes that make it quick to build and to read. Built by one thread;
// compiled plans keep a copy of what they need, so it may grow between runs.
class Program {
 public:
  explicit Program(std::string name);
  Program(const Program&) = delete;

  // A program file's bytes: parsed and verified; an error names block, op and rule.
  static std::shared_ptr<Program> Parse(std::string_view bytes, SchemaLookup schemas);
  std::string Serialize() const;
  // Back to an earlier state of this program, when a pass failed half-way.
  void Restore(const proto::ProgramDesc& earlier);

  const proto::ProgramDesc& desc() const { return desc_; }
  const std::string& name() const { return desc_.name(); }
  void set_name(std::string name) { desc_.set_name(std::move(name)); }
  // Unique in the process.
  uint32_t id() const { return id_; }
  // Rises with every change.
  uint32_t version() const { return version_; }
  // The owner of the values of its persistable variables in scopes; 0 = nobody. Programs of one
  // model have the same owner, and a variable's owner may differ from its program's.
  static constexpr uint64_t kOfProgram = UINT64_MAX;
  uint64_t owner() const { return owner_.load(std::memory_order_relaxed); }
  void set_owner(uint64_t owner) { owner_.store(owner, std::memory_order_relaxed); }
  uint64_t OwnerOf(const std::string& name) const;
  void SetOwnerOf(const std::string& name, uint64_t owner);
  // Rises when ops were removed again.
  uint32_t restored() const { return restored_; }
  // The version for which the names of the running Python code were last recorded.
  uint32_t& names_noted() { return names_noted_; }
  // How often it has run.
  std::atomic<uint64_t>& runs() const { return runs_; }

  int block_count() const { return desc_.blocks_size(); }
  const proto::BlockDesc& block(int i) const { return desc_.blocks(i); }
  int CreateBlock(int parent);

  // In the block itself / also in its enclosing blocks; nullptr when there is none.
  const proto::VarDesc* FindVarHere(int block, std::string_view name) const;
  const proto::VarDesc* FindVar(int block, std::string_view name) const;
  proto::VarDesc* MutableVar(int block, std::string_view name);
  // A name that the block already has gives the existing variable.
  proto::VarDesc& CreateVar(int block, proto::VarDesc var);

  // Gives the op its id. position -1 = at the end.
  proto::OpDesc& InsertOp(int block, proto::OpDesc op, int position = -1);
  const proto::OpDesc* FindOp(uint32_t id, int* block = nullptr) const;
  proto::OpDesc* MutableOp(uint32_t id);

  // `prefix`, with a number appended when an op already has that name.
  std::string UniqueOpName(const std::string& prefix) const;
  bool HasOpName(const std::string& name) const { return op_names_.count(name) != 0; }

  // Index of a text in desc().strings.
  uint32_t InternString(const std::string& text);
  // Index of the frame in desc().frames.
  uint32_t InternFrame(const SourceFrame& frame);
  SourceFrame frame(uint32_t index) const;
  // What has changed in a Python call before the op (see NameChange).
  void AddNames(uint32_t call, uint32_t op, const std::vector<NamedVariable>& names);
  // The line that made the op, "train.py:41" or "" when it has none.
  std::string Where(const proto::OpDesc& op) const;
  // " (train.py:41, op #12 fc_0.matmul)", for the end of error sentences.
  std::string Place(const proto::OpDesc& op) const;

 private:
  using Indexes = google::protobuf::RepeatedField<uint32_t>;

  Program();
  void Index();
  void AddStrings(const std::vector<std::string>& texts, Indexes& to);

  proto::ProgramDesc desc_;
  uint32_t id_;
  uint32_t version_ = 0;
  uint32_t restored_ = 0;
  uint32_t names_noted_ = UINT32_MAX;
  mutable std::atomic<uint64_t> runs_{0};
  std::atomic<uint64_t> owner_{0};
  std::unordered_map<std::string, uint64_t> owners_;
  std::vector<std::unordered_map<std::string, int>> vars_;
  std::unordered_set<std::string> op_names_;
  std::unordered_map<std::string, uint32_t> strings_;
  std::unordered_map<uint64_t, uint32_t> frames_;
};

// A call or a visit is identified by the first op that was made in it, and the place of its frame
// in that op's stack.
constexpr uint32_t kMostFrames = 128;
constexpr uint32_t CallNumber(uint32_t op, uint32_t frame) { return op * kMostFrames + frame; }
constexpr uint32_t FirstOpOf(uint32_t call) { return call / kMostFrames; }
// Gives an op the lines, calls and visits of another op of the same program.
void CopyMadeBy(const proto::OpDesc& from, proto::OpDesc& to);
VarType TypeOf(const proto::VarDesc& var);
void SetType(proto::VarDesc& var, const VarType& type);
std::string GradName(std::string_view name);

}  // namespace opstep
