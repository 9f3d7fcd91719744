// Unix sockets and the descriptors that own them.
#pragma once

#include <string>
#include <utility>

namespace opstep {

// A descriptor that its owner closes.
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

// Both work at a unix socket's path, never block and are not inherited by other programs. On
// failure the descriptor is empty; `why` gets a sentence.
Descriptor ListenAt(const std::string& path);
Descriptor ConnectTo(const std::string& path, std::string* why);

}  // namespace opstep
