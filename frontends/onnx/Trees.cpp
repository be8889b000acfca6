// Ensembles of decision trees. All trees of a row go down one level at a time,
// through gathers in tables of nodes; a leaf leads to itself. A last gather
// reads what the leaves say.
#include "frontends/onnx/Classical.h"
#include "frontends/onnx/Strings.h"
#include "frontends/onnx/Tensors.h"
#include <map>
#include <set>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

constexpr int64_t deepest = 256;

/// Trees as tables over all nodes; leaves follow themselves.
struct Forest {
  SmallVector<int64_t> feature, yes, no;
  SmallVector<P> predicate;
  SmallVector<double> threshold;
  SmallVector<bool> missing; ///< NaN goes to `yes`
  SmallVector<int64_t> roots;
  int64_t targets = 0;
  /// What a node that is a leaf adds to which target.
  std::map<int64_t, SmallVector<std::pair<int64_t, double>>> leaves;

  int64_t add() {
    auto node = static_cast<int64_t>(feature.size());
    feature.push_back(0);
    yes.push_back(node);
    no.push_back(node);
    predicate.push_back(P::le);
    threshold.push_back(0);
    missing.push_back(false);
    return node;
  }
  bool isLeaf(int64_t node) const { return yes[node] == node; }
};

/// Levels below the roots; nothing for a cycle.
std::optional<int64_t> depthOf(const Forest &f) {
  std::set<int64_t> level(f.roots.begin(), f.roots.end());
  for (int64_t depth = 0; depth <= deepest; ++depth) {
    std::set<int64_t> next;
    for (int64_t node : level)
      if (!f.isLeaf(node)) {
        next.insert(f.yes[node]);
        next.insert(f.no[node]);
      }
    if (next.empty())
      return depth;
    level = std::move(next);
  }
  return std::nullopt;
}

/// The leaf of each row in each tree, [rows, trees].
Value descend(Node &n, const Forest &f, Value x) {
  std::optional<int64_t> depth = depthOf(f);
  if (!depth) {
    (void)n.unsupported("trees deeper than " + std::to_string(deepest) +
                        " levels, or nodes in a circle");
    return {};
  }
  auto count = static_cast<int64_t>(f.feature.size()),
       trees = static_cast<int64_t>(f.roots.size());
  Type i32 = n.b.getI32Type(), element = ts::elementTypeOf(x);
  int64_t features = 0;
  for (int64_t feature : f.feature) {
    if (feature < 0 || feature > INT32_MAX) {
      (void)n.fail("a node reads feature " + Twine(feature), "correct it");
      return {};
    }
    features = std::max(features, feature + 1);
  }
  if (std::optional<int64_t> width = ts::dimOf(x, 1).asConstant();
      width && *width < features) {
    (void)n.fail("the trees read " + Twine(features) + " features of " +
                     Twine(*width),
                 "give all features");
    return {};
  }
  Value feature = tableOf(n, {count}, f.feature, i32),
        threshold = tableOf(n, {count}, f.threshold, element),
        yes = tableOf(n, {count}, f.yes, i32),
        no = tableOf(n, {count}, f.no, i32);
  // Which comparison a node makes, where they are not all the same.
  std::set<P> used;
  SmallVector<int64_t> kinds, missing;
  for (int64_t i = 0; i < count; ++i) {
    if (!f.isLeaf(i))
      used.insert(f.predicate[i]);
    kinds.push_back(static_cast<int64_t>(f.predicate[i]));
    missing.push_back(f.missing[i]);
  }
  Type i8 = n.b.getIntegerType(8);
  Value kind = used.size() > 1 ? tableOf(n, {count}, kinds, i8) : Value();
  Value track = llvm::is_contained(missing, 1)
                    ? tableOf(n, {count}, missing, i8)
                    : Value();
  Value node = n.broadcastTo(tableOf(n, {trees}, f.roots, i32),
                             {ts::dimOf(x, 0), n.dim(trees)});
  auto at = [&](Value table) {
    return n.make<ts::GatherOp>(table, node, uint64_t(0));
  };
  for (int64_t level = 0; level < *depth && node; ++level) {
    Value value = n.make<ts::GatherElementsOp>(x, at(feature), uint64_t(1));
    Value limit = at(threshold), goes;
    for (P predicate : used) {
      Value holds = n.compare(predicate, value, limit);
      goes = goes
                 ? n.select(n.compare(P::eq, at(kind),
                                      n.integerScalar(
                                          static_cast<int64_t>(predicate), i8)),
                            holds, goes)
                 : holds;
    }
    if (track) {
      Value follows = n.compare(P::ne, at(track), n.integerScalar(0, i8));
      goes = n.binary<ts::OrOp>(
          goes, n.binary<ts::AndOp>(follows, n.make<ts::IsNanOp>(value)));
    }
    node = n.select(goes, at(yes), at(no));
  }
  return node;
}

