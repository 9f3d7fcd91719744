// The operator @: products of matrices with NumPy's broadcasting.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "debug/expr/operators.h"

namespace opstep::expr {
namespace {

// One product of an m×k and a k×n matrix. Floats are added up in double.
template <typename C>
void Multiply(const C* a, const C* b, int64_t m, int64_t k, int64_t n, DType dtype, char* out,
              Budget& budget) {
  using Sum = std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, double>;
  using Result = std::conditional_t<std::is_same_v<C, int64_t>, int64_t, double>;
  std::vector<Sum> row(static_cast<size_t>(n));
  std::vector<Result> rounded(static_cast<size_t>(n));
  for (int64_t i = 0; i < m; ++i) {
    std::fill(row.begin(), row.end(), Sum{0});
    for (int64_t j = 0; j < k; ++j) {
      const Sum x = static_cast<Sum>(a[i * k + j]);
      const C* p = b + j * n;
      for (int64_t l = 0; l < n; ++l) row[l] += x * static_cast<Sum>(p[l]);
      budget.Spend(n);
    }
    for (int64_t l = 0; l < n; ++l) rounded[l] = static_cast<Result>(row[l]);
    Store(dtype, rounded.data(), n, out + i * n * static_cast<int64_t>(SizeOf(dtype)));
  }
}

Dims Without(const Dims& dims, int last) {
  Dims out;
  for (int i = 0; i < dims.rank() - last; ++i) out.push_back(dims[i]);
  return out;
}

// The place of the broadcast batch number `index` in an operand.
int64_t BatchOf(int64_t index, const Dims& all, const Dims& own) {
  int64_t at = 0, step = 1;
  for (int i = 1; i <= all.rank(); ++i) {
    const int64_t size = all[all.rank() - i], here = index % size;
    index /= size;
    if (i > own.rank()) continue;
    const int64_t mine = own[own.rank() - i];
    if (mine != 1) at += here * step;
    step *= mine;
  }
  return at;
}

}  // namespace

Value MatMul(const Value& left, const Value& right, Budget& budget) {
  const Value x = ToNumeric(left, "@", budget), y = ToNumeric(right, "@", budget);
  OPSTEP_CHECK(x.rank > 0 && y.rank > 0, "@ takes arrays, not ", (x.rank > 0 ? y : x).Describe(),
               ": use *");
  Dims a = x.shape(), b = y.shape();
  if (x.rank == 1) a = {1, a[0]};
  if (y.rank == 1) b = {b[0], 1};
  const int64_t m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
  OPSTEP_CHECK(k == b[b.rank() - 2], "@ cannot multiply shapes ", x.shape().ToString(), " and ",
               y.shape().ToString(), ": inner sizes ", k, " and ", b[b.rank() - 2], " differ");
  const Dims a_batch = Without(a, 2), b_batch = Without(b, 2),
             batch = Broadcast(a_batch, b_batch, "@");
  Dims dims = batch;
  if (x.rank > 1) dims.push_back(m);
  if (y.rank > 1) dims.push_back(n);
  const DType dtype = Promote(x, y);
  Value out;
  char* memory;
  Value::Fresh(dtype, dims, budget, &out, &memory);
  if (dims.numel() > 0) {
    DispatchCompute(dtype, [&](auto c) {
      using C = decltype(c);
      const Tensor ta = ToTensor(x, DTypeOf<C>::value, budget),
                   tb = ToTensor(y, DTypeOf<C>::value, budget);
      const int64_t size = static_cast<int64_t>(SizeOf(dtype));
      for (int64_t i = 0, count = batch.numel(); i < count; ++i) {
        Multiply(ta.as<C>() + BatchOf(i, batch, a_batch) * m * k,
                 tb.as<C>() + BatchOf(i, batch, b_batch) * k * n, m, k, n, dtype,
                 memory + i * m * n * size, budget);
        budget.Spend(m);
      }
    });
  }
  return Value::Finish(std::move(out));
}

}  // namespace opstep::expr
