// Taps: setting and ending them, binding to ops, the limits on their time and bytes, their status.
#include "debug/taps/taps.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "debug/breakpoints/op_matcher.h"
#include "debug/plans/slots.h"
#include "ir/program.h"
#include "ops/op.h"

namespace opstep {
namespace {

// The server checks this before; another client may not.
constexpr size_t kMostTaps = 1000;
constexpr uint32_t kMostBins = 4096;
constexpr uint32_t kMostSamples = 65536;

bool IsSane(double number) { return number >= 0 && number < 1e18; }

// The place of the tap; a gradient is a variable by another name.
proto::Breakpoint PlaceOf(const proto::Tap& tap, const Plan& plan, const BoundPlan& bound) {
  proto::Breakpoint where = WithVariable(tap.where(), plan, bound);
  if (tap.gradient_of()) {
    where.mutable_data()->set_variable(GradName(where.data().variable()));
  }
  return where;
}

// As the program declares them, -1 for open sizes: plans differ.
void DeclaredDims(const Plan& plan, int block, const SlotPlan& slot, proto::TapSource* source) {
  for (int b = block; b >= 0 && b < plan.desc.blocks_size(); b = plan.desc.blocks(b).parent()) {
    for (const proto::VarDesc& var : plan.desc.blocks(b).vars()) {
      if (var.name() != slot.name) continue;
      for (const int64_t size : var.dims()) source->add_dims(size);
      return;
    }
  }
  for (const int64_t size : slot.type.dims) source->add_dims(size);
}

// The slot of the op that a variable is in, and its name there.
std::string SlotName(const google::protobuf::RepeatedPtrField<proto::Slot>& slots,
                     const std::string& variable) {
  for (const proto::Slot& slot : slots) {
    if (std::find(slot.vars().begin(), slot.vars().end(), variable) != slot.vars().end())
      return slot.name();
  }
  return "";
}

}  // namespace

Taps::Taps(TapLimits limits)
    : limits_(std::move(limits)),
      full_tensors_(limits_.full_tensors),
      audit_(limits_.audit_file),
      sender_(limits_.queue_bytes),
      looked_(TapClock::now()) {}

void Taps::Refresh() {
  ++version_;
  any_ = std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) {
    return !entry.second.tap->ended && !entry.second.tap->spec.disabled();
  });
}

void Taps::Add(const proto::Tap& spec, const std::string& server) {
  Entry& entry = entries_[spec.uid()];
  const std::shared_ptr<LiveTap> old = entry.tap;
  if (old && old->spec.SerializeAsString() == spec.SerializeAsString()) return;
  audit_.Write(spec.who(), old ? "changed" : "set", spec);
  entry = Entry{};
  entry.tap = std::make_shared<LiveTap>(
      spec, server, old ? old->counters : std::make_shared<TapCounters>(),
      old && old->spec.seconds() == spec.seconds() ? old->since : TapClock::now());
  if (std::string why = Refusal(spec); !why.empty()) End(entry, std::move(why));
}

std::string Taps::Refusal(const proto::Tap& spec) const {
  if (entries_.size() > kMostTaps) return Cat("a process has no more than ", kMostTaps, " taps");
  if (spec.histogram_bins() > kMostBins || spec.samples() > kMostSamples) {
    return Cat("a histogram has no more than ", kMostBins, " bins, and a record no more than ",
               kMostSamples, " samples");
  }
  if (!IsSane(spec.per_second()) || !IsSane(spec.seconds()) || !IsSane(spec.until()) ||
      !IsSane(spec.probability()) || (spec.per_second() > 0 && spec.per_second() < 1e-6)) {
    return "its rate, chance or end is not a number that makes sense";
  }
  if (limits_.full_tensors) return "";
  if (spec.full() && !spec.has_value()) {
    return "this process does not let whole tensors be logged: take statistics, a histogram or "
           "samples";
  }
  if (spec.samples() > TapLimits::kFew) {
    return Cat("this process lets no more than ", TapLimits::kFew, " elements be logged");
  }
  return "";
}

void Taps::Limit(TapLimits limits) {
  limits_ = std::move(limits);
  full_tensors_ = limits_.full_tensors;
  for (auto& [uid, entry] : entries_) {
    entry.ops.clear();
    entry.forbidden = 0;
    if (entry.tap->ended) continue;
    if (std::string why = Refusal(entry.tap->spec); !why.empty()) End(entry, std::move(why));
  }
  Refresh();
}

