// Shared by all files of the bindings: the functions that bind them, and conversions.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "base/tensor.h"
#include "ir/program.h"
#include "ir/schema.h"

namespace opstep::python {

namespace py = pybind11;

// One for each file of this folder.
void BindErrors(py::module_& m);
void BindStack(py::module_& m);
void BindNames(py::module_& m);
void BindFrameNames(py::module_& m);
void BindCalls(py::module_& m);
void BindCallNames(py::module_& m);
void BindProgram(py::module_& m);
void BindOps(py::module_& m);
void BindScope(py::module_& m);
void BindFiles(py::module_& m);
void BindRecords(py::module_& m);
void BindSources(py::module_& m);
void BindReaders(py::module_& m);
void BindLayers(py::module_& m);
void BindLoops(py::module_& m);
void BindExecutor(py::module_& m);
void BindForeign(py::module_& m);
void BindMemoryCall(py::module_& m);
void BindTracing(py::module_& m);
void BindValues(py::module_& m);
void BindHook(py::module_& m);
void BindDebug(py::module_& m);

// errors.cc: the interpreter is ending, so no thread may ask for the GIL any more.
bool Finalizing();

// errors.cc: is it a Ctrl-C, or sys.exit(), that ends the run? Needs the GIL.
bool IsInterruption(const py::error_already_set& error);
// errors.cc: ends the run, on whose thread Python's error is to be raised. Needs the GIL.
[[noreturn]] void ThrowInterrupted(py::error_already_set error);

// errors.cc: an Error that holds `sentence` and is raised on this thread next comes from `cause`.
// Needs the GIL.
void KeepCause(std::string sentence, py::object cause);

// errors.cc: releases the GIL while it lives. A daemon thread whose run outlasts the interpreter
// sleeps here until the process ends: Python would end the thread inside our stack, which aborts.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

// tensor.cc: NumPy and our tensors share memory where the layout allows.
//
// The tensor borrows the array's memory, or that of `keep`, which gets a contiguous copy if
// necessary.
Tensor BorrowArray(const py::array& array, std::vector<py::object>& keep, const std::string& what);
// With its own memory.
Tensor CopyArray(const py::array& array, const std::string& what);
// The array keeps the tensor's owner alive; a tensor without owner is copied.
py::array ToArray(const Tensor& tensor);
// bfloat16 is in the separate package ml_dtypes; without it this is an error.
py::dtype NumpyType(DType dtype);

// attrs.cc
DType ToDType(py::handle value);
// A size for each dimension; None is -1.
std::vector<int64_t> ToDims(py::handle shape);
py::list FromDims(const Dims& dims);
proto::Attr ToAttr(const std::string& op_type, const AttrSchema& schema, py::handle value);
py::object FromAttr(const proto::Attr& attr);
// Python's attributes of an op that has this schema.
void AddAttrs(const py::dict& attrs, const OpSchema& schema, proto::OpDesc& op);

// stack.cc: the frames of the calling thread that are the user's own, innermost first. Needs the
// GIL.
std::vector<SourceFrame> UserStack();
// Those frames themselves.
std::vector<py::object> UserFrames();
// The same as indexes of the program's frames.
void SetUserStack(Program& program, proto::OpDesc& op);
// calls.cc: that stack, with its calls and visits, and the current values of Python's names there.
void SetMadeBy(Program& program, proto::OpDesc& op);
// The values of those names before the program runs, if they have changed since.
void NoteNames(Program& program);
// A number that is the same whenever those frames are at the same places of their code.
uint64_t UserStackNumber();
// " (train.py:41)", for the end of error sentences.
std::string UserPlace();

// tracing.cc: the name of a Python value in the op of imperative mode that runs on this thread;
// false when the op does not use it.
bool NameInTrace(PyObject* value, uint32_t& program, std::string& name);

}  // namespace opstep::python
