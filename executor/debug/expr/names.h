// Names: what a name in an expression means at one op of one plan.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "debug/expr/node.h"

namespace opstep::expr {

// A name that means nothing where it is used.
class UnknownName : public Error {
 public:
  using Error::Error;
};

// A name that means a variable which has no value in the frame.
class NotInFrame : public Error {
 public:
  NotInFrame(const std::string& what, std::string variable)
      : Error(what), variable_(std::move(variable)) {}
  const std::string& variable() const { return variable_; }

 private:
  std::string variable_;
};

// A word that means the same in every frame: `step`, `op`, `nan` and so on.
bool IsSpecialName(std::string_view name);

// What a name means at one op of one plan: a slot of the op, then what every frame has (`step`),
// then a Python name there that holds a variable, then a variable's own name, then an attribute of
// the op.
class Names {
 public:
  // `report` may be null.
  Names(const Plan& plan, int block, const proto::OpDesc* op, const PythonNames* python,
        NamesReport* report)
      : plan_(plan), block_(block), op_(op), python_(python), report_(report) {}

  // a.b.c: the longest variable name that it begins with, then properties. An unknown name is an
  // Error.
  NodePtr Resolve(const std::vector<std::string>& parts);
  // grad(w): the gradient of a variable, or of the variable in a slot.
  NodePtr Gradient(const std::string& name);
  // self + ".blocks[0].w": what Python holds there, or null.
  NodePtr Path(const std::string& first, const std::string& path);
  NodePtr Variable(const std::string& name);
  bool needs_outputs() const { return needs_outputs_; }

 private:
  NodePtr ResolveNow(const std::vector<std::string>& parts);
  NodePtr VariableNow(const std::string& name);
  NodePtr GradientNow(const std::string& name);
  void ReportHidden(const std::string& name) const;
  NodePtr FindSlot(const std::string& name);
  NodePtr FindVariable(const std::string& name);
  NodePtr FindSpecial(const std::string& name);
  NodePtr FindAttr(const std::string& name) const;
  // The longest name that the parts begin with; `used` counts its parts.
  NodePtr FindPython(const std::vector<std::string>& parts, size_t* used);
  NodePtr Held(const PythonName& python);
  const PythonName* Python(const std::string& name) const;
  NodePtr OpProperty(const std::string& name) const;
  const proto::Slot* SlotOf(const std::string& name, bool* output, bool* variadic) const;
  // The Python name means something other than the program's variable.
  [[noreturn]] void FailOther(const PythonName& python, const std::string& variable) const;
  std::string PythonNamesHere() const;
  [[noreturn]] void FailUnknown(const std::string& name, std::string_view kind) const;

  const Plan& plan_;
  int block_;
  const proto::OpDesc* op_;
  const PythonNames* python_;  // may be null
  NamesReport* report_;
  bool needs_outputs_ = false;
};

}  // namespace opstep::expr
