// Rotary embeddings: their fields of config.json, and the frequency of each
// pair of a head's numbers.
#pragma once

#include "serving/models/ConfigReader.h"

#include <cstdint>
#include <vector>

namespace knapper::serving {

enum class RopeScaling : uint8_t { none, linear, llama3, yarn, longrope };

struct Rope {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  double lowFrequency = 1, highFrequency = 4; ///< of llama3
  double fastRotations = 32, slowRotations = 1; ///< of yarn
  bool wholePairs = true;                     ///< of yarn: the ramp's ends
  /// Of longrope, dims / 2 each: divisors of the frequencies up to the original
  /// length, and beyond it.
  std::vector<double> shortFactors, longFactors;
  double originalLength = 0; ///< of llama3, yarn and longrope
  double servedLength = 0;   ///< the context; longrope chooses by it
  double angleScale = 1;     ///< cosines and sines are multiplied by it
  int64_t dims = 0;          ///< of a head, that are rotated; even
};

/// The object `name` of `config`, in the new form (`rope_parameters`) or the
/// old one (`rope_scaling`); what is not there is left as `rope` has it.
/// `contextLength` stands for an original length that is not given. Errors stay
/// in `config`.
void readRopeObject(ConfigReader &config, const char *name,
                    double contextLength, Rope &rope, double &rotatedShare);

/// dims / 2 numbers, each an angle for one position, in float32 as the models
/// were trained. linear: positions divided. llama3: Llama 3.1. yarn: Peng et
/// al., 2023. longrope: Ding et al., 2024; one form for all positions, that of
/// `servedLength`.
std::vector<float> ropeFrequencies(const Rope &rope);

} // namespace knapper::serving
