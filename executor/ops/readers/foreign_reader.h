// How the executor opens readers that are written in the calling language.
#pragma once

#include <cstdint>
#include <memory>

#include "data/source.h"

namespace opstep {

// Opens a reader of the calling language by its number there. The bindings set it.
void SetForeignReaders(std::shared_ptr<Source> (*open)(int64_t number));

}  // namespace opstep
