#include "frontends/onnx/WindowAttributes.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// See WindowsMust.
static LogicalResult requireWindows(Node &n, const Windows &w, bool roundsUp) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  for (size_t i = 0; i < w.window.size(); ++i) {
    int64_t extent = (w.window[i] - 1) * w.dilations[i] + 1;
    std::optional<int64_t> padded =
        (dims[i + 2] + w.low[i] + w.high[i]).asConstant();
    if (!padded)
      continue;
    int64_t more = *padded - extent, stride = w.strides[i];
    if ((roundsUp ? llvm::divideCeilSigned(more, stride)
                  : llvm::divideFloorSigned(more, stride)) < -1)
      return n.fail("dim " + Twine(i + 2) + " has " + Twine(*padded) +
                        " elements with its pads, the window covers " +
                        Twine(extent),
                    "give a smaller window, more pads or a larger input");
  }
  return mlir::success();
}

std::optional<Windows> readWindows(Node &n, ArrayRef<int64_t> window,
                                   WindowsMust must) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  size_t spatial = window.size();
  if (dims.size() != spatial + 2 || !spatial) {
    (void)n.fail("the input " + ts::shapeText(n[0].getType()) + " and " +
                     Twine(spatial) + " window dims do not fit",
                 "the input is [N, C] and a dim a window dim");
    return std::nullopt;
  }
  std::optional<Windows> w =
      readWindows(n, window, ArrayRef<Dim>(dims).drop_front(2));
  if (w && must != WindowsMust::spread &&
      failed(requireWindows(n, *w, must == WindowsMust::fitRoundedUp)))
    return std::nullopt;
  return w;
}

std::optional<Windows> readWindows(Node &n, ArrayRef<int64_t> window,
                                   ArrayRef<Dim> sizes) {
  size_t spatial = window.size();
  Windows w;
  w.window.assign(window.begin(), window.end());
  auto read = [&](StringRef name) {
    SmallVector<int64_t> values = n.integers(name);
    if (values.empty())
      values.assign(spatial, 1);
    return values;
  };
  w.strides = read("strides");
  w.dilations = read("dilations");
  SmallVector<int64_t> pads = n.integers("pads");
  std::string automatic = n.text("auto_pad", "NOTSET");
  if (pads.empty())
    pads.assign(2 * spatial, 0);
  constexpr int64_t limit = 1 << 30;
  bool fits = w.strides.size() == spatial && w.dilations.size() == spatial &&
              pads.size() == 2 * spatial;
  for (size_t i = 0; fits && i < spatial; ++i)
    fits = w.strides[i] >= 1 && w.strides[i] < limit && w.dilations[i] >= 1 &&
           w.dilations[i] < limit && window[i] >= 1 && window[i] < limit &&
           pads[i] >= 0 && pads[i] < limit && pads[i + spatial] >= 0 &&
           pads[i + spatial] < limit && w.dilations[i] * window[i] < limit;
  if (!fits) {
    (void)n.fail("window, strides, dilations or pads do not fit " +
                     Twine(spatial) + " spatial dims",
                 "give a positive entry a spatial dim, pads two");
    return std::nullopt;
  }
  bool upper = automatic == "SAME_UPPER", lower = automatic == "SAME_LOWER";
  if (!upper && !lower && automatic != "NOTSET" && automatic != "VALID" &&
      !automatic.empty()) {
    (void)n.fail("auto_pad is '" + automatic + "'",
                 "use NOTSET, SAME_UPPER, SAME_LOWER or VALID");
    return std::nullopt;
  }
  for (size_t i = 0; i < spatial; ++i) {
    if (automatic == "VALID") {
      w.low.push_back(n.dim(0));
      w.high.push_back(n.dim(0));
      continue;
    }
    if (!upper && !lower) {
      w.low.push_back(n.dim(pads[i]));
      w.high.push_back(n.dim(pads[i + spatial]));
      continue;
    }
    // As many as give ceil(size / stride) windows; the odd one at the end, or
    // at the start for SAME_LOWER.
    Dim size = sizes[i], stride = n.dim(w.strides[i]);
    int64_t extent = (window[i] - 1) * w.dilations[i] + 1;
    Dim total = (size.ceilDiv(stride) - 1) * stride + extent - size;
    std::optional<int64_t> least = ts::lowerBound(total);
    if (!least || *least < 0)
      total = total.max(n.dim(0));
    Dim half = total.floorDiv(n.dim(2));
    w.low.push_back(upper ? half : total - half);
    w.high.push_back(upper ? total - half : half);
  }
  return w;
}

} // namespace knapper
