// knapper: compile, run, measure and explain models from the command line.
#include "runtime/base/Text.h"
#include "tools/knapper/Session.h"

using namespace knapper;
using namespace knapper::cli;

int knapper_command_line(int argc, const char *const *argv) {
  CLI::App app("Compiles machine learning models to native code and runs them",
               "knapper");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("-V,--version", cat("knapper ", knapper_version()));
  Session session;
  session.addOptions(app);
  for (AddCommand *add :
       {addCompile,  addRun,     addBench,   addCompare,    addTune,
        addQuantize, addRecords, addServe,   addBenchServe, addReplay,
        addChat,     addProfile, addExplain, addInspect,    addTranslate,
        addDevices,  addCache,   addVersion, addCompletion, addManPages})
    add(app, session);
  // Now: commands that are added later would inherit it.
  app.footer(
      "For example:\n"
      "  knapper compile model.onnx -o model.knap\n"
      "  knapper run model.knap --dim batch=1\n"
      "  knapper bench model.knap --dim batch=8\n"
      "Every command explains itself: knapper COMMAND --help\n"
      "Exit codes: 0 done; 1 the model, a file or an argument is wrong;\n"
      "2 the machine failed (memory, files); 3 a defect of Knapper;\n"
      "4 knapper compare: the outputs differ");
  // "help compile" is "compile --help".
  std::vector<const char *> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    bool isKnown = argc == 2;
    for (const CLI::App *command : app.get_subcommands({}))
      isKnown |= argc > 2 && command->get_name() == argv[2];
    if (isKnown) // else it is an error of its own
      words.push_back("--help");
  }
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError &error) {
    return session.parsed(app, error);
  }
  return session.run();
}
