// Scopes: the values that stay between runs, as arrays.
#include "runtime/scope.h"

#include <pybind11/stl.h>

#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

Tensor Get(const Scope& scope, const std::string& name) {
  Tensor tensor = scope.Find(name);
  if (tensor) return tensor;
  const std::string near = Nearest(name, scope.Names());
  Fail("the scope has no variable '", name, "'",
       near.empty() ? "; run the startup program first" : "; did you mean '" + near + "'?");
}

}  // namespace

void BindScope(py::module_& m) {
  py::class_<Scope, std::shared_ptr<Scope>>(m, "Scope")
      .def(py::init())
      .def("has",
           [](const Scope& s, const std::string& name) { return static_cast<bool>(s.Find(name)); })
      .def("view", [](const Scope& s, const std::string& name) { return ToArray(Get(s, name)); })
      .def("copy",
           [](const Scope& s, const std::string& name) {
             Tensor tensor = Get(s, name);
             tensor.owner.reset();  // without an owner it is copied
             return ToArray(tensor);
           })
      .def("set",
           [](Scope& s, const std::string& name, const py::array& array) {
             s.Set(name, CopyArray(array, "the value of '" + name + "'"));
           })
      .def("owner", &Scope::OwnerOf)
      .def("set_owner", &Scope::SetOwner)
      .def("set_apart", &Scope::SetApart)
      .def("apart", &Scope::OwnersApart)
      .def("key", &Scope::KeyOf)
      .def("hand_over", &Scope::HandOver)
      .def("erase", &Scope::Erase)
      .def("names", &Scope::Names);
}

}  // namespace opstep::python
