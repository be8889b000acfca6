#include "compiler/report/Comparison.h"
#include "compiler/report/Html.h"
#include "compiler/report/Times.h"

#include <gtest/gtest.h>
#include <set>

using namespace knapper;
using report::Json;

namespace {

/// A matmul of f32 with weights (100 kB of a launch's bytes) and a softmax
/// behind it, for any number of rows.
Json description() {
  return Json::parse(R"json({
    "file": "m.knap", "device": "cpu", "isa": "x86-64-v3", "threads": 2,
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 64]}],
    "outputs": [{"name": "y", "dtype": "f32", "shape": ["n", 64]}],
    "launches": [
      {"origin": "matmul", "args": [0, 2, 3],
       "choices": [{"kernel": "matmul_aaaa", "schedule": "s", "guard": "1"}]},
      {"origin": "softmax", "args": [3, 1],
       "choices": [{"kernel": "reduce_bbbb", "schedule": "t", "guard": "1"}]}],
    "memory": {"buffers": [
      {"kind": "input", "name": "", "index": 0},
      {"kind": "output", "name": "", "index": 0},
      {"kind": "constant", "name": "w", "bytes": 100000},
      {"kind": "temp", "name": "between"}]},
    "report": {
      "unique_kernels": [
        {"signature": "aaaa", "hero": "matmul", "recorded": false,
         "text": "func.func @kernel(%arg0: tensor<?x64xf32>, %arg1: tensor<64x64xf32>) -> tensor<?x64xf32> {\n  %arg2",
         "knobs": [{"name": "panel", "model": 1, "value": 1, "others": [2]}]},
        {"signature": "bbbb", "hero": "reduce", "recorded": false,
         "text": "func.func @kernel(%arg0: tensor<?x64xf32>) -> tensor<?x64xf32> {\n",
         "knobs": []}],
      "fusion": {
        "kernels": [{"hero": "matmul", "ops": ["dot"], "origins": ["matmul"]},
                    {"hero": "reduce", "ops": ["softmax"],
                     "origins": ["softmax"]}],
        "boundaries": [{"producer": 0, "consumer": 1, "secondsSaved": 1e-6,
                        "reason": "a kernel holds one"}]}}})json");
}

Json devices(const char *isa = "x86-64-v3") {
  return {{{"device", "cpu"},
           {"isa", isa},
           {"fma_gflops", 100.0},
           {"fma_gflops_one_core", 60.0},
           {"copy_gbps", 10.0},
           {"copy_gbps_one_core", 8.0}}};
}

/// A run: the matmul takes `us` and as many bytes and operations, the softmax
/// 2 us.
Json profile(double us, double bytes = 120000, double flops = 1000) {
  return {{"launches",
           {{{"kernel", "matmul_aaaa"},
             {"origin", "matmul"},
             {"schedule", "s"},
             {"executions", 1},
             {"index", 0},
             {"ns", us * 1e3},
             {"flops", flops},
             {"bytes", bytes}},
            {{"kernel", "reduce_bbbb"},
             {"origin", "softmax"},
             {"schedule", "t"},
             {"executions", 1},
             {"index", 1},
             {"ns", 2000},
             {"flops", 10},
             {"bytes", 1000}}}},
          {"total_ns", us * 1e3 + 3000},
          {"isa", "x86-64-v3"},
          {"sizes", {{"n", 8}}}};
}

std::set<std::string> kinds(const Json &entry) {
  std::set<std::string> set;
  for (const Json &advice : entry["advice"])
    set.insert(advice["kind"].get<std::string>());
  return set;
}

using Kinds = std::set<std::string>;

TEST(Times, AreMediansAgainstThePeakThatDecides) {
  Json times = report::timesOf(
      description(), {profile(20), profile(90), profile(24)}, devices());
  EXPECT_EQ(times["total_us"], 27.0);
  EXPECT_EQ(times["kernels_us"], 26.0);
  EXPECT_EQ(times["outside_us"], 1.0);
  const Json &matmul = times["kernels"][0];
  EXPECT_EQ(matmul["us"], 24.0);
  EXPECT_NEAR(matmul["share_percent"].get<double>(), 100 * 24. / 26, 1e-9);
  // 120 kB at 10 GB/s are 12 us.
  EXPECT_NEAR(matmul["roofline_percent"].get<double>(), 50, 1e-9);
  EXPECT_EQ(matmul["bound_by"], "memory");
  Json compute =
      report::timesOf(description(), {profile(20, 10, 1e6)}, devices());
  EXPECT_EQ(compute["kernels"][0]["bound_by"], "arithmetic");
  EXPECT_NEAR(compute["kernels"][0]["roofline_percent"].get<double>(), 50,
              1e-9);
}

TEST(Times, OneThreadHasThePeaksOfOneCore) {
  Json one = description();
  one["threads"] = 1;
  Json times = report::timesOf(one, {profile(20)}, devices());
  EXPECT_EQ(times["peak_gflops"], 60.0);
  EXPECT_EQ(times["peak_gbps"], 8.0);
}

TEST(Times, WithoutPeaksNoShareIsInvented) {
  Json times = report::timesOf(description(), {profile(20)}, Json());
  EXPECT_EQ(times["kernels"][0]["roofline_percent"], 0.0);
  EXPECT_EQ(times["kernels"][0]["bound_by"], "");
}

