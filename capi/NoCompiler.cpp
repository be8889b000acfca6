// libknapper_rt: the runtime alone. Asking it to compile is the caller's error.
#include "capi/Handles.h"

#include <cstdio>

using namespace knapper;

namespace {

knapper_error *noCompiler(const char *function) {
  return capi::guarded([&]() -> Status {
    return userError("this library is the runtime only, it has no compiler",
                     function,
                     "link libknapper, or compile with the knapper command");
  });
}

} // namespace

int knapper_has_compiler(void) { return 0; }

int knapper_command_line(int, const char *const *) {
  fputs("knapper: error: this library is the runtime only, it has no commands\n"
        "  try: the library libknapper, or the executable knapper\n",
        stderr);
  return 1;
}

knapper_error *knapper_compile(const knapper_compile_options *,
                               const knapper_load_options *,
                               knapper_module **out) {
  if (out)
    *out = nullptr;
  return noCompiler("knapper_compile");
}

knapper_error *knapper_inspect(const knapper_compile_options *, char **json) {
  if (json)
    *json = nullptr;
  return noCompiler("knapper_inspect");
}

knapper_error *knapper_translate(const knapper_compile_options *, char **text) {
  if (text)
    *text = nullptr;
  return noCompiler("knapper_translate");
}

knapper_error *knapper_quantize(const knapper_compile_options *,
                                const knapper_quantize_options *,
                                const knapper_load_options *,
                                knapper_module **out, char **json) {
  if (out)
    *out = nullptr;
  if (json)
    *json = nullptr;
  return noCompiler("knapper_quantize");
}

knapper_error *knapper_explain(const knapper_module *, char **html) {
  if (html)
    *html = nullptr;
  return noCompiler("knapper_explain");
}

knapper_error *knapper_explain_with(knapper_module *,
                                    const knapper_explain_options *,
                                    char **html, char **json) {
  for (char **out : {html, json})
    if (out)
      *out = nullptr;
  return noCompiler("knapper_explain_with");
}

knapper_error *knapper_verify(const knapper_compile_options *,
                              const knapper_tensor *, int32_t, char **json) {
  if (json)
    *json = nullptr;
  return noCompiler("knapper_verify");
}
