#include "tools/knapper/Inputs.h"
#include "compiler/options/Options.h"
#include "runtime/base/Text.h"
#include "tools/knapper/Random.h"
#include "tools/knapper/Texts.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>

namespace knapper::cli {
namespace {

/// A multiple of 1/1024 in [-1, 1) as float16: exact, so no rounding.
uint16_t halfOf(int32_t k) {
  if (k == 0)
    return 0;
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(k) / 1024);
  uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 |
                               (bits >> 13 & 0x3ff));
}

template <typename T, typename F> void fill(Array &array, F &&element) {
  auto *data = reinterpret_cast<T *>(array.data.get());
  for (size_t i = 0; i < array.bytes / sizeof(T); ++i)
    data[i] = static_cast<T>(element(i));
}

void fillRandom(Array &array, uint64_t seed, uint64_t integers) {
  auto unit = [&](size_t i) {
    return double(randomBits(seed, i) >> 11) / double(1ull << 52) - 1;
  };
  auto steps = [&](size_t i) {
    return int32_t(randomBits(seed, i) >> 53) - 1024;
  };
  auto integer = [&](size_t i) { return randomBits(seed, i) % integers; };
  switch (array.dtype) {
  case KNAPPER_F32:
    return fill<float>(array, unit);
  case KNAPPER_F64:
    return fill<double>(array, unit);
  case KNAPPER_F16:
    return fill<uint16_t>(array, [&](size_t i) { return halfOf(steps(i)); });
  case KNAPPER_BF16:
    return fill<uint16_t>(array, [&](size_t i) {
      return std::bit_cast<uint32_t>(float(steps(i) / 8) / 128) >> 16;
    });
  case KNAPPER_I1:
    return fill<uint8_t>(array, [&](size_t i) { return integer(i) & 1; });
  case KNAPPER_I8:
  case KNAPPER_U8:
    return fill<uint8_t>(array, integer);
  case KNAPPER_I16:
    return fill<int16_t>(array, integer);
  case KNAPPER_I32:
    return fill<int32_t>(array, integer);
  case KNAPPER_I64:
  case KNAPPER_U64:
    return fill<int64_t>(array, integer);
  case KNAPPER_U16:
    return fill<uint16_t>(array, integer);
  case KNAPPER_U32:
    return fill<uint32_t>(array, integer);
  case KNAPPER_F8E8M0: // 1/4 to 2
    return fill<uint8_t>(array,
                         [&](size_t i) { return 125 + (integer(i) & 3); });
  case KNAPPER_F8E4M3FN:
  case KNAPPER_F8E4M3FNUZ:
  case KNAPPER_F8E5M2:
  case KNAPPER_F8E4M3:
  case KNAPPER_F8E3M4:
  case KNAPPER_F8E4M3B11FNUZ:
  case KNAPPER_F8E5M2FNUZ: // around 1, of both signs
    return fill<uint8_t>(
        array, [&](size_t i) { return 0x30 | (randomBits(seed, i) & 0x8f); });
  case KNAPPER_F6E2M3:
  case KNAPPER_F6E3M2:
    return fill<uint8_t>(array,
                         [&](size_t i) { return randomBits(seed, i) & 63; });
  case KNAPPER_F4E2M1:
    return fill<uint8_t>(array,
                         [&](size_t i) { return randomBits(seed, i) & 15; });
  case KNAPPER_I4:
  case KNAPPER_I2:
    return fill<uint8_t>(array, [&](size_t i) { return integer(i) & 1; });
  case KNAPPER_U4:
  case KNAPPER_U2:
    return fill<uint8_t>(array, [&](size_t i) { return integer(i) & 3; });
  case KNAPPER_STRING: // randomTexts
    return;
  }
}

using InfoFunction = knapper_error *(*)(const knapper_module *, int32_t,
                                        knapper_tensor_info *);
Expected<knapper_tensor_info>
infoOf(InfoFunction function, const knapper_module *module, int32_t index) {
  knapper_tensor_info info = {};
  info.size = sizeof info;
  TRY(toStatus(function(module, index, &info)));
  return info;
}

