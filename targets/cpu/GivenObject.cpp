#include "targets/cpu/GivenObject.h"
#include "runtime/base/Text.h"
#include "targets/cpu/ObjectDamage.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ELFObjectFile.h"

#include <deque>
#include <map>

namespace knapper {
namespace {

using llvm::StringRef;
using llvm::object::ELF64LEObjectFile;

Error refuse(const GivenCode &given, std::string what) {
  return userError(std::move(what), given.path,
                   "cc -c -O2 -fPIC -fno-stack-protector makes such a file");
}

/// The names that the object defines; the entry is among them once.
llvm::Expected<std::vector<StringRef>>
definedNames(const ELF64LEObjectFile &object, StringRef entry,
             unsigned &entries) {
  std::vector<StringRef> names;
  for (llvm::object::ELFSymbolRef symbol : object.symbols()) {
    auto name = symbol.getName();
    if (!name)
      return name.takeError();
    auto flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    bool isDefined = !(*flags & llvm::object::BasicSymbolRef::SF_Undefined);
    if (name->empty() || !isDefined)
      continue;
    names.push_back(*name);
    if (*name == entry)
      entries += symbol.getELFType() == llvm::ELF::STT_FUNC &&
                         symbol.getBinding() != llvm::ELF::STB_LOCAL
                     ? 1
                     : 2;
  }
  return names;
}

/// The object with all that it defines under names that begin with `prefix`,
/// and without sections that linking could trip over and no kernel needs.
/// Reading it to its end finds what is damaged.
Expected<std::string> renamed(const GivenCode &given,
                              const std::string &prefix) {
  auto buffer = llvm::MemoryBufferRef(given.code, given.path);
  auto read = llvm::object::ObjectFile::createELFObjectFile(buffer);
  if (!read) {
    llvm::consumeError(read.takeError());
    return refuse(given, "is no relocatable object for x86-64");
  }
  auto *object = llvm::dyn_cast<ELF64LEObjectFile>(read->get());
  if (!object || object->getELFFile().getHeader().e_type != llvm::ELF::ET_REL ||
      object->getELFFile().getHeader().e_machine != llvm::ELF::EM_X86_64)
    return refuse(given, "is no relocatable object for x86-64");
  auto damaged = [&](llvm::Error error) {
    return refuse(given, "is damaged: " + llvm::toString(std::move(error)));
  };
  if (std::string what = damageOf(object->getELFFile()); !what.empty())
    return refuse(given, "is damaged: " + what);
  unsigned entries = 0;
  auto names = definedNames(*object, given.entry, entries);
  if (!names)
    return damaged(names.takeError());
  if (entries != 1)
    return refuse(given, cat("defines no function '", given.entry,
                             entries == 0 ? "' for others"
                                          : "' for others and nothing else of "
                                            "that name"));
  llvm::objcopy::ConfigManager config;
  std::deque<std::string> kept; // the configuration refers to texts
  for (StringRef name : *names)
    config.Common.SymbolsToRename[name] =
        kept.emplace_back(prefix + name.str());
  config.Common.StripDebug = true;
  for (const char *pattern : {".eh_frame", ".comment", ".note*", ".deplibs",
                              ".llvm*", ".gnu.warning*"})
    if (llvm::Error error = config.Common.ToRemove.addMatcher(
            llvm::objcopy::NameOrPattern::create(
                pattern, llvm::objcopy::MatchStyle::Wildcard,
                [](llvm::Error error) { return error; })))
      return internalError(llvm::toString(std::move(error)));
  llvm::SmallString<0> out;
  llvm::raw_svector_ostream stream(out);
  if (llvm::Error error =
          llvm::objcopy::executeObjcopyOnBinary(config, *object, stream))
    return damaged(std::move(error));
  return out.str().str();
}

} // namespace

Expected<GivenObjects> GivenObjects::of(std::span<const KernelJob> jobs) {
  GivenObjects given;
  std::map<std::string_view, std::string> prefixes; // by code
  std::map<std::string, bool> rooted;
  for (const KernelJob &job : jobs) {
    if (!job.given)
      continue;
    const GivenCode &code = *job.given;
    auto [it, isNew] =
        prefixes.try_emplace(code.code, cat("user", prefixes.size(), "."));
    ASSIGN_OR_RETURN(std::string object, renamed(code, it->second));
    if (isNew) {
      given.made.push_back(std::move(object));
      given.paths.push_back(code.path);
    }
    std::string name = it->second + code.entry;
    if (rooted.try_emplace(name).second)
      given.names.push_back(name);
    given.entries.push_back({job.name, name});
  }
  return given;
}

void GivenObjects::nameEntries(KernelImage &image) const {
  for (const Entry &entry : entries)
    image.entries[entry.job] = image.entries.at(entry.name);
  for (const Entry &entry : entries)
    image.entries.erase(entry.name);
}

Error GivenObjects::linkError(Error error) const {
  if (made.empty() || error.kind != ErrorKind::internal)
    return error;
  return userError("cannot be linked with the kernels of the model: " +
                       error.what,
                   llvm::join(paths, ", "),
                   "a user kernel calls nothing outside its file, writes no "
                   "globals and needs no relocations at load");
}

} // namespace knapper
