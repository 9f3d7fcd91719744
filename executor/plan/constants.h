// Constants: computes values that are the same in every run while a plan is made.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/infer.h"
#include "plan/plan.h"

namespace opstep {

// Computes values that are the same in every run while a plan is made. The op stays in the plan
// with nothing to do, so that runs can stop at it.
class Constants {
 public:
  // Those of `typing` in blocks of the plan.
  Constants(const Plan& plan, Typing& typing) : plan_(plan), typing_(typing) {}

  // The values of slots, null where one is not known before the run.
  std::vector<const Tensor*> Values(const std::vector<uint32_t>& slots) const;
  // Runs the kernel now if all inputs of the op are known and no other op writes its outputs.
  void Fold(int block, const proto::OpDesc& op, const std::vector<Arg>& in_args,
            const std::vector<uint32_t>& ins, const std::vector<uint32_t>& outs, Kernel& kernel);

 private:
  bool Foldable(int block, const proto::OpDesc& op, const std::vector<Arg>& in_args,
                const std::vector<uint32_t>& ins, const std::vector<uint32_t>& outs) const;

  const Plan& plan_;
  Typing& typing_;
};

// The number of ops that write a variable, by the block that owns it.
std::map<std::pair<int, std::string>, int> CountWriters(const proto::ProgramDesc& program);

}  // namespace opstep
