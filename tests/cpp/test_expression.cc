// The expression language against NumPy's results, its names and its errors.
#include <cstdio>
#include <sstream>

#include "expression_world.h"

using namespace opstep;

namespace {

double ElementAt(const proto::Tensor& t, size_t i) {
  const auto read = [&](auto v) {
    std::memcpy(&v, t.data().data() + i * sizeof(v), sizeof(v));
    return static_cast<double>(v);
  };
  switch (static_cast<DType>(t.dtype())) {
    case DType::kFloat32:
      return read(float{});
    case DType::kFloat64:
      return read(double{});
    case DType::kInt8:
      return read(int8_t{});
    case DType::kInt16:
      return read(int16_t{});
    case DType::kInt32:
      return read(int32_t{});
    case DType::kInt64:
      return read(int64_t{});
    case DType::kFloat16:
      return HalfToFloat(static_cast<uint16_t>(read(uint16_t{})));
    case DType::kBFloat16:
      return BFloat16ToFloat(static_cast<uint16_t>(read(uint16_t{})));
    default:
      return read(uint8_t{});
  }
}

std::string Number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", std::isnan(v) ? std::abs(v) : v);
  return text;
}

std::string Show(const proto::Value& v) {
  if (v.has_b()) return v.b() ? "b 1" : "b 0";
  if (v.has_i()) return "i " + std::to_string(v.i());
  if (v.has_f()) return "f " + Number(v.f());
  if (v.has_s()) return "s " + v.s();
  std::string text;
  if (v.has_list()) {
    for (const auto& x : v.list().values()) text += (text.empty() ? "" : ", ") + Show(x);
    return "[" + text + "]";
  }
  const proto::Tensor& t = v.tensor();
  const DType dtype = static_cast<DType>(t.dtype());
  std::vector<int64_t> dims(t.dims().begin(), t.dims().end());
  text = std::string(NameOf(dtype)) + Dims(dims).ToString();
  for (size_t i = 0; i < t.data().size() / SizeOf(dtype); ++i)
    text += " " + Number(ElementAt(t, i));
  return text;
}

// Equal but for the last digits of numbers.
bool Same(const std::string& a, const std::string& b) {
  std::istringstream x(a), y(b);
  for (std::string p, q;;) {
    const bool more_x = static_cast<bool>(x >> p), more_y = static_cast<bool>(y >> q);
    if (!more_x || !more_y) return more_x == more_y;
    if (p == q) continue;
    char *end_p, *end_q;
    const double v = std::strtod(p.c_str(), &end_p), w = std::strtod(q.c_str(), &end_q);
    if (*end_p || *end_q || !(std::abs(v - w) <= 2e-6 * std::abs(w))) return false;
  }
}

