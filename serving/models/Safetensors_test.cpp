#include "serving/models/DecoderConfig.h"

#include "gtest/gtest.h"
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace knapper;
using namespace knapper::serving;

namespace {

/// The error of a header in front of so many bytes of data; "" if it has none.
std::string refusal(const std::string &header, uint64_t bytes) {
  auto tensors = parseSafetensorsHeader(header, 100, bytes, "file");
  return tensors ? "" : tensors.error().message();
}

std::string tensor(const std::string &name, const std::string &rest) {
  return "\"" + name + "\":{\"dtype\":\"F32\"," + rest + "}";
}

TEST(Safetensors, TensorsLieWhereTheHeaderSays) {
  auto tensors = parseSafetensorsHeader(
      "{\"__metadata__\":{\"format\":\"pt\"}," +
          tensor("b", "\"shape\":[2,1],\"data_offsets\":[4,12]") + "," +
          tensor("a", "\"shape\":[],\"data_offsets\":[0,4]") + "," +
          tensor("none", "\"shape\":[0,3],\"data_offsets\":[4,4]") + "}",
      100, 12, "file");
  ASSERT_TRUE(tensors) << tensors.error().message();
  EXPECT_EQ(tensors->size(), 3u);
  EXPECT_EQ(tensors->at("b").offset, 104u);
  EXPECT_EQ(tensors->at("b").shape, (std::vector<int64_t>{2, 1}));
}

TEST(Safetensors, RefusesWhatDoesNotFit) {
  auto refused = [](const std::string &text, const std::string &header,
                    uint64_t bytes) {
    EXPECT_NE(refusal(header, bytes).find(text), std::string::npos)
        << refusal(header, bytes) << " for " << header;
  };
  std::string a = tensor("a", "\"shape\":[1],\"data_offsets\":[0,4]");
  refused("no JSON object", "[" + a, 4);
  refused("no JSON object", "{\"a\":[[[[[[1]]]]]]}", 4);
  refused("two tensors 'a'", "{" + a + "," + a + "}", 4);
  refused("overlaps",
          "{" + a + "," + tensor("b", "\"shape\":[1],\"data_offsets\":[2,6]") +
              "}",
          6);
  refused("hole of 2",
          "{" + a + "," + tensor("b", "\"shape\":[1],\"data_offsets\":[6,10]") +
              "}",
          10);
  refused("past the end", "{" + a + "}", 3);
  refused("belong to no tensor", "{" + a + "}", 5);
  refused("has 4 bytes, but 8",
          "{" + tensor("a", "\"shape\":[2],\"data_offsets\":[0,4]") + "}", 4);
  refused("no range",
          "{" + tensor("a", "\"shape\":[1],\"data_offsets\":[4,0]") + "}", 4);
  refused("no range",
          "{" + tensor("a", "\"shape\":[1],\"data_offsets\":[-4,0]") + "}", 4);
  refused("too large",
          "{" +
              tensor("a", "\"shape\":[4294967296,4294967296,4],"
                          "\"data_offsets\":[0,4]") +
              "}",
          4);
  refused("dtype 'F4'",
          "{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
  refused("no dtype", "{\"a\":{\"shape\":[1]}}", 4);
}

class SafetensorsFolder : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "knapper_safetensors";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const std::string &name, const std::string &text) {
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
  }
  void writeTensors(const std::string &file, const std::string &name) {
    std::string header =
        "{" + tensor(name, "\"shape\":[1],\"data_offsets\":[0,4]") + "}";
    uint64_t length = header.size();
    std::string text(8, 0);
    std::memcpy(text.data(), &length, 8);
    write(file, text + header + "data");
  }
  std::string refusal() {
    auto checkpoint = Checkpoint::open(folder);
    return checkpoint ? "" : checkpoint.error().message();
  }
  std::string configRefusal(const std::string &json) {
    write("config.json", json);
    auto config = readDecoderConfig(folder);
    return config ? "" : config.error().message();
  }
  std::string folder;
};

