// Taps on the user's threads: makes the records at one op.
#include <ctime>

#include "base/histogram.h"
#include "debug/taps/taps.h"

namespace opstep {
namespace {

uint64_t NanosecondsSince1970() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

proto::TapExtra& ExtraOf(TapRecord* record) {
  if (!record->extra) record->extra = std::make_unique<proto::TapExtra>();
  return *record->extra;
}

void AddHistogram(const Tensor& value, uint32_t bins, TapRecord* record) {
  const Summary& s = record->statistics;
  proto::Histogram* to = ExtraOf(record).mutable_histogram();
  if (s.count == s.nan + s.inf) return;  // nothing finite
  const Histogram made = MakeHistogram(value, s.min, s.max, static_cast<int>(bins));
  to->set_low(made.low);
  to->set_high(made.high);
  to->mutable_counts()->Assign(made.counts.begin(), made.counts.end());
}

void AddSamples(const Tensor& value, uint32_t count, TapRecord* record) {
  proto::TapSamples* to = ExtraOf(record).mutable_samples();
  const std::vector<int64_t> positions = SamplePositions(value.numel, count);
  to->mutable_positions()->Assign(positions.begin(), positions.end());
  to->mutable_data()->resize(positions.size() * SizeOf(value.dtype));
  to->set_dtype(static_cast<proto::DataType>(value.dtype));
  CopyElements(value, positions, to->mutable_data()->data());
}

void AddElements(const Tensor& value, TapRecord* record) {
  proto::TapExtra& extra = ExtraOf(record);
  proto::Tensor* to = extra.mutable_tensor();
  to->set_dtype(static_cast<proto::DataType>(value.dtype));
  for (const int64_t size : value.dims) to->add_dims(size);
  const size_t bytes = static_cast<size_t>(value.numel) * SizeOf(value.dtype);
  to->set_data(static_cast<const char*>(value.data), bytes);
  extra.set_total_bytes(bytes);
}

}  // namespace

void Taps::Visit(const std::vector<TapBinding>& bindings, const FrameView& frame, uint32_t thread) {
  if (stopped_) return;
  for (const TapBinding& binding : bindings) {
    LiveTap& tap = *binding.tap;
    if (!tap.Due(frame.step())) continue;
    const TapClock::time_point start = TapClock::now();
    if (start >= tap.deadline) continue;
    const uint64_t first = tap.spec.first();
    if (first > 0 && !binding.point->IsAmongFirst(frame.step(), first)) continue;
    try {
      if (binding.condition && !binding.condition->Test({frame, frame.top()})) continue;
      TapRecord record;
      record.point = binding.point;
      record.step = frame.step();
      record.iteration = frame.top().iteration;
      record.time = NanosecondsSince1970();
      record.thread = thread;
      if (!tap.WithinRate(start)) {
        binding.point->counters->produced += 1;
        binding.point->counters->rate += 1;
        continue;
      }
      if (!tap.WithinCount()) continue;
      Record(binding, frame, &record);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      // A condition that fails does not hold, and its status says why.
      if (!tap.failing.exchange(true)) {
        tap.failure = error.what();
        tap.failed = true;
      }
    }
    const auto spent = TapClock::now() - start;
    tap.nanoseconds.fetch_add(static_cast<uint64_t>(std::chrono::nanoseconds(spent).count()),
                              std::memory_order_relaxed);
  }
}

bool Taps::IsPatrolDue() {
  const int64_t now = TapClock::now().time_since_epoch().count();
  int64_t next = next_patrol_.load(std::memory_order_relaxed);
  return now >= next && next_patrol_.compare_exchange_strong(next, now + kPatrol.count());
}

void Taps::Record(const TapBinding& binding, const FrameView& frame, TapRecord* record) {
  const proto::Tap& spec = binding.tap->spec;
  Tensor made;
  const Tensor* value = nullptr;
  if (binding.value) {
    try {
      made = binding.value->Read({frame, frame.top()});
      value = &made;
      if (made.dims.rank() == 0) {
        binding.value->Evaluate({frame, frame.top()}, 1, 0, 0, ExtraOf(record).mutable_value());
        value = nullptr;
      }
    } catch (const Error& error) {
      ExtraOf(record).set_error(error.what());
    }
  } else if (frame.StateOf(binding.slot) == ValueState::kPresent && frame.tensor(binding.slot)) {
    value = &frame.tensor(binding.slot);
  } else {
    ExtraOf(record).set_error("there is no value");
  }
  if (value != nullptr) {
    const bool small = value->numel <= TapLimits::kFew;
    const size_t bytes = static_cast<size_t>(value->numel) * SizeOf(value->dtype);
    if (spec.full() && ((spec.max_bytes() > 0 && bytes > spec.max_bytes()) ||
                        bytes > sender_.room() || (!full_tensors_ && !small))) {
      record->point->counters->produced += 1;
      record->point->counters->too_large += 1;
      return;
    }
    if (spec.statistics() || spec.histogram_bins() > 0) {
      record->statistics = Summarize(*value);
    }
    if (spec.histogram_bins() > 0) AddHistogram(*value, spec.histogram_bins(), record);
    if (spec.samples() > 0) AddSamples(*value, spec.samples(), record);
    if (spec.full()) AddElements(*value, record);
  }
  if (record->extra) record->bytes = record->extra->SpaceUsedLong();
  binding.tap->bytes.fetch_add(128 + record->bytes, std::memory_order_relaxed);
  sender_.Add(*record);
}

}  // namespace opstep
