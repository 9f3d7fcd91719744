// Error, Cat, Fail and OPSTEP_CHECK: one sentence for the user about what went wrong.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace opstep {

// One sentence for the user: what, where, what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Joins its arguments as text.
template <typename... Args>
std::string Cat(Args&&... args) {
  std::ostringstream out;
  (out << ... << std::forward<Args>(args));
  return std::move(out).str();
}

template <typename... Args>
[[noreturn]] void Fail(Args&&... args) {
  throw Error(Cat(std::forward<Args>(args)...));
}

}  // namespace opstep

// Stays on in release builds. The message is put together only when the check fails.
#define OPSTEP_CHECK(condition, ...) \
  do {                               \
    if (!(condition)) [[unlikely]]   \
      ::opstep::Fail(__VA_ARGS__);   \
  } while (false)
