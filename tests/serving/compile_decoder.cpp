// Compiles the program that the engine runs on a GPU, and writes it; or the one
// that draws tokens there.
//
//   compile_decoder FOLDER TARGET f32|bf16|i8|i4 OUT.knap [OUT.mlir [DUMPS]]
//   compile_decoder --sampler VOCABULARY TARGET OUT.knap [changed]
#include "serving/models/DecoderProgram.h"
#include "serving/models/SamplerProgram.h"

#include <fstream>
#include <iostream>

using namespace knapper;
using namespace knapper::serving;

static void write(const Artefact &artefact, const char *path) {
  std::span<const std::byte> bytes = artefact.bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

static Status run(char **arguments, int count) {
  std::string folder = arguments[0];
  std::string dtype = arguments[2];
  bool bf16 = dtype != "f32";
  ASSIGN_OR_RETURN(DecoderConfig config, readDecoderConfig(folder));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder));
  DecoderForm form;
  form.bestTokens = form.weightInputs = true;
  form.pools = bf16 ? DType::bf16 : DType::f32;
  form.weightBits = dtype == "i8" ? 8 : dtype == "i4" ? 4 : 0;
  if (count > 4) {
    ASSIGN_OR_RETURN(std::string text, decoderText(config, checkpoint, form));
    std::ofstream(arguments[4]) << text;
  }
  Options options;
  options.target = arguments[1];
  options.dtype = bf16 ? "bf16" : "";
  options.cache = false;
  if (count > 5)
    options.dumpDir = arguments[5];
  ASSIGN_OR_RETURN(DecoderProgram program,
                   compileDecoder(config, checkpoint, form, options));
  write(*program.artefact, arguments[3]);
  return success();
}

static Status runSampler(char **arguments, int count) {
  Options options;
  options.target = arguments[1];
  options.cache = false;
  ASSIGN_OR_RETURN(std::shared_ptr<const Artefact> artefact,
                   compileSampler(atoll(arguments[0]), count > 3, options));
  write(*artefact, arguments[2]);
  return success();
}

int main(int argc, char **argv) {
  if (argc < 5) {
    std::cerr
        << "compile_decoder FOLDER TARGET f32|bf16|i8|i4 OUT.knap [OUT.mlir]\n";
    return 2;
  }
  bool sampler = std::string_view(argv[1]) == "--sampler";
  if (Status status =
          sampler ? runSampler(argv + 2, argc - 2) : run(argv + 1, argc - 1);
      !status) {
    std::cerr << status.error().message() << "\n";
    return 1;
  }
  return 0;
}
