// Decodes PNG and JPEG.
#include "data/image_decode.h"

#include <png.h>
#include <turbojpeg.h>

#include <memory>

#include "base/error.h"

namespace opstep {
namespace {

constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegStart = "\xff\xd8\xff";

void CheckSize(const ImageSize& size, const std::string& what) {
  OPSTEP_CHECK(size.height > 0 && size.width > 0, what, " is damaged: it claims to have no pixels");
  OPSTEP_CHECK(size.width <= kMaxPixels / size.height, what, " claims to be ", size.height, " × ",
               size.width, " pixels large; at most ", kMaxPixels, " are read");
}

uint8_t Gray(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

// From gray, gray and alpha, RGB or RGBA.
std::vector<uint8_t> Converted(std::vector<uint8_t> from, int had, int channels) {
  if (had == channels) return from;
  const size_t pixels = from.size() / static_cast<size_t>(had);
  std::vector<uint8_t> to(pixels * static_cast<size_t>(channels));
  const uint8_t* in = from.data();
  for (uint8_t* out = to.data(); out != to.data() + to.size(); out += channels, in += had) {
    for (int c = 0; c < channels; ++c) {
      out[c] = had <= 2 ? in[0] : channels == 1 ? Gray(in) : in[c];
    }
  }
  return to;
}

// Freed also when the constructor of its owner fails.
struct PngState : png_image {
  PngState() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~PngState() { png_image_free(this); }
  PngState(const PngState&) = delete;
};

class Png {
 public:
  Png(std::string_view bytes, const std::string& what) : what_(what) {
    Check(png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()));
    // Without it 16 bits would be read as linear light.
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    CheckSize(size(), what);
  }

  ImageSize size() const { return {image_.height, image_.width}; }

  std::vector<uint8_t> Decode(int channels) {
    const bool color = (image_.format & PNG_FORMAT_FLAG_COLOR) != 0;
    const bool alpha = (image_.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    image_.format = color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    if (alpha) image_.format |= PNG_FORMAT_FLAG_ALPHA;
    std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image_));
    Check(png_image_finish_read(&image_, nullptr, pixels.data(), 0, nullptr));
    return Converted(std::move(pixels), (color ? 3 : 1) + alpha, channels);
  }

 private:
  void Check(int result) const {
    OPSTEP_CHECK(result != 0, what_, " is a damaged PNG: ", image_.message);
  }

  const std::string& what_;
  PngState image_;
};

class Jpeg {
 public:
  Jpeg(std::string_view bytes, const std::string& what)
      : bytes_(bytes), what_(what), handle_(tjInitDecompress(), &tjDestroy) {
    OPSTEP_CHECK(handle_, what, " cannot be decoded: there is not enough memory");
    int subsampling = 0;
    Check(tjDecompressHeader3(handle_.get(), data(), bytes.size(), &width_, &height_, &subsampling,
                              &colors_));
    CheckSize(size(), what);
  }

  ImageSize size() const { return {height_, width_}; }

  std::vector<uint8_t> Decode(int channels) {
    if (colors_ == TJCS_CMYK || colors_ == TJCS_YCCK) {
      return Converted(FromInks(Pixels(TJPF_CMYK, 4)), 3, channels);
    }
    return Pixels(channels == 1 ? TJPF_GRAY : TJPF_RGB, channels);
  }

 private:
  std::vector<uint8_t> Pixels(int format, int channels) {
    std::vector<uint8_t> pixels(static_cast<size_t>(width_) * static_cast<size_t>(height_) *
                                static_cast<size_t>(channels));
    // Scans without end would take hours. A file that was cut is only a warning by default.
    Check(tjDecompress2(handle_.get(), data(), bytes_.size(), pixels.data(), width_, 0, height_,
                        format, TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS | TJFLAG_ACCURATEDCT));
    return pixels;
  }

  // Files hold inverted inks: 255 is no ink.
  static std::vector<uint8_t> FromInks(const std::vector<uint8_t>& inks) {
    std::vector<uint8_t> rgb;
    rgb.reserve(inks.size() / 4 * 3);
    for (size_t i = 0; i < inks.size(); i += 4) {
      for (size_t c = 0; c < 3; ++c) {
        rgb.push_back(static_cast<uint8_t>((inks[i + c] * inks[i + 3] + 127) / 255));
      }
    }
    return rgb;
  }

  void Check(int result) const {
    OPSTEP_CHECK(result == 0, what_, " is a damaged JPEG: ", tjGetErrorStr2(handle_.get()));
  }
  const unsigned char* data() const {
    return reinterpret_cast<const unsigned char*>(bytes_.data());
  }

  const std::string_view bytes_;
  const std::string& what_;
  const std::unique_ptr<void, int (*)(void*)> handle_;
  int width_ = 0;
  int height_ = 0;
  int colors_ = 0;
};

// Calls f with a decoder for the kind of the bytes.
template <typename F>
auto WithDecoder(std::string_view bytes, const std::string& what, F&& f) {
  if (bytes.starts_with(kPngStart)) {
    Png image(bytes, what);
    return f(image);
  }
  OPSTEP_CHECK(bytes.starts_with(kJpegStart), what, " is neither a PNG nor a JPEG");
  Jpeg image(bytes, what);
  return f(image);
}

}  // namespace

ImageSize ReadImageSize(std::string_view bytes, const std::string& what) {
  return WithDecoder(bytes, what, [](auto& image) { return image.size(); });
}

Image DecodeImage(std::string_view bytes, int channels, const std::string& what) {
  return WithDecoder(bytes, what, [&](auto& image) {
    return Image{image.size(), channels, image.Decode(channels)};
  });
}

}  // namespace opstep