/// Names of the sizes that a caller gives.
/// UserError where --dim gives a size that the array of an input does not have.
Status agrees(const Dims &dims, const std::string &size, int64_t inFile,
              const std::string &input) {
  for (const auto &[name, value] : dims.values())
    if (name == size && value != inFile)
      return userError(cat("--dim ", name, "=", value, ", but input '", input,
                           "' from its file has ", name, "=", inFile),
                       "option dim", "leave --dim out, or give another file");
  return success();
}

/// What the description of the module says beside its signature.
struct Described {
  std::vector<std::string> symbols; ///< that inputs may have
  std::vector<int64_t> indexLimits; ///< of each input; 0: none
};

Expected<Described> describe(const knapper_module *module) {
  const char *text = nullptr;
  TRY(toStatus(knapper_module_describe(module, &text)));
  Described found;
  auto description = nlohmann::json::parse(text);
  for (const auto &symbol : description["symbols"])
    if (!symbol.value("from_buffer", false))
      found.symbols.push_back(symbol["name"].get<std::string>());
  for (const auto &input : description["inputs"])
    found.indexLimits.push_back(input.value("index_limit", int64_t(0)));
  return found;
}

std::string listOf(const std::vector<std::string> &names) {
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "there is none" : list;
}

/// Places the content of the files by name, or by order where there is none.
Status placeFiles(const std::vector<std::string> &files,
                  const std::vector<std::string> &names,
                  std::vector<std::optional<Array>> &arrays) {
  auto place = [&](const std::string &name, Array array,
                   const std::string &file) -> Status {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) {
        if (arrays[i])
          return userError("input '" + name + "' is given twice", file);
        arrays[i] = std::move(array);
        return success();
      }
    return userError("the model has no input '" + name + "'", file,
                     "its inputs: " + listOf(names));
  };
  for (const std::string &text : files) {
    size_t equals = text.find('=');
    std::string name, path = text;
    if (equals != std::string::npos && access(path.c_str(), F_OK) != 0 &&
        std::find(names.begin(), names.end(), text.substr(0, equals)) ==
            names.end())
      return userError("the model has no input '" + text.substr(0, equals) +
                           "'",
                       text, "its inputs: " + listOf(names));
    if (equals != std::string::npos &&
        std::find(names.begin(), names.end(), text.substr(0, equals)) !=
            names.end()) {
      name = text.substr(0, equals);
      path = text.substr(equals + 1);
    }
    ASSIGN_OR_RETURN(std::string content, readFile(path));
    if (content.starts_with("PK")) {
      if (!name.empty())
        return userError("an .npz file names its arrays itself", text,
                         "give it without 'NAME='");
      ASSIGN_OR_RETURN(auto entries, readNpz(content, path));
      for (auto &[entry, array] : entries)
        TRY(place(entry, std::move(array), path));
      continue;
    }
    ASSIGN_OR_RETURN(Array array, readNpy(content, path));
    if (name.empty()) {
      size_t next = 0;
      while (next < arrays.size() && arrays[next])
        ++next;
      if (next == arrays.size())
        return userError("there is no input left for it", path,
                         "the inputs: " + listOf(names));
      name = names[next];
    }
    TRY(place(name, std::move(array), path));
  }
  return success();
}

} // namespace

Expected<knapper_tensor_info> inputInfo(const knapper_module *module,
                                        int32_t index) {
  return infoOf(knapper_module_input, module, index);
}
Expected<knapper_tensor_info> outputInfo(const knapper_module *module,
                                         int32_t index) {
  return infoOf(knapper_module_output, module, index);
}

std::vector<knapper_tensor> tensorsOf(const std::vector<Array> &arrays) {
  std::vector<knapper_tensor> tensors;
  for (const Array &array : arrays)
    tensors.push_back(array.tensor());
  return tensors;
}

std::string typeText(const knapper_tensor &tensor) {
  std::string text = cat(knapper_dtype_name(tensor.dtype), " [");
  for (int32_t d = 0; d < tensor.rank; ++d)
    text += cat(d ? ", " : "", tensor.shape[d]);
  return text + "]";
}

