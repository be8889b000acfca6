// The registry, and what is made of what shape and compute functions say.
#include "runtime/operators/Registry.h"

#include <gmock/gmock.h>

using namespace knapper;
using ::testing::HasSubstr;

namespace {

int released = 0;

knapper_operator named(const char *domain, const char *name) {
  knapper_operator op = KNAPPER_OPERATOR_INIT;
  op.domain = domain;
  op.name = name;
  op.compute = [](void *, const knapper_call *) { return 0; };
  return op;
}

OperatorNode node() {
  return {"node 'n' (Op)", 1,
          std::make_shared<const OperatorAttributes>(
              std::vector<OperatorAttribute>())};
}

knapper_tensor shaped(const std::vector<int64_t> &shape,
                      knapper_dtype dtype = KNAPPER_F32) {
  return {nullptr, 0, dtype, static_cast<int32_t>(shape.size()), shape.data()};
}

/// What the shape function of `op` gives for one result.
Expected<std::vector<int64_t>> shapeOf(const knapper_operator &op,
                                       std::vector<knapper_tensor> inputs,
                                       bool running = false) {
  knapper_result_shape result;
  if (Status s = Operator(op).shapes(node(), inputs, running, {&result, 1}); !s)
    return s.takeError();
  return std::vector<int64_t>(result.shape, result.shape + result.rank);
}

} // namespace

TEST(Registry, TheLastOneOfANameIsFoundAndWhoHoldsTheFirstKeepsIt) {
  knapper_operator op = named("test", "Twice");
  op.release = [](void *) { ++released; };
  released = 0;
  ASSERT_TRUE(registerOperator(op));
  std::shared_ptr<const Operator> held = findOperator("test", "Twice");
  ASSERT_TRUE(held);
  ASSERT_TRUE(registerOperator(op));
  EXPECT_NE(findOperator("test", "Twice"), held);
  EXPECT_EQ(released, 0);
  held = nullptr;
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(unregisterOperator("test", "Twice"));
  EXPECT_EQ(released, 2);
  EXPECT_FALSE(unregisterOperator("test", "Twice"));
  EXPECT_FALSE(findOperator("test", "Twice"));
}

TEST(Registry, TheStandardDomainHasTwoNames) {
  ASSERT_TRUE(registerOperator(named("ai.onnx", "Unheard")));
  EXPECT_TRUE(findOperator("", "Unheard"));
  EXPECT_TRUE(unregisterOperator("", "Unheard"));
}

TEST(Registry, RefusesWhatHasNoNameOrComputesNothing) {
  EXPECT_THAT(registerOperator(named("test", "")).error().message(),
              HasSubstr("name the operator"));
  knapper_operator op = named("test", "Op");
  op.compute = nullptr;
  EXPECT_THAT(registerOperator(op).error().message(),
              HasSubstr("test.Op: compute is NULL"));
}

TEST(Registry, SaysWhatASharedObjectLacks) {
  auto never = [](knapper_operators_function *) { return success(); };
  EXPECT_THAT(loadOperators("/nowhere/ops.so", never).error().message(),
              HasSubstr("cannot be loaded"));
  EXPECT_THAT(loadOperators("libc.so.6", never).error().message(),
              HasSubstr("cannot be loaded")); // never searched for
  EXPECT_THAT(
      loadOperators("/lib/x86_64-linux-gnu/libc.so.6", never).error().message(),
      HasSubstr("exports no function knapper_operators"));
}

TEST(Operator, WithoutAShapeFunctionInputsBroadcast) {
  knapper_operator op = named("test", "Op");
  std::vector<int64_t> column{-7, 1}, row{5}, other{4};
  auto shape = shapeOf(op, {shaped(column), shaped(row)});
  ASSERT_TRUE(shape);
  EXPECT_EQ(*shape, (std::vector<int64_t>{-7, 5}));
  EXPECT_THAT(shapeOf(op, {shaped(other), shaped(row)}).error().message(),
              HasSubstr("4 and 5 do not broadcast"));
  EXPECT_THAT(shapeOf(op, {}).error().message(), HasSubstr("has no input"));
}

