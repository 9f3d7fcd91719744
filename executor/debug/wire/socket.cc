// Unix sockets: listening and connecting without blocking.
#include "debug/wire/socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace opstep {
namespace {

bool SetPath(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof address->sun_path) return false;
  std::memcpy(address->sun_path, path.c_str(), path.size());
  return true;
}

Descriptor NewSocket() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor ListenAt(const std::string& path) {
  sockaddr_un address;
  if (!SetPath(path, &address)) return Descriptor();
  Descriptor socket = NewSocket();
  // A socket that is already there belonged to a dead process with our id.
  ::unlink(path.c_str());
  const auto* named = reinterpret_cast<const sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), named, sizeof address) != 0) return Descriptor();
  ::chmod(path.c_str(), 0600);
  return ::listen(socket.get(), 128) == 0 ? std::move(socket) : Descriptor();
}

Descriptor ConnectTo(const std::string& path, std::string* why) {
  sockaddr_un address;
  if (!SetPath(path, &address)) {
    *why = Cat("the path of the debug server's socket is too long: ", path);
    return Descriptor();
  }
  Descriptor socket = NewSocket();
  const auto* named = reinterpret_cast<const sockaddr*>(&address);
  if (socket && ::connect(socket.get(), named, sizeof address) == 0) return socket;
  *why = Cat("there is no debug server at ", path, ": ", std::strerror(errno));
  return Descriptor();
}

}  // namespace opstep
