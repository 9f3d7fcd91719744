// Source: skipping by reading.
#include "data/source.h"

#include "data/waiting.h"

namespace opstep {

uint64_t Source::Skip(uint64_t count) {
  SourceRecord record;
  for (uint64_t i = 0; i < count; ++i) {
    if (i % 16 == 15) PollWaiting();
    if (!Next(record)) return i;
  }
  return count;
}

}  // namespace opstep
