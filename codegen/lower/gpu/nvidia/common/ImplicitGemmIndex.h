// Where the matmul of a convolution finds the elements of its left side: a row
// is an output position, a depth a tap of the window and a channel.
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace knapper::lower {

/// All values are i32 but element offsets, which are i64.
class ImplicitGemmIndex {
public:
  struct Dim {
    llvm::Value *outputs, *inputs, *low, *taps, *pitch;
    int64_t stride, dilation, spread;
  };
  /// What a row or a depth adds to the position in each dim, and to the offset.
  struct Part {
    llvm::Value *start;
    llvm::SmallVector<llvm::Value *, 3> at;
  };

  ImplicitGemmIndex(llvm::IRBuilder<> &b, llvm::SmallVector<Dim, 3> dims,
                    llvm::Value *channels, llvm::Value *imagePitch,
                    llvm::Value *channelPitch, bool channelsFirst)
      : b(b), dims(std::move(dims)), channels(channels), imagePitch(imagePitch),
        channelPitch(channelPitch), channelsFirst(channelsFirst) {}

  /// Where `exists` is false, no tap of the row (no row, of the depth) is
  /// inside.
  Part row(llvm::Value *number, llvm::Value *exists) const;
  Part depth(llvm::Value *number, llvm::Value *exists) const;
  /// Whether the input has the element of a row and a depth, and its offset,
  /// which is anything where it has not.
  struct Element {
    llvm::Value *inside, *offset;
  };
  Element place(const Part &row, const Part &depth) const;

private:
  /// Row-major position to indices along `sizes`, innermost last.
  llvm::SmallVector<llvm::Value *, 4>
  delinearize(llvm::Value *position, llvm::ArrayRef<llvm::Value *> sizes,
              llvm::Value *&rest) const;
  llvm::Value *far(llvm::Value *at, llvm::Value *exists) const;

  llvm::IRBuilder<> &b;
  llvm::SmallVector<Dim, 3> dims;
  llvm::Value *channels, *imagePitch, *channelPitch;
  bool channelsFirst;
};

} // namespace knapper::lower
