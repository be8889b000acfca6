// Completion scripts, from the same commands and flags that are parsed.
#include "tools/knapper/Session.h"

namespace knapper::cli {
namespace {

std::string namesOf(const CLI::App &command) {
  std::string names;
  auto add = [&](const std::string &name) {
    names += (names.empty() ? "" : " ") + name;
  };
  for (const CLI::Option *option : command.get_options()) {
    for (const std::string &name : option->get_snames())
      add("-" + name);
    for (const std::string &name : option->get_lnames())
      add("--" + name);
  }
  for (const CLI::App *below :
       command.get_subcommands([](const CLI::App *) { return true; }))
    add(below->get_name());
  return names;
}

/// A shell function's body: a case for each command, and for commands below.
std::string cases(const CLI::App &root) {
  std::string text;
  auto all = [](const CLI::App *) { return true; };
  for (const CLI::App *command : root.get_subcommands(all)) {
    for (const CLI::App *below : command->get_subcommands(all))
      text += "    '" + command->get_name() + " " + below->get_name() +
              "') words='" + namesOf(*below) + "' ;;\n";
    text += "    '" + command->get_name() + "') words='" + namesOf(*command) +
            "' ;;\n";
  }
  return text + "    *) words='" + namesOf(root) + "' ;;\n";
}

std::string bashScript(const CLI::App &root) {
  return "_knapper() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} command='' words i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case ${COMP_WORDS[i]} in\n"
         "    -*) ;;\n"
         "    cache | completion) command=${COMP_WORDS[i]} ;;\n"
         "    list | explain | prune | bash | zsh)\n"
         "      case $command in cache | completion) command+=\" "
         "${COMP_WORDS[i]}\" ;; '') command=${COMP_WORDS[i]} ;; esac ;;\n"
         "    *) [[ -z $command ]] && command=${COMP_WORDS[i]} ;;\n"
         "    esac\n"
         "  done\n"
         "  case $command in\n" +
         cases(root) +
         "  esac\n"
         "  COMPREPLY=()\n"
         "  [[ $current != -* && -n $command && $command != cache && "
         "$command != completion ]] && words=''\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "  if [[ -n $command && $current != -* ]]; then\n"
         "    mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- "
         "\"$current\")\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _knapper knapper\n";
}

Status show(const CLI::App &root, const std::string &shell) {
  if (shell == "zsh")
    print("#compdef knapper\n"
          "autoload -U +X bashcompinit && bashcompinit\n");
  print(bashScript(root));
  return success();
}

} // namespace

void addCompletion(CLI::App &app, Session &session) {
  CLI::App *command = app.add_subcommand(
      "completion", "Prints a script that completes commands in a shell");
  command->require_subcommand(1);
  command->footer("For example: source <(knapper completion bash)");
  for (std::string shell : {"bash", "zsh"})
    command->add_subcommand(shell, "For " + shell)
        ->callback([&session, &app, shell] {
          session.action = [&app, shell] { return show(app, shell); };
        });
}

} // namespace knapper::cli
