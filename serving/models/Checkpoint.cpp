#include "serving/models/Checkpoint.h"

#include "runtime/base/Text.h"
#include "serving/models/JsonFile.h"

#include <filesystem>
#include <set>

namespace knapper::serving {

namespace fs = std::filesystem;

static bool exists(const std::string &path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Status Checkpoint::add(const std::string &path) {
  ASSIGN_OR_RETURN(Safetensors file, Safetensors::open(path));
  auto number = static_cast<uint32_t>(paths.size());
  paths.push_back(path);
  for (const auto &[name, stored] : file.tensors()) {
    Tensor tensor;
    static_cast<StoredTensor &>(tensor) = stored;
    tensor.file = number;
    if (!all.emplace(name, tensor).second)
      return userError(cat("the tensor '", name, "' is in another shard too"),
                       path, "copy or download the model again");
  }
  return success();
}

/// The shards that an index names, each once.
static Expected<nlohmann::json> readIndex(const std::string &path) {
  ASSIGN_OR_RETURN(nlohmann::json json, readJsonFile(path));
  if (!json.is_object() || !json.contains("weight_map") ||
      !json["weight_map"].is_object())
    return userError("has no object weight_map", path,
                     "copy or download the file again");
  return json["weight_map"];
}

Expected<Checkpoint> Checkpoint::open(const std::string &folder) {
  Checkpoint checkpoint;
  std::string index = folder + "/model.safetensors.index.json",
              single = folder + "/model.safetensors";
  if (!exists(index)) {
    if (exists(single)) {
      TRY(checkpoint.add(single));
      return checkpoint;
    }
    bool pickle = exists(folder + "/pytorch_model.bin") ||
                  exists(folder + "/pytorch_model.bin.index.json");
    return userError(pickle ? "has its weights in a pickle, which is a program "
                              "and is not read"
                            : "has no model.safetensors",
                     folder,
                     pickle ? "save_pretrained of transformers writes "
                              "safetensors"
                            : "a folder in the form of Hugging Face");
  }
  ASSIGN_OR_RETURN(nlohmann::json map, readIndex(index));
  std::set<std::string> shards;
  for (const auto &[name, value] : map.items()) {
    std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (shard.empty() || shard.find('/') != shard.npos)
      return userError(
          cat("the tensor '", name, "' is in no file of the folder"), index,
          "copy or download the file again");
    shards.insert(shard);
  }
  for (const std::string &shard : shards) {
    std::string path = cat(folder, "/", shard);
    if (!exists(path))
      return userError(cat("the shard '", shard, "' is missing"), folder,
                       "copy or download it");
    TRY(checkpoint.add(path));
  }
  for (const auto &[name, value] : map.items()) {
    const Tensor *tensor = checkpoint.find(name);
    if (!tensor || !checkpoint.paths[tensor->file].ends_with(
                       "/" + value.get<std::string>()))
      return userError(
          cat("the tensor '", name, "' is not in ", value.get<std::string>()),
          index, "copy or download the model again");
  }
  return checkpoint;
}

const Checkpoint::Tensor *Checkpoint::find(const std::string &name) const {
  auto it = all.find(name);
  return it == all.end() ? nullptr : &it->second;
}

} // namespace knapper::serving
