// Resizes an image into a tensor, bilinearly.
#include "data/image_resize.h"

#include <algorithm>
#include <cmath>

namespace opstep {
namespace {

// The pixels, from `first` on, that form each place along one axis, with their weights.
struct Axis {
  struct Place {
    int64_t first = 0;
    size_t begin = 0;  // of its weights
    size_t end = 0;
  };
  std::vector<Place> places;
  std::vector<float> weights;
};

// A triangle around the place's centre, as wide as two pixels of the coarser side.
Axis MakeAxis(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double radius = std::max(scale, 1.0);
  Axis axis;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, std::llround(center - radius - 0.5));
    const auto last = std::min<int64_t>(from - 1, std::llround(center + radius - 0.5));
    const size_t begin = axis.weights.size();
    double sum = 0;
    for (int64_t k = first; k <= last; ++k) {
      const double distance = std::fabs(static_cast<double>(k) + 0.5 - center) / radius;
      const double weight = std::max(0.0, 1.0 - distance);
      axis.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (size_t w = begin; w < axis.weights.size(); ++w) {
      axis.weights[w] = static_cast<float>(axis.weights[w] / sum);
    }
    axis.places.push_back({first, begin, axis.weights.size()});
  }
  return axis;
}

void Put(float value, uint8_t& to) {
  to = static_cast<uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}
void Put(float value, float& to) { to = value / 255.0f; }

// The places of an image's elements in the tensor.
struct Steps {
  int64_t row, pixel, channel;
};

template <typename T>
void Copy(const Image& image, const Steps& steps, T* to) {
  const uint8_t* from = image.pixels.data();
  for (int64_t y = 0; y < image.size.height; ++y) {
    for (int64_t x = 0; x < image.size.width; ++x) {
      for (int c = 0; c < image.channels; ++c) {
        Put(*from++, to[y * steps.row + x * steps.pixel + c * steps.channel]);
      }
    }
  }
}

template <typename T>
void Resize(const Image& image, ImageSize size, const Steps& steps, T* to) {
  const Axis rows = MakeAxis(image.size.height, size.height);
  const Axis pixels = MakeAxis(image.size.width, size.width);
  const auto channels = static_cast<size_t>(image.channels);
  const size_t width = static_cast<size_t>(image.size.width) * channels;
  // A row of the result, still in the width of the image.
  std::vector<float> wide(width);
  for (int64_t y = 0; y < size.height; ++y) {
    const Axis::Place& row = rows.places[static_cast<size_t>(y)];
    std::fill(wide.begin(), wide.end(), 0.0f);
    const uint8_t* from = image.pixels.data() + static_cast<size_t>(row.first) * width;
    for (size_t w = row.begin; w < row.end; ++w, from += width) {
      const float weight = rows.weights[w];
      for (size_t i = 0; i < width; ++i) wide[i] += weight * static_cast<float>(from[i]);
    }
    for (int64_t x = 0; x < size.width; ++x) {
      const Axis::Place& pixel = pixels.places[static_cast<size_t>(x)];
      for (size_t c = 0; c < channels; ++c) {
        float sum = 0;
        const float* in = wide.data() + static_cast<size_t>(pixel.first) * channels + c;
        for (size_t w = pixel.begin; w < pixel.end; ++w, in += channels) {
          sum += pixels.weights[w] * *in;
        }
        Put(sum, to[y * steps.row + x * steps.pixel + static_cast<int64_t>(c) * steps.channel]);
      }
    }
  }
}

}  // namespace

void PutImage(const Image& image, ImageLayout layout, Tensor& to) {
  const bool planes = layout == ImageLayout::kChw;
  const ImageSize size{to.dims[planes ? 1 : 0], to.dims[planes ? 2 : 1]};
  const int64_t channels = image.channels;
  const Steps steps = planes ? Steps{size.width, 1, size.height * size.width}
                             : Steps{size.width * channels, channels, 1};
  const auto put = [&](auto* data) {
    if (image.size == size) {
      Copy(image, steps, data);
    } else {
      Resize(image, size, steps, data);
    }
  };
  if (to.dtype == DType::kUInt8) {
    put(to.as<uint8_t>());
  } else {
    put(to.as<float>());
  }
}

}  // namespace opstep
