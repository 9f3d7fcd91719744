// InputFile and OutputFile: files that are read, and files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace opstep {

// "'w.npy'" for error sentences: unprintable characters are escaped, long text is cut.
std::string Quoted(std::string_view text);

// A regular file to read. Errors name the file.
class InputFile {
 public:
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // The caller has checked that the bytes are within size().
  void Read(uint64_t offset, void* to, size_t bytes) const;

 private:
  const std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// A file that appears whole or not at all: it is written beside its place and moved there by
// Commit. Until then, and when anything fails, the old file stays.
class OutputFile {
 public:
  // Without `overwrite` a file that exists already is an error.
  OutputFile(const std::string& path, bool overwrite);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;

  void Write(const void* from, size_t bytes);
  void Write(std::string_view text) { Write(text.data(), text.size()); }
  void Commit();

 private:
  [[noreturn]] void Failed(int error) const;

  const std::string shown_;
  std::string target_;
  std::string temporary_;
  const bool overwrite_;
  int fd_ = -1;
};

}  // namespace opstep
