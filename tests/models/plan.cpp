// knapper-plan FILE BATCH SEQUENCE: the memory plan of an artefact as JSON.
// The symbol that leads inputs of two dims or more is BATCH, others SEQUENCE.
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/execute/Module.h"

#include <cstdio>
#include <cstdlib>

using namespace knapper;

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: knapper-plan FILE BATCH SEQUENCE\n");
    return 2;
  }
  auto fail = [](const Error &error) {
    fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  };
  auto artefact = Artefact::load(argv[1]);
  if (!artefact)
    return fail(artefact.error());
  auto module = Module::load(*artefact, null::device(), {});
  if (!module)
    return fail(module.error());
  const Program &program = (*module)->program();
  std::vector<int64_t> symbols(program.symbols.size(), atoll(argv[3]));
  for (const Program::Tensor &tensor : program.inputs) {
    if (tensor.dims.size() < 2)
      continue;
    const Program::Value &first = program.values[tensor.dims[0]];
    if (first.op == fb::ScalarOp::symbol)
      symbols[static_cast<size_t>(first.imm)] = atoll(argv[2]);
  }
  Expected<Binding> binding = bindProgram(program, symbols);
  if (!binding)
    return fail(binding.error());
  printf("{\"arena\": %llu, \"live\": %llu}\n",
         static_cast<unsigned long long>(binding->arenaBytes),
         static_cast<unsigned long long>(binding->liveBytes));
}
