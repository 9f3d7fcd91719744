// A convolution in row-major tensors, written with AVX2: tiles of 6 places by 16 channels.
#include "ops/nn/conv_direct.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ops/lib/scratch.h"
#include "ops/lib/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace opstep {
namespace {

// A tile is 6 places of Y by 16 channels: 12 vectors of sums, which with the values of a step fill
// all registers. X is read one number at a time, so that strides and dilations do not matter, and
// the places need not be in one row.
constexpr int kPlaces = 6;
constexpr int kChannels = 16;
// This number of places gives whole tiles, and whole blocks when they are transposed.
constexpr int kGroup = 24;

// sums[place][channel] = bias[channel] + the products of n taps. X of a tap is at x + place + tap,
// its weights are the next 16 of w.
[[gnu::target("avx2,fma")]] void Tile(const float* x, const int32_t* places, const int32_t* taps,
                                      int64_t n, const float* w, const float* bias, float* sums) {
  __m256 sum[kPlaces][2];
  const float* from[kPlaces];
#pragma GCC unroll 6
  for (int i = 0; i < kPlaces; ++i) {
    sum[i][0] = _mm256_loadu_ps(bias);
    sum[i][1] = _mm256_loadu_ps(bias + 8);
    from[i] = x + places[i];
    asm("" : "+r"(from[i]));  // or the compiler adds x again in each step
  }
  for (int64_t k = 0; k < n; ++k, w += kChannels) {
    const int64_t tap = taps[k];
    const __m256 w0 = _mm256_loadu_ps(w);
    const __m256 w1 = _mm256_loadu_ps(w + 8);
#pragma GCC unroll 6
    for (int i = 0; i < kPlaces; ++i) {
      const __m256 value = _mm256_broadcast_ss(from[i] + tap);
      sum[i][0] = _mm256_fmadd_ps(value, w0, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(value, w1, sum[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kPlaces; ++i) {
    _mm256_storeu_ps(sums + i * kChannels, sum[i][0]);
    _mm256_storeu_ps(sums + i * kChannels + 8, sum[i][1]);
  }
}

// An 8x8 block: rows of `from` become columns of `to`.
[[gnu::target("avx2")]] void Transpose8(const float* from, int64_t from_step, float* to,
                                        int64_t to_step) {
  __m256 a[8], b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const float* row = from + i * from_step;
    const float* low = row + 4 * from_step;
    a[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row)), _mm_loadu_ps(low), 1);
    a[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row + 4)),
                                    _mm_loadu_ps(low + 4), 1);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 8; h += 4) {
    b[h] = _mm256_unpacklo_ps(a[h], a[h + 1]);
    b[h + 1] = _mm256_unpackhi_ps(a[h], a[h + 1]);
    b[h + 2] = _mm256_unpacklo_ps(a[h + 2], a[h + 3]);
    b[h + 3] = _mm256_unpackhi_ps(a[h + 2], a[h + 3]);
    _mm256_storeu_ps(to + h * to_step, _mm256_shuffle_ps(b[h], b[h + 2], 0x44));
    _mm256_storeu_ps(to + (h + 1) * to_step, _mm256_shuffle_ps(b[h], b[h + 2], 0xee));
    _mm256_storeu_ps(to + (h + 2) * to_step, _mm256_shuffle_ps(b[h + 1], b[h + 3], 0x44));
    _mm256_storeu_ps(to + (h + 3) * to_step, _mm256_shuffle_ps(b[h + 1], b[h + 3], 0xee));
  }
}

