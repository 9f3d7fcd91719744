// foreign: a function of another library, called with borrowed memory.
#include <charconv>
#include <string_view>

#include "ops/foreign/foreign_call.h"
#include "ops/op.h"

namespace opstep {
namespace {

ForeignCalls calls;

struct State {
  std::shared_ptr<const void> function;
};

// "float32[2, 3]", as VarType::ToString writes it.
VarType ParseType(const std::string& text) {
  const size_t open = text.find('[');
  const auto dtype = DTypeFromName(std::string_view(text).substr(0, open));
  const bool whole = open != std::string::npos && text.back() == ']';
  OPSTEP_CHECK(dtype && whole, "'", text, "' is not a type such as float32[2, 3]");
  VarType type{*dtype, {}};
  const char* at = text.data() + open + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at < end) {
    int64_t size = -1;
    const auto [rest, error] = std::from_chars(at, end, size);
    OPSTEP_CHECK(error == std::errc() && size >= 0 && type.dims.rank() < Dims::kMaxRank, "'", text,
                 "' is not a type of known sizes and at most ", Dims::kMaxRank, " dimensions");
    type.dims.push_back(size);
    at = rest;
    while (at < end && (*at == ',' || *at == ' ')) ++at;
  }
  return type;
}

void Shape(ShapeContext& ctx) {
  const std::vector<std::string> types = ctx.op().Strings("types");
  OPSTEP_CHECK(static_cast<int>(types.size()) == ctx.n_out(), "it has ", types.size(),
               " types for ", ctx.n_out(), " results");
  for (int i = 0; i < ctx.n_out(); ++i) ctx.set_out(i, ParseType(types[i]));
}

void Run(KernelContext& ctx) {
  std::vector<const Tensor*> inputs;
  for (int i = 0; i < ctx.n_in(); ++i) inputs.push_back(&ctx.in(i));
  std::vector<Tensor*> outputs;
  for (int i = 0; i < ctx.n_out(); ++i) outputs.push_back(&ctx.out(i));
  calls.call(ctx.state<State>().function.get(), inputs, outputs);
}

const bool kForeign =
    Op("foreign")
        .Doc(
            "A function of another library, which lent it to this process under a key. A program "
            "that was saved cannot call it in another process.")
        .In("X", "its tensors", kEvery)
        .Variadic()
        .Required("target", AttrType::kString, "the function's name in its library")
        .Required("key", AttrType::kString, "identifies the function in the process")
        .Required("types", AttrType::kStrings, "the types of its results: \"float32[2, 3]\"")
        .Out("out", "its results", kEvery)
        .Variadic()
        // Random numbers, for example: its library must be called as often as it expects.
        .SideEffect()
        .OwnTest()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          std::shared_ptr<const void> function;
          if (calls.find != nullptr) function = calls.find(ctx.op().String("key"));
          OPSTEP_CHECK(function != nullptr, "'", ctx.op().String("target"),
                       "' is a function of another library, and only the process that made this "
                       "program can call it: make the program again in this process");
          return WithState(&Run, State{std::move(function)});
        })
        .Register();

}  // namespace

void SetForeignCalls(const ForeignCalls& given) { calls = given; }

}  // namespace opstep
