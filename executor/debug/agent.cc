#include "debug/agent.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "debug/session.h"

namespace opstep {
namespace {

struct Agent {
  std::mutex connecting;  // taken before `mutex`
  std::mutex mutex;
  std::shared_ptr<Session> session;
  bool forked = false;
};

// Never destroyed, so that threads which outlast main find it.
std::atomic<Agent*> the_agent{new Agent};

}  // namespace

void DebugConnect(AgentOptions options) {
  Agent& agent = *the_agent;
  OPSTEP_CHECK(!options.address.empty(),
               "the debug server's address is empty: give unix:/path or host:port");
  // One at a time: a session that is not closed must not be dropped.
  std::lock_guard connecting(agent.connecting);
  DebugDisconnect();
  std::lock_guard lock(agent.mutex);
  OPSTEP_CHECK(
      !agent.forked,
      "a forked process cannot be debugged: start it with the 'spawn' method of multiprocessing");
  // A process that ends without Python's help must still join the threads before libraries are torn
  // down.
  static const int registered = std::atexit(DebugDisconnect);
  (void)registered;
  agent.session = std::make_shared<Session>(std::move(options));
  agent.session->Start();
}

void DebugDisconnect() {
  Agent& agent = *the_agent;
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(agent.mutex);
    session = std::move(agent.session);
  }
  if (session) session->Close();
}

bool DebugAttached() {
  Agent& agent = *the_agent;
  std::lock_guard lock(agent.mutex);
  return agent.session && agent.session->attached();
}

void DebugForgetAfterFork() {
  // Another thread may have held the parent's lock: it is left as it is.
  Agent* const parent = the_agent.exchange(new Agent);
  the_agent.load()->forked = parent->forked || parent->session;
  if (parent->session) parent->session->Abandon();
}

}  // namespace opstep
