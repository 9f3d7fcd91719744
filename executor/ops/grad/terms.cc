// Terms: emits the ops of a formula over gradients when its value is given.
#include "ops/grad/terms.h"

#include <algorithm>

namespace opstep {

struct Term::Node {
  std::string variable;  // "" until it is emitted
  std::string type;
  Inputs inputs;
  std::string slot;
  std::vector<proto::Attr> attrs;
};

Term::Term(const std::string& variable) {
  if (!variable.empty()) node_ = std::make_shared<Node>(Node{variable, {}, {}, {}, {}});
}

Term::Term(std::string type, Inputs inputs, std::string slot, std::vector<proto::Attr> attrs)
    : node_(std::make_shared<Node>(
          Node{{}, std::move(type), std::move(inputs), std::move(slot), std::move(attrs)})) {}

std::string Term::Emit(GradContext& g, const std::string& to) const {
  if (!node_) return "";
  Node& node = *node_;
  if (!node.variable.empty()) return to.empty() ? node.variable : g.Copy(node.variable, to);
  std::vector<std::pair<std::string, Names>> inputs;
  for (const auto& [slot, terms] : node.inputs) {
    Names& names = inputs.emplace_back(slot, Names{}).second;
    for (const Term& term : terms) names.push_back(term.Emit(g));
  }
  node.variable = to.empty() ? g.Fresh(Cat(g.op().desc().name(), ".", node.type)) : to;
  g.Emit(node.type, std::move(inputs), {{node.slot, {node.variable}}}, node.attrs);
  return node.variable;
}

Term In(GradContext& g, std::string_view slot, int i) {
  const Names names = g.op().Inputs(slot);
  return i < static_cast<int>(names.size()) ? Term(names[i]) : Term();
}

Term OutGradient(GradContext& g, std::string_view slot, int i) {
  const Names names = g.op().Outputs(slot);
  const bool there = i < static_cast<int>(names.size()) && !names[i].empty();
  return there ? Term(g.OutGrad(slot, i)) : Term();
}

void Give(GradContext& g, std::string_view slot, const Term& gradient, int i) {
  if (!gradient) return;
  if (const std::string to = g.InGrad(slot, i); !to.empty()) gradient.Emit(g, to);
}

namespace {

std::vector<proto::Attr> Attributes(GradContext& g) {
  return {g.op().desc().attrs().begin(), g.op().desc().attrs().end()};
}

std::string ForwardType(GradContext& g) {
  constexpr std::string_view kEnding = "_grad";
  const std::string& type = g.op().type();
  return type.substr(0, type.size() - kEnding.size());
}

}  // namespace

Term Again(GradContext& g, Term::Inputs inputs, std::string slot) {
  return Term(g.op().type(), std::move(inputs), std::move(slot), Attributes(g));
}

Term ForwardOp(GradContext& g, Term::Inputs inputs, std::string slot,
               std::vector<proto::Attr> other) {
  std::vector<proto::Attr> attrs = std::move(other);
  for (const proto::Attr& attr : g.op().desc().attrs()) {
    const bool replaced = std::any_of(attrs.begin(), attrs.end(), [&](const proto::Attr& known) {
      return known.name() == attr.name();
    });
    if (!replaced) attrs.push_back(attr);
  }
  return Term(ForwardType(g), std::move(inputs), std::move(slot), std::move(attrs));
}

void ElementGradient(GradContext& g, std::string_view value, Second second) {
  const Term v = In(g, value), dout = In(g, "dout"), given = OutGradient(g, "dX");
  Give(g, "dout", Again(g, {{std::string(value), {v}}, {"dout", {given}}}, "dX"));
  Give(g, value, second(g, v, given * dout));
}

Term Slope(GradContext& g, const Term& x, int times, const Term& given) {
  if (times == 0 || !given) return given;
  return Again(g, {{"X", {x}}, {"dout", {Slope(g, x, times - 1, given)}}}, "dX");
}

void FlatGradient(GradContext& g) {
  Term::Inputs inputs;
  for (const proto::Slot& slot : g.op().desc().inputs())
    inputs.push_back({slot.name(), {In(g, slot.name())}});
  for (auto& [slot, terms] : inputs) {
    if (slot == "dout") terms = {OutGradient(g, "dX")};
  }
  Give(g, "dout", Again(g, std::move(inputs), "dX"));
}

void MovedGradient(GradContext& g) {
  Term::Inputs inputs;
  for (const proto::Slot& slot : g.op().desc().inputs()) {
    if (slot.name() != "dout" && slot.name() != "X")
      inputs.push_back({slot.name(), {In(g, slot.name())}});
  }
  inputs.push_back({"X", {OutGradient(g, "dX")}});
  Give(g, "dout", ForwardOp(g, std::move(inputs), "out"));
}

void ReshapedGradient(GradContext& g) {
  Give(g, "dout", ShapedAs(OutGradient(g, "dX"), In(g, "dout")));
}

void BothSides(GradContext& g, Term::Inputs others) {
  for (const char* slot : {"X", "Y"}) {
    const Term given = OutGradient(g, Cat("d", slot));
    others.push_back({slot, {given ? given : Filled(In(g, slot), 0)}});
  }
  Give(g, "dout", ForwardOp(g, std::move(others), "out"));
}

void ChosenGradient(GradContext& g) {
  const Term dout = In(g, "dout");
  const Term x = SpreadTo(In(g, "X"), dout), y = SpreadTo(In(g, "Y"), dout);
  const auto side = [&](const std::string& slot) {
    const Term given = OutGradient(g, slot);
    if (!given) return given;
    return Again(g, {{"X", {x}}, {"Y", {y}}, {"dout", {SpreadTo(given, dout)}}}, slot);
  };
  Give(g, "dout", side("dX") + side("dY"));
}

void ProductGradient(GradContext& g, const std::string& y, const std::string& bias) {
  const Term x_now = In(g, "X"), y_now = In(g, y), dout = In(g, "dout");
  const Term dx = OutGradient(g, "dX"), dy = OutGradient(g, "d" + y);
  const Term db = bias.empty() ? Term() : OutGradient(g, "d" + bias);
  const auto product = [&](const Term& left, const Term& right, const Term& more) {
    Term::Inputs inputs{{"X", {left}}, {y, {right}}};
    if (more) inputs.push_back({bias, {more}});
    return left && right ? ForwardOp(g, std::move(inputs), "out") : Term();
  };
  // The bias goes with either product; without both it is a product with zeros.
  const Term left = dx || !db ? product(dx, y_now, db) : product(Filled(x_now, 0), y_now, db);
  Give(g, "dout", left + product(x_now, dy, Term()));
  const auto side = [&](const Term& left, const Term& right, const std::string& slot) {
    return left && right ? Again(g, {{"X", {left}}, {y, {right}}, {"dout", {dout}}}, slot) : Term();
  };
  Give(g, "X", side(x_now, dy, "dX"));
  Give(g, y, side(dx, y_now, "d" + y));
}

}  // namespace opstep
