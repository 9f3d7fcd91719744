// Detached blocks: a block of a program as a function of its inputs.
#include "ir/extract.h"
#include "runtime/executor.h"
#include "runtime/frame.h"

namespace opstep {
namespace {

class Detached final : public DetachedBlock {
 public:
  Detached(std::shared_ptr<const Program> program, std::vector<std::string> inputs,
           std::vector<std::string> results)
      : program_(std::move(program)), inputs_(std::move(inputs)), results_(std::move(results)) {}

  std::vector<Tensor> Run(const std::vector<Tensor>& values) override {
    std::vector<Feed> feeds;
    for (size_t i = 0; i < inputs_.size(); ++i) feeds.push_back({inputs_[i], values[i]});
    return executor_.Run(program_, feeds, results_, scope_);
  }

 private:
  const std::shared_ptr<const Program> program_;
  const std::vector<std::string> inputs_, results_;
  Executor executor_;
  Scope scope_;
};

}  // namespace

std::shared_ptr<DetachedBlock> Frame::Detach(int block, const std::vector<std::string>& inputs,
                                             const std::vector<std::string>& results) {
  std::shared_ptr<DetachedBlock>& known = detached_[block];
  // Unless a thread of an earlier run still has it.
  if (known != nullptr && known.use_count() == 1) return known;
  const proto::ProgramDesc part = Extract(plan_->desc, block);
  auto program = std::make_shared<Program>(Cat(plan_->program_name, ".", block));
  program->Restore(part);
  program->set_name(Cat(plan_->program_name, ".", block));
  return known = std::make_shared<Detached>(std::move(program), inputs, results);
}

}  // namespace opstep
