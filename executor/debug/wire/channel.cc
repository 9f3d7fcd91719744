// Channel, with gRPC: the stream, its three threads, hello, heartbeat. No other file knows gRPC.
#include "debug/wire/channel.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "debug.grpc.pb.h"
#include "debug/wire/buffer_pool.h"
#include "debug/wire/send_queue.h"
#include "debug/wire/socket.h"

namespace opstep {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{5000};
constexpr milliseconds kHeartbeat{2000};
constexpr int kMissedHeartbeats = 3;
// How long the end of a stream may take without progress, and at most.
constexpr milliseconds kFlush{2000};
constexpr milliseconds kLongestFlush{10000};
constexpr size_t kQueueLimit = 64 << 20;
// Less than any socket and stream accepts before the server reads.
constexpr size_t kUnheard = 32 << 10;
// How long an answer may wait for the next message.
constexpr std::chrono::microseconds kLinger{300};

using Stream = grpc::ClientReaderWriter<proto::FromExecutor, proto::ToExecutor>;

constexpr std::string_view kUnix = "unix:";

// We own the socket so that we can cut it off: a cancelled call still waits for a server that does
// not read. `line` is another descriptor of it; on TCP, where there is none, the system ends the
// connection. Null when there is no server.
std::unique_ptr<proto::DebugServer::Stub> Dial(const Destination& to, Descriptor* line,
                                               std::string* why) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(Channel::kMessageLimit);
  args.SetMaxSendMessageSize(Channel::kMessageLimit);
  if (to.address.starts_with(kUnix)) {
    std::string path = to.address.substr(kUnix.size());
    if (path.starts_with("//")) path.erase(0, 2);
    Descriptor socket = ConnectTo(path, why);
    *line = Descriptor(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!*line) return nullptr;
    return proto::DebugServer::NewStub(
        grpc::CreateCustomInsecureChannelFromFd("opstep", socket.release(), args));
  }
  // Each attempt has a separate connection, so that only our pauses count, and no proxy sees it.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // No pings, we have heartbeats: only a timeout that ends the connection when data is not
  // accepted.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX - 1);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
              static_cast<int>(kHeartbeat.count()) * kMissedHeartbeats);
  auto credentials = grpc::InsecureChannelCredentials();
  if (!to.root_certificates.empty()) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = to.root_certificates;
    credentials = grpc::SslCredentials(tls);
  }
  return proto::DebugServer::NewStub(grpc::CreateCustomChannel(to.address, credentials, args));
}

}  // namespace

struct Channel::Impl {
  Destination home;
  proto::Hello hello;
  ChannelListener* listener;

  std::mutex mutex;
  std::condition_variable changed;
  std::condition_variable written;  // a write ended
  SendQueue queue;
  // Of the attempt that runs; null between attempts.
  grpc::ClientContext* context = nullptr;
  Descriptor line;
  Stream* stream = nullptr;
  bool writing = false;        // a thread uses `stream` to write
  bool lingering = false;      // the listener put something
  std::string at;              // address of the attempt that runs, or of the last one
  std::string guest;           // to be dialled next
  bool guest_is_here = false;  // the stream is a guest's
  bool welcomed = false;
  bool leaving = false;   // the guest's stream ends, the channel does not
  bool said_all = false;  // of this stream
  bool closing = false;
  bool cut_off = false;
  bool cancelled = false;  // this stream, by us
  bool read_all = false;   // the last stream ended when the server had read everything
  bool writer_done = false;
  int missed = 0;
  size_t unheard = 0;  // bytes written since the last sign of the server
  Clock::time_point flush_until, flush_limit;
  std::condition_variable over;  // closing
  std::thread reader, writer, clock;
  std::thread::id reader_id;

