// A tap's counts, and whether a run, its rate and its time let it make a record.
#include "debug/taps/tap.h"

#include <algorithm>
#include <ctime>

#include "base/error.h"

namespace opstep {
namespace {

constexpr double kNanosecond = 1e-9;

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A number in [0, 1) that depends on the two only.
double Chance(uint64_t seed, uint64_t step) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + step;
  for (int i = 0; i < 2; ++i) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  return static_cast<double>(x >> 11) * 0x1p-53;
}

}  // namespace

void TapCounters::Fill(const std::string& uid, proto::TapCounts* counts) const {
  counts->set_uid(uid);
  // `produced` is read last: a record that ends meanwhile was produced before.
  counts->set_delivered(delivered);
  counts->set_queue_full(queue_full);
  counts->set_disconnected(disconnected);
  counts->set_rate(rate);
  counts->set_too_large(too_large);
  counts->set_sink(sink);
  counts->set_unconfirmed(unconfirmed);
  counts->set_at_exit(at_exit);
  counts->set_produced(produced);
  counts->set_waiting(counts->produced() - counts->delivered() - counts->queue_full() -
                      counts->disconnected() - counts->rate() - counts->too_large() -
                      counts->sink() - counts->unconfirmed() - counts->at_exit());
}

namespace {

// A time more than ten years ahead is never reached.
constexpr double kLong = 3e8;

TapClock::time_point DeadlineOf(const proto::Tap& tap, TapClock::time_point since) {
  double seconds = kLong;
  if (tap.seconds() > 0) seconds = std::min(seconds, tap.seconds());
  TapClock::time_point end =
      since + std::chrono::nanoseconds(static_cast<int64_t>(seconds / kNanosecond));
  if (tap.until() <= 0) return end;
  const double left = std::clamp(tap.until() - SecondsSince1970(), -kLong, kLong);
  return std::min(
      end, TapClock::now() + std::chrono::nanoseconds(static_cast<int64_t>(left / kNanosecond)));
}

}  // namespace

LiveTap::LiveTap(proto::Tap tap, std::string server, std::shared_ptr<TapCounters> counters,
                 TapClock::time_point since)
    : spec(std::move(tap)),
      server(std::move(server)),
      counters(std::move(counters)),
      since(since),
      deadline(DeadlineOf(spec, since)) {}

bool LiveTap::Due(uint64_t step) const {
  if (spec.disabled() || ended.load(std::memory_order_relaxed)) return false;
  if (spec.every() > 1 && step % spec.every() != 0) return false;
  return spec.probability() <= 0 || Chance(spec.seed(), step) < spec.probability();
}

bool LiveTap::WithinRate(TapClock::time_point now) {
  if (spec.per_second() <= 0) return true;
  const int64_t at = now.time_since_epoch().count();
  const auto step = static_cast<int64_t>(1 / (spec.per_second() * kNanosecond));
  // The unused rate of the last second may be used at once, and always one record.
  const int64_t ahead = std::max<int64_t>(1'000'000'000 - step, 0);
  int64_t next = next_.load(std::memory_order_relaxed);
  do {
    if (next - at > ahead) return false;
  } while (!next_.compare_exchange_weak(next, std::max(next, at) + step));
  return true;
}

bool LiveTap::WithinCount() {
  if (spec.count() == 0) return true;
  if (made_.fetch_add(1, std::memory_order_relaxed) < spec.count()) return true;
  made_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

std::string LiveTap::Over(TapClock::time_point now) const {
  if (spec.count() > 0 && made_.load(std::memory_order_relaxed) >= spec.count()) {
    return Cat("it has made its ", spec.count(), spec.count() == 1 ? " record" : " records");
  }
  if (now < deadline) return "";
  const double age = std::chrono::duration<double>(now - since).count();
  if (spec.seconds() > 0 && age >= spec.seconds()) {
    return Cat("its ", spec.seconds(), " s are over");
  }
  if (spec.until() > 0) {
    const auto at = static_cast<time_t>(spec.until());
    tm utc{};
    gmtime_r(&at, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
    return Cat("it was set until ", text, " UTC");
  }
  return "";
}

}  // namespace opstep
