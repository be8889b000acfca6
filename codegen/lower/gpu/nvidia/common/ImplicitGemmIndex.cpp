#include "codegen/lower/gpu/nvidia/common/ImplicitGemmIndex.h"
#include "codegen/lower/gpu/GpuLowering.h"

using namespace mlir;

namespace knapper::lower {

llvm::SmallVector<llvm::Value *, 4>
ImplicitGemmIndex::delinearize(llvm::Value *position,
                               llvm::ArrayRef<llvm::Value *> sizes,
                               llvm::Value *&rest) const {
  llvm::SmallVector<llvm::Value *, 4> indices(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    llvm::Value *next = b.CreateUDiv(position, sizes[i]);
    indices[i] = b.CreateSub(position, b.CreateMul(next, sizes[i]));
    position = next;
  }
  rest = position;
  return indices;
}

/// Below every input, also when two such positions are added.
llvm::Value *ImplicitGemmIndex::far(llvm::Value *at,
                                    llvm::Value *exists) const {
  return b.CreateSelect(exists, at, b.getInt32(-0x40000000));
}

ImplicitGemmIndex::Part ImplicitGemmIndex::row(llvm::Value *number,
                                               llvm::Value *exists) const {
  llvm::SmallVector<llvm::Value *, 3> outputs;
  for (const Dim &dim : dims)
    outputs.push_back(dim.outputs);
  llvm::Value *image;
  auto indices = delinearize(number, outputs, image);
  Part part;
  part.start = b.CreateMul(b.CreateZExt(image, b.getInt64Ty()), imagePitch);
  for (auto [dim, index] : llvm::zip(dims, indices)) {
    llvm::Value *at =
        b.CreateSub(b.CreateMul(index, b.getInt32(dim.stride)), dim.low);
    if (dim.spread == 1)
      part.start = b.CreateAdd(
          part.start, b.CreateMul(b.CreateSExt(at, b.getInt64Ty()), dim.pitch));
    part.at.push_back(at);
  }
  part.at[0] = far(part.at[0], exists);
  return part;
}

ImplicitGemmIndex::Part ImplicitGemmIndex::depth(llvm::Value *number,
                                                 llvm::Value *exists) const {
  llvm::SmallVector<llvm::Value *, 4> sizes;
  for (const Dim &dim : dims)
    sizes.push_back(dim.taps);
  llvm::Value *outermost, *channel;
  llvm::SmallVector<llvm::Value *, 4> indices;
  if (channelsFirst) {
    indices = delinearize(number, sizes, channel);
  } else {
    // The outermost tap is what is left: it needs no division.
    sizes.erase(sizes.begin());
    sizes.push_back(channels);
    indices = delinearize(number, sizes, outermost);
    channel = indices.pop_back_val();
    indices.insert(indices.begin(), outermost);
  }
  Part part;
  part.start = b.CreateMul(b.CreateZExt(channel, b.getInt64Ty()), channelPitch);
  for (auto [dim, index] : llvm::zip(dims, indices)) {
    llvm::Value *at = b.CreateMul(index, b.getInt32(dim.dilation));
    if (dim.spread == 1)
      part.start = b.CreateAdd(
          part.start, b.CreateMul(b.CreateZExt(at, b.getInt64Ty()), dim.pitch));
    part.at.push_back(at);
  }
  part.at[0] = far(part.at[0], exists);
  return part;
}

ImplicitGemmIndex::Element ImplicitGemmIndex::place(const Part &row,
                                                    const Part &depth) const {
  Element place{nullptr, b.CreateAdd(row.start, depth.start)};
  auto both = [&](llvm::Value *condition) {
    place.inside =
        place.inside ? b.CreateAnd(place.inside, condition) : condition;
  };
  for (auto [i, dim] : llvm::enumerate(dims)) {
    llvm::Value *at = b.CreateAdd(row.at[i], depth.at[i]);
    if (dim.spread != 1) {
      // A negative position is a huge one, also when divided.
      llvm::Value *by = b.getInt32(dim.spread);
      llvm::Value *whole = b.CreateUDiv(at, by);
      both(b.CreateICmpEQ(b.CreateMul(whole, by), at));
      place.offset = b.CreateAdd(
          place.offset,
          b.CreateMul(b.CreateZExt(whole, b.getInt64Ty()), dim.pitch));
      at = whole;
    }
    both(b.CreateICmpULT(at, dim.inputs));
  }
  return place;
}

ImplicitGemmIndex GpuLowering::implicitGemmIndex(tile::MatmulOp op) {
  auto narrowed = [&](Value v) {
    return b.CreateTrunc(scalar(v), b.getInt32Ty());
  };
  llvm::ArrayRef<int64_t> steps = *op.getSteps();
  OperandRange sizes = op.getWindow();
  llvm::SmallVector<ImplicitGemmIndex::Dim, 3> dims;
  for (size_t d = 0; d < steps.size() / 3; ++d) {
    OperandRange own = sizes.slice(1 + 5 * d, 5);
    dims.push_back({narrowed(own[0]), narrowed(own[1]), narrowed(own[2]),
                    narrowed(own[3]), scalar(own[4]), steps[3 * d],
                    steps[3 * d + 1], steps[3 * d + 2]});
  }
  return ImplicitGemmIndex(b, std::move(dims), narrowed(sizes[0]),
                           scalar(op.getARow()), scalar(op.getAK()),
                           op.getChannelsFirst());
}

} // namespace knapper::lower