TEST(Operator, ASymbolicSizeBesideAnotherIsKnownInTheRun) {
  std::vector<int64_t> a{-7}, b{-8};
  auto shape = shapeOf(named("test", "Op"), {shaped(a), shaped(b)});
  ASSERT_TRUE(shape);
  EXPECT_EQ(*shape, std::vector<int64_t>{-1});
}

TEST(Operator, ChecksWhatShapeFunctionsGive) {
  knapper_operator op = named("test", "Op");
  static knapper_result_shape given;
  op.shape = [](void *, const knapper_call *, knapper_result_shape *results) {
    results[0] = given;
    return 0;
  };
  std::vector<int64_t> symbolic{-7};
  auto message = [&](knapper_result_shape shape, bool running) {
    given = shape;
    auto got = shapeOf(op, {shaped(symbolic)}, running);
    return got ? std::string() : got.error().message();
  };
  EXPECT_EQ(message({KNAPPER_F32, 2, {-7, -1}}, false), "");
  EXPECT_THAT(message({KNAPPER_F32, 1, {-9}}, false),
              HasSubstr("result 0 the size -9, which no input has"));
  EXPECT_THAT(message({KNAPPER_F32, 1, {-1}}, true),
              HasSubstr("the size -1 in a run"));
  EXPECT_THAT(message({static_cast<knapper_dtype>(99), 0, {}}, true),
              HasSubstr("the dtype 99"));
  EXPECT_THAT(message({KNAPPER_F32, 33, {}}, true), HasSubstr("rank 33"));
  EXPECT_THAT(message({KNAPPER_F32, -1, {}}, true), HasSubstr("no shape"));
}

TEST(Operator, AFailureIsAUserErrorOfTheNode) {
  knapper_operator op = named("test", "Op");
  op.compute = [](void *, const knapper_call *call) {
    if (call->num_inputs == 1)
      call->fail(call, "x is below 0");
    return 3;
  };
  std::vector<int64_t> shape;
  knapper_tensor input = shaped(shape);
  Error said = Operator(op).compute(node(), {&input, 1}, {}, {}).takeError();
  EXPECT_EQ(said.kind, ErrorKind::user);
  EXPECT_EQ(said.where, "node 'n' (Op)");
  EXPECT_EQ(said.what, "x is below 0");
  Error silent = Operator(op).compute(node(), {}, {}, {}).takeError();
  EXPECT_THAT(silent.what, HasSubstr("failed with code 3"));
}

TEST(Operator, SeesItsAttributes) {
  std::vector<OperatorAttribute> attributes(3);
  attributes[0] = {"alpha", KNAPPER_ATTRIBUTE_FLOAT, {}, {0.5f}, {}, {}, {}};
  attributes[1] = {"words", KNAPPER_ATTRIBUTE_STRINGS, {}, {}, {"a", "bc"}, {},
                   {}};
  attributes[2] = {"table",   KNAPPER_ATTRIBUTE_TENSOR,    {2}, {}, {},
                   DType::u8, {std::byte(1), std::byte(2)}};
  OperatorAttributes list(attributes);
  ASSERT_EQ(list.list().size(), 3u);
  EXPECT_EQ(list.list()[0].floats[0], 0.5f);
  EXPECT_EQ(list.list()[0].ints, nullptr);
  EXPECT_EQ(std::string(list.list()[1].strings[1].data, 2), "bc");
  EXPECT_EQ(list.list()[2].tensor->shape[0], 2);
  EXPECT_EQ(list.list()[2].tensor->bytes, 2u);
}

