// ImageSource: the files of folders and their labels.
#include "data/image_source.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/file.h"

namespace opstep {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSide = 1 << 14;
constexpr uint64_t kMaxFile = 256 << 20;

bool IsImage(const std::string& name) {
  std::string ending = name.substr(std::min(name.find_last_of('.'), name.size()));
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// Names in the folder that are not hidden, sorted by their bytes: of files or of folders.
std::vector<std::string> NamesIn(const std::string& path, bool folders) {
  std::error_code error;
  std::vector<std::string> names;
  OPSTEP_CHECK(path.find('\0') == std::string::npos, "cannot read ", Quoted(path),
               ": a path cannot hold a zero byte");
  fs::directory_iterator it(path, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code unknown;
    const bool fits = folders ? it->is_directory(unknown) : it->is_regular_file(unknown);
    if (fits && name[0] != '.') names.push_back(std::move(name));
  }
  OPSTEP_CHECK(!error, "cannot read the folder ", Quoted(path), ": ", error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::string ReadBytes(const std::string& path) {
  const InputFile file(path);
  OPSTEP_CHECK(file.size() <= kMaxFile, Quoted(path), " has ", file.size(), " bytes; at most ",
               kMaxFile, " are read as an image");
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  file.Read(0, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace

void ImageOptions::Check() const {
  const bool sized = height >= 1 && width >= 1 && height <= kMaxSide && width <= kMaxSide &&
                     height * width <= kMaxPixels;
  OPSTEP_CHECK(sized || (height == 0 && width == 0), "images cannot be resized to ", height, " × ",
               width, "; give height and width from 1 to ", kMaxSide, ", or neither");
  OPSTEP_CHECK(channels == 1 || channels == 3, "channels is ", channels,
               "; it must be 1 (gray) or 3 (red, green, blue)");
  OPSTEP_CHECK(dtype == DType::kFloat32 || dtype == DType::kUInt8, "dtype is ", NameOf(dtype),
               "; it must be float32 (from 0 to 1) or uint8");
  OPSTEP_CHECK(layout == "chw" || layout == "hwc", "layout is ", Quoted(layout),
               "; it must be 'chw' or 'hwc'");
  OPSTEP_CHECK(on_error == "fail" || on_error == "skip", "on_error is ", Quoted(on_error),
               "; it must be 'fail' or 'skip'");
  OPSTEP_CHECK(labels || classes.empty(), "classes are given for a folder without labels");
  std::set<std::string> seen;
  for (const std::string& name : classes) {
    const bool plain =
        !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
    OPSTEP_CHECK(plain, "classes holds ", Quoted(name), ", which is not the name of a sub-folder");
    OPSTEP_CHECK(seen.insert(name).second, "classes holds ", Quoted(name), " twice");
  }
}

ImageSource::ImageSource(const std::string& path, const ImageOptions& options)
    : options_((options.Check(), options)),
      layout_(options.layout == "chw" ? ImageLayout::kChw : ImageLayout::kHwc),
      skips_(options.on_error == "skip") {
  if (options.labels) {
    std::vector<std::string> classes = options.classes;
    if (classes.empty()) classes = NamesIn(path, true);
    OPSTEP_CHECK(!classes.empty(), Quoted(path), " has no sub-folders, one for each class; for ",
                 "images without a class say labels=False");
    for (size_t i = 0; i < classes.size(); ++i) {
      AddFolder(path + "/" + classes[i], static_cast<int64_t>(i));
    }
  } else {
    AddFolder(path, 0);
  }
  OPSTEP_CHECK(!files_.empty(), Quoted(path), " has no .png or .jpg files",
               options.labels ? " in its sub-folders" : "");
  size_ = options.height > 0 ? ImageSize{options.height, options.width} : FirstSize();
  const Dims dims = layout_ == ImageLayout::kChw
                        ? Dims{options.channels, size_.height, size_.width}
                        : Dims{size_.height, size_.width, options.channels};
  fields_.push_back({"image", {options.dtype, dims}});
  if (options.labels) fields_.push_back({"label", {DType::kInt64, {1}}});
}

void ImageSource::AddFolder(const std::string& path, int64_t label) {
  for (const std::string& name : NamesIn(path, false)) {
    if (IsImage(name)) files_.push_back({path + "/" + name, label});
  }
}

ImageSize ImageSource::FirstSize() const {
  for (const File& file : files_) {
    try {
      return ReadImageSize(ReadBytes(file.path), Quoted(file.path));
    } catch (const Error&) {
      if (!skips_) throw;
    }
  }
  Fail("none of the ", files_.size(), " images beside ", Quoted(files_[0].path), " can be decoded");
}

std::optional<Image> ImageSource::Decode(const File& file) {
  try {
    return DecodeImage(ReadBytes(file.path), static_cast<int>(options_.channels),
                       Quoted(file.path));
  } catch (const Error&) {
    if (!skips_) throw;
    ++left_out_;
    return std::nullopt;
  }
}

void ImageSource::Restart(uint64_t) {
  next_ = 0;
  left_out_ = 0;
}

bool ImageSource::Next(SourceRecord& record) {
  while (next_ < files_.size()) {
    const File& file = files_[next_++];
    const std::optional<Image> image = Decode(file);
    if (!image) continue;
    OPSTEP_CHECK(options_.height > 0 || image->size == size_, Quoted(file.path), " is ",
                 image->size.height, " × ", image->size.width, " pixels large but others are ",
                 size_.height, " × ", size_.width, "; give a height and a width for all");
    record.clear();
    PutImage(*image, layout_, record.emplace_back(Tensor::Allocate(fields_[0].type)));
    if (options_.labels) {
      *record.emplace_back(Tensor::Allocate(fields_[1].type)).as<int64_t>() = file.label;
    }
    return true;
  }
  return false;
}

uint64_t ImageSource::Skip(uint64_t count) {
  if (skips_) return Source::Skip(count);
  const uint64_t skipped = std::min<uint64_t>(count, files_.size() - next_);
  next_ += static_cast<size_t>(skipped);
  return skipped;
}

}  // namespace opstep
