#include "frontends/common/SourceLocation.h"

using namespace mlir;

Location knapper::sourceLocation(MLIRContext *context, StringRef name,
                                 StringRef kind, StringRef line) {
  Location inner = UnknownLoc::get(context);
  std::string told = name.str();
  auto [file, digits] = line.rsplit(':');
  unsigned number = 0;
  if (!digits.getAsInteger(10, number) && number) {
    inner = FileLineColLoc::get(context, file, number, 0);
    told += " (" + file.substr(file.rfind('/') + 1).str() + ":" +
            std::to_string(number) + ")";
  }
  return NameLoc::get(StringAttr::get(context, told),
                      NameLoc::get(StringAttr::get(context, kind), inner));
}
