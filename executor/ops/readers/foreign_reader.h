// How the executor opens readers that are written in the language above it.
#pragma once

#include <cstdint>
#include <memory>

#include "data/source.h"

namespace opstep {

// How to open a reader that the language above has, by the number that it was given there. The
// bindings set it.
void SetForeignReaders(std::shared_ptr<Source> (*open)(int64_t number));

}  // namespace opstep
