#pragma once

#include <functional>
#include <memory>
#include <string>

#include "debug.pb.h"

namespace opstep {

// What the channel tells. All calls come from its reader thread, one at a time, and must not throw.
class ChannelListener {
 public:
  virtual ~ChannelListener() = default;
  // The server took us. Not called for a welcome that refuses: that is OnClosed with `final`.
  virtual void OnWelcome(const proto::Welcome& welcome) = 0;
  virtual void OnCommand(const proto::Command& command) = 0;
  // A stream that had been welcomed ended, or (`final`) there will be no other attempt.
  virtual void OnClosed(const std::string& why, bool final) = 0;
};

// The stream to the debug server: dials, says hello, reads, writes, and dials again with growing
// pauses (0.1 s to 5 s) until it is closed.
//
// Threads, both started by Start:
//   reader  dials and reads; blocks in the network, or in a pause between two attempts. Calls the
//   listener. writer  takes from the queue and writes; blocks in the network, or on the queue for
//   at most 2 s,
//           then sends a heartbeat and counts those that the server owes: three and the stream is
//           cancelled.
// CloseSoon and Close stop both: the writer gets a second to write what is queued, then the stream
// is cancelled, which wakes whoever blocks in the network. Close also joins them; it must not be
// called on the reader.
class Channel {
 public:
  static constexpr uint32_t kProtocol = 2;
  static constexpr size_t kMessageLimit = 4 << 20;

  // "unix:/path" or "host:port".
  Channel(std::string address, proto::Hello hello, ChannelListener* listener);
  ~Channel();
  Channel(const Channel&) = delete;

  void Start();
  // Never blocks. Without a welcomed stream the message goes nowhere. A server that reads so slowly
  // that the queue is full is cut off: a reply that is lost must not look like one that is late.
  void Send(proto::FromExecutor message);
  // No other attempt; what is queued is still written. May be called from any thread.
  void CloseSoon();
  void Close();
  // In a forked child, where the threads do not exist: keeps everything as it is for ever.
  static void Leak(std::unique_ptr<Channel> channel);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace opstep
