// GradientRule: the pass as seen by the gradient rule of one op.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"
#include "passes/block_gradient.h"

namespace opstep {

// The pass as seen by the gradient rule of one op. The variables of that op carry their version in
// their name, so that every use of them by the rule is unambiguous; Emit removes it again.
class GradientRule : public GradContext {
 public:
  GradientRule(BlockGradient& pass, int index);
  ~GradientRule() override;

  const OpView& op() const override { return op_; }
  std::string OutGrad(std::string_view slot, int i) const override;
  std::string InGrad(std::string_view slot, int i) const override;
  void Emit(std::string type, std::vector<std::pair<std::string, Names>> inputs,
            std::vector<std::pair<std::string, Names>> outputs,
            std::vector<proto::Attr> attrs) override;

  std::string Forward(const std::string& name) override;
  std::string Zeros(const std::string& like) override;
  void SetZero(const std::string& gradient) override;
  std::string Copy(const std::string& from, const std::string& to) override;
  void AddTo(const std::string& sum, const std::string& term) override;
  std::string Fresh(const std::string& prefix) override;
  std::string AddOutput(const std::string& slot) override;
  void BeginBlock(int forward) override;
  std::string Declare(const std::string& prefix, const std::string& like) override;
  Names Reached(int forward, const Names& ends) override;
  Names Differentiate(const std::vector<std::pair<std::string, std::string>>& seeds,
                      const Names& wanted) override;
  int EndBlock() override;
  // After the rule: a gradient that it requested but did not write is zero, and is not summed.
  void Withdraw();

 private:
  const proto::OpDesc& forward() const { return pass_.ops_[index_]; }
  int target() const { return inner_ == nullptr ? pass_.target_ : inner_->target_; }
  // A name in the rule → the name that a gradient op reads.
  std::string Resolve(const std::string& name) const;

  BlockGradient& pass_;
  const int index_;
  const proto::OpDesc shown_;
  const OpView op_;
  std::unique_ptr<BlockGradient> inner_;
  mutable std::map<std::pair<std::string, int>, std::string> in_grads_;
  std::set<std::string> written_;
};

}  // namespace opstep
