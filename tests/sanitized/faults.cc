// What the sanitizers must report: proof that they are on, without which no report means nothing.
#include <climits>
#include <cstdint>
#include <thread>

namespace {

#ifdef __SANITIZE_THREAD__
int shared = 0;

void Faults() {
  std::thread other([] { ++shared; });
  ++shared;
  other.join();
}
#else
volatile double large = 1e20;
volatile int32_t most = INT32_MAX;
volatile int bits = 40;
volatile int index = 4;
alignas(8) char bytes[8] = {};

void Faults() {
  most = static_cast<int32_t>(large);
  most = INT32_MAX;
  most = most + 1;
  most = 1 << bits;
  most = *reinterpret_cast<int32_t*>(bytes + index / 4);
  char* heap = new char[4]();
  most = heap[index];
  delete[] heap;
}
#endif

}  // namespace

int main() { Faults(); }
