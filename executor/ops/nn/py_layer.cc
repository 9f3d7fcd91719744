// py_layer: a layer written in Python, opstep.PyLayer, and its gradient.
#include "ops/nn/foreign_layer.h"
#include "ops/op.h"

namespace opstep {
namespace {

ForeignLayers layers;

const ForeignLayers& Layers() {
  OPSTEP_CHECK(layers.types != nullptr, "there is no Python in this process");
  return layers;
}

ForeignLayer LayerOf(const OpView& op) { return {op.String("layer"), op.String("options")}; }

struct State {
  ForeignLayer layer;
  int inputs = 0;
  int outputs = 0;
};

std::vector<const Tensor*> Inputs(const KernelContext& ctx, int first, int count) {
  std::vector<const Tensor*> tensors;
  for (int i = first; i < first + count; ++i)
    tensors.push_back(ctx.in(i).dtype != DType::kNone ? &ctx.in(i) : nullptr);
  return tensors;
}

std::vector<Tensor*> Outputs(const KernelContext& ctx) {
  std::vector<Tensor*> tensors;
  for (int i = 0; i < ctx.n_out(); ++i)
    tensors.push_back(ctx.out(i).dtype != DType::kNone ? &ctx.out(i) : nullptr);
  return tensors;
}

void Shape(ShapeContext& ctx) {
  std::vector<VarType> inputs;
  for (int i = 0; i < ctx.n_in(); ++i) inputs.push_back(ctx.in(i));
  const std::vector<VarType> types = Layers().types(LayerOf(ctx.op()), inputs);
  OPSTEP_CHECK(static_cast<int>(types.size()) == ctx.n_out(), ctx.op().String("layer"), " gives ",
               types.size(), " results, but ", ctx.n_out(), " variables are to take them");
  for (int i = 0; i < ctx.n_out(); ++i) ctx.set_out(i, types[i]);
}

const bool kPyLayer =
    Op("py_layer")
        .Doc(
            "A layer written in Python, opstep.PyLayer: calls its forward with arrays. The class "
            "is looked up among those of the process that runs the program.")
        .In("X", "what forward is given", kEvery)
        .Variadic()
        .Required("layer", AttrType::kString, "the name of the class")
        .Attr(StringAttr("options", "{}"), "what forward is given by name, as JSON")
        .Out("out", "what forward gives", kEvery)
        .Variadic()
        .OwnTest()
        .Shape(Shape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto run = [](KernelContext& ctx) {
            const ForeignLayer& layer = ctx.state<State>().layer;
            Layers().forward(layer, Inputs(ctx, 0, ctx.n_in()), Outputs(ctx));
          };
          return WithState(run, State{LayerOf(ctx.op()), ctx.n_in(), ctx.n_out()});
        })
        .Grad([](GradContext& g) { g.EmitGrad("py_layer_grad", {"X"}, {"out"}, {"out"}, {"X"}); })
        .Register();

void GradShape(ShapeContext& ctx) {
  const auto count = [&](std::string_view slot) { return ctx.op().Inputs(slot).size(); };
  OPSTEP_CHECK(count("dout") == count("out") && count("X") == static_cast<size_t>(ctx.n_out()),
               "it has not a gradient for each variable of its forward op");
  Layers().check_gradient(LayerOf(ctx.op()));
  for (int i = 0; i < ctx.n_out(); ++i) ctx.set_out(i, ctx.in(i));
}

const bool kPyLayerGrad =
    Op("py_layer_grad")
        .Doc("Gradient of py_layer: calls the layer's backward.")
        .In("X", "what forward was given", kEvery)
        .Variadic()
        .In("out", "what forward gave", kEvery)
        .Variadic()
        .In("dout", "gradients of what it gave", kAllFloats)
        .Variadic()
        .Optional()
        .Required("layer", AttrType::kString, "as in py_layer")
        .Attr(StringAttr("options", "{}"), "as in py_layer")
        .Out("dX", "gradients of what it was given", kAllFloats)
        .Variadic()
        .Optional()
        .OwnTest()
        .Shape(GradShape)
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          const auto run = [](KernelContext& ctx) {
            const State& state = ctx.state<State>();
            Layers().backward(
                state.layer, Inputs(ctx, 0, state.inputs), Inputs(ctx, state.inputs, state.outputs),
                Inputs(ctx, state.inputs + state.outputs, state.outputs), Outputs(ctx));
          };
          const auto count = [&](std::string_view slot) {
            return static_cast<int>(ctx.op().Inputs(slot).size());
          };
          return WithState(run, State{LayerOf(ctx.op()), count("X"), count("out")});
        })
        .Register();

}  // namespace

void SetForeignLayers(const ForeignLayers& given) { layers = given; }

}  // namespace opstep
