#include "capi/pjrt/PjrtBuffer.h"
#include <array>
#include <utility>

namespace knapper::pjrt {

std::shared_ptr<ArrayBlock> Buffer::read() const {
  std::lock_guard lock(mutex);
  return block;
}

std::shared_ptr<ArrayBlock> Buffer::remove() {
  std::lock_guard lock(mutex);
  deleted = true;
  if (holders)
    held = block;
  return std::exchange(block, nullptr);
}

bool Buffer::isOnly(const std::shared_ptr<ArrayBlock> &own) const {
  std::lock_guard lock(mutex);
  return !holders && own->isOwn() && block == own &&
         own.use_count() == 2 + own->writers;
}

PjrtError *Buffer::wait() const {
  if (!ready)
    return nullptr;
  ready->wait();
  return ready->error();
}

void Buffer::hold() {
  std::lock_guard lock(mutex);
  ++holders;
}

void Buffer::letGo() {
  std::shared_ptr<ArrayBlock> last;
  std::lock_guard lock(mutex);
  if (holders && --holders == 0)
    last.swap(held);
}

std::optional<size_t> arrayBytes(Type type, const int64_t *dims, size_t rank) {
  size_t count = elementBytes(type);
  if (!count || rank > kMaxRank || (rank && !dims))
    return std::nullopt;
  bool empty = false;
  for (size_t i = 0; i < rank; ++i) {
    if (dims[i] < 0)
      return std::nullopt;
    if (dims[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(count, static_cast<size_t>(dims[i]),
                                    &count))
      return std::nullopt;
  }
  if (empty)
    return 0;
  return count <= static_cast<size_t>(INT64_MAX) ? std::optional(count)
                                                 : std::nullopt;
}

PjrtError *badArray(Type type, const int64_t *dims, size_t rank) {
  if (!elementBytes(type))
    return fail(Code::unimplemented,
                std::string("arrays of ") + nameOf(type) + " are not stored");
  return fail(Code::invalidArgument,
              "the array's shape is negative, too large or of more than 64 "
              "dimensions");
}

PjrtError *deletedBuffer(const char *what) {
  return fail(Code::invalidArgument,
              std::string("the array was deleted or donated and cannot be ") +
                  what + "; keep a copy of what is used again");
}

const int64_t *minorToMajor(size_t rank) {
  static const auto order = [] {
    std::array<int64_t, kMaxRank> all{};
    for (size_t i = 0; i < kMaxRank; ++i)
      all[i] = static_cast<int64_t>(kMaxRank - 1 - i);
    return all;
  }();
  return order.data() + (kMaxRank - rank);
}

PjrtError *checkLayout(const MemoryLayout *layout, size_t rank) {
  if (!layout)
    return nullptr;
  bool plain = layout->type == LayoutType::tiled &&
               layout->tiled.num_tiles == 0 &&
               layout->tiled.minor_to_major_size == rank && rank <= kMaxRank;
  for (size_t i = 0; plain && i < rank; ++i)
    plain = layout->tiled.minor_to_major[i] == minorToMajor(rank)[i];
  if (plain)
    return nullptr;
  return fail(Code::unimplemented,
              "knapper keeps arrays row-major and without tiles; leave the "
              "layout at its default");
}

namespace {

PjrtError *destroy(Buffer_Destroy_Args &a) {
  delete a.buffer;
  return nullptr;
}

PjrtError *elementType(Buffer_ElementType_Args &a) {
  a.type = a.buffer->type;
  return nullptr;
}

PjrtError *dimensions(Buffer_Dimensions_Args &a) {
  a.dims = a.buffer->dims.data();
  a.num_dims = a.buffer->dims.size();
  return nullptr;
}

PjrtError *unpadded(Buffer_UnpaddedDimensions_Args &a) {
  a.unpadded_dims = a.buffer->dims.data();
  a.num_dims = a.buffer->dims.size();
  return nullptr;
}

PjrtError *dynamicDims(Buffer_DynamicDimensionIndices_Args &a) {
  a.dynamic_dim_indices = nullptr;
  a.num_dynamic_dims = 0;
  return nullptr;
}

PjrtError *layout(Buffer_GetMemoryLayout_Args &a) {
  size_t rank = a.buffer->dims.size();
  a.layout = {};
  a.layout.struct_size = sizeof(a.layout);
  a.layout.type = LayoutType::tiled;
  a.layout.tiled = {};
  a.layout.tiled.struct_size = sizeof(a.layout.tiled);
  a.layout.tiled.minor_to_major = minorToMajor(rank);
  a.layout.tiled.minor_to_major_size = rank;
  return nullptr;
}

PjrtError *sizeInBytes(Buffer_OnDeviceSizeInBytes_Args &a) {
  a.on_device_size_in_bytes = a.buffer->bytes;
  return nullptr;
}

PjrtError *device(Buffer_Device_Args &a) {
  a.device = a.buffer->device;
  return nullptr;
}

PjrtError *memory(Buffer_Memory_Args &a) {
  a.memory = &a.buffer->device->memory;
  return nullptr;
}

PjrtError *remove(Buffer_Delete_Args &a) {
  (void)a.buffer->remove();
  return nullptr;
}

PjrtError *isDeleted(Buffer_IsDeleted_Args &a) {
  a.is_deleted = a.buffer->isDeleted();
  return nullptr;
}

PjrtError *isOnCpu(Buffer_IsOnCpu_Args &a) {
  a.is_on_cpu = isHost(*a.buffer->device);
  return nullptr;
}

PjrtError *ready(Buffer_ReadyEvent_Args &a) {
  if (a.buffer->isDeleted())
    return deletedBuffer("waited for");
  a.event = makeEvent(a.buffer->ready);
  return nullptr;
}

PjrtError *unsafePointer(Buffer_UnsafePointer_Args &a) {
  std::shared_ptr<ArrayBlock> block = a.buffer->read();
  if (!block)
    return deletedBuffer("read");
  if (PjrtError *error = a.buffer->wait())
    return error;
  a.buffer_pointer = reinterpret_cast<uintptr_t>(block->data());
  return nullptr;
}

PjrtError *opaquePointer(Buffer_OpaqueDeviceMemoryDataPointer_Args &a) {
  std::shared_ptr<ArrayBlock> block = a.buffer->read();
  if (!block)
    return deletedBuffer("read");
  if (PjrtError *error = a.buffer->wait())
    return error;
  a.device_memory_ptr = block->data();
  return nullptr;
}

PjrtError *increase(Buffer_IncreaseExternalReferenceCount_Args &a) {
  a.buffer->hold();
  return nullptr;
}

PjrtError *decrease(Buffer_DecreaseExternalReferenceCount_Args &a) {
  a.buffer->letGo();
  return nullptr;
}

} // namespace

void setBufferFunctions(PjrtApi &api) {
  api.Buffer_Destroy = guarded<destroy>;
  api.Buffer_ElementType = guarded<elementType>;
  api.Buffer_Dimensions = guarded<dimensions>;
  api.Buffer_UnpaddedDimensions = guarded<unpadded>;
  api.Buffer_DynamicDimensionIndices = guarded<dynamicDims>;
  api.Buffer_GetMemoryLayout = guarded<layout>;
  api.Buffer_OnDeviceSizeInBytes = guarded<sizeInBytes>;
  api.Buffer_Device = guarded<device>;
  api.Buffer_Memory = guarded<memory>;
  api.Buffer_Delete = guarded<remove>;
  api.Buffer_IsDeleted = guarded<isDeleted>;
  api.Buffer_IsOnCpu = guarded<isOnCpu>;
  api.Buffer_ReadyEvent = guarded<ready>;
  api.Buffer_UnsafePointer = guarded<unsafePointer>;
  api.Buffer_OpaqueDeviceMemoryDataPointer = guarded<opaquePointer>;
  api.Buffer_IncreaseExternalReferenceCount = guarded<increase>;
  api.Buffer_DecreaseExternalReferenceCount = guarded<decrease>;
}

} // namespace knapper::pjrt
