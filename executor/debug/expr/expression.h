// Expression: a condition, value or target, bound to one op of one plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/tensor.h"
#include "debug.pb.h"
#include "debug/expr/python_names.h"
#include "plan/plan.h"
#include "runtime/hook.h"

namespace opstep {

// What the binding of an expression found about its names.
struct NamesReport {
  // In: unknown names are no error, as Python may have values of those names when it is evaluated.
  bool may_be_late = false;
  // It names variables or values of Python: bind it again with the names of that moment.
  bool late = false;
  // One sentence: a slot of the op has the name of another variable in Python. May be empty.
  std::string hidden;
};

// A parsed condition or watch, resolved against one op of one plan. Python's syntax, NumPy's names
// and results. Immutable: one may be evaluated by several threads at a time.
class Expression {
 public:
  // Names are looked up in the op (may be null: a frame of a block or a run), then in the block and
  // those around it, then among Python's (may be null). Throws Error, with a suggestion, for an
  // unknown name or function or a wrong argument count.
  static std::shared_ptr<const Expression> Bind(const proto::Expr& expr, const Plan& plan,
                                                int block, const proto::OpDesc* op,
                                                const PythonNames* python = nullptr,
                                                NamesReport* report = nullptr);
  virtual ~Expression() = default;

  // It reads one of the op's outputs: evaluate it after the op.
  virtual bool needs_outputs() const = 0;

  // `where` is the level of the stack that the expression was bound for; it gives `iteration`.
  struct Env {
    const FrameView& frame;
    const Activation& where;
    // Set by another thread when nobody waits for the answer any more. May be null.
    const std::atomic<bool>* cancelled = nullptr;
  };
  // Both throw Error for a missing value, shapes that do not fit and an exhausted budget. NumPy's
  // rule: the truth of an array of more than one element is an error.
  virtual bool Test(const Env& env) const = 0;
  // See TensorToValue for the limits.
  virtual void Evaluate(const Env& env, uint64_t max_elements, uint64_t start, uint64_t count,
                        proto::Value* out) const = 0;
  // The variable that it is as a whole, also without a value; 0: it is not a variable.
  virtual uint32_t Variable(const Env& env) const = 0;
  // The value as row-major memory; that of the variable itself when it is one.
  virtual Tensor Read(const Env& env) const = 0;

  // Both change the variable, or the part of it, that the expression names, and do all of it or
  // nothing. The value is converted to the variable's dtype, which it must fit, and broadcast.
  virtual void Assign(FrameEditor& frame, const Env& env, const Expression& value) const = 0;
  virtual void Write(FrameEditor& frame, const Env& env, uint64_t offset,
                     std::string_view bytes) const = 0;
};

// Type, shape, summary, the first `max_elements` elements, and children start .. start+count along
// the first axis. The size is capped so that a reply stays well below the wire's message limit.
void TensorToValue(const Tensor& tensor, uint64_t max_elements, uint64_t start, uint64_t count,
                   proto::Value* out, const std::atomic<bool>* cancelled = nullptr);

}  // namespace opstep
