// The agent of this process: its session, and the functions of the bindings.
#include "debug/agent.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "debug/session/session.h"

namespace opstep {
namespace {

struct Agent {
  std::mutex connecting;  // taken before `mutex`
  std::mutex mutex;
  std::shared_ptr<Session> session;
  std::shared_ptr<Taps> taps;  // of all sessions
  // The options that the program gave last; they also hold for a server that rings.
  std::optional<AgentOptions> told;
  // gRPC was used in this process or in its parent.
  bool used = false;
  bool forked = false;
};

// Never destroyed, so that threads which outlast main find it.
std::atomic<Agent*> the_agent{new Agent};

std::shared_ptr<Session> Current(Agent& agent) {
  std::lock_guard lock(agent.mutex);
  return agent.session;
}

void Disconnect(Agent& agent) {
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(agent.mutex);
    session = std::move(agent.session);
  }
  if (session) session->Close();
}

// With `connecting` held: a session that is not closed must not be dropped.
std::shared_ptr<Session> Replace(Agent& agent, AgentOptions options) {
  std::shared_ptr<Session> old;
  {
    std::lock_guard lock(agent.mutex);
    old = std::move(agent.session);
  }
  if (old) old->Yield();
  std::lock_guard lock(agent.mutex);
  OPSTEP_CHECK(!agent.forked,
               "a process that was forked from a debugged one cannot be debugged: start it with "
               "the 'spawn' method of multiprocessing");
  // A process that ends without Python's help must still join the threads before libraries are torn
  // down.
  static const int registered = std::atexit(DebugDisconnect);
  (void)registered;
  agent.used = true;
  // Taps stay set where the new limits allow them.
  if (!agent.taps || !agent.taps->any()) {
    agent.taps = std::make_shared<Taps>(options.taps);
  } else {
    agent.taps->Limit(options.taps);
  }
  agent.session = std::make_shared<Session>(std::move(options), agent.taps);
  return agent.session;
}

}  // namespace

void DebugConnect(AgentOptions options) {
  Agent& agent = *the_agent;
  OPSTEP_CHECK(!options.address.empty(),
               "the debug server's address is empty: give unix:/path or host:port");
  std::lock_guard connecting(agent.connecting);
  const std::shared_ptr<Session> session = Replace(agent, options);
  {
    std::lock_guard lock(agent.mutex);
    agent.told = std::move(options);
  }
  session->Start();
}

void DebugRing(const std::string& address, const AgentOptions& options) {
  Agent& agent = *the_agent;
  OPSTEP_CHECK(address.rfind("unix:/", 0) == 0, "a ring gives the unix socket to dial: unix:/path");
  std::lock_guard connecting(agent.connecting);
  if (const auto session = Current(agent)) {
    const AgentState state = session->state();
    OPSTEP_CHECK(state.server.empty(), "this process is connected to the debug server at ",
                 state.server, " already");
    const Channel::Invited invited =
        state.wanted ? session->Invite(address) : Channel::Invited::kClosed;
    if (invited == Channel::Invited::kYes) return;
    OPSTEP_CHECK(invited == Channel::Invited::kClosed,
                 "another debug server is being dialled just now: try again");
  }
  AgentOptions guests = options;
  {
    std::lock_guard lock(agent.mutex);
    if (agent.told) guests = *agent.told;
  }
  guests.address.clear();
  guests.token.clear();
  guests.root_certificates.clear();
  guests.wait_seconds = 0;
  const std::shared_ptr<Session> session = Replace(agent, std::move(guests));
  session->Invite(address);
  session->Start();
}

void DebugDisconnect() { Disconnect(*the_agent); }

AgentState DebugState() {
  Agent& agent = *the_agent;
  const auto session = Current(agent);
  AgentState state = session ? session->state() : AgentState{};
  std::lock_guard lock(agent.mutex);
  if (agent.told) state.policy = agent.told->policy;
  return state;
}

std::string DebugRequestTap(const std::string& text, double seconds) {
  const auto session = Current(*the_agent);
  OPSTEP_CHECK(session, "there is no debug server to set the tap: connect to one first");
  return session->RequestTap(text, seconds);
}

proto::TapStatuses DebugListTaps() {
  const auto session = Current(*the_agent);
  return session ? session->ListTaps() : proto::TapStatuses();
}

void DebugDropTap(const std::string& uid, const std::string& who) {
  proto::DropTaps drop;
  drop.add_uids(uid);
  drop.set_who(who);
  if (const auto session = Current(*the_agent)) session->DropTaps(drop);
}

void DebugForgetAfterFork() {
  // Another thread may have held the parent's lock: it is left as it is.
  Agent* const parent = the_agent.exchange(new Agent);
  the_agent.load()->forked = parent->forked || parent->used;
  if (parent->session) parent->session->Abandon();
}

}  // namespace opstep
