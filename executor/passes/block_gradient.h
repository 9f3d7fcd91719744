// BlockGradient: the gradients of one block's ops.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace opstep {

// The value of a variable after `version` writes in a block; 0: at the block's start.
struct Value {
  std::string name;
  int version = 0;
  auto operator<=>(const Value&) const = default;
};

// Computes the gradients of one block's ops, in reverse. For the loss's own block they are appended
// to it and read the forward values directly. For the body of a loop or branch they go to a
// separate block, which runs later: the forward block pushes the needed values to stacks, and this
// block pops them.
class BlockGradient {
 public:
  using Seeds = std::vector<std::pair<std::string, std::string>>;

  // `outer` differentiates the op at `outer_index` of its block, which runs this one; null for
  // the loss's own block.
  BlockGradient(Program& program, int block, int target, BlockGradient* outer, int outer_index);

  // Emits the gradient ops. `seeds`: variables at the end of the block with their gradients.
  void Run(const Seeds& seeds, const std::set<Value>& sources);
  // The gradient of a value, summed up; "" when there is none.
  std::string Gradient(const Value& value);
  // The variables at the start of the block that one of `ends`, at its end, depends on.
  std::vector<std::string> Reached(const std::vector<std::string>& ends) const;

  // The name by which a gradient op in the target block can read a forward value.
  std::string Reference(const Value& value);
  // The number of writes to a variable before the op at `index` runs.
  int Version(const std::string& name, int index) const;
  int FinalVersion(const std::string& name) const;
  // Versions of a variable that have a gradient, in order.
  std::vector<int> VersionsWithGradient(const std::string& name) const;
  // Do gradients flow through the op that writes a value?
  bool WrittenOnPath(const Value& value) const;

 private:
  friend class GradientRule;

  void FindPath(const std::set<Value>& sources, const std::set<Value>& ends);
  bool Differentiable(const std::string& name) const;
  // Was its gradient requested by name in an outer block? Then stop_gradient, the default for data,
  // does not count.
  bool AskedOutside(const std::string& name) const;
  bool IsStack(const std::string& name) const;
  // Adds a gradient for a value: returns the variable to write it to.
  std::string NextPart(const Value& value);
  void DropPart(const Value& value, const std::string& part);
  std::string NameFor(const Value& value);
  // Sums the gradients; false when there are none.
  bool Finish(const Value& value);
  void Differentiate(int index);
  // Keeps a value that is overwritten, or whose block will have ended.
  std::string Save(const Value& value);
  // Puts an op after the one that writes the value, or at the start of the block.
  void InsertAfterWriter(const Value& value, proto::OpDesc op);
  const proto::OpDesc& Link(const Value& value) const;
  proto::OpDesc MakeOp(const proto::OpDesc& forward, std::string type, const std::string& name);
  std::string FreshVar(int block, const std::string& prefix) const;

  Program& program_;
  const int block_;
  const int target_;
  BlockGradient* const outer_;
  const int outer_index_;
  // A copy: blocks grow while gradient ops are added.
  std::vector<proto::OpDesc> ops_;
  std::vector<std::vector<std::string>> reads_, writes_;
  std::unordered_map<std::string, std::vector<int>> writers_;
  std::vector<bool> on_path_;
  std::set<std::string> asked_;
  std::map<Value, int> expected_;
  std::map<Value, std::vector<std::string>> parts_;
  std::map<Value, std::string> names_;
  std::set<std::string> chosen_;
  std::set<Value> finished_;
  std::map<Value, std::string> saved_;
};

}  // namespace opstep
