// Commands that look at a stopped run or change it.
#pragma once

#include <atomic>
#include <string>

#include "debug.pb.h"
#include "debug/session/stepper.h"
#include "debug/wire/buffer_pool.h"
#include "runtime/hook.h"

namespace opstep {

// One command that reads or changes a stopped run. `cancelled` is set by another thread when nobody
// waits for the answer any more.
struct Look {
  FrameEditor& frame;
  const Position& at;
  uint32_t frames;  // of the reported stack
  const std::atomic<bool>& cancelled;
};

// A value that is read in pieces is computed once, and the memory of the pieces is reused.
struct ReadAhead {
  std::string key;
  Tensor value;

  void Reset() {
    key.clear();
    value = {};
    BufferPool::Drop();
  }
  ~ReadAhead() { BufferPool::Drop(); }
};

// Answers; called on the thread that runs. Throw Error.
void GetVariables(const Look& look, const proto::GetVariables& wanted, proto::Variables* out);
void Evaluate(const Look& look, const proto::Evaluate& wanted, proto::Value* out);
void ListNames(const Look& look, const proto::ListNames& wanted, proto::Names* out);
void FindVariable(const Look& look, const proto::FindVariable& wanted, proto::FoundVariable* out);
void ReadBytes(const Look& look, const proto::ReadBytes& wanted, ReadAhead& ahead,
               proto::Bytes* out);
// Commands that change a run; the session asks its policy before it calls them.
void Assign(const Look& look, const proto::Assign& wanted, proto::Value* out);
void WriteBytes(const Look& look, const proto::WriteBytes& wanted);

}  // namespace opstep
