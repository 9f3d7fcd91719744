#pragma once

#include "debug.pb.h"
#include "runtime/hook.h"

namespace opstep {

// Answers about a run that stands still; called on its thread. Throw Error.
void GetVariables(const FrameView& frame, const proto::GetVariables& wanted, proto::Variables* out);
void Evaluate(const FrameView& frame, const proto::Evaluate& wanted, proto::Value* out);

}  // namespace opstep
