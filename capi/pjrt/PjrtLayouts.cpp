// The extension that tells layouts: all arrays are row-major. Without it
// clients ask for the whole program, several times a compile.
#include "capi/pjrt/PjrtExecutable.h"

namespace knapper::pjrt {

namespace {

struct PjrtLayout {
  std::string text; ///< "{1,0}", minor to major
};

struct LayoutDestroy : Head {
  PjrtLayout *layout;
};
struct LayoutSerialize : Head {
  PjrtLayout *layout;
  const char *serialized_bytes; // out
  size_t serialized_bytes_size;
  void *serialized_layout;
  void (*serialized_layout_deleter)(void *);
};
struct DefaultLayout : Head { // of a client or of a topology
  void *object;
  Type type;
  const int64_t *dims;
  size_t num_dims;
  PjrtLayout *layout; // out
};
struct LayoutOfBuffer : Head {
  Buffer *buffer;
  PjrtLayout *layout; // out
};
struct LayoutsOfExecutable : Head {
  PjrtExecutable *executable;
  size_t count;         // out
  PjrtLayout **layouts; // out
};

struct LayoutExtension : Extension {
  PjrtError *(*destroy)(LayoutDestroy *);
  PjrtError *(*serialize)(LayoutSerialize *);
  PjrtError *(*clientDefault)(DefaultLayout *);
  PjrtError *(*ofBuffer)(LayoutOfBuffer *);
  PjrtError *(*topologyDefault)(DefaultLayout *);
  PjrtError *(*outputs)(LayoutsOfExecutable *);
  PjrtError *(*parameters)(LayoutsOfExecutable *);
};

PjrtLayout *rowMajor(size_t rank) {
  std::string text = "{";
  for (size_t i = rank; i-- > 0;)
    text += std::to_string(i) + (i ? "," : "");
  return new PjrtLayout{text + "}"};
}

PjrtError *destroy(LayoutDestroy &a) {
  delete a.layout;
  return nullptr;
}

PjrtError *serialize(LayoutSerialize &a) {
  give(a.layout->text, a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_layout = nullptr;
  a.serialized_layout_deleter = [](void *) {};
  return nullptr;
}

PjrtError *defaultLayout(DefaultLayout &a) {
  a.layout = rowMajor(a.num_dims);
  return nullptr;
}

PjrtError *ofBuffer(LayoutOfBuffer &a) {
  a.layout = rowMajor(a.buffer->dims.size());
  return nullptr;
}

/// The caller destroys the layouts, and never the list.
PjrtError *give(const std::vector<ArrayInfo> &arrays,
                std::vector<PjrtLayout *> &list, LayoutsOfExecutable &a) {
  list.clear();
  for (const ArrayInfo &array : arrays)
    list.push_back(rowMajor(array.dims.size()));
  a.count = list.size();
  a.layouts = list.data();
  return nullptr;
}

PjrtError *outputs(LayoutsOfExecutable &a) {
  thread_local std::vector<PjrtLayout *> list;
  return give(a.executable->program->outputs, list, a);
}

PjrtError *parameters(LayoutsOfExecutable &a) {
  thread_local std::vector<PjrtLayout *> list;
  return give(a.executable->program->inputs, list, a);
}

} // namespace

void setLayoutExtension(PjrtApi &api) {
  static LayoutExtension extension = [] {
    LayoutExtension made{};
    made.struct_size = sizeof(made);
    made.type = ExtensionType::layouts;
    made.destroy = guarded<destroy>;
    made.serialize = guarded<serialize>;
    made.clientDefault = guarded<defaultLayout>;
    made.ofBuffer = guarded<ofBuffer>;
    made.topologyDefault = guarded<defaultLayout>;
    made.outputs = guarded<outputs>;
    made.parameters = guarded<parameters>;
    return made;
  }();
  api.extension_start = &extension;
}

} // namespace knapper::pjrt
