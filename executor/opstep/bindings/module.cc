// The extension module opstep._core.
#include "opstep/bindings/bindings.h"

PYBIND11_MODULE(_core, m) {
  using namespace opstep::python;
  m.doc() = "The executor of opstep; use it through the package opstep.";
  BindErrors(m);
  BindStack(m);
  BindNames(m);
  BindFrameNames(m);
  BindCalls(m);
  BindCallNames(m);
  BindProgram(m);
  BindOps(m);
  BindScope(m);
  BindFiles(m);
  BindRecords(m);
  BindSources(m);
  BindReaders(m);
  BindLayers(m);
  BindLoops(m);
  BindExecutor(m);
  BindForeign(m);
  BindMemoryCall(m);
  BindValues(m);
  BindTracing(m);
  BindHook(m);
  BindDebug(m);
}
