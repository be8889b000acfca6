// config.json, the index and the safetensors of a model, made wrong part by
// part, are refused with a UserError or make a program: nothing crashes, hangs
// or takes memory that the weights do not justify. KNAPPER_FUZZ_CASES and
// KNAPPER_FUZZ_SEED change the extent.
#include "serving/models/DecoderProgram.h"
#include "serving/testing/DamageTest.h"
#include "serving/testing/JsonDamage.h"

#include <cstring>
#include <sys/resource.h>

using namespace knapper;
using namespace knapper::serving;

namespace {

using Json = nlohmann::json;

const char *kCommon =
    R"({"vocab_size": 11, "hidden_size": 8, "intermediate_size": 12,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
  "rms_norm_eps": 1e-5, "head_dim": 4, "tie_word_embeddings": false})";

const char *kFamilies[] = {
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": true, "mlp_bias": true, "hidden_act": "silu",
      "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}, "rope_theta": 10000.0, "partial_rotary_factor": 1.0})",
    R"({"architectures": ["MistralForCausalLM"], "sliding_window": 7, "rope_scaling": {"type": "linear", "factor": 2.0}})",
    R"({"architectures": ["MixtralForCausalLM"], "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 5})",
    R"({"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1})",
    R"({"architectures": ["Qwen3ForCausalLM"], "rope_parameters": {"rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 8, "beta_fast": 32, "beta_slow": 1, "truncate": false}})",
    R"({"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 6,
        "norm_topk_prob": true, "mlp_only_layers": [1], "decoder_sparse_step": 1})",
    R"({"architectures": ["Gemma2ForCausalLM"], "query_pre_attn_scalar": 20, "attn_logit_softcapping": 4.0,
        "final_logit_softcapping": 10.0, "sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]})",
    R"({"architectures": ["Gemma3ForCausalLM"], "query_pre_attn_scalar": 20, "sliding_window": 6, "sliding_window_pattern": 2,
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 20000.0, "factor": 8.0}}})",
    R"({"architectures": ["Phi3ForCausalLM"], "sliding_window": 9, "original_max_position_embeddings": 16,
        "rope_parameters": {"rope_type": "longrope", "short_factor": [1.0, 1.1], "long_factor": [1.5, 2.0]}})",
    R"({"architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 16, "vocab_size": 11,
        "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"})",
    R"({"architectures": ["Olmo2ForCausalLM"]})",
    R"({"architectures": ["Starcoder2ForCausalLM"], "norm_epsilon": 1e-5, "use_bias": true, "sliding_window": 4, "hidden_act": "gelu_pytorch_tanh"})",
};

class DamagedFolders : public DamageTest {
protected:
  DamagedFolders() : DamageTest(100) {}

  void writeTensors(const std::string &header, size_t bytes) const {
    uint64_t length = header.size();
    std::string text(sizeof length, 0);
    memcpy(text.data(), &length, sizeof length);
    write("model.safetensors", text + header + std::string(bytes, '\1'));
  }

  Expected<std::string> program(const DecoderForm &form) const {
    ASSIGN_OR_RETURN(DecoderConfig config, readDecoderConfig(folder));
    ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder));
    return decoderText(config, checkpoint, form);
  }

  /// Puts in each weight that the message asks for, until none is missing.
  Json tensorsOf(const Json &config, size_t &bytes) {
    write("config.json", config.dump());
    Json tensors = Json::object();
    bytes = 0;
    for (int i = 0; i < 100; ++i) {
      writeTensors(tensors.dump(), bytes);
      auto text = program({});
      if (text)
        return tensors;
      // "the tensor 'NAME' is missing; it would be AxB".
      std::string message = text.error().what;
      size_t begin = message.find('\''), end = message.find("' is missing"),
             shape = message.find("would be ");
      if (shape == message.npos) {
        ADD_FAILURE() << text.error().message();
        return tensors;
      }
      Json dims = Json::array();
      uint64_t size = 4;
      for (const char *at = message.c_str() + shape + 8; *at; ++at)
        if (*at == ' ' || *at == 'x') {
          dims.push_back(strtoull(at + 1, nullptr, 10));
          size *= dims.back().get<uint64_t>();
        }
      tensors[message.substr(begin + 1, end - begin - 1)] = {
          {"dtype", "F32"},
          {"shape", dims},
          {"data_offsets", {bytes, bytes + size}}};
      bytes += size;
    }
    ADD_FAILURE() << "needs more than 100 weights";
    return tensors;
  }
};

