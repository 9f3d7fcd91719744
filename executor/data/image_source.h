// ImageSource: records from folders of images.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/image_resize.h"
#include "data/source.h"

namespace opstep {

struct ImageOptions {
  // A sub-folder for each class, or else all images in the folder itself.
  bool labels = true;
  // The sub-folders in the order of their labels; all of them by name when it is empty.
  std::vector<std::string> classes;
  // 0: the size of the images, which must then be the same for all.
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;
  DType dtype = DType::kFloat32;
  std::string layout = "chw";
  // "skip" leaves out images that cannot be decoded.
  std::string on_error = "fail";

  // Checks the options, without the files.
  void Check() const;
};

// Files .png, .jpg and .jpeg of a folder: fields `image` and, with labels, `label`. In the order of
// labels, then of names.
class ImageSource : public Source {
 public:
  ImageSource(const std::string& path, const ImageOptions& options);

  const std::vector<SourceField>& fields() const override { return fields_; }
  void Restart(uint64_t pass) override;
  bool Next(SourceRecord& record) override;
  // Decodes only when necessary, to find the images to leave out.
  uint64_t Skip(uint64_t count) override;
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  uint64_t left_out() const override { return left_out_; }

 private:
  struct File {
    std::string path;
    int64_t label = 0;
  };

  void AddFolder(const std::string& path, int64_t label);
  // The size of the first image that has one.
  ImageSize FirstSize() const;
  // None when it is damaged and may be left out.
  std::optional<Image> Decode(const File& file);

  const ImageOptions options_;
  const ImageLayout layout_;
  const bool skips_;
  std::vector<File> files_;
  std::vector<SourceField> fields_;
  ImageSize size_;
  size_t next_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace opstep
