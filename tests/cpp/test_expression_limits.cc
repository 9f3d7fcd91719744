// Expressions that are hostile, large or random: an Error sentence or an answer within limits,
// never a crash. And the speed of the usual conditions.
#include <cstdio>
#include <random>

#include "expression_world.h"

using namespace opstep;
using Expr = proto::Expr;

namespace {

std::string ErrorOf(const World& world, const Expr& e) {
  try {
    world.Bind(e)->Test(world.env());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void ExpectError(const World& world, const Expr& e, const std::string& part) {
  const std::string got = ErrorOf(world, e);
  Check(got.find(part) != std::string::npos, part + " expected, got: " + got);
}

void Hostile(const World& world) {
  Expr empty;
  ExpectError(world, empty, "malformed");
  Expr e;
  e.mutable_binary();
  ExpectError(world, e, "malformed");
  *e.mutable_binary()->mutable_left() = *e.mutable_binary()->mutable_right() =
      ExpressionText::Parse("1");
  e.mutable_binary()->set_op(static_cast<Expr::Binary::Op>(77));
  ExpectError(world, e, "malformed");
  e.mutable_unary()->set_op(static_cast<Expr::Unary::Op>(-1));
  ExpectError(world, e, "malformed");
  e.mutable_logic();
  ExpectError(world, e, "malformed");
  e.mutable_compare()->add_ops(Expr::Compare::LESS);
  ExpectError(world, e, "malformed");
  e.mutable_index();
  ExpectError(world, e, "malformed");
  *e.mutable_index()->mutable_value() = ExpressionText::Parse("x");
  e.mutable_index()->add_subscripts();
  ExpectError(world, e, "malformed");
  e.mutable_call();
  ExpectError(world, e, "no function");
  Expr deep = ExpressionText::Parse("step");
  for (int i = 0; i < 5000; ++i) {
    Expr outer;
    outer.mutable_unary()->mutable_value()->Swap(&deep);
    deep.Swap(&outer);
  }
  ExpectError(world, deep, "nested deeper");
  Expr dotted = ExpressionText::Parse("step");
  for (int i = 0; i < 5000; ++i) {
    Expr outer;
    outer.mutable_attribute()->set_name("a");
    outer.mutable_attribute()->mutable_value()->Swap(&dotted);
    dotted.Swap(&outer);
  }
  ExpectError(world, dotted, "nested deeper");
  Expr wide;
  for (int i = 0; i < 5000; ++i) wide.mutable_list()->add_values()->set_i(i);
  ExpectError(world, wide, "more than 1000 parts");
  // Slices at the ends of the range of integers.
  const std::string big = "9223372036854775807";
  assert(world.Eval("x[-" + big + ":" + big + ":" + big + "]").tensor().dims(0) == 1);
  assert(world.Eval("x[" + big + ":-" + big + ":-" + big + "]").tensor().dims(0) == 1);
  assert(world.Eval("x[::-" + big + " - 1]").tensor().dims(0) == 1);
  assert(world.Eval("(k * 0 - " + big + " - 1) // -1").tensor().summary().count() == 6);
  assert(world.Eval("(k * 0 - " + big + " - 1) % -1").tensor().summary().zeros() == 6);
}

void Budgets(World& world) {
  world.Add<float>("column", {1 << 16, 1}, std::vector<float>(1 << 16, 1.f));
  world.Add<float>("wide", {1024, 20480}, std::vector<float>(1024 * 20480, 1.f));
  Check(world.ErrorOf("column + column.T").find("too large") != std::string::npos, "too large");
  Check(world.ErrorOf("column[:32768] + column[:16384].T").find("MiB") != std::string::npos, "MiB");
  // No machine does 860 billion operations in 2 s on one thread.
  std::string products = "wide @ wide.T";
  for (int i = 1; i < 20; ++i) products += " + wide @ wide.T";
  Check(world.ErrorOf(products).find("longer than 2 s") != std::string::npos, "time");
}

void Messages(World& world) {
  world.Add<float>("square", {2048, 2048}, std::vector<float>(2048 * 2048, 1.f));
  proto::Value v;
  world.Bind("t")->Evaluate(world.env(), 5, 1, 10, &v);
  assert(v.tensor().data().size() == 5 * sizeof(float) && v.tensor().children_size() == 1);
  const proto::Tensor& child = v.tensor().children(0).tensor();
  assert(child.dims_size() == 2 && child.dims(0) == 3 && child.summary().min() == 5 &&
         child.summary().max() == 16);
  assert(v.tensor().summary().count() == 24 && v.tensor().summary().min() == -7 &&
         v.tensor().summary().zeros() == 1);
  v.Clear();
  world.Bind("i")->Evaluate(world.env(), 0, 1, 2, &v);
  assert(v.tensor().data().empty() && v.tensor().children_size() == 2);
  assert(v.tensor().children(0).i() == -3 && v.tensor().children(1).i() == 0);
  v.Clear();
  world.Bind("x.T")->Evaluate(world.env(), 6, UINT64_MAX, UINT64_MAX, &v);
  const float turned[] = {1.5, 0.5, -2, 0, 3, 4};
  assert(v.tensor().children_size() == 0 &&
         std::memcmp(v.tensor().data().data(), turned, sizeof turned) == 0);
  v.Clear();
  world.Bind("square")->Evaluate(world.env(), UINT64_MAX, 0, UINT64_MAX, &v);
  assert(v.tensor().children_size() > 500 && v.tensor().children_size() <= 1000);
  assert(v.ByteSizeLong() > 100'000 && v.ByteSizeLong() < 2'000'000);
  v.Clear();
  Expr many;
  for (int i = 0; i < 50; ++i) many.mutable_list()->add_values()->set_name("square");
  world.Bind(many)->Evaluate(world.env(), UINT64_MAX, 0, UINT64_MAX, &v);
  assert(v.ByteSizeLong() < 2'000'000);
  v.Clear();
  TensorToValue(Tensor::Allocate({DType::kFloat32, {0, 3}}), 10, 0, 10, &v);
  assert(v.tensor().dims_size() == 2 && v.tensor().summary().count() == 0);
  v.Clear();
  TensorToValue(Tensor({DType::kFloat32, {2}}), 10, 0, 10, &v);  // without memory
  assert(v.tensor().dims(0) == 2 && v.tensor().data().empty());
}

// Random trees of every kind of node, most of them nonsense.
class Fuzz {
 public:
  explicit Fuzz(uint32_t seed) : random_(seed) {}

  Expr Tree(int depth) {
    Expr e;
    const auto child = [&] { return Tree(depth - 1); };
    switch (depth <= 0 ? Below(5) : Below(18)) {
      case 0:
        e.set_b(Below(2));
        break;
      case 1:
        e.set_i(Number());
        break;
      case 2:
        e.set_f(Below(3) == 0 ? std::nan("") : Below(2) ? 1e308 : 0.5);
        break;
      case 3:
        Below(20) == 0 ? e.set_s("axis") : e.set_i(Number());
        break;
      case 4:
      case 5:
      case 6:
        e.set_name(Name());
        break;
      case 7:
        e.mutable_attribute()->set_name(Pick({"shape", "T", "size", "dtype", "w"}));
        *e.mutable_attribute()->mutable_value() = child();
        break;
      case 8:
        e.mutable_unary()->set_op(static_cast<Expr::Unary::Op>(Below(4)));
        *e.mutable_unary()->mutable_value() = child();
        break;
      case 9:
      case 10:
      case 11:
        e.mutable_binary()->set_op(static_cast<Expr::Binary::Op>(Below(11)));
        *e.mutable_binary()->mutable_left() = child();
        *e.mutable_binary()->mutable_right() = child();
        break;
      case 12:
        *e.mutable_compare()->mutable_first() = child();
        e.mutable_compare()->add_ops(static_cast<Expr::Compare::Op>(Below(6)));
        *e.mutable_compare()->add_rest() = child();
        break;
      case 13:
        e.mutable_logic()->set_is_or(Below(2));
        for (int i = 0; i < 2; ++i) *e.mutable_logic()->add_values() = child();
        break;
      case 14:
        for (uint32_t i = Below(4); i > 0; --i) *e.mutable_list()->add_values() = child();
        e.mutable_list();
        break;
      case 15: {
        *e.mutable_index()->mutable_value() = child();
        for (uint32_t i = Below(3) + 1; i > 0; --i)
          Subscript(e.mutable_index()->add_subscripts(), depth);
        break;
      }
      default: {
        Expr::Call* call = e.mutable_call();
        call->set_function(Pick({"any",    "all",    "min",      "max", "mean",  "sum",  "std",
                                 "norm",   "isnan",  "isfinite", "abs", "sqrt",  "exp",  "log",
                                 "argmax", "argmin", "len",      "int", "float", "bool", "where"}));
        for (uint32_t i = call->function() == "where" ? 3 : 1; i > 0; --i)
          *call->add_args() = child();
        if (Below(4) == 0) {
          call->add_keywords()->set_name("axis");
          call->mutable_keywords(0)->mutable_value()->set_i(static_cast<int>(Below(5)) - 2);
        }
      }
    }
    return e;
  }

 private:
  uint32_t Below(uint32_t n) { return random_() % n; }
  const char* Pick(const std::vector<const char*>& all) {
    return all[Below(static_cast<uint32_t>(all.size()))];
  }
  const char* Name() {
    return Pick({"x", "bad", "d", "h", "i", "k", "u", "b8", "m", "s", "one", "e", "t", "bf", "Many",
                 "step", "axes", "counter"});
  }
  int64_t Number() {
    const int64_t edges[] = {INT64_MAX, INT64_MIN, 255, 1 << 20};
    return Below(5) == 0 ? edges[Below(4)] : static_cast<int64_t>(Below(7)) - 3;
  }
  void Subscript(Expr::Subscript* s, int depth) {
    switch (Below(4)) {
      case 0:
        s->set_ellipsis(true);
        break;
      case 1:
        if (Below(2)) s->mutable_range()->mutable_start()->set_i(Number());
        if (Below(2)) s->mutable_range()->mutable_stop()->set_i(Number());
        if (Below(2)) s->mutable_range()->mutable_step()->set_i(Number());
        s->mutable_range();
        break;
      case 2:
        *s->mutable_index() = Tree(depth - 1);
        break;
      default:
        s->mutable_index()->set_i(Number());
    }
  }
  std::mt19937 random_;
};

void FuzzLoop(const World& world, uint32_t count) {
  int good = 0;
  for (uint32_t seed = 0; seed < count; ++seed) {
    const Expr e = Fuzz(seed).Tree(4);
    proto::Value first, second;
    try {
      const auto bound = world.Bind(e);
      bound->Evaluate(world.env(), 100, 0, 10, &first);
      bound->Evaluate(world.env(), 100, 0, 10, &second);
      Check(first.SerializeAsString() == second.SerializeAsString(),
            "the same twice: " + e.ShortDebugString());
      ++good;
      bound->Test(world.env());
    } catch (const Error& error) {
      Check(std::strlen(error.what()) > 5, "a sentence");
    }
  }
  std::printf("fuzz: %d of %u expressions have a value\n", good, count);
  assert(good > static_cast<int>(count) / 10);
}

}  // namespace

int main(int argc, char** argv) {
  World world;
  Hostile(world);
  FuzzLoop(world, argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 20000);
  Budgets(world);
  Messages(world);
  std::puts("ok");
}
