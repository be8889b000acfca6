#include "runtime/operators/Registry.h"

#include "runtime/base/Text.h"
#include "runtime/operators/TextOperators.h"

#include <dlfcn.h>
#include <link.h>
#include <map>
#include <mutex>
#include <unistd.h>

namespace knapper {
namespace {

using Key = std::pair<std::string, std::string>;

struct Registry {
  Registry() {
    for (const knapper_operator &own : textOperators())
      operators[{own.domain, own.name}] = std::make_shared<const Operator>(own);
  }
  std::mutex mutex;
  std::map<Key, std::shared_ptr<const Operator>> operators;
};

/// Never destroyed: threads may outlive the objects of the library.
Registry &registry() {
  static Registry &only = *new Registry;
  return only;
}

Key keyOf(std::string_view domain, std::string_view name) {
  return {std::string(domain == "ai.onnx" ? "" : domain), std::string(name)};
}

/// Operators of the runtime's own domain that lie in libraries beside this one,
/// by how their names begin.
constexpr std::pair<std::string_view, const char *> apart[] = {
    {"Integer", "libknapper_numeric.so"},
    {"Matrix", "libknapper_numeric.so"},
    {"RegexFullMatch", "libknapper_regex.so"},
    {"Special", "libknapper_numeric.so"}};

const char *libraryOf(std::string_view name) {
  for (auto [beginning, file] : apart)
    if (name.starts_with(beginning))
      return file;
  return nullptr;
}

/// The folder of the library or program that has this code, with a slash.
std::string ownFolder() {
  Dl_info info = {};
  void *map = nullptr;
  std::string path;
  if (dladdr1(reinterpret_cast<void *>(&libraryOf), &info, &map,
              RTLD_DL_LINKMAP))
    path = static_cast<const link_map *>(map)->l_name;
  if (path.empty()) { // the program itself
    char target[4096];
    ssize_t size = readlink("/proc/self/exe", target, sizeof target);
    path.assign(target, size > 0 ? size : 0);
  }
  return path.substr(0, path.rfind('/') + 1);
}

void put(const knapper_operator &given,
         std::shared_ptr<const Operator> &before) {
  auto made = std::make_shared<const Operator>(given);
  Registry &all = registry();
  std::lock_guard lock(all.mutex);
  auto &place = all.operators[keyOf(given.domain, given.name)];
  before = std::move(place);
  place = std::move(made);
}

/// Loads the library of an operator that is not there yet.
void loadApart(const char *file) {
  std::string folder = ownFolder();
  auto enter = [](knapper_operators_function *entry) {
    entry([](const knapper_operator *given) -> knapper_error * {
      std::shared_ptr<const Operator> before;
      put(*given, before);
      return nullptr;
    });
    return success();
  };
  for (const char *place : {"", "../lib/"})
    if (loadOperators((folder + place + file).c_str(), enter))
      return;
}

std::shared_ptr<const Operator> look(const Key &key) {
  Registry &all = registry();
  std::lock_guard lock(all.mutex);
  auto it = all.operators.find(key);
  return it == all.operators.end() ? nullptr : it->second;
}

} // namespace

Status registerOperator(const knapper_operator &given) {
  if (!given.domain || !given.name || !*given.name)
    return userError("domain or name is NULL or empty",
                     "knapper_register_operator", "name the operator");
  if (!given.compute)
    return userError("compute is NULL", operatorText(given.domain, given.name),
                     "give the function that computes the results");
  if (given.domain == std::string_view(kHostDomain))
    return userError("this domain is the runtime's own",
                     operatorText(given.domain, given.name),
                     "register it in a domain of yours");
  // Released outside the lock: its function may come back here.
  std::shared_ptr<const Operator> before;
  put(given, before);
  return success();
}

bool unregisterOperator(std::string_view domain, std::string_view name) {
  Registry &all = registry();
  std::shared_ptr<const Operator> before;
  std::lock_guard lock(all.mutex);
  auto it = all.operators.find(keyOf(domain, name));
  if (it == all.operators.end() || domain == kHostDomain)
    return false;
  before = std::move(it->second);
  all.operators.erase(it);
  return true;
}

std::shared_ptr<const Operator> findOperator(std::string_view domain,
                                             std::string_view name) {
  Key key = keyOf(domain, name);
  std::shared_ptr<const Operator> found = look(key);
  const char *file =
      !found && domain == kHostDomain ? libraryOf(name) : nullptr;
  if (!file)
    return found;
  loadApart(file);
  return look(key);
}

Status loadOperators(
    const char *path,
    const std::function<Status(knapper_operators_function *)> &enter) {
  // A name without a folder would be looked for among the system's libraries.
  std::string file = path;
  if (file.find('/') == std::string::npos)
    file = "./" + file;
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return userError(cat("cannot be loaded: ", dlerror()), path,
                     "give a shared object for this machine");
  auto *entry = reinterpret_cast<knapper_operators_function *>(
      dlsym(library, "knapper_operators"));
  if (!entry) {
    dlclose(library);
    return userError("exports no function knapper_operators", path,
                     "export it (extern \"C\"): it registers the operators");
  }
  return enter(entry);
}

std::string howToRegister(std::string_view domain, std::string_view name) {
  if (domain == kHostDomain) {
    const char *file = libraryOf(name);
    return file ? cat("put ", file, " of the same release into ", ownFolder())
                : "use the version of Knapper that compiled the model";
  }
  return cat(
      "register it first: knapper.register_operator(\"", domain, "\", \"", name,
      "\", ...), knapper_register_operator in C, or --operators FILE.so");
}

} // namespace knapper
