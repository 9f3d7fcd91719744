// Readers that Python code feeds, and Python's functions on reader variables.
#include "data/waiting.h"
#include "ops/readers/foreign_reader.h"
#include "opstep/bindings/callback.h"
#include "runtime/hook.h"

namespace opstep::python {
namespace {

// The function of the package that gives the object behind a number; it lives as long as Python.
PyObject* lookup = nullptr;

// A reader whose records a Python object makes: `fields` (name, dtype, sizes), `start(pass)` and
// `next()`, which gives a list of arrays, or None at the end. Its calls take the GIL.
class PythonSource final : public Source {
 public:
  explicit PythonSource(int64_t number) {
    OPSTEP_CHECK(lookup != nullptr, "the package opstep was not imported");
    Locked([&] {
      object_ = Invoke(py::reinterpret_borrow<py::object>(lookup), py::make_tuple(number));
      for (const py::handle field : object_.attr("fields")) {
        const auto parts = py::cast<py::tuple>(field);
        fields_.push_back(
            {py::cast<std::string>(parts[0]), {ToDType(parts[1]), Dims(ToDims(parts[2]))}});
      }
    });
    Restart(0);
  }

  ~PythonSource() override {
    if (Finalizing()) {
      object_.release();
      return;
    }
    const py::gil_scoped_acquire gil;
    object_ = py::object();
  }

  const std::vector<SourceField>& fields() const override { return fields_; }

  void Restart(uint64_t pass) override {
    Locked([&] { Invoke(object_.attr("start"), py::make_tuple(pass)); });
  }

  bool Next(SourceRecord& record) override {
    bool any = false;
    Locked([&] {
      const py::object values = Invoke(object_.attr("next"), py::tuple());
      any = !values.is_none();
      if (!any) return;
      record.clear();
      size_t i = 0;
      // A copy: releasing arrays would take the GIL in the middle of a run.
      for (const py::handle value : values) {
        OPSTEP_CHECK(i < fields_.size(), "a record has more than ", fields_.size(), " values");
        record.push_back(CopyArray(py::cast<py::array>(value), fields_[i++].name));
      }
    });
    return any;
  }

  // Live data cannot be skipped.
  uint64_t Skip(uint64_t count) override {
    bool live = false;
    Locked([&] { live = py::cast<bool>(object_.attr("live")); });
    return live ? count : Source::Skip(count);
  }

  int64_t size() const override {
    int64_t size = -1;
    Locked([&] { size = py::cast<int64_t>(object_.attr("size")); });
    return size;
  }

 private:
  template <typename F>
  static void Locked(F&& call) {
    CallPython("the reader's code", std::forward<F>(call));
  }

  py::object object_;
  std::vector<SourceField> fields_;
};

}  // namespace

void BindReaders(py::module_& m) {
  SetDefaultWaitPoll(&PollInterrupt);
  SetForeignReaders([](int64_t number) -> std::shared_ptr<Source> {
    return std::make_shared<PythonSource>(number);
  });
  m.def("set_reader_lookup", [](py::object function) { lookup = function.release().ptr(); });
}

}  // namespace opstep::python
