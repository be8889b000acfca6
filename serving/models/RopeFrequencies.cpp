#include "serving/models/RopeFrequencies.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace knapper::serving {

/// How much larger the scores of stretched positions are to be.
static double yarnScale(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

static void readYarn(ConfigReader &fields, Rope &rope) {
  rope.scaling = RopeScaling::yarn;
  rope.fastRotations = fields.real("beta_fast", 32);
  rope.slowRotations = fields.real("beta_slow", 1);
  rope.wholePairs = fields.flag("truncate", true);
  double weight = fields.real("mscale", 0),
         all = fields.real("mscale_all_dim", 0);
  rope.angleScale =
      fields.real("attention_factor", weight != 0 && all != 0
                                          ? yarnScale(rope.factor, weight) /
                                                yarnScale(rope.factor, all)
                                          : yarnScale(rope.factor, 1));
  if (!(rope.fastRotations > rope.slowRotations) || !(rope.slowRotations > 0))
    fields.fail("beta_fast", "is not more than beta_slow, or that is not "
                             "positive");
}

static void readLongrope(ConfigReader &fields, Rope &rope) {
  rope.scaling = RopeScaling::longrope;
  rope.shortFactors = fields.reals("short_factor");
  rope.longFactors = fields.reals("long_factor");
  rope.angleScale = fields.real(
      "attention_factor",
      rope.factor <= 1 ? 1
                       : std::sqrt(1 + std::log(rope.factor) /
                                           std::log(rope.originalLength)));
  if (!(rope.originalLength > 1))
    fields.fail("original_max_position_embeddings", "is not more than 1");
}

void readRopeObject(ConfigReader &config, const char *name,
                    double contextLength, Rope &rope, double &rotatedShare) {
  if (!config.has(name))
    return;
  ConfigReader fields = config.object(name);
  rope.theta = fields.real("rope_theta", rope.theta);
  rotatedShare = fields.real("partial_rotary_factor", rotatedShare);
  const char *type = fields.has("rope_type") ? "rope_type" : "type";
  std::string kind = fields.text(type, "default");
  fields.ignore({"type", "rope_type"});
  if (kind != "default" && kind != "linear") {
    // Where both are given the outer one counts, as in transformers.
    double inner =
        fields.real("original_max_position_embeddings", contextLength);
    rope.originalLength =
        config.real("original_max_position_embeddings", inner);
  }
  if (kind == "linear" || kind == "llama3")
    rope.factor = fields.real("factor");
  if (kind == "yarn" || kind == "longrope" || kind == "su")
    rope.factor = fields.real("factor", contextLength / rope.originalLength);
  if (kind == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (kind == "llama3") {
    rope.scaling = RopeScaling::llama3;
    rope.lowFrequency = fields.real("low_freq_factor");
    rope.highFrequency = fields.real("high_freq_factor");
    if (!(rope.highFrequency > rope.lowFrequency))
      fields.fail("high_freq_factor", "is not more than low_freq_factor");
  } else if (kind == "yarn") {
    readYarn(fields, rope);
  } else if (kind == "longrope" || kind == "su") {
    readLongrope(fields, rope);
  } else if (kind != "default") {
    fields.fail(type, cat("is '", kind, "'"),
                "default, linear, llama3, yarn or longrope");
  }
  if (!(rope.factor > 0) || !(rope.angleScale > 0))
    fields.fail(type, "has a factor that is not positive");
  config.join(fields);
}

/// The pair that makes so many rotations within the original length.
static double pairOfRotations(const Rope &rope, double rotations) {
  return static_cast<double>(rope.dims) *
         std::log(rope.originalLength / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

std::vector<float> ropeFrequencies(const Rope &rope) {
  auto half = static_cast<size_t>(rope.dims / 2);
  double low = 0, high = 0;
  if (rope.scaling == RopeScaling::yarn) {
    low = pairOfRotations(rope, rope.fastRotations);
    high = pairOfRotations(rope, rope.slowRotations);
    if (rope.wholePairs)
      low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(rope.dims - 1));
    if (low == high)
      high += 0.001;
  }
  auto factor = static_cast<float>(rope.factor);
  bool isLong = rope.servedLength > rope.originalLength;
  const std::vector<double> &divisors =
      isLong ? rope.longFactors : rope.shortFactors;
  std::vector<float> frequencies;
  for (size_t i = 0; i < half; ++i) {
    float power = static_cast<float>(2 * i) / static_cast<float>(rope.dims);
    float wave = std::pow(static_cast<float>(rope.theta), power);
    float frequency = 1.0f / wave;
    switch (rope.scaling) {
    case RopeScaling::none:
      break;
    case RopeScaling::linear:
      frequency /= factor;
      break;
    case RopeScaling::llama3: {
      // Long waves are stretched, short ones kept, those between mixed.
      double turns = rope.originalLength * frequency / (2 * std::numbers::pi);
      double mix = std::clamp((turns - rope.lowFrequency) /
                                  (rope.highFrequency - rope.lowFrequency),
                              0.0, 1.0);
      frequency = static_cast<float>((1 - mix) * frequency / rope.factor +
                                     mix * frequency);
      break;
    }
    case RopeScaling::yarn: {
      double ramp = (static_cast<double>(i) - low) / (high - low);
      float kept = 1.0f - static_cast<float>(std::clamp(ramp, 0.0, 1.0));
      frequency = 1.0f / (factor * wave) * (1.0f - kept) + frequency * kept;
      break;
    }
    case RopeScaling::longrope:
      frequency = 1.0f / (static_cast<float>(divisors[i]) * wave);
      break;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

} // namespace knapper::serving
