// The content of a variable: its hash, its summary and a sentence about a write.
#include "debug/breakpoints/data_watch.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace opstep {
namespace {

constexpr uint64_t kPrime = 0x9e3779b97f4a7c15u;

uint64_t Mix(uint64_t hash, uint64_t word) { return std::rotl(hash ^ word, 29) * kPrime; }

// Four lanes, so that the multiplications do not wait for one another.
uint64_t HashBytes(const void* data, size_t size, uint64_t seed) {
  uint64_t lanes[4] = {seed, seed + 1, seed + 2, seed + 3};
  const char* p = static_cast<const char*>(data);
  for (; size >= 32; p += 32, size -= 32) {
    uint64_t words[4];
    std::memcpy(words, p, 32);
    for (int i = 0; i < 4; ++i) lanes[i] = Mix(lanes[i], words[i]);
  }
  for (; size > 0; p += 8, size -= std::min<size_t>(size, 8)) {
    uint64_t word = 0;
    std::memcpy(&word, p, std::min<size_t>(size, 8));
    lanes[0] = Mix(lanes[0], word);
  }
  uint64_t hash = kPrime;
  for (uint64_t lane : lanes) hash = Mix(hash, lane);
  return hash ^ (hash >> 32);
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string Describe(const Content& content) {
  const Summary& s = content.summary;
  if (!content.present) return "nothing";
  if (s.count == 0) return "empty";
  if (s.count == 1) return s.nan ? "NaN" : s.inf ? "Inf" : Number(s.min);
  std::string text;
  if (s.nan + s.inf < s.count) {
    text = Cat("mean ", Number(s.mean), " std ", Number(s.std), " [", Number(s.min), ", ",
               Number(s.max), "]");
  }
  if (s.nan) text += Cat(text.empty() ? "" : " ", s.nan, " NaN");
  if (s.inf) text += Cat(text.empty() ? "" : " ", s.inf, " Inf");
  return text;
}

}  // namespace

Content LookAt(const FrameView& frame, uint32_t slot) {
  Content content;
  if (!slot || frame.StateOf(slot) != ValueState::kPresent) return content;
  const Tensor& tensor = frame.tensor(slot);
  if (!tensor) return content;
  content.present = true;
  uint64_t shape = static_cast<uint64_t>(tensor.dtype);
  for (int64_t size : tensor.dims) shape = Mix(shape, static_cast<uint64_t>(size));
  content.hash = HashBytes(tensor.data, tensor.bytes(), shape);
  content.summary = Summarize(tensor);
  return content;
}

std::string TellWrite(const FrameView& frame, uint32_t slot, const Content& before,
                      const Content& after) {
  return Cat("[", frame.top().instruction->op->type(), "] wrote ", frame.plan().slots[slot].name,
             ": ", Describe(before), before == after ? ", unchanged" : " → ",
             before == after ? "" : Describe(after));
}

}  // namespace opstep
