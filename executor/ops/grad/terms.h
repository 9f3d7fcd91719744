// Terms: gradients of gradient ops as formulas over other ops, which have gradients in turn.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace opstep {

// A tensor that ops compute from the variables of the op that is differentiated. The ops are added
// to the program only when it is used. An empty one means 0.
class Term {
 public:
  using Inputs = std::vector<std::pair<std::string, std::vector<Term>>>;

  Term() = default;
  explicit Term(const std::string& variable);
  // The result of an op in one of its output slots.
  Term(std::string type, Inputs inputs, std::string slot, std::vector<proto::Attr> attrs = {});

  explicit operator bool() const { return node_ != nullptr; }
  // The variable that holds it; a new one unless `to` names one. "" for 0.
  std::string Emit(GradContext& g, const std::string& to = "") const;

 private:
  struct Node;
  std::shared_ptr<Node> node_;
};

// The variables of the op that is differentiated, and the gradients of its outputs.
Term In(GradContext& g, std::string_view slot, int i = 0);
Term OutGradient(GradContext& g, std::string_view slot, int i = 0);
// The gradient for a variable that it reads; does nothing when it is not wanted.
void Give(GradContext& g, std::string_view slot, const Term& gradient, int i = 0);

// An op of the same type, with the same attributes, over other variables.
Term Again(GradContext& g, Term::Inputs inputs, std::string slot);
// The op whose gradient this one is, with its attributes, of which `other` replaces some.
Term ForwardOp(GradContext& g, Term::Inputs inputs, std::string slot,
               std::vector<proto::Attr> other = {});

// Each is defined in the file of its op. They are 0 where the arithmetic gives 0.
Term operator+(const Term& x, const Term& y);
Term operator-(const Term& x, const Term& y);
Term operator-(const Term& x);
Term operator*(const Term& x, const Term& y);
Term operator/(const Term& x, const Term& y);
Term ExpOf(const Term& x);
Term LogOf(const Term& x);
Term SigmoidOf(const Term& x);
// The gradient of x, from softmax(x) and its gradient, along the last axis.
Term SoftmaxGradient(const Term& out, const Term& dout);
// The same value everywhere, shaped as x.
Term Filled(const Term& x, double value);
// The elements of x in the shape of another tensor.
Term ShapedAs(const Term& x, const Term& like);
// x summed up to the shape of a tensor that was broadcast to its shape.
Term SummedTo(const Term& x, const Term& like);
// Sums along axes, which stay with size 1; none means all.
Term SumsAlong(const Term& x, std::vector<int64_t> axes);
// The given value where x is positive, else 0.
Term WherePositive(const Term& x, const Term& given);
// The given value, times the sign of x.
Term SignedAs(const Term& given, const Term& x);
inline Term Scaled(const Term& x, double factor) { return x * Filled(x, factor); }
// x spread over the shape of a tensor that it broadcasts to.
inline Term SpreadTo(const Term& x, const Term& like) { return x + Filled(like, 0); }

// --- rules that many gradient ops have

// For d<slot> = dout times something that does not depend on other gradients: linear in dout and
// symmetric, as all gradients of functions of one element are. `value` is the other input, X or
// out; `second` gives its gradient from value and the product of dout and the gradient of dX.
using Second = Term (*)(GradContext& g, const Term& value, const Term& product);
void ElementGradient(GradContext& g, std::string_view value, Second second);
// The slope at x, times itself `times` times, times the given value: for gradients of X.
Term Slope(GradContext& g, const Term& x, int times, const Term& given);
// The gradient depends on the value only at its steps: relu, clip.
void FlatGradient(GradContext& g);
// dX is linear in dout alone, and the forward op is its transpose.
void MovedGradient(GradContext& g);
// The same for ops that change only the shape.
void ReshapedGradient(GradContext& g);
// dX and dY are linear in dout, and the forward op, given both and `others`, is the inverse map.
void BothSides(GradContext& g, Term::Inputs others);
// The gradient goes to X or to Y.
void ChosenGradient(GradContext& g);
// Products of X and `y`: matmul, conv. With `bias`, out also has a term dB.
void ProductGradient(GradContext& g, const std::string& y, const std::string& bias = "");

}  // namespace opstep
