#include "debug/channel.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "debug.grpc.pb.h"
#include "debug/outgoing.h"

namespace opstep {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{5000};
constexpr milliseconds kHeartbeat{2000};
constexpr int kMissedHeartbeats = 3;
constexpr milliseconds kFlush{1000};
constexpr size_t kQueueLimit = 64 << 20;
// How long an answer may wait for what follows it.
constexpr std::chrono::microseconds kLinger{300};

using Stream = grpc::ClientReaderWriter<proto::FromExecutor, proto::ToExecutor>;

std::unique_ptr<proto::DebugServer::Stub> Dial(const Destination& to) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(Channel::kMessageLimit);
  args.SetMaxSendMessageSize(Channel::kMessageLimit);
  // Each attempt has a connection of its own, so that only our pauses count, and no proxy sees it.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
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
  Outgoing queue;
  // Of the attempt that runs; null between attempts.
  grpc::ClientContext* context = nullptr;
  Stream* stream = nullptr;
  bool writing = false;        // somebody uses `stream` to write
  bool lingering = false;      // the listener put something
  std::string at;              // address of the attempt that runs, or of the last one
  std::string guest;           // to be dialled next
  bool guest_is_here = false;  // the stream is a guest's
  bool welcomed = false;
  bool leaving = false;   // the guest's stream ends, the channel does not
  bool said_all = false;  // of this stream
  bool closing = false;
  bool cut_off = false;
  bool writer_done = false;
  int missed = 0;
  Clock::time_point flush_until;
  std::thread reader, writer;
  std::thread::id reader_id;

  void ReadLoop();
  void WriteLoop();
  // Returns whether the stream was welcomed; `why` tells how it ended, `final` that another attempt
  // is useless.
  bool RunStream(std::string* why, bool* final);
  bool Accept(const proto::Welcome& welcome, std::string* why);
  // With the lock held; false: the message goes nowhere.
  bool Enqueue(proto::FromExecutor message);
  // With the lock held, but not while it writes.
  void WriteQueued(std::unique_lock<std::mutex>& lock);
  // On the reader: writes what the listener sent.
  void WriteOwn();
  void Cancel() {
    if (context) context->TryCancel();
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
    bool stop;
    {
      std::lock_guard lock(mutex);
      // What a guest says is final for the guest only.
      if (!home.address.empty() && std::exchange(guest_is_here, false)) final = false;
      stop = closing || final || (alone && guest.empty());
      closing = stop;
    }
    changed.notify_all();
    if (welcomed_once || stop) listener->OnClosed(why, stop);
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
      listener->OnClosed("closed", true);
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
    cut_off = leaving = said_all = false;
    missed = 0;
  }
  if (!to.token.empty()) attempt.AddMetadata("authorization", "Bearer " + to.token);
  const std::unique_ptr<proto::DebugServer::Stub> stub = Dial(to);
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
    }
  }
  {
    std::unique_lock lock(mutex);
    // A server that never took us has ended the stream itself, and its reason is wanted.
    if (accepted || *final) attempt.TryCancel();
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
  }
  if (!accepted && !*final && !status.error_message().empty()) *why = status.error_message();
  // The token does not get better by itself.
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) *final = true;
  return accepted;
}

bool Channel::Impl::Enqueue(proto::FromExecutor message) {
  if (!welcomed || !stream || closing) return false;
  queue.Add(std::move(message));
  if (queue.bytes() > kQueueLimit) {
    cut_off = true;
    Cancel();
  }
  return true;
}

void Channel::Impl::WriteQueued(std::unique_lock<std::mutex>& lock) {
  const proto::FromExecutor message = queue.Take();
  Stream* const to = stream;
  writing = true;
  lock.unlock();
  const bool ok = to->Write(message);
  lock.lock();
  writing = false;
  if (!ok) {
    queue.Clear();
    Cancel();
    if (stream == to) stream = nullptr;
  }
  written.notify_all();
  // Whoever queued something meanwhile left it to us.
  if (!ok || !queue.empty()) changed.notify_all();
}

void Channel::Impl::WriteOwn() {
  std::unique_lock lock(mutex);
  if (std::exchange(lingering, false)) {
    written.wait_for(lock, kLinger, [&] { return queue.empty(); });
  }
  if (!queue.empty() && stream && !writing) WriteQueued(lock);
}

void Channel::Impl::WriteLoop() {
  std::unique_lock lock(mutex);
  Clock::time_point beat = Clock::now() + kHeartbeat;
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
        // The server ends the stream when it has read everything; only a deaf one is cancelled.
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
    if (stream && Clock::now() >= beat) {
      beat = Clock::now() + kHeartbeat;
      // Ticks are counted, not seconds: a process that was suspended does not lose its debugger.
      if (++missed > kMissedHeartbeats) Cancel();
      proto::FromExecutor message;
      message.mutable_heartbeat();
      queue.Add(std::move(message));
    }
    if (!stream || queue.empty() || writing) {
      if (!stream) beat = Clock::now() + kHeartbeat;
      changed.wait_until(lock, closing || leaving ? std::min(beat, flush_until) : beat);
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
}

bool Channel::Invite(std::string guest) {
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->closing || impl_->welcomed || !impl_->guest.empty()) return false;
    impl_->guest = std::move(guest);
    // An attempt at a server that is not there must not keep the guest waiting.
    impl_->Cancel();
  }
  impl_->changed.notify_all();
  return true;
}

bool Channel::EndGuest() {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->guest_is_here || impl_->home.address.empty()) return false;
  impl_->leaving = true;
  impl_->flush_until = Clock::now() + kFlush;
  impl_->changed.notify_all();
  return true;
}

void Channel::Send(proto::FromExecutor message) {
  {
    std::lock_guard lock(impl_->mutex);
    if (!impl_->Enqueue(std::move(message)) || impl_->writing) return;
    if (std::this_thread::get_id() == impl_->reader_id) return;  // WriteOwn comes
  }
  impl_->changed.notify_all();
}

void Channel::Put(proto::FromExecutor message) {
  std::lock_guard lock(impl_->mutex);
  impl_->Enqueue(std::move(message));
  if (std::this_thread::get_id() == impl_->reader_id) impl_->lingering = true;
}

void Channel::Write() {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->queue.empty() && impl_->stream && !impl_->writing) impl_->WriteQueued(lock);
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

std::string Channel::address() {
  std::lock_guard lock(impl_->mutex);
  return impl_->at;
}

void Channel::CloseSoon() {
  {
    std::lock_guard lock(impl_->mutex);
    if (!impl_->closing) impl_->flush_until = Clock::now() + kFlush;
    impl_->closing = true;
  }
  impl_->changed.notify_all();
}

void Channel::Close() {
  CloseSoon();
  if (impl_->writer.joinable()) {
    // A write that hangs in the network ends only by cancelling.
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait_until(lock, impl_->flush_until, [&] { return impl_->writer_done; });
    impl_->Cancel();
    lock.unlock();
    impl_->changed.notify_all();
    impl_->writer.join();
  }
  if (impl_->reader.joinable()) impl_->reader.join();
}

void Channel::Leak(std::unique_ptr<Channel> channel) { channel.release(); }

}  // namespace opstep
