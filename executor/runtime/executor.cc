// Executor and CompiledPlan: the cache of plans, frames to be used again.
#include "runtime/executor.h"

#include "runtime/frame.h"

namespace opstep {
namespace {

constexpr size_t kCachedPlans = 32;

}  // namespace

CompiledPlan::CompiledPlan(std::shared_ptr<Plan> plan) : plan_(std::move(plan)) {}
CompiledPlan::~CompiledPlan() { delete at_hand_.load(); }

std::unique_ptr<Frame> CompiledPlan::TakeFrame() {
  if (Frame* frame = at_hand_.exchange(nullptr, std::memory_order_acquire))
    return std::unique_ptr<Frame>(frame);
  const std::lock_guard lock(mutex_);
  if (frames_.empty()) return std::make_unique<Frame>(plan_);
  std::unique_ptr<Frame> frame = std::move(frames_.back());
  frames_.pop_back();
  return frame;
}

void CompiledPlan::GiveBack(std::unique_ptr<Frame> frame) {
  Frame* none = nullptr;
  if (at_hand_.compare_exchange_strong(none, frame.get(), std::memory_order_release)) {
    (void)frame.release();
    return;
  }
  const std::lock_guard lock(mutex_);
  frames_.push_back(std::move(frame));
}

void CompiledPlan::Run(std::span<void* const> feeds, Scope& scope, std::span<Tensor> fetched) {
  // A frame whose run fails is not used again.
  std::unique_ptr<Frame> frame = TakeFrame();
  frame->Run(feeds, scope);
  frame->Fetch(fetched);
  GiveBack(std::move(frame));
}

std::vector<Tensor> CompiledPlan::Run(const std::vector<Feed>& feeds, Scope& scope) {
  std::vector<void*> memory;
  memory.reserve(feeds.size());
  for (const Feed& feed : feeds) memory.push_back(feed.tensor.data);
  std::vector<Tensor> fetched(plan_->fetch_slots.size());
  Run(memory, scope, fetched);
  return fetched;
}

struct Executor::Entry {
  uint32_t program = 0;
  uint32_t version = 0;
  std::vector<FeedType> feeds;
  std::vector<std::string> fetches;
  std::shared_ptr<CompiledPlan> plan;

  bool Is(const Program& wanted, const std::vector<Feed>& given,
          const std::vector<std::string>& names) const {
    if (program != wanted.id() || version != wanted.version() || fetches != names) return false;
    if (feeds.size() != given.size()) return false;
    for (size_t i = 0; i < feeds.size(); ++i) {
      const VarType& type = feeds[i].type;
      if (feeds[i].name != given[i].name || type.dtype != given[i].tensor.dtype ||
          !(type.dims == given[i].tensor.dims)) {
        return false;
      }
    }
    return true;
  }
};

Executor::Executor() = default;
Executor::~Executor() = default;

std::shared_ptr<CompiledPlan> Executor::Cached(const Program& program,
                                               const std::vector<Feed>& feeds,
                                               const std::vector<std::string>& fetches) {
  const std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!it->Is(program, feeds, fetches)) continue;
    entries_.splice(entries_.begin(), entries_, it);
    return entries_.front().plan;
  }
  return nullptr;
}

std::shared_ptr<CompiledPlan> Executor::PlanFor(const std::shared_ptr<const Program>& program,
                                                const std::vector<Feed>& feeds,
                                                const std::vector<std::string>& fetches) {
  if (std::shared_ptr<CompiledPlan> plan = Cached(*program, feeds, fetches)) return plan;
  // Without the lock: a forked child would find it locked forever, and others need not wait.
  Entry entry{.program = program->id(),
              .version = program->version(),
              .feeds = {},
              .fetches = fetches,
              .plan = {}};
  for (const Feed& feed : feeds) entry.feeds.push_back({feed.name, feed.tensor.type()});
  entry.plan = std::make_shared<CompiledPlan>(Compile(program, entry.feeds, fetches));
  // Another thread may have been faster.
  if (std::shared_ptr<CompiledPlan> plan = Cached(*program, feeds, fetches)) return plan;
  const std::lock_guard lock(mutex_);
  entries_.push_front(std::move(entry));
  if (entries_.size() > kCachedPlans) entries_.pop_back();
  return entries_.front().plan;
}

std::vector<Tensor> Executor::Run(const std::shared_ptr<const Program>& program,
                                  const std::vector<Feed>& feeds,
                                  const std::vector<std::string>& fetches, Scope& scope) {
  return PlanFor(program, feeds, fetches)->Run(feeds, scope);
}

}  // namespace opstep
