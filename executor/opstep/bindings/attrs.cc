// Attributes, dtypes and shapes between Python and the program.
#include "ir/op_view.h"
#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

constexpr DType kAllTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                               DType::kInt8,    DType::kInt16,   DType::kInt32,   DType::kInt64,
                               DType::kUInt8,   DType::kBool};

std::string Repr(py::handle value) {
  std::string text = py::repr(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

bool IsSequence(py::handle value) {
  return !py::isinstance<py::str>(value) && Py_TYPE(value.ptr())->tp_iter != nullptr;
}

// Python's and NumPy's integers, but not floats.
int64_t ToInt(py::handle value) {
  if (value.is_none()) return -1;
  const py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) throw py::error_already_set();
  return index.cast<int64_t>();
}

double ToFloat(py::handle value) {
  const double result = PyFloat_AsDouble(value.ptr());
  if (result == -1.0 && PyErr_Occurred()) throw py::error_already_set();
  return result;
}

std::string ToText(py::handle value) {
  if (!py::isinstance<py::str>(value)) throw py::type_error("not a string");
  return value.cast<std::string>();
}

bool ToBool(py::handle value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  const int64_t number = ToInt(value);
  if (number != 0 && number != 1) throw py::value_error("not a bool");
  return number == 1;
}

template <typename Convert>
auto ToVector(py::handle value, Convert convert) {
  std::vector<decltype(convert(value))> out;
  if (!IsSequence(value)) {
    out.push_back(convert(value));
  } else {
    for (py::handle item : value) out.push_back(convert(item));
  }
  return out;
}

proto::TensorLiteral ToLiteral(const std::string& what, py::handle value) {
  const Tensor tensor = CopyArray(py::array::ensure(value), what);
  proto::TensorLiteral literal;
  literal.set_dtype(static_cast<proto::DataType>(tensor.dtype));
  for (const int64_t size : tensor.dims) literal.add_dims(size);
  literal.set_data(tensor.data, tensor.bytes());
  return literal;
}

// "[matmul] transpose_x", for the start of error sentences.
std::string Label(const std::string& op_type, const AttrSchema& schema) {
  return Cat("[", op_type, "] ", schema.name);
}

proto::Attr Convert(const std::string& op_type, const AttrSchema& schema, py::handle value) {
  const std::string& name = schema.name;
  switch (schema.type) {
    case AttrType::kBool:
      return BoolAttr(name, ToBool(value));
    case AttrType::kInt:
      return IntAttr(name, ToInt(value));
    case AttrType::kFloat:
      return FloatAttr(name, ToFloat(value));
    case AttrType::kString:
      return StringAttr(name, ToText(value));
    case AttrType::kInts:
      return IntsAttr(name, ToVector(value, ToInt));
    case AttrType::kFloats:
      return FloatsAttr(name, ToVector(value, ToFloat));
    case AttrType::kStrings:
      return StringsAttr(name, ToVector(value, ToText));
    case AttrType::kDType:
      return DTypeAttr(name, ToDType(value));
    default:
      break;
  }
  proto::Attr attr;
  attr.set_name(name);
  if (schema.type == AttrType::kBlock) {
    attr.set_block(static_cast<int32_t>(ToInt(value)));
  } else if (schema.type == AttrType::kBlocks) {
    const std::vector<int64_t> blocks = ToVector(value, ToInt);
    attr.mutable_blocks()->mutable_values()->Assign(blocks.begin(), blocks.end());
  } else {
    *attr.mutable_tensor() = ToLiteral(Label(op_type, schema), value);
  }
  return attr;
}

}  // namespace

DType ToDType(py::handle value) {
  std::string name;
  if (py::isinstance<py::str>(value)) {
    name = value.cast<std::string>();
  } else {
    try {
      name = py::str(py::dtype::from_args(py::reinterpret_borrow<py::object>(value)).attr("name"));
    } catch (py::error_already_set&) {
      Fail(Repr(value), " is not a dtype; write for example dtype='float32'");
    }
  }
  if (const auto dtype = DTypeFromName(name)) return *dtype;
  std::vector<std::string> names;
  for (const DType d : kAllTypes) names.emplace_back(NameOf(d));
  const std::string near = Nearest(name, names);
  Fail("there is no dtype '", name, "'",
       near.empty() ? "; write for example dtype='float32'" : "; did you mean '" + near + "'?");
}

std::vector<int64_t> ToDims(py::handle shape) {
  try {
    std::vector<int64_t> dims = ToVector(shape, ToInt);
    for (const int64_t size : dims) {
      OPSTEP_CHECK(size >= -1, "shape ", Repr(shape), " has the negative size ", size,
                   "; write None for a size that is known only at run time");
    }
    return dims;
  } catch (py::error_already_set&) {
    Fail(Repr(shape), " is not a shape; write a list of sizes such as [None, 64]");
  }
}

py::list FromDims(const Dims& dims) {
  py::list out;
  for (const int64_t size : dims) out.append(size < 0 ? py::object(py::none()) : py::int_(size));
  return out;
}

proto::Attr ToAttr(const std::string& op_type, const AttrSchema& schema, py::handle value) {
  try {
    return Convert(op_type, schema, value);
  } catch (py::error_already_set&) {
  } catch (const py::builtin_exception&) {
  }
  Fail(Label(op_type, schema), " must be of type ", NameOf(schema.type), ", not ", Repr(value));
}

void AddAttrs(const py::dict& attrs, const OpSchema& schema, proto::OpDesc& op) {
  for (const auto& [key, value] : attrs) {
    const std::string name = key.cast<std::string>();
    const AttrSchema* known = schema.FindAttr(name);
    if (known == nullptr) {
      std::vector<std::string> names;
      for (const AttrSchema& attr : schema.attrs) names.push_back(attr.name);
      const std::string near = Nearest(name, names);
      Fail("[", schema.type, "] has no attribute '", name, "'",
           near.empty() ? "" : "; did you mean '" + near + "'?");
    }
    *op.add_attrs() = ToAttr(schema.type, *known, value);
  }
}

py::object FromAttr(const proto::Attr& attr) {
  switch (attr.value_case()) {
    case proto::Attr::kB:
      return py::bool_(attr.b());
    case proto::Attr::kI:
      return py::int_(attr.i());
    case proto::Attr::kF:
      return py::float_(attr.f());
    case proto::Attr::kS:
      return py::str(attr.s());
    case proto::Attr::kDtype:
      return py::str(NameOf(static_cast<DType>(attr.dtype())));
    case proto::Attr::kBlock:
      return py::int_(attr.block());
    case proto::Attr::VALUE_NOT_SET:
      return py::none();
    case proto::Attr::kTensor: {
      const proto::TensorLiteral& literal = attr.tensor();
      Tensor tensor({static_cast<DType>(literal.dtype()),
                     Dims({literal.dims().data(), static_cast<size_t>(literal.dims_size())})});
      tensor.data = const_cast<char*>(literal.data().data());
      return ToArray(tensor);
    }
    default:
      break;
  }
  py::list out;
  for (const int64_t v : attr.ints().values()) out.append(v);
  for (const int64_t v : attr.blocks().values()) out.append(v);
  for (const double v : attr.floats().values()) out.append(v);
  for (const std::string& v : attr.strings().values()) out.append(v);
  return out;
}

}  // namespace opstep::python
