// Executor and CompiledPlan: runs programs, with a cache of their plans.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/hook.h"
#include "runtime/scope.h"

namespace opstep {

class Frame;

struct Feed {
  std::string name;
  Tensor tensor;  // borrowed for the run
};

// A plan with the frames that ran it before, kept for reuse.
class CompiledPlan {
 public:
  explicit CompiledPlan(std::shared_ptr<Plan> plan);
  ~CompiledPlan();
  const Plan& plan() const { return *plan_; }
  // Fetched tensors own their memory.
  std::vector<Tensor> Run(const std::vector<Feed>& feeds, Scope& scope);
  // The same with the memory of the feeds in the plan's order, and with places for the fetches.
  void Run(std::span<void* const> feeds, Scope& scope, std::span<Tensor> fetched);

 private:
  std::unique_ptr<Frame> TakeFrame();
  void GiveBack(std::unique_ptr<Frame> frame);

  std::shared_ptr<Plan> plan_;
  // One frame is available without a lock: usually one thread runs the plan.
  std::atomic<Frame*> at_hand_{nullptr};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> frames_;
};

// Compiles on the first call for a program, its version, feeds with their types, and fetches; then
// from a cache of the latest 32 plans.
class Executor {
 public:
  Executor();
  ~Executor();
  std::vector<Tensor> Run(const std::shared_ptr<const Program>& program,
                          const std::vector<Feed>& feeds, const std::vector<std::string>& fetches,
                          Scope& scope);
  std::shared_ptr<CompiledPlan> PlanFor(const std::shared_ptr<const Program>& program,
                                        const std::vector<Feed>& feeds,
                                        const std::vector<std::string>& fetches);

 private:
  struct Entry;
  std::shared_ptr<CompiledPlan> Cached(const Program& program, const std::vector<Feed>& feeds,
                                       const std::vector<std::string>& fetches);
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace opstep