TEST(TextOperators, LookAtWhatTheyAreCalledWith) {
  std::vector<int64_t> two{2}, one{1};
  knapper_string words[2] = {{"a", 1}, {"b", 1}};
  knapper_tensor text = shaped(two, KNAPPER_STRING), number = shaped(two);
  text.data = number.data = words;
  text.bytes = number.bytes = sizeof words;
  knapper_tensor shorter = text;
  shorter.shape = one.data();
  shorter.bytes = sizeof words[0];
  knapper_tensor absent = text;
  absent.rank = -1;
  auto errorOf = [](const char *name, std::vector<knapper_tensor> inputs,
                    size_t results = 1) {
    std::vector<knapper_result_shape> shapes(results);
    Status s =
        findOperator("knapper", name)->shapes(node(), inputs, true, shapes);
    return s ? std::string() : s.error().message();
  };
  EXPECT_EQ(errorOf("StringEqual", {text, text}), "");
  EXPECT_EQ(errorOf("StringJoin", {text, text, shorter}), "");
  EXPECT_EQ(errorOf("StringFormat", {number}), "");
  EXPECT_EQ(errorOf("StringSplit", {text}, 2), "");
  using Inputs = std::vector<knapper_tensor>;
  for (const auto &[name, inputs] :
       std::vector<std::pair<const char *, Inputs>>{
           {"StringEqual", {text}},
           {"StringEqual", {text, shorter}},
           {"StringEqual", {text, number}},
           {"StringConcat", {}},
           {"StringConcat", {text, text, text}},
           {"StringSplit", {text}}, // of two results
           {"StringLookup", {number}},
           {"StringLookup", {absent}},
           {"StringJoin", {text, number}},
           {"StringFormat", {text}},
           {"StringSelect", {text, number}},
           {"StringConstant", {text}}})
    EXPECT_THAT(errorOf(name, inputs), HasSubstr("other tensors than it takes"))
        << name;
}

TEST(TextOperators, NumbersAreReadWholeAndInTheirRange) {
  auto errorOf = [](std::string text, knapper_dtype dtype) {
    std::vector<int64_t> one{1};
    knapper_string word = {text.data(), text.size()};
    uint64_t number = 0;
    knapper_tensor in = shaped(one, KNAPPER_STRING), out = shaped(one, dtype);
    in.data = &word;
    in.bytes = sizeof word;
    out.data = &number;
    out.bytes = dtype == KNAPPER_F32 ? 4 : 8;
    Status s = findOperator("knapper", "StringParse")
                   ->compute(node(), {&in, 1}, {&out, 1}, {});
    return s ? std::string() : s.error().what;
  };
  for (auto [text, dtype] : {std::pair("18446744073709551615", KNAPPER_U64),
                             {" 7\n", KNAPPER_U64},
                             {"-9223372036854775808", KNAPPER_I64},
                             {"1e999", KNAPPER_F32},
                             {"-nan", KNAPPER_F64}})
    EXPECT_EQ(errorOf(text, dtype), "") << text;
  for (auto [text, dtype] : {std::pair("-1", KNAPPER_U64),
                             {" -1", KNAPPER_U64},
                             {"18446744073709551616", KNAPPER_U64},
                             {"9223372036854775808", KNAPPER_I64},
                             {"7 8", KNAPPER_I64},
                             {"1.5", KNAPPER_I64},
                             {"", KNAPPER_F32},
                             {"1,5", KNAPPER_F64}})
    EXPECT_THAT(errorOf(text, dtype), HasSubstr("is no number of this type"))
        << text;
}

TEST(TextOperators, TheShapeOfAConstantIsFilled) {
  auto errorOf = [](std::vector<OperatorAttribute> attributes) {
    OperatorNode n{
        "node", 1,
        std::make_shared<const OperatorAttributes>(std::move(attributes))};
    knapper_result_shape shape;
    Status s = findOperator("knapper", "StringConstant")
                   ->shapes(n, {}, true, {&shape, 1});
    return s ? std::string() : s.error().message();
  };
  OperatorAttribute words = {
      "values", KNAPPER_ATTRIBUTE_STRINGS, {}, {}, {"a"}, {}, {}};
  auto shape = [](std::vector<int64_t> dims) -> OperatorAttribute {
    return {"shape", KNAPPER_ATTRIBUTE_INTS, dims, {}, {}, {}, {}};
  };
  EXPECT_EQ(errorOf({words, shape({})}), "");
  EXPECT_EQ(errorOf({words, shape({1, 1})}), "");
  EXPECT_THAT(errorOf({words, shape({2})}), HasSubstr("do not fill"));
  EXPECT_THAT(errorOf({words, shape({INT64_MAX, 4})}),
              HasSubstr("do not fill"));
  EXPECT_THAT(errorOf({words, shape({-1, -1})}), HasSubstr("the size -1"));
  EXPECT_THAT(errorOf({words, shape(std::vector<int64_t>(40, 1))}),
              HasSubstr("do not fill"));
  EXPECT_THAT(
      errorOf(
          {words, {"shape", KNAPPER_ATTRIBUTE_STRINGS, {}, {}, {"a"}, {}, {}}}),
      HasSubstr("do not fill"));
}
