#include "debug/doorbell.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "debug/socket.h"

namespace opstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{1000};
constexpr size_t kMaxLine = 512;

struct Bell {
  AgentOptions options;
  std::string path;
  Descriptor listener;
  Descriptor closing;  // readable when the bell is to end
  std::thread thread;

  void Run();
  void Serve(int caller);
  std::string Answer(const std::string& line);
  // Until the descriptor is ready; false when the time is over or the bell is to end.
  bool Await(int descriptor, short events, Clock::time_point until);
};

// Another one in a forked child: somebody may have held the parent's.
std::atomic<std::mutex*> bell_mutex{new std::mutex};
// Never destroyed but by DoorbellClose.
std::atomic<Bell*> the_bell{nullptr};
std::atomic<bool> opened{false};
// Set in a forked child whose parent has a bell.
std::atomic<Bell*> of_parent{nullptr};

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (code < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool IsPrivate(const std::string& folder) {
  struct stat status;
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
}

// The folder of this user's doorbells, made if need be; empty when there can be none.
std::string Folder() {
  std::vector<std::string> places;
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime == '/') {
    places.push_back(std::string(runtime) + "/opstep");
  }
  places.push_back(Cat("/tmp/opstep-", ::geteuid()));
  for (const std::string& place : places) {
    ::mkdir(place.c_str(), 0700);
    if (IsPrivate(place)) return place;
  }
  return "";
}

bool IsOurUser(int caller) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(caller, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace

bool Bell::Await(int descriptor, short events, Clock::time_point until) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready[] = {{descriptor, events, 0}, {closing.get(), POLLIN, 0}};
    const int count = ::poll(ready, 2, static_cast<int>(left));
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) return ready[1].revents == 0;
  }
}

void Bell::Run() {
  while (true) {
    pollfd ready[] = {{listener.get(), POLLIN, 0}, {closing.get(), POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    if ((ready[0].revents & POLLIN) == 0) continue;
    const Descriptor caller(
        ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (caller) {
      Serve(caller.get());
    } else if (errno == EMFILE || errno == ENFILE) {
      // The process has no descriptor to spare: look again later, not at once.
      Await(closing.get(), POLLIN, Clock::now() + kPatience);
    }
  }
}

void Bell::Serve(int caller) {
  if (!IsOurUser(caller)) return;
  const Clock::time_point until = Clock::now() + kPatience;
  std::string line;
  while (line.find('\n') == std::string::npos) {
    char bytes[kMaxLine];
    if (line.size() >= kMaxLine || !Await(caller, POLLIN, until)) return;
    const ssize_t count = ::recv(caller, bytes, kMaxLine - line.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (count > 0) line.append(bytes, static_cast<size_t>(count));
  }
  const std::string answer = Answer(line.substr(0, line.find('\n'))) + "\n";
  for (size_t sent = 0; sent < answer.size();) {
    if (!Await(caller, POLLOUT, until)) return;
    const ssize_t count = ::send(caller, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return;
    if (count > 0) sent += static_cast<size_t>(count);
  }
}

std::string Bell::Answer(const std::string& line) {
  try {
    if (line == "who") {
      const AgentState state = DebugState();
      std::string argv;
      for (const std::string& word : options.argv) {
        argv += (argv.empty() ? "" : ", ") + Quoted(word.substr(0, 1000));
        if (argv.size() > 8000) break;
      }
      return Cat("{\"pid\": ", ::getpid(), ", \"argv\": [", argv,
                 "], \"policy\": ", Quoted(state.policy.empty() ? options.policy : state.policy),
                 ", \"attached\": ", state.attached ? "true" : "false",
                 ", \"server\": ", Quoted(state.server), "}");
    }
    OPSTEP_CHECK(line.rfind("ring ", 0) == 0, "a doorbell knows 'who' and 'ring unix:/path'");
    DebugRing(line.substr(5), options);
    return "{}";
  } catch (const std::exception& error) {
    return "{\"error\": " + Quoted(error.what()) + "}";
  }
}

void DoorbellOpen(AgentOptions options) {
  std::lock_guard lock(*bell_mutex.load());
  if (opened) return;
  opened = true;
  const std::string folder = Folder();
  if (folder.empty()) return;
  auto bell = std::make_unique<Bell>();
  bell->options = std::move(options);
  bell->path = Cat(folder, "/", ::getpid());
  bell->closing = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bell->listener = ListenAt(bell->path);
  if (!bell->closing || !bell->listener) return;
  // The process's signals are not for this thread.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    Bell* const ours = bell.get();
    bell->thread = std::thread([ours] { ours->Run(); });
    the_bell = bell.release();
  } catch (const std::exception&) {
    ::unlink(bell->path.c_str());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  static const int registered = std::atexit(DoorbellClose);
  (void)registered;
}

void DoorbellClose() {
  std::lock_guard lock(*bell_mutex.load());
  const std::unique_ptr<Bell> bell(the_bell.exchange(nullptr));
  if (!bell) return;
  ::unlink(bell->path.c_str());
  ::eventfd_write(bell->closing.get(), 1);
  bell->thread.join();
}

void DoorbellForgetAfterFork() {
  bell_mutex = new std::mutex;
  opened = false;
  Bell* const bell = the_bell.exchange(nullptr);
  if (!bell) return;
  // The object is kept for ever, its thread does not exist here. The descriptors are copies.
  bell->listener = Descriptor();
  bell->closing = Descriptor();
  of_parent = bell;
}

void DoorbellAfterFork() {
  if (!of_parent.load(std::memory_order_relaxed)) [[likely]]
    return;
  Bell* const parents = of_parent.exchange(nullptr);
  if (parents) DoorbellOpen(parents->options);
}

}  // namespace opstep
