// MemoryCall: a program as a function over another library's tensors, without copies.
#include <pybind11/stl.h>

#include <mutex>
#include <tuple>

#include "debug/wire/doorbell.h"
#include "opstep/bindings/dlpack.h"
#include "runtime/executor.h"

namespace opstep::python {
namespace {

// The memory of an empty tensor, which may have none.
alignas(kAlignment) char nothing[kAlignment];

// A program over tensors of fixed types, whose memory `address` gives: a function of one tensor, as
// fast as the library has it. The caller answers for their types and for dense row-major memory.
// Each result is handed to `adopt` as a DLPack capsule.
class MemoryCall {
 public:
  using FeedField = std::tuple<std::string, py::object, py::object>;  // name, dtype, sizes

  MemoryCall(std::shared_ptr<Program> program, const std::vector<FeedField>& feeds,
             std::vector<std::string> fetches, py::object address, py::object adopt)
      : program_(std::move(program)),
        fetches_(std::move(fetches)),
        address_(std::move(address)),
        adopt_(std::move(adopt)) {
    for (const auto& [name, dtype, shape] : feeds) {
      Tensor tensor(VarType{ToDType(dtype), Dims(ToDims(shape))});
      tensor.data = nothing;
      feeds_.push_back({name, std::move(tensor)});
    }
  }

  // The tensors come in the order of the feeds; there may be others after them.
  py::list operator()(const py::list& tensors) {
    OPSTEP_CHECK(tensors.size() >= feeds_.size(), "there are ", tensors.size(), " tensors for ",
                 feeds_.size(), " feeds");
    std::vector<void*> memory(feeds_.size());
    for (size_t i = 0; i < memory.size(); ++i) {
      memory[i] = AddressOf(PyList_GET_ITEM(tensors.ptr(), static_cast<py::ssize_t>(i)));
      if (memory[i] == nullptr && feeds_[i].tensor.numel == 0) memory[i] = nothing;
      OPSTEP_CHECK(memory[i] != nullptr, "'", feeds_[i].name, "' has no memory");
    }
    std::vector<Tensor> fetched(fetches_.size());
    {
      const WithoutGil released;
      DoorbellAfterFork();
      Plan()->Run(memory, scope_, fetched);
    }
    py::list results(fetched.size());
    for (size_t i = 0; i < fetched.size(); ++i) results[i] = adopt_(ToDlpack(fetched[i]));
    return results;
  }

 private:
  void* AddressOf(PyObject* tensor) const {
    PyObject* const number = PyObject_CallOneArg(address_.ptr(), tensor);
    if (!number) throw py::error_already_set();
    void* const address = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    if (!address && PyErr_Occurred()) throw py::error_already_set();
    return address;
  }

  std::shared_ptr<CompiledPlan> Plan() {
    const uint32_t version = program_->version();
    const std::lock_guard lock(mutex_);
    if (plan_ == nullptr || version_ != version) {
      plan_ = executor_.PlanFor(program_, feeds_, fetches_);
      version_ = version;
    }
    return plan_;
  }

  const std::shared_ptr<Program> program_;
  const std::vector<std::string> fetches_;
  const py::object address_, adopt_;
  std::vector<Feed> feeds_;
  Scope scope_;
  Executor executor_;
  std::mutex mutex_;
  std::shared_ptr<CompiledPlan> plan_;
  uint32_t version_ = 0;
};

}  // namespace

void BindMemoryCall(py::module_& m) {
  py::class_<MemoryCall>(m, "MemoryCall")
      .def(py::init<std::shared_ptr<Program>, const std::vector<MemoryCall::FeedField>&,
                    std::vector<std::string>, py::object, py::object>())
      .def("__call__", &MemoryCall::operator());
}

}  // namespace opstep::python