  void ReadLoop();
  void WriteLoop();
  void BeatLoop();
  // Returns whether the stream was welcomed; `why` says how it ended, `final` that another attempt
  // is useless.
  bool RunStream(std::string* why, bool* final);
  bool Accept(const proto::Welcome& welcome, std::string* why);
  // With the lock held; false: the message goes nowhere.
  bool Enqueue(proto::FromExecutor message);
  // With the lock held, but not while it writes.
  void WriteQueued(std::unique_lock<std::mutex>& lock);
  // On the reader: writes what the listener sent.
  void WriteOwn();
  // Would the server accept the queue without reading? If not, the writer sends it, since it may
  // wait.
  bool WritesAtOnce() const { return unheard + queue.bytes() <= kUnheard; }
  void BeginFlush() {
    flush_limit = Clock::now() + kLongestFlush;
    GoOnFlushing();
  }
  // The server reads: the rest may still arrive.
  void GoOnFlushing() { flush_until = std::min(Clock::now() + kFlush, flush_limit); }
  void Cancel() {
    cancelled = true;
    if (context) context->TryCancel();
    if (line) ::shutdown(line.get(), SHUT_RDWR);
  }
};

void Channel::Impl::ReadLoop() {
  {
    std::lock_guard lock(mutex);
    reader_id = std::this_thread::get_id();
  }
  milliseconds pause = kFirstPause;
  while (true) {
    std::string why;
    bool final = false;
    const bool welcomed_once = RunStream(&why, &final);
    const bool alone = home.address.empty() && !listener->WaitsForGuest();
    bool stop, all;
    {
      std::lock_guard lock(mutex);
      all = read_all;
      // A guest's answer is final for the guest only.
      if (!home.address.empty() && std::exchange(guest_is_here, false)) final = false;
      stop = closing || final || (alone && guest.empty());
      closing = stop;
    }
    changed.notify_all();
    over.notify_all();
    if (welcomed_once || stop) listener->OnClosed(why, stop, all);
    if (stop) return;
    if (welcomed_once) pause = kFirstPause;
    std::unique_lock lock(mutex);
    const auto woken = [&] { return closing || !guest.empty(); };
    if (home.address.empty())
      changed.wait(lock, woken);
    else
      changed.wait_for(lock, pause, woken);
    if (closing) {
      lock.unlock();
      listener->OnClosed("closed", true, true);
      return;
    }
    pause = std::min(pause * 2, kLongestPause);
  }
}

bool Channel::Impl::Accept(const proto::Welcome& welcome, std::string* why) {
  if (!welcome.error().empty()) {
    *why = welcome.error();
  } else if (welcome.protocol() != kProtocol) {
    *why = "the debug server speaks protocol " + std::to_string(welcome.protocol()) +
           " but this executor speaks " + std::to_string(kProtocol) +
           ": install the same opstep on both sides";
  } else {
    return true;
  }
  return false;
}

