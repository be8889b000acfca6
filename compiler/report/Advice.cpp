#include "compiler/report/Advice.h"
#include "compiler/report/Times.h"

#include <algorithm>
#include <cstdio>

namespace knapper::report {
namespace {

constexpr double kNearPeak = 80;       // per cent of the roofline
constexpr double kNotableShare = 0.02; // of a kernel's time

void add(Json &entry, const char *kind, const std::string &text) {
  entry["advice"].push_back({{"kind", kind}, {"text", text}});
}

std::string number(double value, const char *pattern = "%.0f") {
  char text[32];
  snprintf(text, sizeof text, pattern, value);
  return text;
}

bool has(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

/// What every kernel's advice needs to know of the module and the machine.
struct Subject {
  const Json &description, &times;
  std::string dims;    ///< " --dim batch=8", of the sizes measured
  std::string fastest; ///< the best instruction set of the processor
  bool gpu;            ///< the module runs on one
};

/// The kernel's signature: types of its arguments and results.
std::string typesOf(const Json &kernel) {
  std::string text = textOf(kernel, "text");
  size_t begin = text.find("func.func");
  if (begin == std::string::npos)
    return "";
  return text.substr(begin, text.find('\n', begin) - begin);
}

bool isMatmul(const std::string &hero) {
  return hero == "matmul" || hero == "conv" || hero == "attention";
}

/// Whether most of what the launch reads and writes are constants.
bool readsWeights(const Json &description, const Json &entry) {
  const Json &indices = listOf(entry, "indices");
  const Json &launches = listOf(description, "launches");
  const Json &buffers = listOf(memberOf(description, "memory"), "buffers");
  double bytes = 0;
  for (const Json &index : indices) {
    if (!index.is_number_unsigned() || index.get<size_t>() >= launches.size())
      continue;
    for (const Json &arg : listOf(launches[index.get<size_t>()], "args"))
      if (arg.is_number_unsigned() && arg.get<size_t>() < buffers.size() &&
          textOf(buffers[arg.get<size_t>()], "kind") == "constant")
        bytes += numberOf(buffers[arg.get<size_t>()], "bytes");
  }
  return 2 * bytes > numberOf(entry, "bytes");
}

void adviseTuning(const Subject &subject, const Json &kernel, Json &entry) {
  bool others = false;
  for (const Json &knob : listOf(kernel, "knobs"))
    others |= !listOf(knob, "others").empty();
  if (!others || memberOf(kernel, "recorded") == Json(true))
    return;
  add(entry, "tune",
      "no tuning record: knapper tune MODEL.onnx" + subject.dims +
          " measures other schedules");
}

void adviseTypes(const Subject &subject, const Json &kernel, Json &entry) {
  if (!has(typesOf(kernel), "xf32"))
    return;
  bool matmul = isMatmul(textOf(kernel, "hero"));
  bool memory = textOf(entry, "bound_by") == "memory";
  if (subject.gpu) {
    if (matmul || memory)
      add(entry, "dtype",
          std::string("computes in f32: --dtype bf16 halves its bytes") +
              (matmul ? " and doubles what tensor cores do" : ""));
    return;
  }
  if (!matmul)
    return;
  if (memory && textOf(kernel, "hero") != "attention" &&
      readsWeights(subject.description, entry))
    add(entry, "int8",
        "reads f32 weights: knapper quantize MODEL.onnx --weights-only int8 "
        "-o OUT.knap reads a quarter of their bytes");
  if (has(subject.fastest, "bf16") || has(subject.fastest, "amx"))
    add(entry, "dtype",
        "computes in f32: --dtype bf16, which this processor multiplies (" +
            subject.fastest + ")");
  if (!memory && textOf(kernel, "hero") != "attention" &&
      (has(subject.fastest, "vnni") || has(subject.fastest, "amx")))
    add(entry, "int8",
        "computes in f32: knapper quantize --calibrate DATA, since this "
        "processor multiplies bytes (" +
            subject.fastest + ")");
}

void adviseSizes(const Subject &subject, const Json &kernel, Json &entry) {
  if (!subject.dims.empty() && has(typesOf(kernel), "?"))
    add(entry, "sizes",
        "made for any size: knapper compile" + subject.dims +
            " leaves out size arithmetic and guards");
}

/// The refused neighbour of which the model expects most, where that is worth
/// mentioning.
void adviseFusion(const Subject &subject, Json &entry) {
  const Json &fusion =
      memberOf(memberOf(subject.description, "report"), "fusion");
  const Json &kernels = listOf(fusion, "kernels");
  if (kernels.size() != listOf(subject.description, "launches").size())
    return; // other phases added or dropped launches
  double most = 0;
  const Json *best = nullptr;
  size_t other = 0;
  for (const Json &boundary : listOf(fusion, "boundaries")) {
    double us = 1e6 * numberOf(boundary, "secondsSaved");
    auto producer = size_t(numberOf(boundary, "producer")),
         consumer = size_t(numberOf(boundary, "consumer"));
    for (const Json &index : listOf(entry, "indices")) {
      size_t own = size_t(index.is_number() ? index.get<double>() : 0);
      if ((own != producer && own != consumer) || us <= most)
        continue;
      other = own == producer ? consumer : producer;
      if (other >= kernels.size())
        continue;
      most = us;
      best = &boundary;
    }
  }
  double launches =
      double(std::max<size_t>(1, listOf(entry, "indices").size()));
  if (!best || most < kNotableShare * numberOf(entry, "us") / launches)
    return;
  const Json &origins = listOf(kernels[other], "origins");
  std::string name = !origins.empty() && origins[0].is_string()
                         ? origins[0].get<std::string>()
                         : textOf(kernels[other], "hero");
  add(entry, "fusion",
      "not fused with " + name + ": " + textOf(*best, "reason") +
          "; by the model that costs " + number(most, "%.1f") + " us a launch");
}

void adviseKernel(const Subject &subject, Json &entry) {
  entry["advice"] = Json::array();
  const Json &kernel = kernelOf(subject.description, textOf(entry, "kernel"));
  double roofline = numberOf(entry, "roofline_percent");
  std::string bound = textOf(entry, "bound_by");
  bool near = roofline >= kNearPeak;
  if (!kernel.is_null()) {
    if (!near) {
      adviseSizes(subject, kernel, entry);
      adviseTuning(subject, kernel, entry);
    }
    adviseTypes(subject, kernel, entry);
    adviseFusion(subject, entry);
  }
  if (!entry["advice"].empty())
    return;
  if (kernel.is_null() && textOf(entry, "schedule") == "external")
    add(entry, "none", "an operator of the host's: its time is its own");
  else if (bound.empty())
    add(entry, "none", "nothing known that would make it faster");
  else
    add(entry, "none",
        "at " + number(roofline) + " % of the roofline (" + bound + "): " +
            (near ? "nothing to gain but by doing less"
                  : "nothing known that would make it faster"));
}

void adviseModule(const Subject &subject, const Json &devices, Json &times) {
  times["advice"] = Json::array();
  if (!subject.gpu && devices.is_array())
    for (const Json &device : devices)
      if (textOf(device, "device") == "cuda") {
        add(times, "gpu",
            "runs on the CPU, and this machine has a GPU (" +
                textOf(device, "name") + "): --target cuda");
        break;
      }
  double outside = numberOf(times, "outside_us");
  if (2 * outside > numberOf(times, "total_us"))
    add(times, "outside",
        number(outside, "%.1f") +
            " us are not in kernels: bind the call (Python), give larger "
            "batches");
}

} // namespace

void addAdvice(const Json &description, const Json &devices, Json &times) {
  Subject subject = {description, times, "", "",
                     textOf(description, "device") == "cuda"};
  for (auto &[name, value] : memberOf(times, "sizes").items())
    subject.dims += " --dim " + name + "=" + value.dump();
  if (devices.is_array())
    for (const Json &device : devices)
      if (textOf(device, "device") == "cpu")
        subject.fastest = textOf(device, "isa");
  adviseModule(subject, devices, times);
  for (Json &kernel : times["kernels"])
    adviseKernel(subject, kernel);
}

} // namespace knapper::report
