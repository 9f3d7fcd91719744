// read_images: a reader of a folder's images, with the sub-folders as classes.
#include "data/image_source.h"
#include "ops/readers/reader.h"

namespace opstep {
namespace {

struct State {
  std::string path;
  ImageOptions options;
};

ImageOptions OptionsOf(const OpView& op) {
  return {.labels = op.Bool("labels"),
          .classes = op.Strings("classes"),
          .height = op.Int("height"),
          .width = op.Int("width"),
          .channels = op.Int("channels"),
          .dtype = op.DType("dtype"),
          .layout = op.String("layout"),
          .on_error = op.String("on_error")};
}

void ReadImages(KernelContext& ctx) {
  const State& state = ctx.state<State>();
  SetReader(ctx.out(0), std::make_shared<ImageSource>(state.path, state.options));
}

const bool kReadImages =
    Op("read_images")
        .Doc(
            "A reader of a folder's .png, .jpg and .jpeg files in the order of their names, with "
            "the fields image and label (int64[1]). Each sub-folder is a class; its label is its "
            "place among them.")
        .Required("path", AttrType::kString, "the folder")
        .Attr(BoolAttr("labels", true),
              "are there sub-folders? Without them the images are in the folder itself, and image "
              "is the only field")
        .Attr(StringsAttr("classes", {}),
              "the sub-folders in the order of their labels; all of them by name when empty")
        .Attr(IntAttr("height", 0), "to resize to; 0 when all have one size and should keep it")
        .Attr(IntAttr("width", 0), "the same")
        .Attr(IntAttr("channels", 3), "3 for red, green and blue, 1 for gray")
        .Attr(DTypeAttr("dtype", DType::kFloat32), "float32, from 0 to 1, or uint8")
        .Attr(StringAttr("layout", "chw"),
              "'chw' for [channels, height, width], 'hwc' for [height, width, channels]")
        .Attr(StringAttr("on_error", "fail"),
              "'fail', or 'skip' to leave out damaged images, and count them")
        .Out("out", "the reader", kEvery)
        .Reader()
        .Role(OpRole::kSource)
        .SideEffect()
        .OwnTest()
        .Shape([](ShapeContext& ctx) {
          OPSTEP_CHECK(!ctx.op().String("path").empty(), "path is empty: name a folder");
          OptionsOf(ctx.op()).Check();
          ReaderShape(ctx);
        })
        .Prepare([](const PrepareContext& ctx) -> Kernel {
          return WithState(ReadImages, State{ctx.op().String("path"), OptionsOf(ctx.op())});
        })
        .Register();

}  // namespace
}  // namespace opstep