bool Channel::Impl::RunStream(std::string* why, bool* final) {
  grpc::ClientContext attempt;
  Destination to = home;
  {
    std::lock_guard lock(mutex);
    if (closing) {
      *why = "closed";
      return false;
    }
    guest_is_here = !guest.empty();
    if (guest_is_here)
      to = {.address = std::exchange(guest, ""), .token = "", .root_certificates = ""};
    at = to.address;
    context = &attempt;
    queue.Clear();
    cut_off = leaving = said_all = cancelled = read_all = false;
    missed = 0;
    unheard = 0;
  }
  if (!to.token.empty()) attempt.AddMetadata("authorization", "Bearer " + to.token);
  Descriptor dialled;
  const std::unique_ptr<proto::DebugServer::Stub> stub = Dial(to, &dialled, why);
  {
    std::lock_guard lock(mutex);
    if (!stub) {
      context = nullptr;
      return false;
    }
    line = std::move(dialled);
    if (closing || !guest.empty()) Cancel();
  }
  std::unique_ptr<Stream> opened = stub->Attach(&attempt);
  proto::FromExecutor first;
  *first.mutable_hello() = hello;
  bool greeted = false;
  if (opened->Write(first)) {
    std::lock_guard lock(mutex);
    stream = opened.get();
    greeted = true;
  }
  changed.notify_all();

  bool accepted = false;
  proto::ToExecutor message;
  while (greeted && opened->Read(&message)) {
    {
      std::lock_guard lock(mutex);
      missed = 0;
      unheard = 0;
      if (closing || leaving) GoOnFlushing();
    }
    if (message.has_welcome() && !accepted) {
      if (!Accept(message.welcome(), why)) {
        *final = true;
        break;
      }
      accepted = true;
      {
        std::lock_guard lock(mutex);
        welcomed = true;
      }
      listener->OnWelcome(message.welcome());
      WriteOwn();
    } else if (message.has_command() && accepted) {
      listener->OnCommand(message.command());
      WriteOwn();
    } else if (message.has_logs_taken() && accepted) {
      listener->OnLogsTaken(message.logs_taken().records());
    } else if (message.has_taps_taken() && accepted) {
      listener->OnTapsTaken(message.taps_taken());
    } else if (message.has_tap_answer() && accepted) {
      listener->OnTapAnswer(message.tap_answer());
    }
  }
  {
    std::unique_lock lock(mutex);
    read_all = accepted && (closing || leaving) && queue.empty() && !writing && !cancelled;
    // A server that never accepted us has ended the stream itself, and its reason matters; so does
    // that of a server which read everything.
    if ((accepted && !read_all) || *final) Cancel();
    written.wait(lock, [&] { return !writing; });
    stream = nullptr;
    welcomed = leaving = false;
    if (why->empty()) {
      *why = cut_off                       ? "the debug server does not read what it is sent"
             : missed >= kMissedHeartbeats ? "the debug server has not been heard of for 6 s"
                                           : "the debug server closed the connection";
    }
  }
  const grpc::Status status = opened->Finish();
  {
    std::lock_guard lock(mutex);
    context = nullptr;
    line = Descriptor();
    read_all = read_all && status.ok();
  }
  if (!accepted && !*final && !status.error_message().empty()) *why = status.error_message();
  // The token would be refused again.
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) *final = true;
  return accepted;
}

bool Channel::Impl::Enqueue(proto::FromExecutor message) {
  // Nothing may be written after the end of the stream.
  if (!welcomed || !stream || closing || leaving) return false;
  queue.Add(std::move(message));
  if (queue.bytes() > kQueueLimit) {
    cut_off = true;
    Cancel();
  }
  return true;
}

void Channel::Impl::WriteQueued(std::unique_lock<std::mutex>& lock) {
  unheard += queue.bytes();
  proto::FromExecutor message = queue.Take();
  unheard -= queue.bytes();
  Stream* const to = stream;
  writing = true;
  lock.unlock();
  const bool ok = to->Write(message);
  if (message.reply().has_bytes()) {
    BufferPool::Give(std::move(*message.mutable_reply()->mutable_bytes()->mutable_data()));
  }
  lock.lock();
  writing = false;
  if (ok && (closing || leaving)) GoOnFlushing();
  if (!ok) {
    queue.Clear();
    Cancel();
    if (stream == to) stream = nullptr;
  }
  written.notify_all();
  // Threads that queued messages meanwhile left them to us.
  if (!ok || !queue.empty()) changed.notify_all();
}

void Channel::Impl::WriteOwn() {
  std::unique_lock lock(mutex);
  if (std::exchange(lingering, false)) {
    written.wait_for(lock, kLinger, [&] { return queue.empty(); });
  }
  if (queue.empty() || !stream || writing) return;
  if (WritesAtOnce())
    WriteQueued(lock);
  else
    changed.notify_all();
}

// Ticks are counted, not seconds: a process that was suspended does not lose its debugger.
void Channel::Impl::BeatLoop() {
  std::unique_lock lock(mutex);
  while (!over.wait_for(lock, kHeartbeat, [&] { return closing; })) {
    if (!stream) continue;
    if (++missed > kMissedHeartbeats) Cancel();
    if (leaving) continue;
    proto::FromExecutor message;
    message.mutable_heartbeat();
    queue.Add(std::move(message));
    changed.notify_all();
  }
  // A write that hangs in the network ends only by cancelling.
  while (!writer_done && Clock::now() < flush_until) changed.wait_until(lock, flush_until);
  Cancel();
}