struct Case {
  const char* text;
  const char* result;
};
const Case kNumPy[] = {
#include "expression_cases.inc"
};
const Case kNames[] = {
    {"X.shape", "[i 2, i 3]"},
    {"Y", "float32[2] 3 4"},
    {"fc_0.w", "float32[2] 3 4"},
    {"fc_0.w.T.shape", "[i 2]"},
    {"fc_0.w.sum()", "f 7"},
    {"var(\"fc_0.w\")[0]", "f 3"},
    {"norm(grad(fc_0.w)) / norm(fc_0.w)", "f 0.1"},
    {"grad(Y)", "float32[2] 0.3 0.4"},
    {"grad(\"fc_0.w\")[0] < 1", "b 1"},
    {"out + 1", "float32[2] 2 3"},
    {"Many[0]", "f 2.5"},
    {"Many[2][0]", "i 41"},
    {"Many[2, 0]", "i 41"},
    {"len(Many)", "i 3"},
    {"alpha * 2", "f 1"},
    {"axis", "i 3"},  // the variable wins over the attribute
    {"op.axis", "i -1"},
    {"axes", "[i 4]"},
    {"kind == \"valid\"", "b 1"},
    {"step % 10 == 0", "b 1"},
    {"op.step", "i 99"},
    {"iteration", "i 8"},
    {"block", "i 1"},
    {"op", "s fc_0.matmul"},
    {"op.type", "s no_such_type"},
    {"op.id", "i 12"},
    {"inner", "i 5"},
    {"gone.shape", "[i 5]"},  // known although the value is not there
    {"later.dtype", "s float32"},
    {"x.dtype == \"float32\"", "b 1"},
    {"bf * 2", "bfloat16[2] 2 -5"},
    {"bf + h[0]", "float32[2] 2 -1.5"},
    {"~(step > 30)", "b 1"},
};
// Each must be in the sentence.
const Case kErrors[] = {
    {"fc_0.v", "did you mean 'fc_0.w'"},
    {"y", "no variable 'y'"},
    {"unused", "does not compute it"},
    {"bias", "is not given"},
    {"grad(x)", "x has no gradient"},
    {"grad(1)", "takes a variable"},
    {"var(\"nothing\")", "there is no variable 'nothing'"},
    {"reshape(x, (4, 2))", "reshape() cannot make [4, 2] of the 6 elements of float32[2, 3]"},
    {"reshape(x, (-1, -1))", "one -1"},
    {"reshape(x, (4, -1))", "reshape() cannot make [4, ?] of the 6 elements"},
    {"reshape(x, (-2, 3))", "not -2"},
    {"reshape(x, (4611686018427387904, 4))", "reshape() cannot make"},
    {"topk(x, 4)", "topk() takes 0 to 3 of float32[2, 3], not 4"},
    {"sort(s)", "sort() takes an array"},
    {"sort(x, 2)", "axis 2 is out of range"},
    {"quantile(x, 1.5)", "a quantile is from 0 to 1, not 1.5"},
    {"quantile(e, 0.5)", "an empty array has no quantiles"},
    {"round(x, 0.5)", "the number of decimals must be a whole number"},
    {"round(m)", "not booleans"},
    {"maxx(x)", "did you mean 'max'"},
    {"isnan()", "needs 'x'"},
    {"isnan(x, 1)", "at most 1"},
    {"sum(x, axes=1)", "no argument 'axes'"},
    {"sum(x, 1, axis=1)", "twice"},
    {"x.sum(axis=2)", "axis 2 is out of range"},
    {"x.sum(axis=(0, 0))", "twice"},
    {"x.argmax(axis=(0, 1))", "one axis"},
    {"x.strides", "no property .strides"},
    {"gone + 1", "gone was released after op #12 fc_0.matmul"},
    {"later", "later has not been written yet"},
    {"x and 1", "use any() or all()"},
    {"e and 1", "empty"},
    {"x + i", "cannot broadcast shapes [2, 3] and [4]"},
    {"x @ x", "inner sizes 3 and 2 differ"},
    {"x @ 2", "use *"},
    {"1 / 0", "by zero"},
    {"1.0 // 0", "by zero"},
    {"step % 0", "by zero"},
    {"i // 0", "by zero"},
    {"k % i[2]", "by zero"},
    {"9223372036854775807 + step", "64 bits"},
    {"(0 - 9223372036854775807 - 1) // (step - 21)", "64 bits"},
    {"2 ** 64", "64 bits"},
    {"i ** -1", "negative powers"},
    {"u + 256", "does not fit into uint8"},
    {"m - m", "use ^"},
    {"-m", "use ~"},
    {"~x", "whole numbers"},
    {"x & 1", "whole numbers"},
    {"x[2]", "index 2 is out of range"},
    {"x[0, 0, 0]", "too many indices"},
    {"x[0.5]", "whole number"},
    {"x[::0]", "step"},
    {"x[m[0]]", "mask"},
    {"x[[0, 5]]", "out of range"},
    {"i[m]", "mask"},
    {"s[0]", "cannot be indexed"},
    {"Many[9]", "out of range"},
    {"Many + 1", "list of tensors"},
    {"x + \"a\"", "not a string"},
    {"\"a\" < 1", "cannot compare"},
    {"[1, [2, 3]] + x", "equally long"},
    {"e.max()", "empty array"},
    {"int(x)", "one element"},
    {"int(bad[1])", "cannot take"},
    {"len(s)", "len()"},
};

void Tables(const World& world) {
  for (const Case& c : kNumPy) {
    const std::string got = Show(world.Eval(c.text));
    Check(Same(got, c.result), std::string(c.text) + " gave " + got + ", NumPy " + c.result);
  }
  for (const Case& c : kNames) {
    const std::string got = Show(world.Eval(c.text));
    Check(Same(got, c.result), std::string(c.text) + " gave " + got + ", not " + c.result);
  }
  for (const Case& c : kErrors) {
    const std::string got = world.ErrorOf(c.text);
    Check(got.find(c.result) != std::string::npos, std::string(c.text) + " said: " + got);
  }
}

void Outputs(const World& world) {
  for (const char* text :
       {"out", "fc_0.out.max() > 3", "1 + count[0]", "X.sum() < 0 and isnan(out).any()"}) {
    Check(world.Bind(text)->needs_outputs(), text);
  }
  // counter is read as well as written.
  for (const char* text : {"X", "step > 3", "counter", "1", "Many[2]"})
    Check(!world.Bind(text)->needs_outputs(), text);
  assert(world.Test("isnan(bad).any()") && !world.Test("isnan(X).any()") && world.Test("one > 2"));
  assert(world.Test("\"a\"") && !world.Test("[]") && world.Test("X.max() > 3 and step % 10 == 0"));
  // Frames of a block have no op.
  const auto bound =
      Expression::Bind(ExpressionText::Parse("fc_0.w.sum() + iteration"), world.plan(), 0, nullptr);
  proto::Value value;
  bound->Evaluate(world.env(), 0, 0, 0, &value);
  assert(value.f() == 15);
}

}  // namespace

int main() {
  const World world;
  Tables(world);
  Outputs(world);
  std::puts("ok");
}