/// What the leaves say, combined for each target: [rows, targets].
Value combine(Node &n, const Forest &f, Value leaf, StringRef how,
              Type element) {
  using K = ts::ReduceKind;
  if (!leaf)
    return {};
  bool least = how == "MIN", most = how == "MAX";
  if (!least && !most && how != "SUM" && how != "AVERAGE") {
    (void)n.fail("aggregate_function is '" + how + "'",
                 "use SUM, AVERAGE, MIN or MAX");
    return {};
  }
  auto count = static_cast<int64_t>(f.feature.size());
  if (f.targets < 1 ||
      f.targets > (int64_t(1) << 28) / std::max<int64_t>(count, 1)) {
    (void)n.unsupported("a table of leaves of this size");
    return {};
  }
  double limit = element.isF64() ? std::numeric_limits<double>::max()
                                 : std::numeric_limits<float>::max();
  SmallVector<double> says(count * f.targets, least  ? limit
                                              : most ? -limit
                                                     : 0);
  for (const auto &[node, list] : f.leaves)
    for (auto [target, weight] : list) {
      if (target < 0 || target >= f.targets) {
        (void)n.fail("a leaf names target " + Twine(target) + " of " +
                         Twine(f.targets),
                     "correct the targets");
        return {};
      }
      double &entry = says[node * f.targets + target];
      entry = least  ? std::min(entry, weight)
              : most ? std::max(entry, weight)
                     : entry + weight;
    }
  Value table = tableOf(n, {count, f.targets}, says, element);
  Value parts = n.make<ts::GatherOp>(table, leaf, uint64_t(0));
  Value y = n.reduce(least  ? K::min
                     : most ? K::max
                            : K::add,
                     parts, {1}, false);
  if (how == "AVERAGE")
    y = n.mul(y, 1.0 / static_cast<double>(f.roots.size()));
  return y;
}

/// An attribute's numbers, also where it is given as a tensor.
std::optional<SmallVector<double>> realsOf(Node &n, const std::string &name) {
  for (const std::string &tensorName : {name, name + "_as_tensor"}) {
    if (!n.hasAttr(tensorName))
      continue;
    const onnx::TensorProto *tensor = n.tensor(tensorName);
    if (!tensor)
      return std::nullopt;
    SmallVector<double> values;
    Type element = onnxElementType(n.importer.context, tensor->data_type());
    bool isDouble = element && element.isF64();
    if (!element || !isa<FloatType>(element)) {
      (void)n.unsupported(name + " of " + onnxTypeName(tensor->data_type()));
      return std::nullopt;
    }
    // Larger than what stays inline: read as it lies in the file.
    Expected<OnnxTensor> data =
        readTensor(n.importer.context, n.importer.file, *tensor);
    if (!data) {
      (void)n.fail(data.error().what, data.error().hint);
      return std::nullopt;
    }
    if (data->constant) {
      for (APFloat value : data->constant.getValues<APFloat>()) {
        bool lost = false;
        value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                      &lost);
        values.push_back(value.convertToDouble());
      }
      return values;
    }
    Expected<std::optional<OnnxFile::Region>> region = n.importer.file.regionOf(
        *tensor, static_cast<uint64_t>(data->weight.getBytes()));
    if (!region || !*region || !(isDouble || element.isF32())) {
      (void)n.unsupported(name + " that is not raw data of FLOAT or DOUBLE");
      return std::nullopt;
    }
    StringRef bytes = (*region)->data;
    size_t width = isDouble ? 8 : 4;
    for (size_t i = 0; i + width <= bytes.size(); i += width) {
      double wide = 0;
      float narrow = 0;
      std::memcpy(isDouble ? static_cast<void *>(&wide) : &narrow,
                  bytes.data() + i, width);
      values.push_back(isDouble ? wide : narrow);
    }
    return values;
  }
  return SmallVector<double>();
}