void Taps::Stop() {
  stopped_ = true;
  any_ = false;
}

void Taps::Replace(const proto::SetTaps& wanted) {
  std::set<std::string> kept;
  for (const proto::Tap& spec : wanted.taps()) {
    kept.insert(spec.uid());
    Add(spec, wanted.server());
  }
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.tap->server != wanted.server() || kept.contains(it->first)) {
      ++it;
      continue;
    }
    it->second.tap->ended = true;
    audit_.Write(it->second.tap->spec.who(), "removed", it->second.tap->spec);
    it = entries_.erase(it);
  }
  Refresh();
}

void Taps::Drop(const proto::DropTaps& wanted) {
  for (const std::string& uid : wanted.uids()) {
    const auto it = entries_.find(uid);
    if (it == entries_.end()) continue;
    it->second.tap->ended = true;
    audit_.Write(wanted.who(), "removed", it->second.tap->spec);
    entries_.erase(it);
  }
  Refresh();
}

void Taps::Clear() {
  for (auto& [uid, entry] : entries_) {
    entry.tap->ended = true;
    audit_.Write("opstep", "removed", entry.tap->spec, "the process left the debug server");
  }
  entries_.clear();
  Refresh();
  audit_.Finish();
}

bool Taps::ServerGone() {
  bool any = false;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (!it->second.tap->spec.with_server()) {
      ++it;
      continue;
    }
    it->second.tap->ended = true;
    audit_.Write(it->second.tap->spec.who(), "removed", it->second.tap->spec, "its server is gone");
    it = entries_.erase(it);
    any = true;
  }
  Refresh();
  return any;
}

void Taps::End(Entry& entry, std::string why) {
  entry.tap->ended = true;
  entry.tap->why = std::move(why);
  audit_.Write("opstep", "ended", entry.tap->spec, entry.tap->why);
}

// ---- binding ------------------------------------------------------------------------------------

void Taps::Bind(const Plan& plan, BoundPlan& bound) {
  for (auto& [uid, entry] : entries_) {
    if (!entry.tap->ended) BindOne(entry, plan, bound);
  }
}

void Taps::BindOne(Entry& entry, const Plan& plan, BoundPlan& bound) {
  const proto::Breakpoint where = PlaceOf(entry.tap->spec, plan, bound);
  if (!entry.target.MayBeIn(where, plan)) return;
  const std::unique_ptr<Matcher> matcher = Matcher::For(where, plan);
  const size_t before = entry.ops.size();
  bool any = false;
  for (size_t block = 0; block < plan.blocks.size(); ++block) {
    for (const Instruction& instruction : plan.blocks[block].code) {
      if (IsQuiet(*instruction.op) || !matcher->Matches(*instruction.op)) continue;
      if (!limits_.Allows(*instruction.op)) {
        ++entry.forbidden;
        continue;
      }
      try {
        BindAt(entry, where, plan, static_cast<int>(block), instruction, bound);
        entry.ops.emplace(plan.program_id, instruction.op_id);
        any = true;
      } catch (const Error& error) {
        entry.problem = error.what();
      }
    }
  }
  entry.target.seen_plan = true;
  if (any) {
    bound.taps.push_back(entry.tap);
    entry.target.program = plan.program_id;
    entry.target.program_name = plan.program_name;
  } else if (before == 0) {
    entry.target.Explain(where, plan);
  }
}

