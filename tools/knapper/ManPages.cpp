// Pages for man(1), from the same commands and flags that are parsed.
#include "runtime/base/Text.h"
#include "tools/knapper/Session.h"

#include <sys/stat.h>

namespace knapper::cli {
namespace {

bool all(const CLI::App *) { return true; }

/// Text as roff takes it: no escape, no request at the beginning of a line, a
/// minus that can be copied.
std::string roff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (char c : text) {
    if (begins && (c == '.' || c == '\''))
      out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins = c == '\n';
  }
  return out;
}

/// "knapper-compile" of "knapper compile".
std::string pageName(const CLI::App &command) {
  const CLI::App *above = command.get_parent();
  return above ? cat(pageName(*above), "-", command.get_name())
               : command.get_name();
}

std::string optionText(const CLI::Option &option) {
  if (option.get_group().empty()) // hidden
    return {};
  std::string names = option.get_positional() ? option.get_name() : "";
  for (const std::string &name : option.get_snames())
    names += cat(names.empty() ? "-" : ", -", name);
  for (const std::string &name : option.get_lnames())
    names += cat(names.empty() ? "--" : ", --", name);
  std::string value =
      option.get_type_size() == 0 ? "" : cat(" ", option.get_type_name());
  std::string text = cat(".TP\n\\fB", roff(names), "\\fR", roff(value), "\n",
                         roff(option.get_description()), "\n");
  if (!option.get_default_str().empty())
    text += cat("Default: ", roff(option.get_default_str()), ".\n");
  return text;
}

std::string options(const CLI::App &command) {
  std::string text;
  for (const CLI::Option *option : command.get_options())
    text += optionText(*option);
  return text;
}

std::string page(const CLI::App &command) {
  bool isRoot = !command.get_parent();
  std::string name = pageName(command);
  std::string usage = cat("\\fBknapper\\fR");
  if (!isRoot)
    usage += cat(" \\fB", roff(command.get_name()), "\\fR");
  std::string positional;
  auto below = command.get_subcommands(all);
  for (const CLI::Option *option : command.get_options())
    if (option->get_positional())
      positional += cat(" \\fI", roff(option->get_name()), "\\fR");
  std::string text = cat(
      ".TH ", name, " 1 \"\" \"knapper ", knapper_version(), "\"\n.SH NAME\n",
      name, " \\- ", roff(command.get_description()), "\n.SH SYNOPSIS\n", usage,
      below.empty() ? "" : " \\fIcommand\\fR", " [\\fIoptions\\fR]", positional,
      "\n.SH DESCRIPTION\n", roff(command.get_description()), ".\n");
  text += cat(".SH OPTIONS\n", options(command));
  if (!below.empty())
    text += ".SH COMMANDS\n";
  for (const CLI::App *each : below) {
    text +=
        cat(".TP\n\\fB", roff(each->get_name()), "\\fR\n",
            roff(each->get_description()),
            isRoot ? cat(": see \\fB", pageName(*each), "\\fR(1)") : "", "\n");
    if (!isRoot)
      text += cat(".RS\n", options(*each), ".RE\n");
  }
  if (!command.get_footer().empty())
    text += cat(".SH NOTES\n.nf\n", roff(command.get_footer()), "\n.fi\n");
  if (!isRoot)
    text += ".SH SEE ALSO\n\\fBknapper\\fR(1)\n";
  return text;
}

Status write(const CLI::App &root, const std::string &folder) {
  mkdir(folder.c_str(), 0777); // what is missing shows at the first page
  std::vector<const CLI::App *> pages = root.get_subcommands(all);
  pages.push_back(&root);
  for (const CLI::App *command : pages)
    TRY(writeFile(cat(folder, "/", pageName(*command), ".1"), page(*command)));
  return success();
}

Status show(const CLI::App &root, const std::string &name) {
  std::string names;
  for (const CLI::App *command : root.get_subcommands(all)) {
    if (command->get_name() == name) {
      print(page(*command));
      return success();
    }
    names += cat(names.empty() ? "" : ", ", command->get_name());
  }
  if (!name.empty())
    return userError(cat("there is no command '", name, "'"), "man",
                     cat("the commands: ", names));
  print(page(root));
  return success();
}

} // namespace

void addManPages(CLI::App &app, Session &session) {
  struct Arguments {
    std::string command, folder;
  };
  auto given = std::make_shared<Arguments>();
  CLI::App *command =
      app.add_subcommand("man", "Prints the manual page of a command");
  command->add_option("command", given->command,
                      "Whose page; without it that of knapper itself");
  command
      ->add_option("-o,--output", given->folder,
                   "Write the pages of all commands into this folder instead")
      ->type_name("FOLDER");
  command->footer("For example: knapper man compile | man -l -");
  command->callback([&session, &app, given] {
    session.action = [&app, given] {
      return given->folder.empty() ? show(app, given->command)
                                   : write(app, given->folder);
    };
  });
}

} // namespace knapper::cli