bool sameSize(Node &n, StringRef what, size_t size, size_t expected) {
  if (size == expected)
    return true;
  (void)n.fail(what + " has " + Twine(size) + " entries for " + Twine(expected),
               "give one for each");
  return false;
}

//===----------------------------------------------------------------------===//
// TreeEnsembleClassifier and TreeEnsembleRegressor
//===----------------------------------------------------------------------===//

/// Nodes named by (tree, number); `leafPart` is what the attributes of leaves
/// begin with.
std::optional<Forest> readNamedNodes(Node &n, const std::string &leafPart) {
  static const std::map<std::string, P> names{
      {"BRANCH_LEQ", P::le}, {"BRANCH_LT", P::lt}, {"BRANCH_GTE", P::ge},
      {"BRANCH_GT", P::gt},  {"BRANCH_EQ", P::eq}, {"BRANCH_NEQ", P::ne}};
  SmallVector<int64_t> trees = n.integers("nodes_treeids"),
                       numbers = n.integers("nodes_nodeids"),
                       feature = n.integers("nodes_featureids"),
                       yes = n.integers("nodes_truenodeids"),
                       no = n.integers("nodes_falsenodeids"),
                       missing = n.integers("nodes_missing_value_tracks_true");
  SmallVector<std::string> modes = n.texts("nodes_modes");
  // Opset 3 brought the tensors, the lists stayed lists.
  std::optional<SmallVector<double>> values = n.hasAttr("nodes_values")
                                                  ? n.reals("nodes_values")
                                                  : realsOf(n, "nodes_values");
  if (!values)
    return std::nullopt;
  size_t count = trees.size();
  if (!sameSize(n, "nodes_nodeids", numbers.size(), count) ||
      !sameSize(n, "nodes_featureids", feature.size(), count) ||
      !sameSize(n, "nodes_truenodeids", yes.size(), count) ||
      !sameSize(n, "nodes_falsenodeids", no.size(), count) ||
      !sameSize(n, "nodes_modes", modes.size(), count) ||
      !sameSize(n, "nodes_values", values->size(), count) ||
      (!missing.empty() &&
       !sameSize(n, "nodes_missing_value_tracks_true", missing.size(), count)))
    return std::nullopt;
  if (!count) {
    (void)n.fail("has no trees", "give nodes");
    return std::nullopt;
  }
  Forest f;
  std::map<std::pair<int64_t, int64_t>, int64_t> place;
  std::set<int64_t> seen;
  for (size_t i = 0; i < count; ++i) {
    int64_t node = f.add();
    if (!place.insert({{trees[i], numbers[i]}, node}).second) {
      (void)n.fail("node " + Twine(numbers[i]) + " of tree " + Twine(trees[i]) +
                       " is there twice",
                   "number the nodes");
      return std::nullopt;
    }
    if (seen.insert(trees[i]).second)
      f.roots.push_back(node); // a tree's first node
  }
  for (size_t i = 0; i < count; ++i) {
    if (modes[i] == "LEAF")
      continue;
    auto mode = names.find(modes[i]);
    auto a = place.find({trees[i], yes[i]}), b = place.find({trees[i], no[i]});
    if (mode == names.end() || a == place.end() || b == place.end()) {
      (void)n.fail("node " + Twine(numbers[i]) + " of tree " + Twine(trees[i]) +
                       " has mode '" + modes[i] +
                       "' or a branch that is not there",
                   "correct the node");
      return std::nullopt;
    }
    if (a->second == static_cast<int64_t>(i)) {
      (void)n.fail("node " + Twine(numbers[i]) + " of tree " + Twine(trees[i]) +
                       " goes round in a circle",
                   "correct the node");
      return std::nullopt;
    }
    f.feature[i] = feature[i];
    f.threshold[i] = (*values)[i];
    f.predicate[i] = mode->second;
    f.yes[i] = a->second;
    f.no[i] = b->second;
    f.missing[i] = !missing.empty() && missing[i];
  }
  std::string ids = leafPart == "class" ? "class_ids" : "target_ids";
  SmallVector<int64_t> leafTrees = n.integers(leafPart + "_treeids"),
                       leafNodes = n.integers(leafPart + "_nodeids"),
                       targets = n.integers(ids);
  std::optional<SmallVector<double>> weights =
      n.hasAttr(leafPart + "_weights") ? n.reals(leafPart + "_weights")
                                       : realsOf(n, leafPart + "_weights");
  if (!weights ||
      !sameSize(n, leafPart + "_treeids", leafTrees.size(), targets.size()) ||
      !sameSize(n, leafPart + "_nodeids", leafNodes.size(), targets.size()) ||
      !sameSize(n, leafPart + "_weights", weights->size(), targets.size()))
    return std::nullopt;
  for (size_t i = 0; i < targets.size(); ++i) {
    auto node = place.find({leafTrees[i], leafNodes[i]});
    if (node == place.end()) {
      (void)n.fail("leaf " + Twine(leafNodes[i]) + " of tree " +
                       Twine(leafTrees[i]) + " is not there",
                   "correct the leaves");
      return std::nullopt;
    }
    f.leaves[node->second].push_back({targets[i], (*weights)[i]});
  }
  return f;
}

