// Sources of records, as they stand behind readers: to look at one's fields and to read it by hand.
#include "data/source.h"

#include "data/record_source.h"
#include <pybind11/stl.h>
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

py::list Fields(const Source& source) {
  py::list fields;
  for (const auto& [name, type] : source.fields()) {
    fields.append(py::make_tuple(name, NameOf(type.dtype), FromDims(type.dims)));
  }
  return fields;
}

py::object Next(Source& source) {
  SourceRecord record;
  bool more = false;
  {
    const WithoutGil released;
    more = source.Next(record);
  }
  if (!more) return py::none();
  py::list values;
  for (const Tensor& value : record) {
    Tensor view = value;
    view.owner = nullptr;  // without an owner it is copied: nobody may write into the source's
    values.append(ToArray(view));
  }
  return values;
}

}  // namespace

void BindSources(py::module_& m) {
  py::class_<Source, std::shared_ptr<Source>>(m, "Source")
      .def("fields", &Fields)
      .def("next", &Next)
      .def("restart", &Source::Restart, py::arg("pass_"), py::call_guard<WithoutGil>())
      .def("skip", &Source::Skip, py::arg("count"), py::call_guard<WithoutGil>())
      .def("size", &Source::size);
  m.def(
      "open_records",
      [](const std::vector<std::string>& paths) -> std::shared_ptr<Source> {
        return std::make_shared<RecordFileSource>(paths);
      },
      py::arg("paths"), py::call_guard<WithoutGil>());
}

}  // namespace opstep::python
