// A hook that watches every op and counts, to show that watching changes nothing.
#include "runtime/hook.h"

#include <atomic>

#include "opstep/bindings/bindings.h"

namespace opstep::python {
namespace {

class CountingHook : public Hook {
 public:
  void EnterBlock(const FrameView& frame) override {
    ++entered;
    for (const BlockPlan& block : frame.plan().blocks) {
      for (const Instruction& instruction : block.code) {
        instruction.watch.fetch_or(watch::kBefore | watch::kAfter, std::memory_order_relaxed);
      }
    }
  }
  void BeforeOp(FrameEditor&) override { ++before; }
  void AfterOp(FrameEditor&) override { ++after; }
  void OnError(FrameEditor&, const Error&) override { ++errors; }
  void LeaveBlock(const FrameView&) override { ++left; }

  std::atomic<uint64_t> entered{0}, before{0}, after{0}, errors{0}, left{0};
};

}  // namespace

void BindHook(py::module_& m) {
  using H = CountingHook;
  py::class_<H, std::shared_ptr<H>>(m, "CountingHook")
      .def(py::init())
      .def("install", [](const std::shared_ptr<H>& hook) { SetHook(hook); })
      .def("remove", [](const std::shared_ptr<H>&) { SetHook(nullptr); })
      .def_property_readonly("entered", [](const H& h) { return h.entered.load(); })
      .def_property_readonly("before", [](const H& h) { return h.before.load(); })
      .def_property_readonly("after", [](const H& h) { return h.after.load(); })
      .def_property_readonly("errors", [](const H& h) { return h.errors.load(); })
      .def_property_readonly("left", [](const H& h) { return h.left.load(); });
}

}  // namespace opstep::python