Value withBase(Node &n, Value y, int64_t columns) {
  std::optional<SmallVector<double>> base = n.hasAttr("base_values")
                                                ? n.reals("base_values")
                                                : realsOf(n, "base_values");
  if (!base || base->empty() || !y)
    return base ? y : Value();
  auto count = static_cast<int64_t>(base->size());
  if (count != columns && count != 1) {
    (void)n.fail("has " + Twine(count) + " base values for " + Twine(columns),
                 "give one a column");
    return {};
  }
  return n.add(y, tableOf(n, {count}, *base, ts::elementTypeOf(y)));
}

LogicalResult importTreeEnsembleRegressor(Node &n) {
  std::optional<Forest> f = readNamedNodes(n, "target");
  if (!f)
    return failure();
  f->targets = n.integer("n_targets", 1);
  Value x = features(n, n[0]);
  if (!x)
    return failure();
  Value y = combine(n, *f, descend(n, *f, x),
                    n.text("aggregate_function", "SUM"), ts::elementTypeOf(x));
  y = postTransform(n, withBase(n, y, f->targets));
  return n.out(n.convert(y, n.b.getF32Type()));
}

LogicalResult importTreeEnsembleClassifier(Node &n) {
  SmallVector<std::string> names = n.texts("classlabels_strings");
  std::optional<Forest> f = readNamedNodes(n, "class");
  if (!f)
    return failure();
  SmallVector<int64_t> labels = n.integers("classlabels_int64s");
  if (!names.empty()) // their places, until the end
    labels = llvm::to_vector(llvm::seq<int64_t>(0, names.size()));
  if (labels.empty())
    return n.fail("has no labels",
                  "give classlabels_int64s or classlabels_strings");
  auto classes = static_cast<int64_t>(labels.size());
  std::set<int64_t> ids;
  bool positive = true;
  for (const auto &[node, list] : f->leaves)
    for (auto [target, weight] : list) {
      ids.insert(target);
      positive &= weight >= 0;
    }
  Value x = features(n, n[0]);
  if (!x)
    return failure();
  // One score decides between two classes.
  bool binary = ids.size() == 1 && classes <= 2;
  f->targets = binary ? *ids.begin() + 1 : classes;
  Type element = ts::elementTypeOf(x);
  Value y = combine(n, *f, descend(n, *f, x), "SUM", element);
  if (!y)
    return failure();
  std::string transform = n.text("post_transform", "NONE");
  Value label;
  if (binary) {
    y = n.sliceDim(y, 1, n.dim(f->targets - 1), n.dim(1));
    y = withBase(n, y, 1);
    if (!y)
      return failure();
    Type i64 = n.b.getI64Type();
    Dim rows = ts::dimOf(y, 0);
    Value score = n.reshape(y, {rows});
    Value chosen = n.compare(P::gt, score, n.scalarFor(y, positive ? 0.5 : 0));
    int64_t first = classes == 2 ? labels[0] : 0,
            second = classes == 2 ? labels[1] : labels[0];
    label = n.select(chosen, n.integerScalar(second, i64),
                     n.integerScalar(first, i64));
    // Weights that are all positive are probabilities.
    if (positive) {
      Value other = n.sub(n.scalarFor(y, 1), y);
      y = n.make<ts::ConcatOp>(ValueRange{other, y}, int64_t(1));
    } else {
      Value other = n.make<ts::NegOp>(y);
      y = n.make<ts::ConcatOp>(ValueRange{other, y}, int64_t(1));
    }
    y = postTransform(n, y, transform);
  } else {
    y = withBase(n, y, classes);
    if (!y)
      return failure();
    label = labelsOf(n, y, labels);
    y = postTransform(n, y, transform);
  }
  if (!names.empty())
    label = selectStrings(n, stringConstant(n, names), label);
  if (failed(n.out(label)))
    return failure();
  return n.out(n.convert(y, n.b.getF32Type()), 1);
}