void Inputs::addTo(CLI::App &app) {
  app.add_option("-i,--input", files,
                 "NAME=FILE.npy, FILE.npz with an array for each name, or "
                 "FILE.npy for the next input; may be repeated. What no file "
                 "gives is random")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--seed", seed, "Of the random inputs")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--integers", integers,
                 "Random integers lie in 0 .. N-1 (and below 128 for i8). "
                 "Default: indices into tables lie inside them, others are 0 "
                 "or 1")
      ->type_name("N")
      ->check(CLI::Range(int64_t(1), INT64_MAX));
}

namespace {

struct Placed {
  std::vector<knapper_tensor_info> infos;
  std::vector<std::string> names;
  std::vector<std::optional<Array>> arrays; ///< of an input that a file gives
};

Expected<Placed> place(const knapper_module *module,
                       const std::vector<std::string> &files) {
  Placed placed;
  int32_t count = knapper_module_num_inputs(module);
  for (int32_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(knapper_tensor_info info, inputInfo(module, i));
    placed.infos.push_back(info);
    placed.names.push_back(info.name);
  }
  placed.arrays.resize(count);
  TRY(placeFiles(files, placed.names, placed.arrays));
  // Files name no storage type: their bytes are what the input is.
  for (int32_t i = 0; i < count; ++i)
    if (std::optional<Array> &array = placed.arrays[i];
        array && array->dtype == anyStorageType &&
        placed.infos[i].dtype >= KNAPPER_F8E4M3FN)
      array->dtype = placed.infos[i].dtype;
  return placed;
}

/// A size to try a model with, by where it stands: one sample, images of
/// 224 x 224, sequences of 128.
int64_t usualSize(const knapper_tensor_info &info, int32_t dim) {
  bool isFloat = info.dtype == KNAPPER_F32 || info.dtype == KNAPPER_F16 ||
                 info.dtype == KNAPPER_BF16 || info.dtype == KNAPPER_F64;
  if (dim == 0)
    return 1;
  return isFloat && info.rank == 4 && dim >= 2 ? 224 : 128;
}

/// Sizes of random inputs that neither files nor --dim give: chosen, or an
/// error with all of them.
Status completeSizes(const Placed &placed,
                     const std::vector<std::string> &symbols,
                     std::map<std::string, int64_t> &sizes, Dims &dims) {
  std::string missing, hint, where;
  for (size_t i = 0; i < placed.infos.size(); ++i)
    for (int32_t d = 0; !placed.arrays[i] && d < placed.infos[i].rank; ++d) {
      const knapper_tensor_info &info = placed.infos[i];
      if (info.shape[d] >= 0)
        continue;
      std::string name = info.dim_text[d];
      if (std::find(symbols.begin(), symbols.end(), name) == symbols.end() ||
          !sizes.emplace(name, usualSize(info, d)).second)
        continue;
      if (dims.isAuto()) {
        dims.choose(name, sizes[name]);
        continue;
      }
      if (where.empty())
        where = cat("input '", placed.names[i], "'");
      missing += cat(missing.empty() ? "'" : ", '", name, "'");
      hint += cat("--dim ", name, "=", sizes[name], " ");
    }
  if (missing.empty())
    return success();
  bool several = missing.find(',') != std::string::npos;
  return userError(cat(several ? "sizes " : "size ", missing,
                       several ? " have" : " has", " no value"),
                   where,
                   hint + "as you need it, --dim auto, or arrays by --input");
}

} // namespace

Expected<std::vector<Array>>
Inputs::makeFromFiles(const knapper_module *module) const {
  Expected<Placed> placed = place(module, files);
  if (!placed)
    return placed.takeError();
  std::vector<Array> result;
  for (size_t i = 0; i < placed->names.size(); ++i) {
    if (!placed->arrays[i])
      return userError("there is no array for input '" + placed->names[i] + "'",
                       files.empty() ? "" : files[0],
                       "an .npz file with an array for each of: " +
                           listOf(placed->names));
    result.push_back(std::move(*placed->arrays[i]));
  }
  return result;
}