TEST_F(DamagedFolders, AreRefusedOrMakeAProgram) {
  struct Model {
    Json config, tensors;
    size_t bytes = 0;
  };
  std::vector<Model> models;
  for (const char *family : kFamilies) {
    Json own = Json::parse(family), config = own;
    if (!own.contains("n_layer"))
      config.update(Json::parse(kCommon));
    if (own["architectures"][0] == "Starcoder2ForCausalLM")
      config.erase("rms_norm_eps");
    Model model{config, {}};
    model.tensors = tensorsOf(config, model.bytes);
    models.push_back(std::move(model));
    ASSERT_FALSE(HasFailure()) << family;
  }
  uint64_t taken = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE("KNAPPER_FUZZ_SEED=" + std::to_string(seed + i) +
                 " KNAPPER_FUZZ_CASES=1");
    JsonDamage<Json> damage(seed + i);
    const Model &model = models[(seed + i) % models.size()];
    bool wrongTensors = damage.below(3) == 0;
    std::string tensors = model.tensors.dump();
    write("config.json",
          wrongTensors ? model.config.dump() : damage.apply(model.config));
    writeTensors(wrongTensors ? damage.apply(model.tensors) : tensors,
                 model.bytes - (damage.below(30) == 0));
    bool isIndexed = damage.below(6) == 0;
    if (isIndexed) {
      Json map = Json::object();
      for (const auto &[name, entry] : model.tensors.items())
        map[name] = "model.safetensors";
      write("model.safetensors.index.json",
            damage.apply({{"metadata", nullptr}, {"weight_map", map}}));
    }
    DecoderForm form;
    form.bestTokens = damage.below(2);
    form.weightInputs = damage.below(2);
    form.pools = damage.below(2) ? DType::bf16 : DType::f32;
    if (form.weightInputs && damage.below(2))
      form.weightBits = damage.below(2) ? 8 : 4;
    alarm(60);
    auto text = program(form);
    alarm(0);
    taken += bool(text);
    if (!text) {
      EXPECT_EQ(text.error().kind, ErrorKind::user) << text.error().message();
      EXPECT_FALSE(text.error().what.empty());
    }
    if (isIndexed)
      std::filesystem::remove(folder + "/model.safetensors.index.json");
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    EXPECT_LT(used.ru_maxrss, 1L << 20) << "in KiB";
    if (HasFailure())
      break;
  }
  EXPECT_GE(taken, cases / 20);
}

class WrongConfig : public DamagedFolders {
protected:
  std::string refusal(size_t family, const char *field, Json value) const {
    Json config = Json::parse(kCommon);
    config.update(Json::parse(kFamilies[family]));
    config[Json::json_pointer(field)] = std::move(value);
    write("config.json", config.dump());
    auto read = readDecoderConfig(folder);
    return read ? "" : read.error().message();
  }
};

void expectRefusal(const std::string &got, const char *wanted) {
  EXPECT_NE(got.find(wanted), std::string::npos) << got;
}

TEST_F(WrongConfig, LayersTakeNoMemoryBeforeTheirWeightsAreFound) {
  for (size_t family : {0, 3, 5, 6, 7})
    for (int64_t layers :
         {int64_t(10'001), int64_t(200'000), int64_t(INT32_MAX), int64_t(-3)})
      expectRefusal(refusal(family, "/num_hidden_layers", layers),
                    "num_hidden_layers");
  expectRefusal(refusal(9, "/n_layer", INT32_MAX), "n_layer");
  expectRefusal(refusal(0, "/head_dim", 1 << 30), "do not fit together");
}

TEST_F(WrongConfig, SharesAndWindowsAreOnes) {
  for (double share : {1e308, -1e308, 0.0, 1.5})
    expectRefusal(refusal(0, "/partial_rotary_factor", share), "rotates 0 of");
  expectRefusal(refusal(1, "/sliding_window", -5), "null for no window");
}

TEST_F(WrongConfig, NestingIsBounded) {
  constexpr size_t depth = 200'000;
  std::string deep = "{\"architectures\": [\"LlamaForCausalLM\"], "
                     "\"rope_scaling\": {\"a\": " +
                     std::string(depth, '[') + std::string(depth, ']') + "}}";
  write("config.json", deep);
  auto read = readDecoderConfig(folder);
  ASSERT_FALSE(read);
  expectRefusal(read.error().message(), "nested more than 64");
  write("model.safetensors.index.json",
        "{\"weight_map\": {\"a\": " + std::string(depth, '[') +
            std::string(depth, ']') + "}}");
  auto opened = Checkpoint::open(folder);
  ASSERT_FALSE(opened);
  expectRefusal(opened.error().message(), "nested more than 64");
}

} // namespace
