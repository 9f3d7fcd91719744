// Functions of other libraries as ops: Python callables by key.
#include <map>

#include "ops/foreign/foreign_call.h"
#include "opstep/bindings/callback.h"
#include "opstep/bindings/dlpack.h"

namespace opstep::python {
namespace {

// Used with the GIL. Leaked.
std::map<std::string, py::object>& Functions() {
  static auto* functions = new std::map<std::string, py::object>;
  return *functions;
}

constexpr const char* kWho = "the function";

std::shared_ptr<const void> Find(const std::string& key) {
  std::shared_ptr<const void> function;
  CallPython(kWho, [&] {
    const auto found = Functions().find(key);
    if (found == Functions().end()) return;
    PyObject* const held = found->second.inc_ref().ptr();
    // A plan may be freed on any thread.
    function = {held, [](const void* object) {
                  if (Finalizing()) return;
                  const WithGil gil;
                  Py_DECREF(static_cast<PyObject*>(const_cast<void*>(object)));
                }};
  });
  return function;
}

template <typename Tensors>
py::list Capsules(const Tensors& tensors) {
  py::list capsules(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    Tensor borrowed = *tensors[i];
    borrowed.owner = nullptr;
    capsules[i] = ToDlpack(borrowed);
  }
  return capsules;
}

void Call(const void* function, const std::vector<const Tensor*>& inputs,
          const std::vector<Tensor*>& outputs) {
  CallPython(kWho, [&] {
    const py::handle callable(static_cast<PyObject*>(const_cast<void*>(function)));
    Invoke(py::reinterpret_borrow<py::object>(callable),
           py::make_tuple(Capsules(inputs), Capsules(outputs)));
  });
}

}  // namespace

void BindForeign(py::module_& m) {
  SetForeignCalls({.find = &Find, .call = &Call});
  // The callable is given the inputs and the outputs as lists of DLPack capsules, and fills the
  // outputs.
  m.def("lend_function", [](const std::string& key, py::object callable) {
    Functions()[key] = std::move(callable);
  });
  m.def("take_function_back", [](const std::string& key) { Functions().erase(key); });
}

}  // namespace opstep::python
