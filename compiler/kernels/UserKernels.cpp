#include "compiler/kernels/UserKernels.h"
#include "runtime/base/EditDistance.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Log.h"
#include "runtime/base/Text.h"

#include "ir/tensor/Update.h"
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

using namespace mlir;

namespace knapper {
namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t kVersion = 1;
constexpr uint64_t kMostFileBytes = 16 << 20, kMostCodeBytes = 256 << 20;

constexpr std::string_view kKeys[] = {
    "name",   "signature", "target",      "isa",     "code",
    "entry",  "grid",      "grain",       "scratch", "threads",
    "always", "in_place",  "shared_bytes"};

/// The members of one entry; the first that is wrong is kept.
class EntryReader {
public:
  EntryReader(const Json &entry) : entry(entry) {
    for (const auto &[key, value] : entry.items())
      if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys))
        refuse(cat("has the key '", key.substr(0, 64),
                   "', which there is not; the nearest is '",
                   nearest(key.substr(0, 64)), "'"));
  }

  void text(const char *key, std::string &into) {
    const Json *value = find(key, /*isNeeded=*/into.empty());
    if (value && value->is_string() && !value->get<std::string>().empty())
      into = value->get<std::string>();
    else if (value)
      refuse(cat("has a '", key, "' that is no text"));
  }
  /// A number of programs or bytes: 12, or "floordiv(k0 + 63, 64)".
  void size(const char *key, std::string &into) {
    const Json *value = find(key, into.empty());
    if (value && value->is_number_unsigned())
      into = std::to_string(value->get<uint64_t>());
    else if (value && value->is_string())
      into = value->get<std::string>();
    else if (value)
      refuse(cat("has a '", key, "' that is no size"));
  }
  void flag(const char *key, bool &into) {
    const Json *value = find(key, false);
    if (value && value->is_boolean())
      into = value->get<bool>();
    else if (value)
      refuse(cat("has a '", key, "' that is neither true nor false"));
  }
  void number(const char *key, uint32_t &into, uint64_t most) {
    const Json *value = find(key, false);
    if (value && value->is_number_unsigned() && value->get<uint64_t>() <= most)
      into = value->get<uint32_t>();
    else if (value)
      refuse(cat("has a '", key, "' that is no number up to ", most));
  }
  void refuse(std::string what) {
    if (wrong.empty())
      wrong = std::move(what);
  }
  const std::string &error() const { return wrong; }

private:
  const Json *find(const char *key, bool isNeeded) {
    auto it = entry.find(key);
    if (it != entry.end())
      return &*it;
    if (isNeeded)
      refuse(cat("has no '", key, "'"));
    return nullptr;
  }
  static std::string_view nearest(std::string_view key) {
    return *std::min_element(
        std::begin(kKeys), std::end(kKeys), [&](auto a, auto b) {
          return editDistance(key, a) < editDistance(key, b);
        });
  }

  const Json &entry;
  std::string wrong;
};

bool consistsOf(const std::string &text, const char *characters) {
  return text.find_first_not_of(characters) == std::string::npos;
}

/// What is wrong with an entry, or nothing.
std::string readEntry(const Json &json, UserKernel &kernel, std::string &code) {
  if (!json.is_object())
    return "is no object";
  EntryReader reader(json);
  reader.text("name", kernel.name);
  reader.text("signature", kernel.signature);
  reader.text("target", kernel.target);
  reader.text("isa", kernel.isa);
  reader.text("code", code);
  reader.text("entry", kernel.code.entry);
  reader.size("grid", kernel.grid);
  reader.size("grain", kernel.grain);
  reader.size("scratch", kernel.scratch);
  reader.number("threads", kernel.code.launch.threads, 1024);
  reader.number("shared_bytes", kernel.code.launch.sharedBytes, (1 << 24) - 1);
  reader.flag("always", kernel.always);
  reader.flag("in_place", kernel.inPlace);
  kernel.saysCpu = json.contains("grain") || json.contains("scratch");
  kernel.saysGpu = json.contains("threads") || json.contains("shared_bytes");
  if (code.find('\0') != std::string::npos)
    reader.refuse("has a 'code' that is no path");
  if (kernel.name.size() > 64 ||
      !consistsOf(kernel.name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
                               "UVWXYZ0123456789_"))
    reader.refuse("has a name that is not 1 to 64 letters, digits and _");
  if (kernel.signature.size() != 16 ||
      !consistsOf(kernel.signature, "0123456789abcdef"))
    reader.refuse("has a signature that is not 16 hex digits");
  return reader.error();
}

