// The three products of a convolution on oneDNN: primitives, formats and pieces for threads.
#include "ops/nn/conv_onednn.h"

#include <cmath>

#include "ops/lib/scratch.h"
#include "ops/lib/threads.h"
#include "ops/nn/conv_direct.h"
#include "ops/nn/onednn.h"

namespace opstep {
namespace {

// Less work than this is not worth a separate piece.
constexpr double kPieceFlops = 8e6;
constexpr int64_t kMostPieces = 16;

// The batch cut into pieces of `size` images, the last one may be smaller.
struct Batches {
  int64_t size = 1, count = 1, rest = 0;

  Batches() = default;
  Batches(int64_t batch, int64_t pieces)
      : size(std::max<int64_t>(1, batch / pieces)),
        count((batch + size - 1) / size),
        rest(batch % size) {}
  bool is_rest(int64_t i) const { return rest > 0 && i == count - 1; }
};

int64_t PiecesFor(double flops) {
  return std::clamp<int64_t>(static_cast<int64_t>(flops / kPieceFlops), 1, kMostPieces);
}

struct Descs {
  DnnlDims x, w, y, bias;
  DnnlDims stride, dilation, begin, end;
  // Of one image in the whole tensors.
  DnnlDims x_strides, y_strides;

  Descs(const ConvShape& s, int64_t images, int64_t out_channels) {
    const Window& window = s.window;
    x = {images, s.in_channels};
    y = {images, out_channels};
    w = {out_channels, s.in_channels};
    if (s.groups > 1) w = {s.groups, out_channels / s.groups, s.group_in()};
    bias = {out_channels};
    for (int i = Window::kRank - s.rank; i < Window::kRank; ++i) {
      x.push_back(window.in[i]);
      y.push_back(window.out[i]);
      w.push_back(window.kernel[i]);
      stride.push_back(window.stride[i]);
      dilation.push_back(window.dilation[i] - 1);
      begin.push_back(window.begin[i]);
      end.push_back((window.out[i] - 1) * window.stride[i] + window.reach(i) - window.in[i] -
                    window.begin[i]);
    }
    x_strides = Strides(x, s.x_image());
    y_strides = Strides(y, s.y_image());
  }

 private:
  static DnnlDims Strides(const DnnlDims& dims, int64_t image) {
    DnnlDims strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i > 1; --i) strides[i - 1] = strides[i] * dims[i];
    strides[0] = image;
    return strides;
  }
};

// The tensor in oneDNN's format, in place or in scratch memory.
const float* Inside(const DnnlReorder& reorder, const float* data, Scratch& scratch) {
  if (!reorder.needed()) return data;
  float* to = static_cast<float*>(scratch.Take(reorder.to().get_size()));
  reorder.Run(data, to);
  return to;
}

// W, in `parts` along its output channels, in oneDNN's format.
class Weights {
 public:
  Weights() = default;
  Weights(const DnnlDims& dims, const DnnlDesc& inside, int64_t parts, const Tensor* known)
      : reorder_(RowMajor(dims), inside), parts_(parts), inside_(inside) {
    // A narrow dtype is widened at each run.
    if (known == nullptr || known->dtype != DType::kFloat32 || !reorder_.needed()) return;
    known_ = AllocateAligned(step() * parts * sizeof(float));
    known_from_ = known->as<float>();
    Fill(known_from_, static_cast<float*>(known_.get()));
  }

  const DnnlDesc& desc() const { return inside_; }
  // Between two parts, in floats.
  int64_t step() const { return static_cast<int64_t>(inside_.get_size() / sizeof(float)); }

  const float* Get(const float* w, Scratch& scratch) const {
    if (!reorder_.needed()) return w;
    // A debugger may have changed the run's weights.
    if (w == known_from_) return static_cast<const float*>(known_.get());
    float* to = scratch.Take<float>(step() * parts_);
    Fill(w, to);
    return to;
  }

