#include "serving/sampling/SamplingBounds.h"

namespace knapper::serving {

std::string rangeText(double least, double most) {
  auto show = [](double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.')
      text.pop_back();
    return text;
  };
  return most >= INT32_MAX ? show(least) + " or more"
                           : show(least) + " to " + show(most);
}

} // namespace knapper::serving