Expected<std::vector<std::pair<std::string, int64_t>>>
Inputs::sizesInFiles(const knapper_module *module) const {
  ASSIGN_OR_RETURN(Placed placed, place(module, files));
  std::map<std::string, int64_t> sizes;
  for (size_t i = 0; i < placed.infos.size(); ++i) {
    const knapper_tensor_info &info = placed.infos[i];
    const std::optional<Array> &array = placed.arrays[i];
    if (array && array->shape.size() == size_t(info.rank))
      for (int32_t d = 0; d < info.rank; ++d)
        if (info.shape[d] < 0)
          sizes.emplace(info.dim_text[d], array->shape[d]);
  }
  return std::vector<std::pair<std::string, int64_t>>(sizes.begin(),
                                                      sizes.end());
}

Expected<std::vector<Array>>
Inputs::make(const knapper_module *module,
             const std::vector<std::pair<std::string, int64_t>> &sizes) const {
  Dims dims(sizes);
  return make(module, dims);
}

Expected<std::vector<Array>> Inputs::make(const knapper_module *module,
                                          Dims &dims) const {
  ASSIGN_OR_RETURN(Placed placed, place(module, files));
  auto &[infos, names, arrays] = placed;
  auto count = static_cast<int32_t>(infos.size());
  ASSIGN_OR_RETURN(Described described, describe(module));
  const std::vector<std::string> &symbols = described.symbols;

  TRY(checkGivenOnce(dims.values()));
  std::map<std::string, int64_t> sizes;
  for (const auto &[name, value] : dims.values()) {
    if (std::find(symbols.begin(), symbols.end(), name) == symbols.end())
      return userError("the model has no size '" + name + "'", "option dim",
                       symbols.empty() ? "leave it out: all sizes are numbers"
                                       : "its sizes: " + listOf(symbols));
    sizes[name] = value;
  }
  // What files say; where they disagree among themselves is the run's to
  // report.
  for (int32_t i = 0; i < count; ++i)
    if (arrays[i] && arrays[i]->shape.size() == size_t(infos[i].rank))
      for (int32_t d = 0; d < infos[i].rank; ++d)
        if (infos[i].shape[d] < 0)
          if (Status status = agrees(dims, infos[i].dim_text[d],
                                     arrays[i]->shape[d], names[i]);
              !status)
            return status.takeError();
          else
            sizes.emplace(infos[i].dim_text[d], arrays[i]->shape[d]);
  TRY(completeSizes(placed, symbols, sizes, dims));

  std::vector<Array> result;
  for (int32_t i = 0; i < count; ++i) {
    if (arrays[i]) {
      result.push_back(std::move(*arrays[i]));
      continue;
    }
    std::string where = cat("input '", names[i], "'");
    std::vector<int64_t> shape(infos[i].shape, infos[i].shape + infos[i].rank);
    for (int32_t d = 0; d < infos[i].rank; ++d) {
      if (shape[d] >= 0)
        continue;
      std::string text = infos[i].dim_text[d];
      auto size = sizes.find(text);
      if (size == sizes.end())
        return userError(
            cat("size '", text, "' has no value"), where,
            cat("give the input: --input ", names[i], "=FILE.npy"));
      shape[d] = size->second;
    }
    uint64_t own = seed * 1000003 + i;
    if (infos[i].dtype == KNAPPER_STRING) {
      ASSIGN_OR_RETURN(Array words, randomTexts(std::move(shape), own, where));
      result.push_back(std::move(words));
      continue;
    }
    ASSIGN_OR_RETURN(Array array,
                     Array::make(infos[i].dtype, std::move(shape), where));
    constexpr int64_t flags = 2; // masks and the like
    int64_t below = described.indexLimits[i];
    below = integers ? integers : below ? below : flags;
    bool small = infos[i].dtype == KNAPPER_I8 || infos[i].dtype == KNAPPER_U8;
    fillRandom(array, own, small ? std::min<int64_t>(below, 128) : below);
    result.push_back(std::move(array));
  }
  return result;
}

} // namespace knapper::cli
