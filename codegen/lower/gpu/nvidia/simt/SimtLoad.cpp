// A matmul by FMAs: operands from global memory to shared memory, any strides,
// also a convolution's input.
#include "codegen/lower/gpu/nvidia/simt/SimtMatmul.h"

using namespace mlir;

namespace knapper::lower {

SimtOperand SimtMatmulRecipe::makeOperand(BufferRef ref, Value bufferValue,
                                          Value offset, Value stride,
                                          Value depthStride,
                                          OperandRange outerStrides,
                                          Value extent, llvm::Value *from,
                                          unsigned size) {
  SimtOperand o;
  o.buffer = ref;
  o.element = cast<tile::BufferType>(bufferValue.getType()).getElementType();
  o.base = scalar(offset);
  uint64_t multiple = knownMultiple(offset);
  for (auto [value, index] : llvm::zip(outerStrides, block.outer)) {
    multiple = std::min(multiple, knownMultiple(value));
    o.base = b.CreateAdd(o.base, b.CreateMul(scalar(value), wide(index)));
  }
  o.stride = scalar(stride);
  o.depthStride = scalar(depthStride);
  o.extent = scalar(extent);
  o.from = wide(from);
  o.block = size;
  o.tileDepth = depth;
  o.depthFirst = isOne(depthStride);
  bool contiguous = o.depthFirst || isOne(stride);
  // Runs of four, all inside or all outside.
  multiple =
      std::min({multiple, knownMultiple(o.depthFirst ? stride : depthStride),
                knownMultiple(o.depthFirst ? op.getK() : extent)});
  o.lanes = contiguous && multiple % 4 == 0 ? 4 : 1;
  return o;
}

void SimtMatmulRecipe::takeOperands() {
  sides.push_back(makeOperand(buffers[0], op.getA(), op.getAOffset(),
                              op.getARow(), op.getAK(), op.getAOuter(),
                              op.getM(), block.row, rows));
  sides.push_back(makeOperand(buffers[1], op.getB(), op.getBOffset(),
                              op.getBColumn(), op.getBK(), op.getBOuter(),
                              op.getN(), block.column, columns));
  if (group) {
    SimtOperand &a = sides[0];
    a.extent = rowsEnd;
    if (!a.depthFirst) // runs of rows begin and end anywhere
      a.lanes = 1;
  }
  if (!op.getWindow().empty())
    takeWindow();
  // The sums lie where the tiles lay.
  unsigned tiles = 2 * (sides[0].bufferElements() + sides[1].bufferElements()),
           ends = sliceFloats() +
                  (config.splitK > 1 ? threadRows * threadColumns * team : 0);
  shared = sharedArray(b.getFloatTy(), std::max(tiles, ends), "_block");
  sides[0].shared = shared;
  sides[1].shared = b.CreateInBoundsGEP(b.getFloatTy(), shared,
                                        n32(2 * sides[0].bufferElements()));
}

void SimtMatmulRecipe::takeWindow() {
  SimtOperand &a = sides[0];
  a.window.emplace(implicitGemmIndex(op));
  // Runs of four channels of a pixel.
  uint64_t multiple =
      std::min({knownMultiple(op.getAOffset()), knownMultiple(op.getARow()),
                knownMultiple(op.getWindow()[0])});
  for (Value stride : op.getAOuter())
    multiple = std::min(multiple, knownMultiple(stride));
  for (size_t i = 5; i < op.getWindow().size(); i += 5)
    multiple = std::min(multiple, knownMultiple(op.getWindow()[i]));
  a.lanes =
      isOne(op.getAK()) && !op.getChannelsFirst() && multiple % 4 == 0 ? 4 : 1;
  // Single elements: a thread's are of one row, whose place it keeps.
  a.depthFirst = a.lanes > 1;
}

void SimtMatmulRecipe::limitRegisters() {
  // Two CTAs take turns, where what is on its way leaves the registers; the
  // places of a batch need those. For all else: without a word the assembler
  // would rather spill than have fewer CTAs.
  bool runs = sides[0].lanes == 4 && sides[1].lanes == 4 && outerSizes.empty();
  bool two = runs && shape.threads >= 256 && !sides[0].window;
  fn->addFnAttr("nvvm.minctasm", two ? "2" : "1");
}

void SimtMatmulRecipe::placeWindowRows() {
  if (SimtOperand &a = sides[0]; a.window)
    for (auto [inBlock, inDepth] : accesses(a)) {
      llvm::Value *row = b.CreateAdd(block.row, inBlock);
      a.rows.push_back(
          a.window->row(row, b.CreateICmpSLT(row, narrowed(a.extent))));
    }
}

llvm::SmallVector<std::pair<llvm::Value *, llvm::Value *>>
SimtMatmulRecipe::accesses(const SimtOperand &o) {
  llvm::SmallVector<std::pair<llvm::Value *, llvm::Value *>> places;
  unsigned number = o.block * depth / o.lanes / threadsOfBlock;
  for (unsigned i = 0; i < number; ++i) {
    llvm::Value *at = b.CreateAdd(tid, n32(i * threadsOfBlock));
    unsigned run = (o.depthFirst ? depth : o.block) / o.lanes;
    llvm::Value *inner = b.CreateMul(b.CreateURem(at, n32(run)), n32(o.lanes));
    llvm::Value *other = b.CreateUDiv(at, n32(run));
    places.push_back(o.depthFirst ? std::pair(other, inner)
                                  : std::pair(inner, other));
  }
  return places;
}

void SimtMatmulRecipe::read(const SimtOperand &o, llvm::Value *depth,
                            Carried &values) {
  Type f32 = Float32Type::get(op.getContext());
  for (auto [i, access] : llvm::enumerate(accesses(o))) {
    auto [inBlock, inDepth] = access;
    llvm::Value *d = b.CreateAdd(depth, wide(inDepth));
    llvm::Value *inside, *offset;
    if (o.window) {
      ImplicitGemmIndex::Part part =
          o.window->depth(narrowed(d), b.CreateICmpSLT(d, k));
      ImplicitGemmIndex::Element place = o.window->place(o.rows[i], part);
      inside = place.inside;
      offset = b.CreateAdd(o.base, place.offset);
    } else {
      llvm::Value *at = b.CreateAdd(o.from, wide(inBlock));
      inside =
          b.CreateAnd(b.CreateICmpSLT(at, o.extent), b.CreateICmpSLT(d, k));
      offset = b.CreateAdd(o.base, b.CreateAdd(b.CreateMul(at, o.stride),
                                               b.CreateMul(d, o.depthStride)));
    }
    offset = b.CreateSelect(inside, offset, n64(0));
    llvm::Type *type = llvm::FixedVectorType::get(o.buffer.memory, o.lanes);
    llvm::Value *loaded =
        tag(b.CreateAlignedLoad(type, address(o.buffer, offset),
                                llvm::Align(o.lanes * o.buffer.bytes)),
            o.buffer);
    loaded = floatCast(loaded, o.element, f32);
    values.push_back(b.CreateSelect(
        inside, loaded, llvm::Constant::getNullValue(loaded->getType())));
  }
}

llvm::Value *SimtMatmulRecipe::sharedAt(const SimtOperand &o,
                                        llvm::Value *which, llvm::Value *depth,
                                        llvm::Value *inBlock) {
  llvm::Value *offset =
      b.CreateAdd(b.CreateMul(which, n32(o.bufferElements())),
                  b.CreateAdd(b.CreateMul(depth, n32(o.pitch())), inBlock));
  return b.CreateInBoundsGEP(b.getFloatTy(), o.shared, offset);
}

void SimtMatmulRecipe::write(const SimtOperand &o, llvm::Value *which,
                             llvm::ArrayRef<llvm::Value *> values) {
  for (auto [place, value] : llvm::zip(accesses(o), values)) {
    auto [inBlock, inDepth] = place;
    if (o.lanes > 1 && !o.depthFirst) {
      b.CreateAlignedStore(value, sharedAt(o, which, inDepth, inBlock),
                           llvm::Align(16));
      continue;
    }
    for (unsigned lane = 0; lane < o.lanes; ++lane)
      b.CreateAlignedStore(
          b.CreateExtractElement(value, lane),
          sharedAt(o, which, b.CreateAdd(inDepth, n32(lane)), inBlock),
          llvm::Align(4));
  }
}

} // namespace knapper::lower
