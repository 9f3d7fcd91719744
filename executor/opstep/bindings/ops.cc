// The registry as data: for opstep.ops, the tests over all ops and the documentation.
#include <pybind11/stl.h>

#include "ops/op.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

py::list Slots(const std::vector<SlotSchema>& slots) {
  py::list out;
  for (const SlotSchema& slot : slots) {
    py::dict one;
    one["name"] = slot.name;
    one["doc"] = slot.doc;
    py::list dtypes;
    for (int d = static_cast<int>(DType::kFloat32); d <= static_cast<int>(DType::kBool); ++d) {
      const DType dtype = static_cast<DType>(d);
      if (slot.dtypes.Has(dtype)) dtypes.append(std::string(NameOf(dtype)));
    }
    one["dtypes"] = dtypes;
    one["optional"] = slot.optional;
    one["variadic"] = slot.variadic;
    one["kind"] = slot.kind == proto::READER  ? "reader"
                  : slot.kind == proto::STACK ? "stack"
                                              : "tensor";
    one["captures"] = slot.captures;
    one["of_block"] = slot.of_block;
    one["shape_only"] = slot.shape_only;
    one["inplace_of"] = slot.inplace_of;
    out.append(one);
  }
  return out;
}

py::dict Describe(const OpDef& def) {
  py::list attrs;
  for (const AttrSchema& attr : def.schema.attrs) {
    py::dict one;
    one["name"] = attr.name;
    one["type"] = std::string(NameOf(attr.type));
    one["doc"] = attr.doc;
    one["required"] = !attr.default_value.has_value();
    one["default"] = attr.default_value ? FromAttr(*attr.default_value) : py::object(py::none());
    attrs.append(one);
  }
  py::dict out;
  out["type"] = def.schema.type;
  out["doc"] = def.schema.doc;
  out["inputs"] = Slots(def.schema.inputs);
  out["outputs"] = Slots(def.schema.outputs);
  out["attrs"] = attrs;
  out["oracle"] = def.oracle;
  out["samples"] = def.samples;
  out["own_test"] = def.own_test;
  out["has_grad"] = def.grad != nullptr;
  out["side_effect"] = def.side_effect;
  return out;
}

}  // namespace

void BindOps(py::module_& m) {
  m.def("op_types", [] {
    py::list types;
    for (const OpDef* def : AllOps()) types.append(def->schema.type);
    return types;
  });
  m.def("ops", [] {
    py::list all;
    for (const OpDef* def : AllOps()) all.append(Describe(*def));
    return all;
  });
  m.def("op", [](const std::string& type) { return Describe(GetOp(type)); });
  m.def("nearest", &Nearest);
  m.def("dtype_name", [](py::object value) { return std::string(NameOf(ToDType(value))); });
  m.def("numpy_dtype", [](py::object value) { return NumpyType(ToDType(value)); });
}

}  // namespace opstep::python
