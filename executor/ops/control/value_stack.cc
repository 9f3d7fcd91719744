// push and pop: stacks that keep values of a block's runs for its gradient.
// The block runs repeatedly, the gradient later equally often in reverse, so the last saved value
// is needed first.
#include "base/tensor_stack.h"
#include "ops/lib/shape_rules.h"
#include "ops/op.h"

namespace opstep {
namespace {

TensorStack& StackOf(const Tensor& tensor) { return *static_cast<TensorStack*>(tensor.data); }

const bool kPush =
    Op("push")
        .Doc("Saves a value for the gradient, on a stack.")
        .In("X", "the value", kEvery)
        .In("stack", "the values saved before", kEvery)
        .Stack()
        .Out("stack_out", "the same stack with X on top", kEvery)
        .InplaceOf("stack")
        .Stack()
        .Role(OpRole::kPush)
        .SideEffect()
        .OwnTest()
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext&) -> Kernel {
          return {[](KernelContext& ctx) { StackOf(ctx.in(1)).Push(ctx.in(0)); }, nullptr};
        })
        .Register();

const bool kPop =
    Op("pop")
        .Doc("Takes the value that was saved last from a stack.")
        .In("stack", "the saved values", kEvery)
        .Stack()
        .Out("out", "the value", kEvery)
        .Out("stack_out", "the same stack without it", kEvery)
        .InplaceOf("stack")
        .Stack()
        .Role(OpRole::kPop)
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          ctx.set_out(0, ctx.in(0));
          ctx.set_out(1, ctx.in(0));
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          OPSTEP_CHECK(ctx.in(0).dtype != DType::kNone, "nothing is ever saved on the stack");
          return {[](KernelContext& ctx) { StackOf(ctx.in(0)).Pop(ctx.out(0)); }, nullptr};
        })
        .Register();

}  // namespace
}  // namespace opstep
