// Unix sockets and the descriptors that own them.
#pragma once

#include <string>
#include <utility>

namespace opstep {

// A descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Both at a unix socket's path, never blocking and not inherited by other programs. Without success
// the descriptor is empty; `why` gets a sentence.
Descriptor ListenAt(const std::string& path);
Descriptor ConnectTo(const std::string& path, std::string* why);

}  // namespace opstep
