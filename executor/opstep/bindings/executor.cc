// Running programs: arrays in, arrays out, without the GIL in between.
#include "runtime/executor.h"

#include <pybind11/stl.h>

#include <mutex>
#include <utility>

#include "base/tensor_stack.h"
#include "data/source.h"
#include "debug/wire/doorbell.h"
#include "ops/lib/threads.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

// A fetched reader. Its destructor may have to wait for a thread that waits for the GIL.
std::shared_ptr<Source> Reader(const Tensor& slot) {
  return {static_cast<Source*>(slot.data), [owner = slot.owner](Source*) mutable {
            if (Finalizing() || PyGILState_Check() == 0) return owner.reset();
            const WithoutGil released;
            owner.reset();
          }};
}

py::list ToArrays(const std::vector<Tensor>& tensors) {
  py::list out(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dtype == DType::kNone) {
      out[i] = py::cast(Reader(tensors[i]));
    } else {
      out[i] = ToArray(tensors[i]);
    }
  }
  return out;
}

struct BorrowedFeeds {
  std::vector<Feed> feeds;
  std::vector<py::object> keep;

  void Add(const std::string& name, const py::array& array) {
    feeds.push_back({name, BorrowArray(array, keep, name)});
  }
};

py::list Run(Executor& executor, const std::shared_ptr<Program>& program, const py::dict& arrays,
             const std::vector<std::string>& fetches, const std::shared_ptr<Scope>& scope) {
  NoteNames(*program);
  BorrowedFeeds borrowed;
  for (const auto& [name, array] : arrays) {
    borrowed.Add(name.cast<std::string>(), py::reinterpret_borrow<py::array>(array));
  }
  std::vector<Tensor> fetched;
  {
    const WithoutGil released;
    DoorbellAfterFork();
    fetched = executor.Run(program, borrowed.feeds, fetches, *scope);
  }
  return ToArrays(fetched);
}

// A program with fixed feeds and fetches. Remembers the latest plan, so that a call with the same
// shapes needs no lookup.
class Callable {
 public:
  Callable(std::shared_ptr<Program> program, std::vector<std::string> feeds,
           std::vector<std::string> fetches, std::shared_ptr<Scope> scope)
      : program_(std::move(program)),
        names_(std::move(feeds)),
        fetches_(std::move(fetches)),
        scope_(std::move(scope)) {
    NoteNames(*program_);
  }

  // The arrays come in the order of the feeds.
  py::list operator()(const py::sequence& arrays) {
    BorrowedFeeds borrowed;
    for (size_t i = 0; i < names_.size(); ++i) {
      borrowed.Add(names_[i], py::reinterpret_borrow<py::array>(arrays[i]));
    }
    std::vector<Tensor> fetched;
    {
      const WithoutGil released;
      DoorbellAfterFork();
      fetched = PlanFor(borrowed.feeds)->Run(borrowed.feeds, *scope_);
    }
    return ToArrays(fetched);
  }

 private:
  std::shared_ptr<CompiledPlan> PlanFor(const std::vector<Feed>& feeds) {
    const uint32_t version = program_->version();
    {
      const std::lock_guard lock(mutex_);
      bool same = latest_ != nullptr && version_ == version;
      for (size_t i = 0; same && i < feeds.size(); ++i) same = types_[i] == feeds[i].tensor.type();
      if (same) return latest_;
    }
    std::shared_ptr<CompiledPlan> plan = executor_.PlanFor(program_, feeds, fetches_);
    const std::lock_guard lock(mutex_);
    latest_ = plan;
    version_ = version;
    types_.clear();
    for (const Feed& feed : feeds) types_.push_back(feed.tensor.type());
    return plan;
  }

  const std::shared_ptr<Program> program_;
  const std::vector<std::string> names_;
  const std::vector<std::string> fetches_;
  const std::shared_ptr<Scope> scope_;
  Executor executor_;
  std::mutex mutex_;
  std::shared_ptr<CompiledPlan> latest_;
  uint32_t version_ = 0;
  std::vector<VarType> types_;
};

}  // namespace

void BindExecutor(py::module_& m) {
  py::class_<Executor>(m, "Executor").def(py::init()).def("run", &Run);
  py::class_<Callable>(m, "Callable")
      .def(py::init<std::shared_ptr<Program>, std::vector<std::string>, std::vector<std::string>,
                    std::shared_ptr<Scope>>())
      .def("__call__", &Callable::operator());
  m.def("set_num_threads", &SetNumThreads);
  m.def("get_num_threads", &NumThreads);
  m.def("set_loop_memory", &StackMemory::set_limit);
  m.def("get_loop_memory", &StackMemory::limit);
}

}  // namespace opstep::python