// `to` is `from` [rows, cols] transposed; cols are a multiple of 8, steps are between rows.
void Transpose(const float* from, int64_t rows, int64_t cols, int64_t from_step, float* to,
               int64_t to_step) {
  for (int64_t j = 0; j < cols; j += 8) {
    int64_t i = 0;
    for (; i + 8 <= rows; i += 8) {
      Transpose8(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
    }
    for (; i < rows; ++i) {
      for (int64_t k = j; k < j + 8; ++k) to[k * to_step + i] = from[i * from_step + k];
    }
  }
}

// `size` numbers of a padded row, every `step`th, the first at `first`, which may be in the
// padding.
void CopyRow(const float* row, int64_t length, int64_t first, int64_t step, float* to,
             int64_t size) {
  const int64_t begin = std::clamp<int64_t>((-first + step - 1) / step, 0, size);
  const int64_t end = std::clamp<int64_t>((length - first + step - 1) / step, begin, size);
  std::fill(to, to + begin, 0.0f);
  const float* from = row + first;
  if (step == 1) {
    std::copy(from + begin, from + end, to + begin);
  } else if (step == 2) {
    for (int64_t i = begin; i < end; ++i) to[i] = from[2 * i];
  } else {
    for (int64_t i = begin; i < end; ++i) to[i] = from[step * i];
  }
  std::fill(to + end, to + size, 0.0f);
}

class Direct : public ConvForward {
 public:
  Direct(const ConvShape& s, const Tensor* w) : shape_(s) {
    const Window& window = s.window;
    for (int i = 0; i < 2; ++i) {
      // For a window of one tap, skipped elements are not copied.
      skip_[i] = window.kernel[i + 1] == 1 ? window.stride[i + 1] : 1;
      step_[i] = window.stride[i + 1] / skip_[i];
    }
    const int64_t width = window.out[2];
    copy_width_ = (width - 1) * step_[1] + window.reach(2);
    copy_row_ = s.in_channels * copy_width_;
    pieces_ = PiecesOfImage();
    for (int64_t i = 0; i < Ceil(window.out[1], pieces_) * step_[0]; i += step_[0]) {
      for (int64_t j = 0; j < width; ++j) {
        places_.push_back(static_cast<int32_t>(i * copy_row_ + j * step_[1]));
      }
    }
    for (int64_t c = 0; c < s.in_channels; ++c) {
      for (int64_t i = 0; i < window.kernel[1]; ++i) {
        for (int64_t j = 0; j < window.kernel[2]; ++j) {
          const int64_t row = i * window.dilation[1] * copy_row_;
          taps_.push_back(static_cast<int32_t>(row + c * copy_width_ + j * window.dilation[2]));
        }
      }
    }
    // A narrow dtype is widened at each run.
    if (w == nullptr || w->dtype != DType::kFloat32) return;
    known_ = AllocateAligned(s.weights() * sizeof(float));
    known_from_ = w->as<float>();
    Pack(known_from_, static_cast<float*>(known_.get()));
  }

  void Run(const float* x, const float* w, const float* b, float* y) const override {
    Scratch scratch;
    const float* packed = static_cast<const float*>(known_.get());
    // A debugger may have changed the run's weights.
    if (packed == nullptr || w != known_from_) {
      float* to = scratch.Take<float>(shape_.weights());
      Pack(w, to);
      packed = to;
    }
    if (b == nullptr) {
      float* zeros = scratch.Take<float>(shape_.out_channels);
      std::fill_n(zeros, shape_.out_channels, 0.0f);
      b = zeros;
    }
    ParallelFor(shape_.batch * pieces_, [&](int64_t piece) {
      const int64_t image = piece / pieces_;
      const int64_t height = shape_.window.out[1];
      const int64_t first = height * (piece % pieces_) / pieces_;
      const int64_t end = height * (piece % pieces_ + 1) / pieces_;
      RunPiece(x + image * shape_.x_image(), packed, b, first, end - first,
               y + image * shape_.y_image());
    });
  }

 private:
  static int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
  int64_t taps() const { return static_cast<int64_t>(taps_.size()); }

  // Enough pieces for the threads, and small enough that a piece's part of X fits into a core's
  // cache.
  int64_t PiecesOfImage() const {
    constexpr int64_t kCopy = 1 << 16;
    const int64_t height = shape_.window.out[1];
    const int64_t room = kCopy / copy_row_ - shape_.window.reach(1);
    const int64_t rows = room < 0 ? 1 : room / step_[0] + 1;
    const int64_t wanted = Ceil(shape_.flops() < 8e6 ? 1 : 4, shape_.batch);
    return std::min(height, std::max(wanted, Ceil(height, rows)));
  }

  // W as [block of channels, tap, channel].
  void Pack(const float* w, float* to) const {
    ParallelFor(shape_.out_channels / kChannels, [&](int64_t block) {
      const float* from = w + block * kChannels * taps();
      float* into = to + block * kChannels * taps();
      const int64_t blocks_end = taps() / 8 * 8;
      Transpose(from, kChannels, blocks_end, taps(), into, kChannels);
      for (int64_t k = blocks_end; k < taps(); ++k) {
        for (int64_t c = 0; c < kChannels; ++c) into[k * kChannels + c] = from[c * taps() + k];
      }
    });
  }

  // Rows [first, first + rows) of one image's Y.
  void RunPiece(const float* x, const float* w, const float* b, int64_t first, int64_t rows,
                float* y) const {
    Scratch scratch;
    const float* copy = CopyX(x, first, rows, scratch);
    const int64_t size = rows * shape_.window.out[2];
    const int64_t plane = shape_.window.out_size();
    y += first * shape_.window.out[2];
    alignas(32) float sums[kGroup * kChannels];
    for (int64_t c = 0; c < shape_.out_channels; c += kChannels) {
      for (int64_t group = 0; group < size; group += kGroup) {
        const int64_t places = std::min<int64_t>(kGroup, size - group);
        for (int64_t i = 0; i < places; i += kPlaces) {
          const int32_t* at = places_.data() + group + i;
          std::array<int32_t, kPlaces> last;
          if (i + kPlaces > places) {
            // The last tile is filled up with existing places, computed again.
            for (int k = 0; k < kPlaces; ++k) last[k] = at[std::min<int64_t>(k, places - i - 1)];
            at = last.data();
          }
          Tile(copy, at, taps_.data(), taps(), w + c * taps(), b + c, sums + i * kChannels);
        }
        Transpose(sums, places, kChannels, kChannels, y + c * plane + group, plane);
      }
    }
  }

  // The part of X that rows [first, first + rows) of Y need, with padding, as [row, channel,
  // column].
  const float* CopyX(const float* x, int64_t first, int64_t rows, Scratch& scratch) const {
    const Window& w = shape_.window;
    const int64_t size = (rows - 1) * step_[0] + w.reach(1);
    const int64_t begin = first * w.stride[1] - w.begin[1];
    float* copy = scratch.Take<float>(size * copy_row_);
    for (int64_t c = 0; c < shape_.in_channels; ++c) {
      const float* from = x + c * w.in_size();
      for (int64_t i = 0; i < size; ++i) {
        const int64_t row = begin + i * skip_[0];
        float* to = copy + i * copy_row_ + c * copy_width_;
        if (row < 0 || row >= w.in[1]) {
          std::fill_n(to, copy_width_, 0.0f);
        } else {
          CopyRow(from + row * w.in[2], w.in[2], -w.begin[2], skip_[1], to, copy_width_);
        }
      }
    }
    return copy;
  }

  const ConvShape shape_;
  std::array<int64_t, 2> skip_, step_;  // of the copy in X, and of places in the copy
  int64_t copy_width_, copy_row_;       // a row has all channels
  int64_t pieces_;                      // pieces of an image, each some rows of Y
  std::vector<int32_t> places_, taps_;  // in the copy
  std::shared_ptr<void> known_;
  const float* known_from_ = nullptr;
};

// Where it is faster than oneDNN, by measurement. oneDNN is better with wider vectors, with weights
// that fill the cache and for small images.
bool Suits(const ConvShape& s) {
  static const bool machine = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                              !__builtin_cpu_supports("avx512f");
  if (!machine || s.groups > 1 || s.rank > 2 || s.out_channels % kChannels != 0) return false;
  if (s.batch == 0 || s.weights() == 0 || s.weights() > 100'000) return false;
  const Window& w = s.window;
  if (w.out_size() < (w.taps() == 1 ? 128 : 512)) return false;
  // A piece has whole rows, and their copy should stay in a cache.
  const double width = static_cast<double>(w.out[2]) * w.stride[2] + w.reach(2);
  return width * w.reach(1) * s.in_channels < 1 << 18;
}

}  // namespace

std::shared_ptr<const ConvForward> MakeDirectConv(const ConvShape& shape, const Tensor* w) {
  if (!Suits(shape)) return nullptr;
  return std::make_shared<const Direct>(shape, w);
}

}  // namespace opstep

#else

namespace opstep {

std::shared_ptr<const ConvForward> MakeDirectConv(const ConvShape&, const Tensor*) {
  return nullptr;
}

}  // namespace opstep

#endif
