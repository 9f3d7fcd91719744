// Channel: the stream to the debug server.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "debug.pb.h"

namespace opstep {

// The channel's events. All calls come from its reader thread, one at a time, and must not throw.
class ChannelListener {
 public:
  virtual ~ChannelListener() = default;
  // The server accepted us. Not called for a welcome that refuses: that is OnClosed with `final`.
  virtual void OnWelcome(const proto::Welcome& welcome) = 0;
  virtual void OnCommand(const proto::Command& command) = 0;
  // The server has processed this many log records.
  virtual void OnLogsTaken(uint64_t records) = 0;
  // Its sinks have taken a batch of tap records, or lost some of it.
  virtual void OnTapsTaken(const proto::TapsTaken& taken) = 0;
  virtual void OnTapAnswer(const proto::TapAnswer& answer) = 0;
  // A welcomed stream ended, or (`final`) there will be no other attempt. `read_all`: the server
  // has read everything that was sent.
  virtual void OnClosed(const std::string& why, bool final, bool read_all) = 0;
  // There is no server to dial: does anything wait for the next guest?
  virtual bool WaitsForGuest() = 0;
};

// The address of a debug server and its credentials.
struct Destination {
  std::string address;            // "unix:/path" or "host:port"
  std::string token;              // empty: none
  std::string root_certificates;  // PEM; empty: no TLS
};

// The stream to the debug server: dials, says hello, reads, writes, and dials again with growing
// pauses (0.1 s to 5 s) until it is closed. A guest is a server that asked to be dialled: once,
// between two attempts at the destination. Without a destination a channel lives as long as its
// guest, or (Listener::WaitsForGuest) until the next one comes.
//
// Threads, all started by Start:
//   reader  dials and reads; blocks in the network, or in a pause between two attempts. Calls the
//           listener, and writes the messages that it sent.
//   writer  writes the messages of others; blocks in the network, or on the queue.
//   clock   sends a heartbeat every 2 s and counts missing answers: after three the stream
//           is cut off, which wakes threads that block in the network.
// A thread that calls Write writes too, if the server accepts that without reading. There is one
// write at a time, and it takes the whole queue. CloseSoon and Close stop all three: the stream is
// cut off when the server has read nothing for a second, or not everything in ten. Close also joins
// them; it must not be called on the reader.
class Channel {
 public:
  static constexpr uint32_t kProtocol = 2;
  static constexpr size_t kMessageLimit = 4 << 20;

  // An empty address: only guests are dialled.
  Channel(Destination destination, proto::Hello hello, ChannelListener* listener);
  ~Channel();
  Channel(const Channel&) = delete;

  void Start();
  // Dials this address at once, unless there is already a stream or a guest to dial, or the channel
  // is closing.
  enum class Invited { kYes, kBusy, kClosed };
  Invited Invite(std::string guest);
  // Never blocks. Without a welcomed stream the message goes nowhere. A server that reads so slowly
  // that the queue is full is cut off: a lost reply must not look like a late one. False when the
  // message goes nowhere.
  bool Send(proto::FromExecutor message);
  // Like Send, but wakes no thread: the message goes out with the next one, or by Write. A message
  // put by the listener still goes out a fraction of a millisecond later.
  void Put(proto::FromExecutor message);
  // Writes the queue on the calling thread, which saves waking the writer; the writer does it when
  // a write is already in progress or might have to wait. Not for a thread that holds a lock.
  void Write();
  // Bytes that wait to be written.
  size_t unsent();
  // Waits up to a second until all messages are written.
  void Flush();
  // Of the stream, or of the last one.
  std::string address();
  // Ends the stream of a guest; the destination is dialled again. False when it is not a guest's
  // stream.
  bool EndGuest();
  // No other attempt; the queue is still written. May be called from any thread.
  void CloseSoon();
  void Close();
  // In a forked child, where the threads do not exist: keeps everything as it is.
  static void Leak(std::unique_ptr<Channel> channel);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace opstep
