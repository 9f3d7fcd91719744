// oneDNN's engine, formats, attributes and primitives as kernels use them.
#include "ops/nn/onednn.h"

#include <array>

#include "base/error.h"
#include "ops/lib/scratch.h"
#include "ops/lib/signal_guard.h"
#include "ops/lib/threads.h"

namespace opstep {
namespace {

using DataType = dnnl::memory::data_type;

// Memory objects of one call.
class Memories {
 public:
  ~Memories() {
    for (int i = 0; i < size_; ++i) dnnl_memory_destroy(args_[i].memory);
  }

  void Add(int number, const DnnlDesc& desc, const void* data) {
    OPSTEP_CHECK(size_ < static_cast<int>(args_.size()), "too many arguments for oneDNN");
    dnnl_memory_t memory = nullptr;
    const dnnl_status_t status =
        dnnl_memory_create(&memory, desc.get(), DnnlEngine().get(), const_cast<void*>(data));
    OPSTEP_CHECK(status == dnnl_success, "oneDNN took no memory (status ", status, ")");
    args_[size_++] = {number, memory};
  }

  const dnnl_exec_arg_t* data() const { return args_.data(); }
  int size() const { return size_; }

 private:
  std::array<dnnl_exec_arg_t, 8> args_{};
  int size_ = 0;
};

}  // namespace

const dnnl::engine& DnnlEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

DnnlDesc RowMajor(const DnnlDims& dims) {
  DnnlDims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return RowMajor(dims, strides);
}

DnnlDesc RowMajor(const DnnlDims& dims, const DnnlDims& strides) {
  return DnnlDesc(dims, DataType::f32, strides);
}

DnnlDesc AnyFormat(const DnnlDims& dims) {
  return DnnlDesc(dims, DataType::f32, dnnl::memory::format_tag::any);
}

const dnnl::primitive_attr& DnnlAttr() {
  static const dnnl::primitive_attr attr = [] {
    dnnl::primitive_attr made;
    made.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return made;
  }();
  return attr;
}

void DnnlPrimitive::Run(std::initializer_list<Arg> args) const {
  thread_local const dnnl::stream stream(DnnlEngine());
  const OneThread one_thread;
  Memories memories;
  for (const Arg& arg : args) memories.Add(arg.number, arg.desc, arg.data);
  Scratch scratch;
  if (const size_t bytes = scratchpad_.get_size(); bytes > 0) {
    memories.Add(DNNL_ARG_SCRATCHPAD, scratchpad_, scratch.Take(bytes));
  }
  const SignalGuard signal_guard;
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream.get(), memories.size(), memories.data());
  OPSTEP_CHECK(status == dnnl_success, "oneDNN gave up (status ", status, ")");
}

DnnlReorder::DnnlReorder(const DnnlDesc& from, const DnnlDesc& to)
    : from_(from), to_(to), needed_(from != to) {
  if (!needed_) return;
  const OneThread one_thread;
  const dnnl::reorder::primitive_desc desc(DnnlEngine(), from, DnnlEngine(), to, DnnlAttr());
  primitive_ = DnnlPrimitive(dnnl::reorder(desc), desc.scratchpad_desc());
}

void DnnlReorder::Run(const float* from, float* to) const {
  primitive_.Run({{DNNL_ARG_FROM, from_, from}, {DNNL_ARG_TO, to_, to}});
}

}  // namespace opstep
