// Record files: a writer that takes arrays, a reader that gives a chunk's records.
#include <pybind11/stl.h>

#include <utility>

#include "data/record_reader.h"
#include "data/record_writer.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

using RecordFields =
    std::vector<std::pair<std::string, std::pair<std::string, std::vector<int64_t>>>>;

std::unique_ptr<RecordWriter> MakeWriter(const std::string& path, const RecordFields& fields,
                                         const std::string& codec, size_t chunk_bytes) {
  RecordSchema schema;
  for (const auto& [name, type] : fields) {
    const std::optional<DType> dtype = DTypeFromName(type.first);
    OPSTEP_CHECK(dtype, "cannot write ", Quoted(path), ": field ", Quoted(name),
                 " has the unknown dtype ", Quoted(type.first));
    OPSTEP_CHECK(type.second.size() <= Dims::kMaxRank, "cannot write ", Quoted(path), ": field ",
                 Quoted(name), " has more than ", Dims::kMaxRank, " dimensions");
    schema.push_back({name, {*dtype, Dims(type.second)}});
  }
  OPSTEP_CHECK(codec == "zlib" || codec == "none", "cannot write ", Quoted(path), ": the codec ",
               Quoted(codec), " is not known; there are 'zlib' and 'none'");
  const RecordCodec chosen = codec == "zlib" ? RecordCodec::kZlib : RecordCodec::kNone;
  return std::make_unique<RecordWriter>(path, std::move(schema),
                                        RecordWriter::Options{chosen, chunk_bytes});
}

using WriteFunction = void (RecordWriter::*)(std::span<const Tensor>);

template <WriteFunction write>
void Write(RecordWriter& writer, const std::vector<py::array>& arrays) {
  std::vector<py::object> keep;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const bool named = i < writer.schema().size();
    const std::string what = named ? Quoted(writer.schema()[i].name) : "a value";
    tensors.push_back(BorrowArray(arrays[i], keep, what));
  }
  const WithoutGil released;
  (writer.*write)(tensors);
}

// The chunk with the next record that can be read: the number of its first one, how many it has,
// and itself; None at the end.
py::object ReadFrom(RecordReader& reader, uint64_t index) {
  std::shared_ptr<const RecordChunk> chunk;
  {
    const WithoutGil released;
    chunk = reader.ChunkFrom(index);
  }
  if (!chunk) return py::none();
  return py::make_tuple(chunk->first(), chunk->records(),
                        std::const_pointer_cast<RecordChunk>(chunk));
}

py::list Record(const RecordChunk& chunk, uint32_t i) {
  OPSTEP_CHECK(i < chunk.records(), "the chunk has ", chunk.records(), " records");
  py::list values;
  for (size_t f = 0; f < chunk.fields(); ++f) {
    Tensor value = chunk.Value(i, f);
    value.owner.reset();  // without an owner it is copied
    values.append(ToArray(value));
  }
  return values;
}

py::list FieldsOf(const RecordSchema& schema) {
  py::list fields;
  for (const RecordField& field : schema) {
    fields.append(py::make_tuple(field.name, NameOf(field.type.dtype), FromDims(field.type.dims)));
  }
  return fields;
}

py::tuple Loss(const RecordLoss& loss) {
  return py::make_tuple(loss.chunks, loss.records, loss.bytes, loss.torn);
}

}  // namespace

void BindRecords(py::module_& m) {
  py::class_<RecordWriter>(m, "RecordWriter")
      .def(py::init(&MakeWriter))
      .def("write", &Write<&RecordWriter::Write>)
      .def("write_batch", &Write<&RecordWriter::WriteBatch>)
      .def("flush", &RecordWriter::Flush, py::call_guard<WithoutGil>())
      .def("close", &RecordWriter::Close, py::call_guard<WithoutGil>())
      .def("records", &RecordWriter::records);
  py::class_<RecordChunk, std::shared_ptr<RecordChunk>>(m, "RecordChunk").def("record", &Record);
  py::class_<RecordReader>(m, "RecordReader")
      .def(py::init([](const std::string& path, const std::string& damaged) {
             return std::make_unique<RecordReader>(path, DamageNamed(damaged));
           }),
           py::arg("path"), py::arg("damaged") = "fail", py::call_guard<WithoutGil>())
      .def("fields", [](const RecordReader& r) { return FieldsOf(r.schema()); })
      .def("records", &RecordReader::records)
      .def("chunks", &RecordReader::chunks)
      .def("read_from", &ReadFrom)
      .def("loss", [](const RecordReader& r) { return Loss(r.loss()); })
      .def("verify", [](RecordReader& r) {
        {
          const WithoutGil released;
          r.Verify();
        }
        return Loss(r.loss());
      });
}

}  // namespace opstep::python
