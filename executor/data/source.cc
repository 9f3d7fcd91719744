#include "data/source.h"

namespace opstep {

uint64_t Source::Skip(uint64_t count) {
  SourceRecord record;
  for (uint64_t i = 0; i < count; ++i) {
    if (!Next(record)) return i;
  }
  return count;
}

}  // namespace opstep