// Throws when its value or condition is not available at the op.
void Taps::BindAt(Entry& entry, const proto::Breakpoint& where, const Plan& plan, int block,
                  const Instruction& instruction, BoundPlan& bound) {
  const proto::Tap& spec = entry.tap->spec;
  const auto bind = [&](const proto::Expr& expr) {
    const PythonNames names = bound.NamesAt(plan, *instruction.op);
    return Expression::Bind(expr, plan, block, instruction.op, &names);
  };
  TapBinding made;
  made.tap = entry.tap;
  if (spec.has_condition()) {
    limits_.CheckAllowed(spec.condition(), *instruction.op);
    made.condition = bind(spec.condition());
    OPSTEP_CHECK(!spec.inputs() || !made.condition->needs_outputs(), "the condition '",
                 spec.condition_text(),
                 "' asks for an output, which is not there yet when inputs are logged");
  }
  if (spec.has_value()) limits_.CheckAllowed(spec.value(), *instruction.op);
  OpWork& work = bound.WorkAt(static_cast<size_t>(block), instruction.index);
  if (spec.has_value()) {
    made.value = bind(spec.value());
    made.point = PointOf(entry, plan, block, instruction, 0);
    // The inputs of an op may be gone after it: wait for the outputs only where they are needed.
    const bool after = made.value->needs_outputs() ||
                       (made.condition && made.condition->needs_outputs()) || where.has_data();
    (after ? work.taps_after : work.taps_before).push_back(std::move(made));
    return;
  }
  const auto add = [&](const uint32_t* from, size_t n, std::vector<TapBinding>& to) {
    const uint32_t only = where.has_data() ? plan.FindSlot(block, where.data().variable()) : 0;
    for (const uint32_t* slot = from; slot != from + n; ++slot) {
      const SlotPlan& of = plan.slots[*slot];
      if (*slot == 0 || !HoldsTensor(of) || (only && *slot != only)) continue;
      if (std::find(from, slot, *slot) != slot) continue;  // x * x
      TapBinding each = made;
      each.slot = *slot;
      each.point = PointOf(entry, plan, block, instruction, *slot);
      to.push_back(std::move(each));
    }
  };
  if (spec.inputs()) add(instruction.args, instruction.n_in, work.taps_before);
  if (spec.outputs() || !spec.inputs()) {
    add(instruction.args + instruction.n_in, instruction.n_out, work.taps_after);
  }
}

std::shared_ptr<const TapPoint> Taps::PointOf(Entry& entry, const Plan& plan, int block,
                                              const Instruction& instruction, uint32_t slot) {
  const proto::OpDesc& op = *instruction.op;
  const proto::Tap& spec = entry.tap->spec;
  proto::TapSource source;
  source.set_tap(spec.uid());
  source.set_tap_name(spec.name());
  source.set_program(plan.program_id);
  source.set_program_name(plan.program_name);
  source.set_op(op.id());
  source.set_op_name(op.name());
  source.set_op_type(op.type());
  source.set_block(static_cast<uint32_t>(block));
  source.set_gradient(IsGradient(op));
  if (slot) {
    const SlotPlan& of = plan.slots[slot];
    source.set_variable(of.name);
    const std::string output = SlotName(op.outputs(), of.name);
    source.set_slot(output.empty() ? SlotName(op.inputs(), of.name) : output);
    source.set_dtype(static_cast<proto::DataType>(of.type.dtype));
    DeclaredDims(plan, block, of, &source);
  } else {
    source.set_variable(spec.value_text());
  }
  for (const SourceFrame& frame : plan.StackOf(op)) {
    source.mutable_line()->set_file(frame.file);
    source.mutable_line()->set_line(frame.line);
    source.mutable_line()->set_function(frame.function);
    break;
  }
  std::shared_ptr<const TapPoint>& point = entry.points[source.SerializeAsString()];
  if (!point) {
    source.set_source(++last_point_);
    point = std::make_shared<const TapPoint>(entry.tap->counters, std::move(source));
  }
  return point;
}

bool Taps::Due(const BoundPlan& bound, uint64_t step) const {
  return std::any_of(bound.taps.begin(), bound.taps.end(),
                     [&](const auto& tap) { return tap->Due(step); });
}

bool Taps::EndThoseOver(TapClock::time_point now) {
  bool ended = false;
  for (auto& [uid, entry] : entries_) {
    if (entry.tap->ended) continue;
    if (std::string why = entry.tap->Over(now); !why.empty()) {
      End(entry, std::move(why));
      ended = true;
    }
  }
  if (ended) Refresh();
  return ended;
}

