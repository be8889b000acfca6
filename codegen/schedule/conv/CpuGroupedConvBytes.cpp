// Bytes of groups of one channel: window rows four at a time
// (CpuGroupedConv.cpp).
#include "codegen/schedule/conv/CpuGroupedConv.h"
#include "ir/tile/ByteOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

Value ConvLanesBuilder::loadBytes(BlockArgument tensor, int64_t count, Value at,
                                  Value valid) {
  Value bytes =
      tile::LoadOp::create(b, loc, VectorType::get(count, b.getI8Type()),
                           e.inputBuffer(tensor), at, valid);
  Type wide = VectorType::get(count, b.getI32Type());
  // The upper bits of a weight are another row's.
  return arith::ExtUIOp::create(b, loc, wide, bytes);
}

Value ConvLanesBuilder::word(uint32_t number) {
  return arith::ConstantOp::create(
      b, loc, b.getI32IntegerAttr(static_cast<int32_t>(number)));
}

Value ConvLanesBuilder::inWord(Value word, Value x, int64_t byte) {
  int64_t lanes = cast<VectorType>(x.getType()).getNumElements();
  if (byte) {
    Value distance = e.splat(b.getI32Type(), lanes, 8 * byte);
    x = arith::ShLIOp::create(b, loc, x, distance);
  }
  return word ? arith::OrIOp::create(b, loc, word, x).getResult() : x;
}

LogicalResult ConvLanesBuilder::prepareFours() {
  for (int64_t four = 0; four < foursOf(w); ++four)
    for (int64_t j = 0; j < w.kw; ++j) {
      Value words;
      for (int64_t i = 4 * four; i < std::min(w.kh, 4 * four + 4); ++i) {
        Value at = e.constant((i * w.kw + j) * g.features());
        words = inWord(
            words,
            loadBytes(w.filter, g.lanes, e.add(weights, at), someFeatures),
            i % 4);
      }
      fours.push_back(words);
    }
  if (!w.pad)
    return success();
  Value held = e.emit(w.pad.getValue(), Coord());
  if (!held)
    return failure();
  held = arith::ExtUIOp::create(b, loc, b.getI32Type(), held);
  Value each = word(0x01010101);
  borderWord = arith::MulIOp::create(b, loc, held, each);
  outside = e.widen(borderWord, g.lanes);
  return success();
}

void ConvLanesBuilder::rowInFours(Value base) {
  firstSum = e.splat(sumType, g.lanes, 0);
  rowFours.assign(fours.begin(), fours.end());
  lines.clear();
  bool all = w.lowH.isConstant(0) && w.highH.isConstant(0);
  Value none = word(0), firstLine = e.mul(image, e.size(w.height));
  for (int64_t four = 0; four < foursOf(w); ++four) {
    Value inside = none;
    for (int64_t i = 4 * four; i < std::min(w.kh, 4 * four + 4); ++i) {
      Value line = e.add(base, e.constant(i * w.dh)), height = e.size(w.height);
      if (!all) {
        Value isIn = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                           line, height);
        Value byte = word(uint32_t(255) << 8 * (i % 4));
        byte = arith::SelectOp::create(b, loc, isIn, byte, none);
        inside = arith::OrIOp::create(b, loc, inside, byte);
        line = e.max(e.min(line, e.sub(height, e.constant(1))), e.constant(0));
      }
      lines.push_back(
          e.mul(e.add(firstLine, line), e.size(w.width * w.channels)));
    }
    if (all)
      continue;
    Value there = e.widen(inside, g.lanes), elsewhere;
    if (borderWord) {
      Value every = word(~uint32_t(0));
      Value rest = arith::XOrIOp::create(b, loc, inside, every);
      rest = arith::AndIOp::create(b, loc, rest, borderWord);
      elsewhere = e.widen(rest, g.lanes);
    }
    for (int64_t j = 0; j < w.kw; ++j) {
      Value &weight = rowFours[four * w.kw + j];
      if (elsewhere)
        firstSum = tile::AddByteProductsOp::create(b, loc, firstSum.getType(),
                                                   firstSum, elsewhere, weight);
      weight = arith::AndIOp::create(b, loc, weight, there);
    }
  }
}

SmallVector<Value> ConvLanesBuilder::sumsInFours(const Run &run) {
  int64_t inputs = llvm::PowerOf2Ceil(g.inputs());
  int64_t imageChannels = *w.channels.asConstant();
  Seen seen = seenBy(run);
  SmallVector<Value> acc(run.size, firstSum);
  for (int64_t four = 0; four < foursOf(w); ++four)
    for (const SeenColumn &c : seen.columns) {
      Value x;
      if (c.isOutside) {
        // Zeros add nothing.
        if (!(x = outside))
          continue;
      } else {
        for (int64_t i = 4 * four; i < std::min(w.kh, 4 * four + 4); ++i) {
          Value at = e.add(e.add(seen.first, lines[i]),
                           e.constant(c.place * imageChannels));
          x = inWord(x, loadBytes(w.input, inputs, at, c.valid), i % 4);
        }
        x = arranged(x, 0);
        if (outside && c.inside)
          x = arith::SelectOp::create(b, loc, c.inside, x, outside);
      }
      for (int64_t j = 0; j < w.kw; ++j)
        if (std::optional<int64_t> p = pixelOf(c, j, run))
          acc[*p] = tile::AddByteProductsOp::create(
              b, loc, acc[*p].getType(), acc[*p], x, rowFours[four * w.kw + j]);
    }
  return acc;
}

} // namespace knapper
