// Image, and decoding of PNG and JPEG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opstep {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

// Rows from the top, pixels from the left, the channels of a pixel side by side.
struct Image {
  ImageSize size;
  int channels = 0;
  std::vector<uint8_t> pixels;
};

// The limit of pixels, so that no file makes a reader take more memory.
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

// PNG or JPEG, with any file name. A damaged or too large image is an error; `what` begins its
// sentence.
ImageSize ReadImageSize(std::string_view bytes, const std::string& what);
// 1 channel is gray (ITU-R 601), 3 are red, green, blue. Transparency is dropped.
Image DecodeImage(std::string_view bytes, int channels, const std::string& what);

}  // namespace opstep
