#include "compiler/pipeline/KeptSource.h"
#include "compiler/pipeline/TensorText.h"
#include "runtime/artefact/Artefact.h"
#include "runtime/artefact/ArtefactWriter.h"
#include "runtime/artefact/Format.h"

#include <array>

namespace knapper {
namespace {

/// Front ends whose models name no files: what an artefact says is not trusted.
bool isKept(std::string_view format) {
  return format == "onnx" || format == "stablehlo";
}

Error cannotKeep(const std::string &why, const std::string &hint) {
  return userError("the source is not kept: " + why, "option keep-source",
                   hint);
}

/// The section: format, dims and name, each with a zero behind it, then the
/// model.
constexpr size_t kTexts = 3;

} // namespace

Status checkKeepsSource(const CompileInput &input, const Options &options) {
  if (!options.keepSource)
    return success();
  ASSIGN_OR_RETURN(bool text, isText(input, options));
  if (text || !options.startFrom.empty())
    return cannotKeep("tensor IR may name any file",
                      "leave it out, or compile the model itself");
  ASSIGN_OR_RETURN(const FrontEnd *frontEnd, frontEndOf(input, options));
  if (!isKept(frontEnd->name()))
    return cannotKeep("the model is a graph of PyTorch",
                      "leave it out, or export the module to ONNX");
  ASSIGN_OR_RETURN(std::vector<std::string> files,
                   otherFilesOf(*frontEnd, modelOf(input)));
  if (!files.empty())
    return cannotKeep("the model's weights lie in other files, " +
                          files.front() + " among them",
                      "save the model as one file");
  return success();
}

Status keepSource(const CompileInput &input, const Options &options,
                  ArtefactWriter &writer) {
  if (!options.keepSource)
    return success();
  std::string read;
  ASSIGN_OR_RETURN(std::string_view bytes, modelOf(input).content(read));
  ASSIGN_OR_RETURN(const FrontEnd *frontEnd, frontEndOf(input, options));
  std::string section;
  for (std::string_view text :
       {frontEnd->name(), std::string_view(options.dims)})
    section.append(text.data(), text.size()).push_back('\0');
  section.append(input.name()).push_back('\0');
  section.append(bytes);
  writer.addSection(fb::SectionKind::source_map,
                    std::as_bytes(std::span(section)));
  return success();
}

Expected<KeptSource> readKeptSource(const Artefact &artefact) {
  std::span<const std::byte> section =
      artefact.section(fb::SectionKind::source_map);
  if (section.empty())
    return userError("keeps no source", artefact.name(),
                     "compile the model with --keep-source, or give the model");
  for (const fb::Section *each : *artefact.header().sections())
    if (each->kind() == fb::SectionKind::source_map &&
        artefact.bytes().data() + each->offset() == section.data() &&
        hashBytes(section.data(), section.size()) != each->hash())
      return artefact.damaged(section.data(),
                              "the hash of the kept source does not match");
  std::string_view rest(reinterpret_cast<const char *>(section.data()),
                        section.size());
  std::array<std::string, kTexts> texts;
  for (std::string &text : texts) {
    size_t end = rest.find('\0');
    if (end == rest.npos)
      return artefact.damaged(section.data(), "the kept source is cut off");
    text = rest.substr(0, end);
    rest.remove_prefix(end + 1);
  }
  if (!isKept(texts[0]))
    return artefact.damaged(section.data(),
                            "the kept source is of an unknown format");
  if (rest.starts_with(std::string_view(
          kMagic, sizeof(kMagic)))) // which might keep another, and so on
    return artefact.damaged(section.data(),
                            "the kept source is an artefact itself");
  return KeptSource{texts[0], texts[1], texts[2], std::string(rest)};
}

} // namespace knapper
