// ZipFile and ZipReader: zip archives, with checks against damaged files.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace opstep {

// A zip archive as its directory describes it, also zip64: every place and size is checked against
// the file before it is used. Errors name the file.
class ZipFile {
 public:
  struct Member {
    std::string name;
    uint64_t size = 0;    // unpacked
    uint64_t stored = 0;  // in the file
    uint64_t offset = 0;  // of its own header
    uint32_t sum = 0;     // CRC-32 of the unpacked data
    uint16_t method = 0;
    uint16_t flags = 0;
  };

  explicit ZipFile(const std::string& path);

  const InputFile& file() const { return file_; }
  // In the directory's order; names are unique.
  const std::vector<Member>& members() const { return members_; }
  // Null when there is none of that name.
  const Member* Find(std::string_view name) const;

 private:
  [[noreturn]] void Bad(std::string_view what) const;
  void ReadDirectory(uint64_t offset, uint64_t bytes, uint64_t count);
  Member ParseMember(std::string_view& directory) const;

  const InputFile file_;
  std::vector<Member> members_;
};

// Unpacks a member from its start to its end; the archive must live longer.
class ZipReader {
 public:
  ZipReader(const ZipFile& zip, const ZipFile::Member& member);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;

  // "member 'x.npy' of 'a.npz'": begins error sentences.
  const std::string& what() const { return what_; }
  // The next bytes; the last one also checks the checksum. The caller asks for no more than the
  // member's size in all.
  void Read(void* to, size_t bytes);

 private:
  void Inflate(void* to, size_t bytes);
  // The next packed bytes, into the buffer.
  size_t Refill();

  const InputFile& file_;
  const ZipFile::Member& member_;
  const std::string what_;
  uint64_t at_ = 0;    // in the file
  uint64_t left_ = 0;  // packed bytes that were not read yet
  uint64_t done_ = 0;  // unpacked bytes
  uint32_t sum_ = 0;
  bool inflating_ = false;
  z_stream stream_ = {};
  std::vector<char> buffer_;
};

}  // namespace opstep
