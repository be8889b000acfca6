// The exec program as JSON, by FlatBuffers' own text form of the schema.
#include "compiler/pipeline/ArtefactSchema.h"
#include "compiler/pipeline/Pack.h"
#include "flatbuffers/idl.h"

namespace knapper {

static flatbuffers::IDLOptions jsonOptions() {
  flatbuffers::IDLOptions options;
  options.indent_step = 1;
  options.strict_json = true;
  return options;
}

static bool readSchema(flatbuffers::Parser &parser) {
  return parser.Parse(artefactSchema) &&
         parser.SetRootType("knapper.fb.Program");
}

Expected<std::unique_ptr<fb::ProgramT>> parseProgram(const std::string &text,
                                                     const std::string &where) {
  flatbuffers::Parser parser(jsonOptions());
  if (!readSchema(parser))
    return internalError("the artefact schema does not parse: " +
                         parser.error_);
  if (!parser.Parse(text.c_str()))
    return userError("not an exec program: " + parser.error_, where);
  auto program = std::make_unique<fb::ProgramT>();
  flatbuffers::GetRoot<fb::Program>(parser.builder_.GetBufferPointer())
      ->UnPackTo(program.get());
  return program;
}

std::string printProgram(const fb::ProgramT &program) {
  flatbuffers::Parser parser(jsonOptions());
  std::string text;
  if (!readSchema(parser))
    return "the artefact schema does not parse: " + parser.error_ + "\n";
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Program::Pack(builder, &program));
  flatbuffers::GenerateText(parser, builder.GetBufferPointer(), &text);
  return text;
}

} // namespace knapper