Expected<std::string> readBounded(const std::string &path, uint64_t most,
                                  const char *hint) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  if (file.bytes() > most)
    return userError(cat("has ", file.bytes(), " bytes, more than ", most),
                     path, hint);
  return file.read();
}

/// UserError for a target or an instruction set that there is not.
Status checkTarget(const UserKernel &kernel, const std::string &where) {
  const Target *target = findTarget(kernel.target);
  if (!target) {
    std::string names;
    for (const Target *one : allTargets())
      names += cat(names.empty() ? "" : ", ", one->name());
    return userError(cat("kernel '", kernel.name, "' is for '",
                         kernel.target.substr(0, 64), "', which is no target"),
                     where, "one of " + names);
  }
  TargetRequest request;
  if (target->takesIsas())
    request.isas = {kernel.isa};
  else
    request.variant = kernel.isa;
  Expected<std::vector<TargetDesc>> described = target->describe(request);
  if (described)
    return success();
  Error error = described.takeError();
  error.where = cat(where, ": kernel '", kernel.name, "'");
  return error;
}

/// A size in the kernel's symbols.
Expected<ts::Dim> parseSize(const UniqueKernel &unique,
                            const UserKernel &kernel, const char *key,
                            const std::string &text) {
  std::string where = cat("user kernel '", kernel.name, "'");
  std::string symbols;
  for (const std::string &symbol : unique.symbols)
    symbols += (symbols.empty() ? "" : ", ") + symbol;
  ts::KernelOp op = unique.kernel;
  std::optional<ts::Dim> dim = ts::parseDim(op.getContext(), text);
  if (!dim)
    return userError(cat("'", key, "' is no size: ", text.substr(0, 200)),
                     where, "write it as floordiv(k0 + 63, 64)");
  llvm::SetVector<StringAttr> used;
  dim->collectSymbols(used);
  for (StringAttr symbol : used)
    if (!llvm::is_contained(unique.symbols, symbol.getValue()))
      return userError(cat("'", key, "' has the symbol '",
                           symbol.getValue().str(), "', its kernel has ",
                           symbols.empty() ? "none" : symbols),
                       where, "knapper explain shows the kernel's text");
  if (dim->asConstant() && *dim->asConstant() < 0)
    return userError(cat("'", key, "' is below zero"), where, "give 0 or more");
  return *dim;
}

} // namespace

Expected<std::vector<UserKernel>> readUserKernels(const std::string &path) {
  ASSIGN_OR_RETURN(
      std::string text,
      readBounded(path, kMostFileBytes, "give the file of user kernels"));
  auto refuse = [&](std::string what) {
    return userError(std::move(what), path,
                     "docs/user-kernels.md shows such a file");
  };
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  auto version = json.is_object() ? json.find("knapper_kernels") : json.end();
  if (version == json.end() || !version->is_number_integer())
    return refuse("is no file of user kernels: no \"knapper_kernels\"");
  if (*version != kVersion)
    return refuse(cat("has version ", version->get<int64_t>(),
                      " of the format, this is ", kVersion));
  auto list = json.find("kernels");
  if (list == json.end() || !list->is_array())
    return refuse("has no list \"kernels\"");
  for (const auto &[key, value] : json.items())
    if (key != "knapper_kernels" && key != "kernels")
      return refuse(cat("has the key '", key.substr(0, 64),
                        "', which there is not; it has \"kernels\""));
  std::vector<UserKernel> kernels;
  std::set<std::string> names;
  for (size_t i = 0; i < list->size(); ++i) {
    UserKernel &kernel = kernels.emplace_back();
    std::string code;
    if (std::string wrong = readEntry((*list)[i], kernel, code); !wrong.empty())
      return refuse(cat("kernel ", i, " ", wrong));
    TRY(checkTarget(kernel, path));
    if (!names.insert(kernel.name).second)
      return refuse(
          cat("kernel ", i, " has the name '", kernel.name, "' of another"));
    kernel.code.path =
        (std::filesystem::path(path).parent_path() / code).string();
    ASSIGN_OR_RETURN(kernel.code.code,
                     readBounded(kernel.code.path, kMostCodeBytes,
                                 "give the code of one kernel"));
  }
  return kernels;
}

