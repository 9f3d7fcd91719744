// The program of imperative mode: ids of its calls, plans that join it.
#include "runtime/traced_program.h"

#include <mutex>
#include <unordered_map>

namespace opstep {
namespace {

// Code that runs once (notebook cells) must not pile up.
constexpr size_t kMostCalls = 65536;

uint32_t NumberOf(const std::string& key) {
  static std::mutex mutex;
  static auto* numbers = new std::unordered_map<std::string, uint32_t>;
  static uint32_t last = 0;
  const std::lock_guard lock(mutex);
  if (numbers->size() >= kMostCalls) numbers->clear();
  const auto [it, added] = numbers->try_emplace(key);
  if (added) it->second = ++last;
  return it->second;
}

}  // namespace

uint32_t TracedProgram() {
  static const uint32_t id = Program("imperative").id();
  return id;
}

void NumberCall(Program& program, const std::string& key) {
  proto::ProgramDesc desc = program.desc();
  desc.set_next_op_id(NumberOf(key));
  program.Restore(desc);
}

void JoinTraced(Plan& plan) {
  plan.program_id = TracedProgram();
  // Below the listing's first line, which names the program.
  for (auto& [op, line] : plan.listing.line_of) line = op + 1;
}

}  // namespace opstep