//===----------------------------------------------------------------------===//
// TreeEnsemble
//===----------------------------------------------------------------------===//

/// `nodes_modes` as a tensor of bytes.
std::optional<SmallVector<int64_t>> modesOf(Node &n) {
  const onnx::TensorProto *tensor = n.tensor("nodes_modes");
  SmallVector<int64_t> modes;
  if (!tensor)
    return modes;
  Expected<OnnxTensor> data =
      readTensor(n.importer.context, n.importer.file, *tensor);
  if (!data) {
    (void)n.fail(data.error().what, data.error().hint);
    return std::nullopt;
  }
  if (!data->constant || !isa<IntegerType>(data->type.getElementType())) {
    (void)n.unsupported("nodes_modes of more than 64 KiB");
    return std::nullopt;
  }
  for (const APInt &mode : data->constant.getValues<APInt>())
    modes.push_back(static_cast<int64_t>(mode.getZExtValue()));
  return modes;
}

LogicalResult importTreeEnsemble(Node &n) {
  static constexpr P predicates[] = {P::le, P::lt, P::ge, P::gt, P::eq, P::ne};
  constexpr int64_t member = 6;
  SmallVector<int64_t> feature = n.integers("nodes_featureids"),
                       yes = n.integers("nodes_truenodeids"),
                       no = n.integers("nodes_falsenodeids"),
                       yesLeaf = n.integers("nodes_trueleafs"),
                       noLeaf = n.integers("nodes_falseleafs"),
                       missing = n.integers("nodes_missing_value_tracks_true"),
                       targets = n.integers("leaf_targetids"),
                       roots = n.integers("tree_roots");
  std::optional<SmallVector<int64_t>> modes = modesOf(n);
  std::optional<SmallVector<double>> splits = realsOf(n, "nodes_splits"),
                                     weights = realsOf(n, "leaf_weights"),
                                     members = realsOf(n, "membership_values");
  if (!modes || !splits || !weights || !members)
    return failure();
  size_t count = feature.size();
  if (!sameSize(n, "nodes_truenodeids", yes.size(), count) ||
      !sameSize(n, "nodes_falsenodeids", no.size(), count) ||
      !sameSize(n, "nodes_trueleafs", yesLeaf.size(), count) ||
      !sameSize(n, "nodes_falseleafs", noLeaf.size(), count) ||
      !sameSize(n, "nodes_modes", modes->size(), count) ||
      !sameSize(n, "nodes_splits", splits->size(), count) ||
      !sameSize(n, "leaf_targetids", targets.size(), weights->size()) ||
      (!missing.empty() &&
       !sameSize(n, "nodes_missing_value_tracks_true", missing.size(), count)))
    return failure();
  Forest f;
  f.targets = n.integer("n_targets", 1);
  for (size_t i = 0; i < count; ++i)
    f.add();
  SmallVector<int64_t> leafNodes;
  for (auto [target, weight] : llvm::zip(targets, *weights)) {
    leafNodes.push_back(f.add());
    f.leaves[leafNodes.back()].push_back({target, weight});
  }
  auto branch = [&](int64_t to, int64_t leaf) -> std::optional<int64_t> {
    size_t limit = leaf ? leafNodes.size() : count;
    if (to < 0 || to >= static_cast<int64_t>(limit)) {
      (void)n.fail("a branch leads to " + Twine(to) + " of " + Twine(limit) +
                       (leaf ? " leaves" : " nodes"),
                   "correct the branches");
      return std::nullopt;
    }
    return leaf ? leafNodes[to] : to;
  };
  // The members of sets follow each other, in the order of the nodes; each set
  // ends with NaN.
  size_t nextMember = 0;
  for (size_t i = 0; i < count; ++i) {
    std::optional<int64_t> a = branch(yes[i], yesLeaf[i]),
                           b = branch(no[i], noLeaf[i]);
    if (!a || !b)
      return failure();
    if (*a == static_cast<int64_t>(i) && !yesLeaf[i])
      return n.fail("node " + Twine(i) + " goes round in a circle",
                    "correct the node");
    bool tracks = !missing.empty() && missing[i];
    auto node = static_cast<int64_t>(i);
    auto set = [&](int64_t at, P predicate, double value, int64_t otherwise) {
      f.feature[at] = feature[i];
      f.predicate[at] = predicate;
      f.threshold[at] = value;
      f.missing[at] = tracks;
      f.yes[at] = *a;
      f.no[at] = otherwise;
    };
    if ((*modes)[i] < 0 || (*modes)[i] > member)
      return n.fail("a node has mode " + Twine((*modes)[i]), "use 0 to 6");
    if ((*modes)[i] != member) {
      set(node, predicates[(*modes)[i]], (*splits)[i], *b);
      continue;
    }
    // A chain of comparisons, one a member.
    SmallVector<double> held;
    while (nextMember < members->size() && !std::isnan((*members)[nextMember]))
      held.push_back((*members)[nextMember++]);
    if (nextMember++ >= members->size())
      return n.fail("membership_values ends inside a set",
                    "end each set with NaN");
    if (held.empty())
      return n.unsupported("a set without members");
    for (size_t k = 0; k < held.size(); ++k) {
      int64_t following = k + 1 < held.size() ? f.add() : *b;
      set(node, P::eq, held[k], following);
      node = following;
    }
  }
  for (int64_t root : roots) {
    std::optional<int64_t> node = branch(root, 0);
    if (!node)
      return failure();
    // A tree that is a leaf is written as a node with twice the same one.
    bool alone = yesLeaf[root] && noLeaf[root] && yes[root] == no[root];
    f.roots.push_back(alone ? leafNodes[yes[root]] : *node);
  }
  if (f.roots.empty())
    return n.fail("has no trees", "give tree_roots");
  static constexpr const char *functions[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  static constexpr const char *transforms[] = {"NONE", "SOFTMAX", "LOGISTIC",
                                               "SOFTMAX_ZERO", "PROBIT"};
  int64_t how = n.integer("aggregate_function", 1),
          transform = n.integer("post_transform", 0);
  if (how < 0 || how > 3 || transform < 0 || transform > 4)
    return n.fail("aggregate_function or post_transform is out of range",
                  "use 0 to 3 and 0 to 4");
  Value x = features(n, n[0]);
  if (!x)
    return failure();
  Value y =
      combine(n, f, descend(n, f, x), functions[how], ts::elementTypeOf(x));
  y = postTransform(n, y, transforms[transform]);
  return n.out(n.convert(y, ts::elementTypeOf(n[0])));
}

constexpr OpRow rows[] = {
    {"ai.onnx.ml", "TreeEnsemble", 5, 1, 1, importTreeEnsemble},
    {"ai.onnx.ml", "TreeEnsembleClassifier", 1, 1, 1,
     importTreeEnsembleClassifier},
    {"ai.onnx.ml", "TreeEnsembleRegressor", 1, 1, 1,
     importTreeEnsembleRegressor},
};

} // namespace

ArrayRef<OpRow> treeRows() { return rows; }

} // namespace knapper