std::string userKernelsText(std::span<const UserKernel> kernels) {
  Json all = Json::array();
  for (const UserKernel &k : kernels)
    all.push_back({k.name, k.signature, k.target, k.isa, k.grid, k.grain,
                   k.scratch, k.always, k.inPlace, k.code.entry,
                   k.code.launch.number()});
  std::string text = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (const UserKernel &k : kernels)
    text += cat("\n", k.code.code.size(), "\n", k.code.code);
  return text;
}

std::string whyNot(const UniqueKernel &unique, const UserKernel &kernel,
                   const Target &target, std::span<const TargetDesc> targets) {
  if (kernel.target != target.name())
    return cat("it is for ", kernel.target);
  auto lacks = llvm::find_if(targets, [&](const TargetDesc &one) {
    return !target.runs(one, kernel.isa);
  });
  if (lacks != targets.end())
    return cat("it needs ", kernel.isa, ", and code is made for ", lacks->isa,
               ", too: give --isa");
  if (ts::updatedInput(unique.kernel))
    return "its kernel updates an operand in place";
  return {};
}

Status takeUserKernel(UniqueKernel &unique, const UserKernel &kernel,
                      const TargetDesc &target) {
  auto refuse = [&](const char *what) {
    return userError(what, cat("user kernel '", kernel.name, "'"),
                     "GPUs take 'threads', 1 to 1024 a CTA, and "
                     "'shared_bytes'; CPUs take 'grain' and 'scratch'");
  };
  if (target.simt && kernel.code.launch.threads == 0)
    return refuse("has no 'threads' of its CTA");
  if (target.simt ? kernel.saysCpu : kernel.saysGpu)
    return refuse(target.simt ? "has a 'grain' or 'scratch', for a GPU"
                              : "has 'threads' or 'shared_bytes', for a CPU");
  Schedule schedule;
  schedule.kind = "user";
  ASSIGN_OR_RETURN(schedule.grid,
                   parseSize(unique, kernel, "grid", kernel.grid));
  ASSIGN_OR_RETURN(schedule.grain,
                   parseSize(unique, kernel, "grain", kernel.grain));
  ASSIGN_OR_RETURN(schedule.scratch,
                   parseSize(unique, kernel, "scratch", kernel.scratch));
  if (schedule.grid.isConstant(0))
    return userError("'grid' is 0: nothing would run",
                     cat("user kernel '", kernel.name, "'"), "give 1 or more");
  SmallVector<Schedule> only;
  only.push_back(std::move(schedule));
  unique.userKernel = kernel.name;
  unique.setSchedules(std::move(only));
  return success();
}

std::string UserKernelOffer::why() const {
  switch (outcome) {
  case Outcome::always:
    return "\"always\"";
  case Outcome::recorded:
    return "by a tuning record";
  case Outcome::dumped:
    return "by the dump";
  case Outcome::refused:
    return detail;
  case Outcome::another:
    return cat("'", detail, "' is taken");
  case Outcome::unmeasured:
    return "no tuning record takes it: knapper tune --kernels measures it";
  }
  return {};
}

Status chooseUserKernel(UniqueKernel &unique, std::span<const UserKernel> given,
                        const Target &target,
                        std::span<const TargetDesc> targets, Knobs &knobs) {
  const UserKernel *always = nullptr, *recorded = nullptr;
  std::vector<const UserKernel *> offered;
  for (const UserKernel &kernel : given) {
    if (kernel.signature != unique.signature || kernel.target != target.name())
      continue;
    offered.push_back(&kernel);
    std::string why = whyNot(unique, kernel, target, targets);
    using Outcome = UserKernelOffer::Outcome;
    unique.offers.push_back(
        {kernel.name, why.empty() ? Outcome::unmeasured : Outcome::refused,
         why});
    if (!why.empty() && kernel.always)
      log(LogLevel::warning,
          cat("user kernel '", kernel.name, "' is not taken: ", why));
    if (!why.empty())
      continue;
    if (kernel.always && !always)
      always = &kernel;
    if (!kernel.always && knobs.offerAlone(kUserKnob + kernel.name) &&
        !recorded)
      recorded = &kernel;
  }
  const UserKernel *taken = always ? always : recorded;
  for (auto [kernel, offer] : llvm::zip(offered, unique.offers)) {
    using Outcome = UserKernelOffer::Outcome;
    if (kernel == taken)
      offer.outcome = always ? Outcome::always : Outcome::recorded;
    else if (taken && offer.outcome == Outcome::unmeasured)
      offer = {offer.name, Outcome::another, taken->name};
  }
  return taken ? takeUserKernel(unique, *taken, targets.front()) : success();
}

} // namespace knapper
