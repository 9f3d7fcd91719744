// print: writes a tensor's first elements to stderr and passes it on.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>

#include "ops/grad/terms.h"
#include "ops/lib/unary.h"

namespace opstep {
namespace {

constexpr int64_t kShown = 16;

template <typename T>
void Append(std::string& text, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    text += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    Append(text, static_cast<float>(value));
  } else {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    text.append(digits, end);
  }
}

template <typename T>
void Run(KernelContext& ctx) {
  const Tensor& x = ctx.in(0);
  std::string text = ctx.state<std::string>();
  if (!text.empty()) text += ": ";
  text += x.type().ToString() + " = {";
  for (int64_t i = 0; i < std::min(x.numel, kShown); ++i) {
    if (i > 0) text += ", ";
    Append(text, x.as<T>()[i]);
  }
  text += x.numel > kShown ? ", …}\n" : "}\n";
  // In one call: lines of several threads do not mix.
  std::fwrite(text.data(), 1, text.size(), stderr);
  Tensor& out = ctx.out(0);
  if (out.data != x.data && x.numel > 0) std::memcpy(out.data, x.data, x.bytes());
}

const bool kPrint =
    Op("print")
        .Doc("Writes a tensor's first elements to stderr and passes it on.")
        .In("X", "any shape", kEvery)
        .Attr(StringAttr("message", ""), "what to write before it")
        .Out("out", "X itself", kEvery)
        .InplaceOf("X")
        .SideEffect()
        .OwnTest()
        .Shape(OutLikeInput<0>)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return DispatchEvery(ctx.in(0).dtype, [&](auto t) {
            return WithState<std::string>(Run<decltype(t)>, ctx.op().String("message"));
          });
        })
        .Grad([](GradContext& g) {
          g.Emit("print_grad", {{"dout", {g.OutGrad("out")}}}, {{"dX", {g.InGrad("X")}}});
        })
        .Register();

const bool kPrintGrad = Op("print_grad")
                            .Doc("Gradient of print: dout itself.")
                            .In("dout", "gradient of out", kAllFloats)
                            .Out("dX", "gradient of X", kAllFloats)
                            .InplaceOf("dout")
                            .Unchanged()
                            .Shape(OutLikeInput<0>)
                            .Prepare(PrepareCopy<0>)
                            .Grad(FlatGradient)
                            .Register();

}  // namespace
}  // namespace opstep