void Channel::Impl::WriteLoop() {
  std::unique_lock lock(mutex);
  while (true) {
    if (closing || leaving) {
      const bool late = Clock::now() >= flush_until;
      if (closing && (!stream || !welcomed || late)) break;
      if (!closing && late) {
        Cancel();
        changed.wait(lock, [&] { return closing || !leaving; });
        continue;
      }
      if (stream && queue.empty()) {
        // The server ends the stream when it has read everything; only a server that does not read
        // is cancelled.
        if (writing) {
          written.wait_until(lock, flush_until);
        } else if (!said_all) {
          said_all = true;
          writing = true;
          lock.unlock();
          stream->WritesDone();
          lock.lock();
          writing = false;
          written.notify_all();
        } else {
          changed.wait_until(lock, flush_until);
        }
        continue;
      }
    }
    if (!stream || queue.empty() || writing) {
      if (closing || leaving)
        changed.wait_until(lock, flush_until);
      else
        changed.wait(lock);
      continue;
    }
    WriteQueued(lock);
  }
  Cancel();
  writer_done = true;
  changed.notify_all();
}

Channel::Channel(Destination destination, proto::Hello hello, ChannelListener* listener)
    : impl_(std::make_unique<Impl>()) {
  impl_->home = std::move(destination);
  impl_->hello = std::move(hello);
  impl_->listener = listener;
}

Channel::~Channel() {
  if (impl_) Close();
}

void Channel::Start() {
  Impl* impl = impl_.get();
  impl->writer = std::thread([impl] { impl->WriteLoop(); });
  impl->reader = std::thread([impl] { impl->ReadLoop(); });
  impl->clock = std::thread([impl] { impl->BeatLoop(); });
}

Channel::Invited Channel::Invite(std::string guest) {
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->closing) return Invited::kClosed;
    if (impl_->welcomed || !impl_->guest.empty()) return Invited::kBusy;
    impl_->guest = std::move(guest);
    // An attempt at a server that is not there must not keep the guest waiting.
    impl_->Cancel();
  }
  impl_->changed.notify_all();
  return Invited::kYes;
}

bool Channel::EndGuest() {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->guest_is_here || impl_->home.address.empty()) return false;
  impl_->leaving = true;
  impl_->BeginFlush();
  impl_->changed.notify_all();
  return true;
}

bool Channel::Send(proto::FromExecutor message) {
  {
    std::lock_guard lock(impl_->mutex);
    if (!impl_->Enqueue(std::move(message))) return false;
    if (impl_->writing) return true;
    if (std::this_thread::get_id() == impl_->reader_id) return true;  // WriteOwn comes
  }
  impl_->changed.notify_all();
  return true;
}

void Channel::Put(proto::FromExecutor message) {
  std::lock_guard lock(impl_->mutex);
  impl_->Enqueue(std::move(message));
  if (std::this_thread::get_id() == impl_->reader_id) impl_->lingering = true;
}

void Channel::Write() {
  std::unique_lock lock(impl_->mutex);
  if (impl_->queue.empty() || !impl_->stream || impl_->writing) return;
  if (impl_->WritesAtOnce())
    impl_->WriteQueued(lock);
  else
    impl_->changed.notify_all();
}

void Channel::Flush() {
  std::unique_lock lock(impl_->mutex);
  const Clock::time_point until = Clock::now() + kFlush;
  while (impl_->stream && Clock::now() < until && (impl_->writing || !impl_->queue.empty())) {
    if (impl_->writing)
      impl_->written.wait_until(lock, until);
    else
      impl_->WriteQueued(lock);
  }
}

size_t Channel::unsent() {
  std::lock_guard lock(impl_->mutex);
  return impl_->queue.bytes();
}

std::string Channel::address() {
  std::lock_guard lock(impl_->mutex);
  return impl_->at;
}

void Channel::CloseSoon() {
  {
    std::lock_guard lock(impl_->mutex);
    if (!impl_->closing) impl_->BeginFlush();
    impl_->closing = true;
  }
  impl_->changed.notify_all();
  impl_->over.notify_all();
}

void Channel::Close() {
  CloseSoon();
  for (std::thread* thread : {&impl_->clock, &impl_->writer, &impl_->reader}) {
    if (thread->joinable()) thread->join();
  }
}

void Channel::Leak(std::unique_ptr<Channel> channel) { channel.release(); }

}  // namespace opstep
