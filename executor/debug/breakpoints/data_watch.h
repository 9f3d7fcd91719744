// Content: the part of a variable's value at one moment that a data breakpoint needs.
#pragma once

#include <cstdint>
#include <string>

#include "base/summary.h"
#include "runtime/hook.h"

namespace opstep {

struct Content {
  bool present = false;
  uint64_t hash = 0;  // of shape and bytes
  Summary summary;
  bool operator==(const Content& o) const { return present == o.present && hash == o.hash; }
};
Content LookAt(const FrameView& frame, uint32_t slot);

// "[sgd] wrote fc_0.w: mean 0.01 std 0.9 [-2.1, 3.4] → mean …"
std::string TellWrite(const FrameView& frame, uint32_t slot, const Content& before,
                      const Content& after);

}  // namespace opstep