 private:
  void Fill(const float* w, float* to) const {
    const int64_t from_step = static_cast<int64_t>(reorder_.from().get_size() / sizeof(float));
    ParallelFor(parts_, [&](int64_t i) { reorder_.Run(w + i * from_step, to + i * step()); });
  }

  DnnlReorder reorder_;
  int64_t parts_ = 1;
  DnnlDesc inside_;
  std::shared_ptr<void> known_;
  const float* known_from_ = nullptr;
};

template <typename Made, typename... Args>
std::shared_ptr<const Made> TryMake(const ConvShape& s, Args... args) {
  if (s.batch == 0 || s.weights() == 0 || s.x_image() == 0 || s.y_image() == 0) return nullptr;
  try {
    const OneThread one_thread;
    return std::make_shared<const Made>(s, args...);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

class Forward : public ConvForward {
 public:
  Forward(const ConvShape& s, bool bias, const Tensor* w)
      : shape_(s), batches_(s.batch, PiecesFor(s.flops())) {
    // Few images: their channels are split too.
    if (s.groups == 1 && batches_.count < 4) {
      parts_ = std::min<int64_t>({4, PiecesFor(s.flops()) / batches_.count, s.out_channels / 32});
      while (parts_ > 1 && s.out_channels % (8 * parts_) != 0) --parts_;
      parts_ = std::max<int64_t>(parts_, 1);
    }
    channels_ = s.out_channels / parts_;
    const Descs descs(s, batches_.size, channels_);
    full_ = Piece(descs, AnyFormat(descs.w), bias);
    if (batches_.rest > 0) {
      rest_ = Piece(Descs(s, batches_.rest, channels_), full_.w, bias);
    }
    weights_ = Weights(descs.w, full_.w, parts_, w);
    bias_ = RowMajor(descs.bias);
  }

  void Run(const float* x, const float* w, const float* b, float* y) const override {
    Scratch scratch;
    const float* packed = weights_.Get(w, scratch);
    // All parts of an image read the same X.
    const float* shared = nullptr;
    const int64_t shared_step = full_.x.to().get_size() / sizeof(float);
    if (parts_ > 1 && full_.x.needed()) {
      float* to = scratch.Take<float>(shared_step * batches_.count);
      ParallelFor(batches_.count, [&](int64_t i) {
        PieceOf(i).x.Run(x + i * batches_.size * shape_.x_image(), to + i * shared_step);
      });
      shared = to;
    }
    ParallelFor(batches_.count * parts_, [&](int64_t k) {
      const int64_t i = k / parts_;
      const int64_t j = k % parts_;
      const Piece& piece = PieceOf(i);
      Scratch own;
      const float* from = shared != nullptr
                              ? shared + i * shared_step
                              : Inside(piece.x, x + i * batches_.size * shape_.x_image(), own);
      float* to =
          y + i * batches_.size * shape_.y_image() + j * channels_ * shape_.window.out_size();
      float* inside =
          piece.y.needed() ? static_cast<float*>(own.Take(piece.y.from().get_size())) : to;
      const float* weights = packed + j * weights_.step();
      if (b != nullptr) {
        piece.conv.Run({{DNNL_ARG_SRC, piece.x.to(), from},
                        {DNNL_ARG_WEIGHTS, full_.w, weights},
                        {DNNL_ARG_BIAS, bias_, b + j * channels_},
                        {DNNL_ARG_DST, piece.y.from(), inside}});
      } else {
        piece.conv.Run({{DNNL_ARG_SRC, piece.x.to(), from},
                        {DNNL_ARG_WEIGHTS, full_.w, weights},
                        {DNNL_ARG_DST, piece.y.from(), inside}});
      }
      if (piece.y.needed()) piece.y.Run(inside, to);
    });
  }

 private:
  struct Piece {
    DnnlPrimitive conv;
    DnnlReorder x, y;
    DnnlDesc w;

    Piece() = default;
    Piece(const Descs& d, const DnnlDesc& weights, bool bias) {
      // "Inference" also while training: the result is the same, and there are more
      // implementations.
      const dnnl::convolution_forward::primitive_desc made(
          DnnlEngine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
          AnyFormat(d.x), weights, bias ? RowMajor(d.bias) : DnnlDesc(), AnyFormat(d.y), d.stride,
          d.dilation, d.begin, d.end, DnnlAttr());
      conv = DnnlPrimitive(dnnl::convolution_forward(made), made.scratchpad_desc());
      x = DnnlReorder(RowMajor(d.x, d.x_strides), made.src_desc());
      y = DnnlReorder(made.dst_desc(), RowMajor(d.y, d.y_strides));
      w = made.weights_desc();
    }
  };

  const Piece& PieceOf(int64_t i) const { return batches_.is_rest(i) ? rest_ : full_; }

  const ConvShape shape_;
  const Batches batches_;
  int64_t parts_ = 1;     // of the output channels
  int64_t channels_ = 0;  // of one part
  Piece full_, rest_;
  Weights weights_;
  DnnlDesc bias_;
};

// oneDNN chooses the implementation of a backward primitive with the help of a forward one.
dnnl::convolution_forward::primitive_desc Hint(const Descs& d) {
  return dnnl::convolution_forward::primitive_desc(
      DnnlEngine(), dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
      AnyFormat(d.x), AnyFormat(d.w), AnyFormat(d.y), d.stride, d.dilation, d.begin, d.end,
      DnnlAttr());
}

class BackData : public ConvBackData {
 public:
  BackData(const ConvShape& s, const Tensor* w)
      : shape_(s), batches_(s.batch, PiecesFor(s.flops())) {
    const Descs descs(s, batches_.size, s.out_channels);
    full_ = Piece(descs, AnyFormat(descs.w));
    if (batches_.rest > 0) rest_ = Piece(Descs(s, batches_.rest, s.out_channels), full_.w);
    weights_ = Weights(descs.w, full_.w, 1, w);
  }

  void Run(const float* dy, const float* w, float* dx) const override {
    Scratch scratch;
    const float* packed = weights_.Get(w, scratch);
    ParallelFor(batches_.count, [&](int64_t i) {
      const Piece& piece = batches_.is_rest(i) ? rest_ : full_;
      Scratch own;
      const float* from = Inside(piece.dy, dy + i * batches_.size * shape_.y_image(), own);
      float* to = dx + i * batches_.size * shape_.x_image();
      float* inside =
          piece.dx.needed() ? static_cast<float*>(own.Take(piece.dx.from().get_size())) : to;
      piece.conv.Run({{DNNL_ARG_DIFF_DST, piece.dy.to(), from},
                      {DNNL_ARG_WEIGHTS, full_.w, packed},
                      {DNNL_ARG_DIFF_SRC, piece.dx.from(), inside}});
      if (piece.dx.needed()) piece.dx.Run(inside, to);
    });
  }

 private:
  struct Piece {
    DnnlPrimitive conv;
    DnnlReorder dx, dy;
    DnnlDesc w;

    Piece() = default;
    Piece(const Descs& d, const DnnlDesc& weights) {
      const dnnl::convolution_backward_data::primitive_desc made(
          DnnlEngine(), dnnl::algorithm::convolution_direct, AnyFormat(d.x), weights,
          AnyFormat(d.y), d.stride, d.dilation, d.begin, d.end, Hint(d), DnnlAttr());
      conv = DnnlPrimitive(dnnl::convolution_backward_data(made), made.scratchpad_desc());
      dy = DnnlReorder(RowMajor(d.y, d.y_strides), made.diff_dst_desc());
      dx = DnnlReorder(made.diff_src_desc(), RowMajor(d.x, d.x_strides));
      w = made.weights_desc();
    }
  };

  const ConvShape shape_;
  const Batches batches_;
  Piece full_, rest_;
  Weights weights_;
};

class BackWeights : public ConvBackWeights {
 public:
  explicit BackWeights(const ConvShape& s) : shape_(s), batches_(s.batch, PiecesFor(s)) {
    const Descs descs(s, batches_.size, s.out_channels);
    full_ = Piece(descs, AnyFormat(descs.w));
    if (batches_.rest > 0) rest_ = Piece(Descs(s, batches_.rest, s.out_channels), full_.dw);
    weights_ = DnnlReorder(full_.dw, RowMajor(descs.w));
  }

  void Run(const float* x, const float* dy, float* dw) const override {
    Scratch scratch;
    const int64_t size = full_.dw.get_size() / sizeof(float);
    // One sum for each piece of the batch, added up in the order of the batch.
    const bool direct = batches_.count == 1 && !weights_.needed();
    float* sums = direct ? dw : scratch.Take<float>(size * batches_.count);
    ParallelFor(batches_.count, [&](int64_t i) {
      const Piece& piece = batches_.is_rest(i) ? rest_ : full_;
      Scratch own;
      const float* from_x = Inside(piece.x, x + i * batches_.size * shape_.x_image(), own);
      const float* from_dy = Inside(piece.dy, dy + i * batches_.size * shape_.y_image(), own);
      piece.conv.Run({{DNNL_ARG_SRC, piece.x.to(), from_x},
                      {DNNL_ARG_DIFF_DST, piece.dy.to(), from_dy},
                      {DNNL_ARG_DIFF_WEIGHTS, full_.dw, sums + i * size}});
    });
    if (direct) return;
    float* total = weights_.needed() ? sums : dw;
    for (int64_t k = 0; k < batches_.count; ++k) {
      const float* from = sums + k * size;
      if (k == 0 && total == sums) continue;
      if (k == 0) {
        std::copy(from, from + size, total);
        continue;
      }
      for (int64_t i = 0; i < size; ++i) total[i] += from[i];
    }
    if (weights_.needed()) weights_.Run(total, dw);
  }

 private:
  // Each piece costs a pass over the weights, so it must have enough places.
  static int64_t PiecesFor(const ConvShape& s) {
    constexpr int64_t kPlaces = 512;
    return std::clamp<int64_t>(s.batch * s.window.out_size() / kPlaces, 1,
                               opstep::PiecesFor(s.flops()));
  }

  struct Piece {
    DnnlPrimitive conv;
    DnnlReorder x, dy;
    DnnlDesc dw;

    Piece() = default;
    Piece(const Descs& d, const DnnlDesc& weights) {
      const dnnl::convolution_backward_weights::primitive_desc made(
          DnnlEngine(), dnnl::algorithm::convolution_direct, AnyFormat(d.x), weights,
          AnyFormat(d.y), d.stride, d.dilation, d.begin, d.end, Hint(d), DnnlAttr());
      conv = DnnlPrimitive(dnnl::convolution_backward_weights(made), made.scratchpad_desc());
      x = DnnlReorder(RowMajor(d.x, d.x_strides), made.src_desc());
      dy = DnnlReorder(RowMajor(d.y, d.y_strides), made.diff_dst_desc());
      dw = made.diff_weights_desc();
    }
  };

  const ConvShape shape_;
  const Batches batches_;
  Piece full_, rest_;
  DnnlReorder weights_;
};

}  // namespace

std::shared_ptr<const ConvForward> ConvForward::Make(const ConvShape& shape, bool bias,
                                                     const Tensor* w) {
  if (auto direct = MakeDirectConv(shape, w)) return direct;
  return TryMake<Forward>(shape, bias, w);
}

std::shared_ptr<const ConvBackData> ConvBackData::Make(const ConvShape& shape, const Tensor* w) {
  return TryMake<BackData>(shape, w);
}

std::shared_ptr<const ConvBackWeights> ConvBackWeights::Make(const ConvShape& shape) {
  return TryMake<BackWeights>(shape);
}

}  // namespace opstep