TEST(Advice, SizesTuningWeightsAndFusion) {
  Json times = report::timesOf(description(), {profile(24)}, devices());
  const Json &matmul = times["kernels"][0];
  EXPECT_EQ(kinds(matmul), (Kinds{"sizes", "tune", "int8", "fusion"}));
  std::string all = matmul["advice"].dump();
  for (const char *part : {"--dim n=8", "knapper tune", "--weights-only",
                           "not fused with softmax: a kernel holds one"})
    EXPECT_NE(all.find(part), std::string::npos) << part;
}

TEST(Advice, WhatIsDoneIsNotAdvised) {
  Json done = description();
  Json &kernel = done["report"]["unique_kernels"][0];
  kernel["recorded"] = true;
  kernel["text"] = "func.func @kernel(%arg0: tensor<8x64xbf16>) {\n";
  done["report"]["fusion"]["boundaries"] = Json::array();
  Json times = report::timesOf(done, {profile(24)}, devices());
  const Json &matmul = times["kernels"][0];
  EXPECT_EQ(kinds(matmul), Kinds{"none"});
  EXPECT_NE(matmul["advice"].dump().find("at 50 % of the roofline (memory)"),
            std::string::npos);
}

TEST(Advice, NearThePeakNothingIsToGain) {
  Json near = description();
  near["report"]["fusion"]["boundaries"] = Json::array();
  near["report"]["unique_kernels"][0]["text"] =
      "func.func @kernel(%arg0: tensor<?x64xbf16>) {\n";
  Json times = report::timesOf(near, {profile(13)}, devices());
  const Json &matmul = times["kernels"][0];
  EXPECT_EQ(kinds(matmul), Kinds{"none"});
  EXPECT_NE(matmul["advice"].dump().find("at 92 % of the roofline (memory): "
                                         "nothing to gain"),
            std::string::npos);
}

TEST(Advice, TypesThatTheProcessorMultiplies) {
  auto of = [](const char *isa) {
    return kinds(report::timesOf(description(), {profile(20, 10, 1e6)},
                                 devices(isa))["kernels"][0]);
  };
  EXPECT_FALSE(of("x86-64-v3").count("dtype"));
  EXPECT_TRUE(of("x86-64-v4-bf16").count("dtype"));
  EXPECT_TRUE(of("x86-64-v4-amx").count("dtype"));
  EXPECT_TRUE(of("x86-64-v4-vnni").count("int8"));
}

TEST(Advice, GpusAndTimeOutsideKernels) {
  Json both = devices();
  both.push_back({{"device", "cuda"}, {"name", "H200"}, {"isa", "sm_90"}});
  Json slow = profile(24);
  slow["total_ns"] = 90000;
  Json times = report::timesOf(description(), {slow}, both);
  EXPECT_EQ(kinds(times), (Kinds{"gpu", "outside"}));
  Json gpu = description();
  gpu["device"] = "cuda";
  times = report::timesOf(gpu, {profile(24)}, both);
  EXPECT_EQ(kinds(times), Kinds{});
  EXPECT_TRUE(kinds(times["kernels"][0]).count("dtype"));
}

Json measured(const std::vector<Json> &runs, const Json &of = description()) {
  Json described = of;
  described["profile"] = report::timesOf(described, runs, devices());
  return described;
}

TEST(Comparison, PairsBySignatureAndByWhatIsComputed) {
  Json first = measured({profile(24)});
  Json other = description();
  Json run = profile(10);
  other["launches"][1]["choices"][0]["kernel"] = "reduce_cccc";
  other["report"]["unique_kernels"][1]["signature"] = "cccc";
  run["launches"][1]["kernel"] = "reduce_cccc";
  run["launches"].push_back({{"kernel", "pointwise_dddd"},
                             {"origin", "cast"},
                             {"schedule", "u"},
                             {"executions", 1},
                             {"index", 2},
                             {"ns", 500},
                             {"flops", 1},
                             {"bytes", 1}});
  Json comparison = report::comparisonOf(first, measured({run}, other));
  const Json &rows = comparison["kernels"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["origin"], "matmul");
  EXPECT_EQ(rows[0]["difference_us"], -14.0);
  EXPECT_NEAR(rows[0]["ratio"].get<double>(), 10. / 24, 1e-9);
  EXPECT_EQ(rows[1]["origin"], "cast");
  EXPECT_TRUE(rows[1]["ratio"].is_null());
  EXPECT_TRUE(rows[1]["first"]["kernels"].empty());
  EXPECT_EQ(rows[2]["first"]["kernels"][0], "reduce_bbbb");
  EXPECT_EQ(rows[2]["second"]["kernels"][0], "reduce_cccc");
  EXPECT_EQ(comparison["total_us"], Json({27.0, 13.0}));
}

TEST(Page, HasTimesGraphAndComparison) {
  Json described = measured({profile(24)});
  described["comparison"] = report::comparisonOf(described, described);
  std::string page = reportHtml(described.dump());
  for (const char *part :
       {"id=\"times\"", "id=\"graph\"", "id=\"comparison\"", "id=\"launch0\"",
        "id=\"launch1\"", "data-launch=\"1\"", "href=\"#launch0\"",
        "<path class=\"edge\" data-from=\"0\" data-to=\"1\"",
        "<title>between</title>", "input x, constant w", "output y",
        "24.0 us, 50 % of the roofline (memory)", "no tuning record"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char *part : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

} // namespace
