// A window that slides over the last dimensions of [N, C, ...], for convolution and pooling.
// Always three spatial dimensions; missing leading ones have size 1.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace opstep {

struct Window {
  static constexpr int kRank = 3;
  using Sizes = std::array<int64_t, kRank>;

  Sizes in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Sizes begin{}, end{};  // padding

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  // Sizes between the first and the last tap.
  int64_t reach(int i) const { return (kernel[i] - 1) * dilation[i] + 1; }
};

// Places of a window along one dimension whose tap `tap` lies inside the input: [first, last).
struct Places {
  int64_t first = 0, last = 0;
};

inline Places PlacesInside(const Window& w, int dim, int64_t tap) {
  // The input index is place * stride + shift.
  const int64_t shift = tap * w.dilation[dim] - w.begin[dim];
  const int64_t stride = w.stride[dim];
  const int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const int64_t end = w.in[dim] - shift;
  const int64_t last = end <= 0 ? 0 : std::min(w.out[dim], (end + stride - 1) / stride);
  return {first, std::max(first, last)};
}

inline void CheckSpatial(const Dims& x) {
  OPSTEP_CHECK(x.rank() >= 3 && x.rank() <= 2 + Window::kRank, "X is ", x.ToString(),
               ": it must have a batch, channels and 1 to 3 more dimensions");
}

// An attribute with one number for each spatial dimension (or `per` of them), or none at all.
inline std::vector<int64_t> SpatialAttr(const OpView& op, std::string_view name, int rank,
                                        int64_t least, int64_t absent, int per = 1) {
  const std::vector<int64_t> values = op.Ints(name);
  if (values.empty()) return std::vector<int64_t>(rank * per, absent);
  OPSTEP_CHECK(static_cast<int>(values.size()) == rank * per, name, " has ", values.size(),
               values.size() == 1 ? " number" : " numbers", " but X has ", rank, " dimension",
               rank == 1 ? "" : "s", " after the channels: it must have ", rank * per);
  for (const int64_t value : values) {
    OPSTEP_CHECK(value >= least && value <= INT32_MAX, name, " holds ", value,
                 ": each number must be ", least, " or more");
  }
  return values;
}

// The window of an op with the attributes below. Sizes of X may be -1; then those of `out` are.
// `ceil`: a last window that is not full counts too.
inline Window MakeWindow(const OpView& op, const Dims& x, const std::vector<int64_t>& kernel,
                         bool ceil = false) {
  const int rank = x.rank() - 2;
  const std::string& mode = op.String("auto_pad");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  OPSTEP_CHECK(same || mode == "VALID" || mode == "NOTSET", "auto_pad is '", mode,
               "': it must be NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  const std::vector<int64_t> strides = SpatialAttr(op, "strides", rank, 1, 1);
  const std::vector<int64_t> dilations = SpatialAttr(op, "dilations", rank, 1, 1);
  const std::vector<int64_t> pads = SpatialAttr(op, "pads", rank, 0, 0, 2);
  Window w;
  for (int i = 0; i < rank; ++i) {
    const int at = Window::kRank - rank + i;
    w.in[at] = x[2 + i];
    w.kernel[at] = kernel[i];
    w.stride[at] = strides[i];
    w.dilation[at] = dilations[i];
    const int64_t stride = strides[i];
    const int64_t reach = w.reach(at);
    if (x[2 + i] < 0 || kernel[i] < 0) {
      w.out[at] = -1;
    } else if (same) {
      w.out[at] = (w.in[at] + stride - 1) / stride;
      const int64_t padding = std::max<int64_t>(0, (w.out[at] - 1) * stride + reach - w.in[at]);
      w.begin[at] = mode == "SAME_UPPER" ? padding / 2 : padding - padding / 2;
      w.end[at] = padding - w.begin[at];
    } else {
      if (mode == "NOTSET") {
        w.begin[at] = pads[i];
        w.end[at] = pads[rank + i];
      }
      const int64_t room = w.in[at] + w.begin[at] + w.end[at] - reach;
      OPSTEP_CHECK(room >= 0, "X is ", x.ToString(), ": a window of ", reach,
                   " does not fit into its size of ", w.in[at], " with ", w.begin[at] + w.end[at],
                   " of padding");
      w.out[at] = (ceil ? room + stride - 1 : room) / stride + 1;
      // A window that would begin after the input does not count.
      if (ceil && (w.out[at] - 1) * stride >= w.in[at] + w.begin[at]) --w.out[at];
    }
  }
  return w;
}

// [N, channels, places of the window].
inline Dims OutDims(const Window& w, const Dims& x, int64_t channels) {
  Dims out{x[0], channels};
  for (int i = 2; i < x.rank(); ++i) out.push_back(w.out[Window::kRank - x.rank() + i]);
  return out;
}

inline Op& WindowAttrs(Op& op) {
  return op.Attr(IntsAttr("strides", {}), "step of the window in each dimension; none means 1")
      .Attr(IntsAttr("dilations", {}), "distance of the window's taps; none means 1")
      .Attr(IntsAttr("pads", {}), "padding before each dimension, then after each; none means 0")
      .Attr(StringAttr("auto_pad", "NOTSET"),
            "NOTSET: `pads`; SAME_UPPER, SAME_LOWER: out is X / strides, the odd one of the "
            "padding at the end or the beginning; VALID: no padding");
}

// For oracles: from X, the kernel's sizes k and ceil the lists s, d, begin, end and out, and at(P,
// t, fill): the element at tap t of each window.
inline constexpr std::string_view kWindowOracle = R"(
r = len(k)
size = X.shape[2:]
s, d = strides or [1] * r, dilations or [1] * r
reach = [(k[i] - 1) * d[i] + 1 for i in range(r)]
begin, end = (pads or [0] * 2 * r)[:r], (pads or [0] * 2 * r)[r:]
out = [(size[i] + begin[i] + end[i] - reach[i]) / s[i] + 1 for i in range(r)]
out = [int(np.ceil(o) if ceil else np.floor(o)) for o in out]
out = [o - (ceil and (o - 1) * s[i] >= size[i] + begin[i]) for i, o in enumerate(out)]
if auto_pad == 'VALID':
    begin, end = [0] * r, [0] * r
    out = [(size[i] - reach[i]) // s[i] + 1 for i in range(r)]
elif auto_pad != 'NOTSET':
    out = [-(-size[i] // s[i]) for i in range(r)]
    both = [max(0, (out[i] - 1) * s[i] + reach[i] - size[i]) for i in range(r)]
    begin = [b // 2 if auto_pad == 'SAME_UPPER' else b - b // 2 for b in both]
    end = [b - a for a, b in zip(begin, both)]
def at(P, t, fill, size=size, begin=begin, out=out, s=s, d=d, reach=reach, r=r, np=np):
    after = [max(0, (out[i] - 1) * s[i] + reach[i] - size[i] - begin[i]) for i in range(r)]
    padded = [begin[i] + size[i] + after[i] for i in range(r)]
    full = np.full((*P.shape[:2], *padded), fill, P.dtype)
    full[(..., *[slice(begin[i], begin[i] + size[i]) for i in range(r)])] = P
    cut = [slice(t[i] * d[i], t[i] * d[i] + (out[i] - 1) * s[i] + 1, s[i]) for i in range(r)]
    return full[(..., *[c if o else slice(0, 0) for c, o in zip(cut, out)])]
)";

}  // namespace opstep
