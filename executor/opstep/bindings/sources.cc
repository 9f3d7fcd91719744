// Sources of records, as used by readers: to see their fields and to read them by hand.
#include <pybind11/stl.h>

#include "data/csv_source.h"
#include "data/image_source.h"
#include "data/npy_source.h"
#include "data/record_source.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

using Strings = std::vector<std::string>;

std::shared_ptr<Source> OpenRecords(const Strings& paths, const std::string& damaged) {
  return std::make_shared<RecordFileSource>(paths, DamageNamed(damaged));
}

std::shared_ptr<Source> OpenNpy(const Strings& paths, const Strings& names) {
  return std::make_shared<NpySource>(paths, names);
}

std::shared_ptr<Source> OpenCsv(const Strings& paths, const Strings& fields,
                                const std::string& delimiter) {
  return std::make_shared<CsvSource>(paths, fields, delimiter);
}

std::shared_ptr<Source> OpenImages(const std::string& path, bool labels, const Strings& classes,
                                   int64_t height, int64_t width, int64_t channels,
                                   const std::string& dtype, const std::string& layout,
                                   const std::string& on_error) {
  ImageOptions options{.labels = labels,
                       .classes = classes,
                       .height = height,
                       .width = width,
                       .channels = channels,
                       .dtype = DTypeFromName(dtype).value_or(DType::kNone),
                       .layout = layout,
                       .on_error = on_error};
  return std::make_shared<ImageSource>(path, options);
}

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
    // Without an owner it is copied: the source may give its own memory, which must not be written.
    Tensor borrowed = value;
    borrowed.owner.reset();
    values.append(ToArray(borrowed));
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
      .def("size", &Source::size)
      .def("left_out", &Source::left_out);
  m.def("open_records", &OpenRecords, py::arg("paths"), py::arg("damaged") = "fail",
        py::call_guard<WithoutGil>());
  m.def("records_left_out", [] {
    py::dict left_out;
    for (const auto& [path, loss] : RecordsLeftOut()) {
      left_out[py::str(path)] = py::make_tuple(loss.chunks, loss.records, loss.bytes, loss.torn);
    }
    return left_out;
  });
  m.def("open_npy", &OpenNpy, py::arg("paths"), py::arg("names") = Strings(),
        py::call_guard<WithoutGil>());
  m.def("open_csv", &OpenCsv, py::arg("paths"), py::arg("fields") = Strings(),
        py::arg("delimiter") = ",", py::call_guard<WithoutGil>());
  const ImageOptions defaults;
  m.def("open_images", &OpenImages, py::arg("path"), py::arg("labels") = defaults.labels,
        py::arg("classes") = Strings(), py::arg("height") = defaults.height,
        py::arg("width") = defaults.width, py::arg("channels") = defaults.channels,
        py::arg("dtype") = NameOf(defaults.dtype), py::arg("layout") = defaults.layout,
        py::arg("on_error") = defaults.on_error, py::call_guard<WithoutGil>());
}

}  // namespace opstep::python