TEST_F(SafetensorsFolder, TruncatedFilesAreRefused) {
  write("model.safetensors", "short");
  EXPECT_NE(refusal().find("too short"), std::string::npos);
  write("model.safetensors", std::string("\xff\0\0\0\0\0\0\0{}", 10));
  EXPECT_NE(refusal().find("ends inside its header"), std::string::npos);
  write("model.safetensors", std::string(8, '\xff'));
  EXPECT_NE(refusal().find("a header of"), std::string::npos);
}

TEST_F(SafetensorsFolder, ShardsAndTheirIndex) {
  writeTensors("one.safetensors", "a");
  write("model.safetensors.index.json",
        R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  EXPECT_NE(refusal().find("'two.safetensors' is missing"), std::string::npos);
  writeTensors("two.safetensors", "c");
  EXPECT_NE(refusal().find("'b' is not in two.safetensors"), std::string::npos);
  writeTensors("two.safetensors", "a");
  EXPECT_NE(refusal().find("in another shard too"), std::string::npos);
  writeTensors("two.safetensors", "b");
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(Checkpoint::open(folder)->find("b")->file, 1u);
  write("model.safetensors.index.json", R"({"weight_map": {"a": "../x"}})");
  EXPECT_NE(refusal().find("no file of the folder"), std::string::npos);
}

TEST_F(SafetensorsFolder, OtherFormatsAreRefusedByName) {
  EXPECT_NE(refusal().find("no model.safetensors"), std::string::npos);
  write("pytorch_model.bin", "");
  EXPECT_NE(refusal().find("pickle"), std::string::npos);
}

TEST_F(SafetensorsFolder, ConfigFieldsThatMayChangeResults) {
  const std::string sizes =
      R"("num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
         "vocab_size": 5, "intermediate_size": 8, "rms_norm_eps": 1e-5,
         "max_position_embeddings": 64)";
  const std::string llama =
      R"({"architectures": ["LlamaForCausalLM"], )" + sizes;
  EXPECT_EQ(configRefusal(llama + "}"), "");
  EXPECT_EQ(configRefusal(llama + R"(, "new_flag": false, "other": null})"),
            "");
  EXPECT_NE(configRefusal(llama + R"(, "new_flag": true})")
                .find("field 'new_flag': is not known"),
            std::string::npos);
  EXPECT_NE(configRefusal(llama + R"(, "rope_scaling": {"type": "dynamic"}})")
                .find("is 'dynamic'"),
            std::string::npos);
  EXPECT_NE(
      configRefusal(llama + R"(, "hidden_act": "tanh"})").find("is 'tanh'"),
      std::string::npos);
  EXPECT_NE(configRefusal(R"({"architectures": ["FooForCausalLM"]})")
                .find("LlamaForCausalLM"),
            std::string::npos);
  EXPECT_NE(configRefusal("{").find("no JSON object"), std::string::npos);
  EXPECT_NE(configRefusal(R"({"architectures": ["LlamaForCausalLM"]})")
                .find("field 'num_hidden_layers': is missing"),
            std::string::npos);
}

TEST_F(SafetensorsFolder, OldAndNewRopeFieldsAreOne) {
  const std::string begin =
      R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1,
          "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 5,
          "intermediate_size": 8, "rms_norm_eps": 1e-5,
          "max_position_embeddings": 64, )";
  const char *scaling =
      R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 32)";
  for (const std::string &text :
       {begin +
            R"("rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", )" +
            scaling + "}}",
        begin + R"("rope_parameters": {"rope_theta": 5e5,
                "rope_type": "llama3", )" +
            scaling + "}}"}) {
    write("config.json", text);
    auto config = readDecoderConfig(folder);
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->rope.theta, 5e5);
    EXPECT_EQ(config->rope.scaling, RopeScaling::llama3);
    EXPECT_EQ(config->rope.originalLength, 32);
    EXPECT_EQ(config->rope.dims, 4);
  }
}

} // namespace
