// reduce_any and reduce_all: whether one element is true, or all are.
#include "ops/reduce/reduce.h"

namespace opstep {
namespace {

template <bool kAll>
struct AnyOrAll {
  static constexpr Types kTypes = Types::kBools;
  static constexpr bool kTakesNothing = true;
  static constexpr bool kFinishes = false;
  template <typename T>
  OPSTEP_INLINE static T Start() {
    return kAll;
  }
  template <typename T>
  OPSTEP_INLINE static T Do(T a, T b) {
    return kAll ? a & b : a | b;
  }
  template <typename T, typename F>
  OPSTEP_INLINE static T Run(int64_t n, F&& at) {
    return FoldRun<T, AnyOrAll>(kAll, n, at);
  }
};

template <bool kAll>
bool Register(std::string type, std::string doc, std::string oracle) {
  return ReduceOp(std::move(type), std::move(doc), "true or false", kBools)
      .Prepare(PrepareReduce<AnyOrAll<kAll>>)
      .Oracle("np." + std::move(oracle) + "(X, axis=tuple(axes) or None, keepdims=keepdims)")
      .Sample("X=[3,7]")
      .Sample("X=[40,3] axes=[1] keepdims=False")
      .Sample("X=[3,40] axes=[0]")
      .Sample("X=[2,33] axes=[1]")
      .Sample("X=[5,2,3,1] axes=[-1,1]")
      .Sample("X=[] keepdims=False")
      .Sample("X=[0,3] axes=[0]")
      .Sample("X=[0,3] axes=[1]")
      .Register();
}

const bool kReduceAny =
    Register<false>("reduce_any", "True when an element along axes is; false for none.", "any");
const bool kReduceAll =
    Register<true>("reduce_all", "True when every element along axes is; true for none.", "all");

}  // namespace
}  // namespace opstep
