#include "targets/cpu/GivenObject.h"
#include "runtime/base/Text.h"

#include "llvm/Object/ELFObjectFile.h"
#include <set>

namespace knapper {

using llvm::object::ELF64LEFile;

/// Whether the object defines that function.
static llvm::Expected<bool> defines(const ELF64LEFile &file,
                                    llvm::StringRef entry) {
  auto sections = file.sections();
  if (!sections)
    return sections.takeError();
  for (const auto &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_SYMTAB)
      continue;
    auto symbols = file.symbols(&section);
    if (!symbols)
      return symbols.takeError();
    auto names = file.getStringTableForSymtab(section);
    if (!names)
      return names.takeError();
    for (const auto &symbol : *symbols) {
      auto name = symbol.getName(*names);
      if (!name)
        return name.takeError();
      if (*name == entry && symbol.getType() == llvm::ELF::STT_FUNC &&
          symbol.getBinding() != llvm::ELF::STB_LOCAL && symbol.isDefined())
        return true;
    }
  }
  return false;
}

Status checkObject(const GivenCode &given) {
  auto refuse = [&](std::string what) {
    return userError(std::move(what), given.path,
                     "cc -c -O2 -fPIC -fno-stack-protector makes such a file");
  };
  auto file = ELF64LEFile::create(given.code);
  if (!file) {
    llvm::consumeError(file.takeError());
    return refuse("is no relocatable object for x86-64");
  }
  if (file->getHeader().e_type != llvm::ELF::ET_REL ||
      file->getHeader().e_machine != llvm::ELF::EM_X86_64)
    return refuse("is no relocatable object for x86-64");
  llvm::Expected<bool> found = defines(*file, given.entry);
  if (!found)
    return refuse("is damaged: " + llvm::toString(found.takeError()));
  if (!*found)
    return refuse(cat("defines no function '", given.entry, "' for others"));
  return success();
}

LinkInput linkInput(std::span<const KernelJob> jobs,
                    std::vector<std::string> objects,
                    std::span<const std::vector<std::string>> names) {
  LinkInput input;
  std::set<std::string_view> known;
  std::set<std::string> roots;
  for (size_t i = 0; i < jobs.size(); ++i) {
    input.hasGiven |= jobs[i].given != nullptr;
    for (const std::string &name : names[i])
      if (roots.insert(name).second)
        input.roots.push_back(name);
    if (jobs[i].given && !known.insert(jobs[i].given->code).second)
      continue;
    input.objects.push_back(std::move(objects[i]));
  }
  return input;
}

void nameEntries(std::span<const KernelJob> jobs, KernelImage &image) {
  std::map<std::string, uint64_t> named;
  for (const KernelJob &job : jobs)
    if (job.given)
      named[job.name] = image.entries.at(job.given->entry);
  for (const KernelJob &job : jobs)
    if (job.given)
      image.entries.erase(job.given->entry);
  image.entries.merge(named);
}

Error linkError(Error error, std::span<const KernelJob> jobs) {
  if (error.kind != ErrorKind::internal)
    return error;
  std::string paths;
  std::set<std::string_view> known;
  for (const KernelJob &job : jobs)
    if (job.given && known.insert(job.given->path).second)
      paths += (paths.empty() ? "" : ", ") + job.given->path;
  return userError(
      "cannot be linked with the kernels of the model: " + error.what, paths,
      "a user kernel calls nothing, writes no globals and needs "
      "no relocations at load");
}

} // namespace knapper
