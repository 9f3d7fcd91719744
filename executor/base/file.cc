// Files: reading, and writing to a temporary file that is moved into place.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"

namespace opstep {
namespace {

constexpr size_t kShown = 120;
// Linux moves at most 2 GB with one call.
constexpr size_t kChunk = size_t{1} << 30;

std::string Reason(int error) {
  char text[128];
  return strerror_r(error, text, sizeof(text));
}

std::string_view Kind(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a directory";
  return "it is not a regular file";
}

std::string Folder(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Where a link leads, so that writing changes the file and not the link.
std::string Resolve(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result = real;
  std::free(real);
  return result;
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string out = "'";
  while (!text.empty() && out.size() <= kShown) {
    const auto c = static_cast<unsigned char>(text[0]);
    const size_t length = c < 0x20 || c == 0x7f ? 0 : Utf8Length(text);
    if (length == 0) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
    out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + (text.empty() ? "'" : "…'");
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  const auto cannot = [this](std::string_view why) {
    Fail("cannot read ", Quoted(path_), ": ", why);
  };
  if (path_.find('\0') != std::string::npos) cannot("a path cannot hold a zero byte");
  // O_NONBLOCK: a pipe must not block us.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) cannot(Reason(errno));
  struct stat info = {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    cannot(Kind(info.st_mode));
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::Read(uint64_t offset, void* to, size_t bytes) const {
  char* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, next, std::min(bytes, kChunk), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail("cannot read ", Quoted(path_), ": ", Reason(errno));
    // The file was longer a moment ago.
    if (got == 0) Fail("cannot read ", Quoted(path_), ": it was cut while it was read");
    next += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
}

OutputFile::OutputFile(const std::string& path, bool overwrite)
    : shown_(Quoted(path)), target_(Resolve(path)), overwrite_(overwrite) {
  static std::atomic<uint64_t> number{0};
  OPSTEP_CHECK(!path.empty(), "cannot write a file without a path");
  OPSTEP_CHECK(path.find('\0') == std::string::npos, "cannot write ", shown_,
               ": a path cannot hold a zero byte");
  struct stat info;
  const bool there = ::stat(target_.c_str(), &info) == 0;
  OPSTEP_CHECK(!there || S_ISREG(info.st_mode), "cannot write ", shown_, ": ", Kind(info.st_mode));
  OPSTEP_CHECK(!there || overwrite, "cannot write ", shown_,
               ": it exists already and may not be overwritten");
  const std::string folder = Folder(target_);
  OPSTEP_CHECK(IsFolder(folder), "cannot write ", shown_, ": there is no directory ",
               Quoted(folder));
  do {
    temporary_ = Cat(folder, "/.opstep-", ::getpid(), "-", number++, ".tmp");
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) Failed(errno);
  // Keeps the permissions of the old file. A failure to set them is no reason to lose the data.
  if (there && ::fchmod(fd_, info.st_mode & 07777) != 0) errno = 0;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::Failed(int error) const { Fail("cannot write ", shown_, ": ", Reason(error)); }

void OutputFile::Write(const void* from, size_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::write(fd_, next, std::min(bytes, kChunk));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) Failed(errno);
    next += put;
    bytes -= static_cast<size_t>(put);
  }
}

void OutputFile::Commit() {
  if (::fsync(fd_) != 0) Failed(errno);
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) Failed(errno);
  if (overwrite_) {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) Failed(errno);
    temporary_.clear();
  } else if (::link(temporary_.c_str(), target_.c_str()) != 0) {
    Failed(errno);  // another process may have been first
  }
  // The move itself must outlast a power cut too, if the directory can be synced.
  const int folder = ::open(Folder(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

}  // namespace opstep
