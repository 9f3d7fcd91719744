// TapLimits: which ops and expressions may be logged.
#include "debug/taps/tap_limits.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "debug/breakpoints/op_matcher.h"

namespace opstep {
namespace {

bool HasSlot(const google::protobuf::RepeatedPtrField<proto::Slot>& slots,
             const std::string& name) {
  return std::any_of(slots.begin(), slots.end(),
                     [&](const proto::Slot& slot) { return slot.name() == name; });
}

// Checks every name in it, and every subscript.
void Check(const proto::Expr& expr, const proto::OpDesc& op, bool parts) {
  static const std::set<std::string> kNone = {"step", "iteration", "op", "block", "nan", "inf"};
  const auto all = [&](const auto& exprs) {
    for (const proto::Expr& each : exprs) Check(each, op, parts);
  };
  switch (expr.node_case()) {
    case proto::Expr::kName: {
      const std::string& name = expr.name();
      const bool attr = std::any_of(op.attrs().begin(), op.attrs().end(),
                                    [&](const proto::Attr& a) { return a.name() == name; });
      OPSTEP_CHECK(
          attr || kNone.contains(name) || HasSlot(op.inputs(), name) || HasSlot(op.outputs(), name),
          "this process lets only the op's own values be logged, and '", name, "' is none of them");
      return;
    }
    case proto::Expr::kAttribute:
      return Check(expr.attribute().value(), op, parts);
    case proto::Expr::kUnary:
      return Check(expr.unary().value(), op, parts);
    case proto::Expr::kBinary:
      Check(expr.binary().left(), op, parts);
      return Check(expr.binary().right(), op, parts);
    case proto::Expr::kCompare:
      Check(expr.compare().first(), op, parts);
      return all(expr.compare().rest());
    case proto::Expr::kLogic:
      return all(expr.logic().values());
    case proto::Expr::kCall:
      OPSTEP_CHECK(expr.call().function() != "grad" && expr.call().function() != "var",
                   "this process lets only the op's own values be logged, and ",
                   expr.call().function(), "() asks for others");
      all(expr.call().args());
      for (const proto::Expr::Keyword& keyword : expr.call().keywords()) {
        Check(keyword.value(), op, parts);
      }
      return;
    case proto::Expr::kIndex:
      OPSTEP_CHECK(parts, "this process does not let parts of tensors be logged");
      return Check(expr.index().value(), op, parts);
    case proto::Expr::kList:
      return all(expr.list().values());
    default:
      return;
  }
}

}  // namespace

bool TapLimits::Allows(const proto::OpDesc& op) const {
  return allowed.empty() ||
         std::any_of(allowed.begin(), allowed.end(), [&](const std::string& pattern) {
           return op.type() == pattern || MatchesGlob(pattern, op.name());
         });
}

void TapLimits::CheckAllowed(const proto::Expr& expr, const proto::OpDesc& op) const {
  if (allowed.empty() && full_tensors) return;
  Check(expr, op, full_tensors);
}

}  // namespace opstep
