// The doorbell: its socket, its thread and the lines that it answers.
#include "debug/wire/doorbell.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "debug/wire/socket.h"

namespace opstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{1000};
constexpr size_t kMaxLine = 512;
constexpr size_t kMostCallers = 32;

// A caller sends one line and gets one line, within a second.
struct Caller {
  Descriptor socket;
  Clock::time_point until;
  std::string line, out;
  size_t sent = 0;
};

// Callers are served side by side: a silent caller does not delay the others.
struct Bell {
  AgentOptions options;
  std::string path;
  Descriptor listener;
  Descriptor closing;  // readable when the bell is to end
  std::thread thread;

  Clock::time_point no_room_until;  // for another descriptor

  void Run();
  void Accept(std::vector<Caller>& callers);
  // Does the work that can be done now; false at the end.
  bool Serve(Caller& caller);
  std::string Answer(const std::string& line);
};

// Made again after fork: a thread may have held the parent's.
std::atomic<std::mutex*> bell_mutex{new std::mutex};
// Destroyed only by DoorbellClose.
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

// The folder of this user's doorbells, created if needed; empty when that fails.
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

void Bell::Run() {
  std::vector<Caller> callers;
  while (true) {
    std::vector<pollfd> ready = {{closing.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    Clock::time_point until = Clock::time_point::max();
    for (const Caller& caller : callers) {
      ready.push_back(
          {caller.socket.get(), caller.out.empty() ? short{POLLIN} : short{POLLOUT}, 0});
      until = std::min(until, caller.until);
    }
    if (Clock::now() < no_room_until) {
      ready[1].events = 0;
      until = std::min(until, no_room_until);
    }
    int left = -1;
    if (until != Clock::time_point::max()) {
      const auto span = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      left = static_cast<int>(std::max<int64_t>(0, span.count()));
    }
    if (::poll(ready.data(), ready.size(), left) < 0) {
      if (errno != EINTR) return;
      continue;
    }
    if (ready[0].revents != 0) return;
    const Clock::time_point now = Clock::now();
    for (size_t i = 0; i < callers.size(); ++i) {
      const bool over = ready[i + 2].revents != 0 && !Serve(callers[i]);
      if (over || callers[i].until <= now) callers[i].socket = Descriptor();
    }
    std::erase_if(callers, [](const Caller& caller) { return !caller.socket; });
    if (ready[1].revents & POLLIN) Accept(callers);
  }
}

void Bell::Accept(std::vector<Caller>& callers) {
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket && IsOurUser(socket.get())) {
    // The first caller has had the most time to send a line.
    if (callers.size() == kMostCallers) callers.erase(callers.begin());
    callers.push_back({std::move(socket), Clock::now() + kPatience, "", "", 0});
  } else if (!socket && (errno == EMFILE || errno == ENFILE)) {
    // The process has no descriptor to spare: look again later, not at once.
    no_room_until = Clock::now() + kPatience;
  }
}

bool Bell::Serve(Caller& caller) {
  if (caller.out.empty()) {
    char bytes[kMaxLine];
    const ssize_t count = ::recv(caller.socket.get(), bytes, kMaxLine - caller.line.size(), 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    caller.line.append(bytes, static_cast<size_t>(count));
    const size_t end = caller.line.find('\n');
    if (end == std::string::npos) return caller.line.size() < kMaxLine;
    caller.out = Answer(caller.line.substr(0, end)) + "\n";
  }
  const ssize_t count = ::send(caller.socket.get(), caller.out.data() + caller.sent,
                               caller.out.size() - caller.sent, MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  caller.sent += static_cast<size_t>(count);
  return caller.sent < caller.out.size();
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
  // This thread must not handle the process's signals.
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
  // The object is never destroyed, its thread does not exist here. The descriptors are copies.
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
