// The exec program as JSON, by FlatBuffers' own text form of the schema.
#include "compiler/pipeline/ArtefactSchema.h"
#include "compiler/pipeline/Pack.h"
#include "flatbuffers/idl.h"

namespace knapper {

std::string printProgram(const fb::ProgramT &program) {
  flatbuffers::IDLOptions options;
  options.indent_step = 1;
  options.strict_json = true;
  flatbuffers::Parser parser(options);
  std::string text;
  if (!parser.Parse(artefactSchema) ||
      !parser.SetRootType("knapper.fb.Program"))
    return "the artefact schema does not parse: " + parser.error_ + "\n";
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Program::Pack(builder, &program));
  flatbuffers::GenerateText(parser, builder.GetBufferPointer(), &text);
  return text;
}

} // namespace knapper
