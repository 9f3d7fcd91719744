// Shared parts of the gradient rules of ops that run blocks.
// Variables in a rule carry a mark; the same variable has the same name before the mark.
#pragma once

#include <algorithm>
#include <set>

#include "ops/op.h"

namespace opstep {

inline std::string PlainName(const std::string& name) { return name.substr(0, name.find('\x01')); }

inline Names PlainNames(const Names& names) {
  Names plain;
  for (const std::string& name : names) plain.push_back(PlainName(name));
  return plain;
}

// For ops whose gradients flow through their results only. `again`: variables whose old values the
// results depend on, when a block may run after another has written them.
inline void RefuseWritten(const GradContext& g, const std::set<std::string>& again = {}) {
  const Names written = PlainNames(g.op().Outputs("written"));
  for (size_t i = 0; i < written.size(); ++i) {
    OPSTEP_CHECK(g.OutGrad("written", static_cast<int>(i)).empty() && again.count(written[i]) == 0,
                 "[", g.op().type(), "] no gradient flows through '", written[i],
                 "', which its block writes outside of itself: make it a result of the block");
  }
}

// The gradients of the variables of slot X, for blocks that overwrite some of them ("out").
class CarriedGrad {
 public:
  CarriedGrad(GradContext& g, const std::vector<int>& blocks) : g_(g) {
    const Names x = g.op().Inputs("X");
    const Names plain = PlainNames(x);
    const Names out = PlainNames(g.op().Outputs("out"));
    // The sources of gradients, through any number of runs of the blocks.
    std::set<std::string> active;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!g.OutGrad("out", static_cast<int>(i)).empty()) active.insert(out[i]);
    }
    for (size_t before = 0; before != active.size();) {
      before = active.size();
      for (const int block : blocks) {
        const Names ends = Overlap(out, active);
        for (const std::string& name : g.Reached(block, ends)) active.insert(name);
      }
    }
    for (size_t i = 0; i < x.size(); ++i) {
      if (active.count(plain[i]) == 0) continue;
      const auto written = std::find(out.begin(), out.end(), plain[i]);
      const bool carried = written != out.end();
      std::string gradient = g.InGrad("X", static_cast<int>(i));
      if (!carried && gradient.empty()) continue;
      if (gradient.empty()) gradient = g.Fresh(GradVar(plain[i]));
      const std::string from =
          carried ? g.OutGrad("out", static_cast<int>(written - out.begin())) : "";
      g.Copy(from.empty() ? g.Zeros(x[i]) : from, gradient);
      vars_.push_back({plain[i], gradient, carried});
    }
  }

  bool empty() const { return vars_.empty(); }

  // Inside the gradient block of a forward block.
  void Step() {
    std::vector<std::pair<std::string, std::string>> seeds;
    Names wanted;
    for (const Var& var : vars_) {
      if (var.carried) seeds.emplace_back(var.name, var.gradient);
      wanted.push_back(var.name);
    }
    const Names gradients = g_.Differentiate(seeds, wanted);
    for (size_t i = 0; i < vars_.size(); ++i) {
      const Var& var = vars_[i];
      const std::string& got = gradients[i];
      if (!var.carried) {
        if (!got.empty()) g_.AddTo(var.gradient, got);
      } else if (got != var.gradient) {
        if (got.empty()) {
          g_.SetZero(var.gradient);
        } else {
          g_.Copy(got, var.gradient);
        }
      }
    }
  }

 private:
  struct Var {
    std::string name;
    std::string gradient;
    bool carried;
  };

  static std::string GradVar(const std::string& name) { return name + "@grad"; }

  static Names Overlap(const Names& names, const std::set<std::string>& set) {
    Names both;
    for (const std::string& name : names) {
      if (set.count(name) != 0) both.push_back(name);
    }
    return both;
  }

  GradContext& g_;
  std::vector<Var> vars_;
};

}  // namespace opstep
