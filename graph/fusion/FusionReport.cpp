#include "graph/fusion/FusionReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace knapper::fusion;

static llvm::json::Array strings(const std::vector<std::string> &texts) {
  llvm::json::Array array;
  for (const std::string &text : texts)
    array.push_back(llvm::json::fixUTF8(text));
  return array;
}

std::string FusionReport::json() const {
  llvm::json::Array kernelList, boundaryList;
  for (const Kernel &kernel : kernels)
    kernelList.push_back(
        llvm::json::Object{{"function", llvm::json::fixUTF8(kernel.function)},
                           {"hero", kernel.hero},
                           {"ops", strings(kernel.ops)},
                           {"origins", strings(kernel.origins)},
                           {"seconds", kernel.seconds}});
  for (const Boundary &boundary : boundaries)
    boundaryList.push_back(
        llvm::json::Object{{"producer", boundary.producer},
                           {"consumer", boundary.consumer},
                           {"reason", llvm::json::fixUTF8(boundary.reason)},
                           {"secondsSaved", boundary.secondsSaved}});
  return llvm::formatv("{0}", llvm::json::Value(llvm::json::Object{
                                  {"kernels", std::move(kernelList)},
                                  {"boundaries", std::move(boundaryList)}}))
      .str();
}