bool Taps::Police(TapClock::time_point now) {
  bool ended = EndThoseOver(now);
  // Points of plans that are gone.
  for (auto& [uid, entry] : entries_) {
    if (entry.points.size() > 2 * entry.ops.size() + 1000)
      std::erase_if(entry.points, [](const auto& point) { return point.second.use_count() == 1; });
  }
  if (now - looked_ < kPatrol) return ended;
  const double seconds = std::chrono::duration<double>(now - looked_).count();
  looked_ = now;
  double time = 0, bytes = 0;
  Entry* slowest = nullptr;
  Entry* largest = nullptr;
  double slowest_time = 0, largest_bytes = 0;
  for (auto& [uid, entry] : entries_) {
    if (entry.tap->ended) continue;
    const double own_time =
        static_cast<double>(entry.tap->nanoseconds.exchange(0)) * 1e-9 / seconds;
    const double own_bytes = static_cast<double>(entry.tap->bytes.exchange(0)) / seconds;
    time += own_time;
    bytes += own_bytes;
    if (own_time > slowest_time) slowest_time = own_time, slowest = &entry;
    if (own_bytes > largest_bytes) largest_bytes = own_bytes, largest = &entry;
  }
  // Ends only the tap that does most: the others may stay.
  if (limits_.cpu_share > 0 && time > limits_.cpu_share && slowest && !slowest->tap->ended) {
    const auto percent = [](double share) { return std::max(0.1, std::round(share * 1000) / 10); };
    End(*slowest,
        Cat("switched off: it took ", percent(slowest_time), " % of the time, all taps ",
            percent(time), " %, and this process gives them ", percent(limits_.cpu_share), " %"));
    ended = true;
  }
  if (limits_.bytes_per_second > 0 && bytes > limits_.bytes_per_second && largest &&
      !largest->tap->ended) {
    const auto rounded = [](double n) { return static_cast<uint64_t>(n); };
    End(*largest, Cat("switched off: it made ", rounded(largest_bytes),
                      " bytes a second, all taps ", rounded(bytes),
                      ", and this process lets them make ", rounded(limits_.bytes_per_second)));
    ended = true;
  }
  if (ended) Refresh();
  return ended;
}

// ---- telling ------------------------------------------------------------------------------------

proto::TapStatus Taps::StatusOf(const Entry& entry) const {
  const LiveTap& tap = *entry.tap;
  proto::TapStatus status;
  status.set_uid(tap.spec.uid());
  status.set_name(tap.spec.name());
  status.set_who(tap.spec.who());
  status.set_server(tap.server);
  status.set_op_count(static_cast<uint32_t>(entry.ops.size()));
  if (tap.ended) {
    status.set_ended(tap.why);
  } else if (tap.spec.disabled()) {
    // Programs that ran meanwhile may not have been searched for it.
  } else if (entry.ops.empty() && !entry.problem.empty()) {
    status.set_message(entry.problem);
  } else if (entry.ops.empty() && entry.forbidden > 0) {
    status.set_message("this process does not let these ops be logged (its list of allowed ops)");
  } else if (entry.ops.empty()) {
    status.set_message(entry.target.WhyUnbound(tap.spec.where()));
  } else if (!entry.problem.empty()) {
    status.set_message(Cat("not at all of the ops: ", entry.problem));
  } else if (tap.failed) {
    status.set_message(
        Cat("the condition '", tap.spec.condition_text(), "' failed: ", tap.failure));
  } else if (entry.forbidden > 0) {
    status.set_message("some of the ops may not be logged (this process's list of allowed ops)");
  }
  return status;
}

proto::TapStatuses Taps::Tell(bool audit) {
  EndThoseOver(TapClock::now());
  proto::TapStatuses all;
  for (auto& [uid, entry] : entries_) {
    proto::TapStatus status = StatusOf(entry);
    entry.told = status.SerializeAsString();
    entry.tap->counters->Fill(uid, status.mutable_counts());
    *all.add_statuses() = std::move(status);
  }
  if (audit) {
    for (const std::string& line : audit_.lines()) all.add_audit(line);
  }
  return all;
}

proto::TapStatuses Taps::TakeChanges() {
  proto::TapStatuses changes;
  for (auto& [uid, entry] : entries_) {
    proto::TapStatus status = StatusOf(entry);
    std::string now = status.SerializeAsString();
    if (now == entry.told) continue;
    entry.told = std::move(now);
    entry.tap->counters->Fill(uid, status.mutable_counts());
    *changes.add_statuses() = std::move(status);
  }
  return changes;
}

}  // namespace opstep
