// Arrays to and from the host's memory.
#include "capi/pjrt/PjrtBuffer.h"

namespace knapper::pjrt {

namespace {

/// Whether bytes lie as a row-major array has them; dims of one element may
/// have any stride.
bool isDense(const int64_t *dims, size_t rank, const int64_t *strides,
             size_t element) {
  auto expected = static_cast<int64_t>(element);
  for (size_t i = rank; i-- > 0;) {
    if (dims[i] != 1 && strides[i] != expected)
      return false;
    expected *= dims[i];
  }
  return true;
}

/// Copies between strided arrays, the innermost dim in a loop of its own.
void copyStrided(char *to, const int64_t *toStrides, const char *from,
                 const int64_t *fromStrides, const int64_t *dims, size_t rank,
                 size_t element) {
  if (rank == 0) {
    memcpy(to, from, element);
    return;
  }
  if (rank == 1 && toStrides[0] == static_cast<int64_t>(element) &&
      fromStrides[0] == toStrides[0]) {
    memcpy(to, from, element * static_cast<size_t>(dims[0]));
    return;
  }
  for (int64_t i = 0; i < dims[0]; ++i)
    copyStrided(to + i * toStrides[0], toStrides + 1, from + i * fromStrides[0],
                fromStrides + 1, dims + 1, rank - 1, element);
}

std::vector<int64_t> denseStrides(const int64_t *dims, size_t rank,
                                  size_t element) {
  std::vector<int64_t> strides(rank);
  auto step = static_cast<int64_t>(element);
  for (size_t i = rank; i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

/// Where a new array lies: in the memory or on the device that is named, or on
/// the first.
PjrtDevice *placeOf(const Client &client, PjrtDevice *device,
                    const Memory *memory) {
  return memory ? memory->device : device ? device : client.devices.front();
}

PjrtError *otherClient() {
  return fail(Code::invalidArgument,
              "the device or the memory is another client's");
}

PjrtError *fromHost(Client_BufferFromHostBuffer_Args &a) {
  PjrtDevice *place = placeOf(*a.client, a.device, a.memory);
  if (place->client != a.client)
    return otherClient();
  std::optional<size_t> bytes = arrayBytes(a.type, a.dims, a.num_dims);
  if (!bytes)
    return badArray(a.type, a.dims, a.num_dims);
  if (PjrtError *error = checkLayout(a.device_layout, a.num_dims))
    return error;
  if (!a.data && *bytes)
    return fail(Code::invalidArgument, "the host's array is null");
  bool strided = a.byte_strides && a.num_byte_strides > 0;
  if (strided && a.num_byte_strides != a.num_dims)
    return fail(Code::invalidArgument, "there is not a stride a dimension");
  size_t element = elementBytes(a.type);
  bool dense = *bytes == 0 || !strided ||
               isDense(a.dims, a.num_dims, a.byte_strides, element);
  bool inPlace = dense && *bytes && isHost(*place) &&
                 (a.host_buffer_semantics == HostSemantics::zeroCopy ||
                  a.host_buffer_semantics == HostSemantics::zeroCopyMutable);
  std::shared_ptr<ArrayBlock> block;
  PluginEvent *done = readyEvent();
  std::vector<int64_t> dims(a.dims, a.dims + a.num_dims);
  if (inPlace) {
    auto released = std::make_shared<Completion>();
    std::unique_ptr<PluginEvent> event(makeEvent(released));
    block = std::make_shared<ArrayBlock>(const_cast<void *>(a.data), released);
    a.buffer = new Buffer(place, a.type, std::move(dims), *bytes, block);
    a.done_with_host_buffer = event.release();
    return nullptr;
  }
  block = std::make_shared<ArrayBlock>(place->arrays, *bytes);
  if (*bytes && dense) {
    if (PjrtError *error = place->arrays->write(block->data(), a.data, *bytes))
      return error;
  } else if (*bytes) {
    std::vector<char> ordered; // where the host cannot write the array
    if (!isHost(*place))
      ordered.resize(*bytes);
    copyStrided(isHost(*place) ? static_cast<char *>(block->data())
                               : ordered.data(),
                denseStrides(a.dims, a.num_dims, element).data(),
                static_cast<const char *>(a.data), a.byte_strides, a.dims,
                a.num_dims, element);
    if (!isHost(*place))
      if (PjrtError *error =
              place->arrays->write(block->data(), ordered.data(), *bytes))
        return error;
  }
  a.buffer = new Buffer(place, a.type, std::move(dims), *bytes, block);
  a.done_with_host_buffer = done;
  return nullptr;
}

/// The strides that a layout of the host's asks for.
PjrtError *stridesOf(const MemoryLayout *layout, const Buffer &source,
                     std::vector<int64_t> &strides) {
  size_t rank = source.dims.size();
  size_t element = elementBytes(source.type);
  strides = denseStrides(source.dims.data(), rank, element);
  if (!layout)
    return nullptr;
  if (layout->type == LayoutType::strides) {
    if (layout->strides.num_byte_strides != rank)
      return fail(Code::invalidArgument, "there is not a stride a dimension");
    strides.assign(layout->strides.byte_strides,
                   layout->strides.byte_strides + rank);
    return nullptr;
  }
  if (layout->tiled.num_tiles || layout->tiled.minor_to_major_size != rank)
    return fail(Code::unimplemented, "the host's layout has tiles, or not the "
                                     "array's dimensions");
  auto step = static_cast<int64_t>(element);
  std::vector<bool> seen(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t dim = layout->tiled.minor_to_major[i];
    if (dim < 0 || dim >= static_cast<int64_t>(rank) ||
        seen[static_cast<size_t>(dim)])
      return fail(Code::invalidArgument, "the host's layout is no order of the "
                                         "array's dimensions");
    seen[static_cast<size_t>(dim)] = true;
    strides[static_cast<size_t>(dim)] = step;
    step *= source.dims[static_cast<size_t>(dim)];
  }
  return nullptr;
}

/// A copy to the host's memory; its error.
using Copy = std::function<PjrtError *()>;

void completeWith(Completion &done, PjrtError *error) {
  if (!error) {
    done.complete();
    return;
  }
  done.complete(error->code, error->message);
  release(error);
}

/// Smaller copies are not worth another thread's waking.
constexpr size_t kSmallBytes = size_t(64) << 10;

/// Copies now, or when the elements are there; gives the event of its end.
PjrtError *whenReady(const Buffer &source, Copy copy, PluginEvent *&event) {
  if (!source.bytes) {
    event = makeEvent(source.ready);
    return nullptr;
  }
  bool isSmall = isHost(*source.device) || source.bytes <= kSmallBytes;
  if (source.isReady() && isSmall) {
    PjrtError *error = source.ready ? source.ready->error() : nullptr;
    if (!error)
      error = copy();
    if (!error)
      event = readyEvent();
    return error;
  }
  auto done = std::make_shared<Completion>();
  std::unique_ptr<PluginEvent> made(makeEvent(done));
  if (isHost(*source.device))
    source.ready->onReady([done, copy = std::move(copy)](PjrtError *error) {
      completeWith(*done, error ? error : copy());
    });
  else // a copy of a GPU's takes a while: not on the thread that ends the runs
    source.device->stream->reads.add(
        [done, ready = source.ready, copy = std::move(copy)] {
          PjrtError *error = nullptr;
          try {
            if (ready) {
              ready->wait();
              error = ready->error();
            }
            if (!error)
              error = copy();
          } catch (const std::bad_alloc &) {
            error = outOfMemory();
          } catch (const std::exception &e) {
            error = unexpected(e.what());
          }
          completeWith(*done, error);
        });
  event = made.release();
  return nullptr;
}

PjrtError *toHost(Buffer_ToHostBuffer_Args &a) {
  const Buffer &source = *a.src;
  if (!a.dst) {
    a.dst_size = source.bytes;
    return nullptr;
  }
  if (a.dst_size < source.bytes)
    return fail(Code::invalidArgument,
                "the host's memory has " + std::to_string(a.dst_size) +
                    " bytes, the array " + std::to_string(source.bytes));
  std::vector<int64_t> strides;
  if (PjrtError *error = stridesOf(a.host_layout, source, strides))
    return error;
  std::shared_ptr<ArrayBlock> block = source.read();
  if (!block)
    return deletedBuffer("read");
  return whenReady(
      source,
      [block, dims = source.dims, strides = std::move(strides),
       to = static_cast<char *>(a.dst), bytes = source.bytes,
       element = elementBytes(source.type), device = source.device] {
        size_t rank = dims.size();
        if (isDense(dims.data(), rank, strides.data(), element))
          return device->arrays->read(to, block->data(), bytes);
        auto *from = static_cast<const char *>(block->data());
        std::vector<char> ordered; // where the host cannot read the array
        if (!isHost(*device)) {
          ordered.resize(bytes);
          if (PjrtError *error =
                  device->arrays->read(ordered.data(), from, bytes))
            return error;
          from = ordered.data();
        }
        copyStrided(to, strides.data(), from,
                    denseStrides(dims.data(), rank, element).data(),
                    dims.data(), rank, element);
        return static_cast<PjrtError *>(nullptr);
      },
      a.event);
}

PjrtError *rawToHost(Buffer_CopyRawToHost_Args &a) {
  std::shared_ptr<ArrayBlock> block = a.buffer->read();
  if (!block)
    return deletedBuffer("read");
  auto bytes = static_cast<int64_t>(a.buffer->bytes);
  if (a.offset < 0 || a.transfer_size < 0 || a.offset > bytes ||
      a.transfer_size > bytes - a.offset || (!a.dst && a.transfer_size))
    return fail(Code::outOfRange, "the bytes to copy are not all the array's");
  return whenReady(
      *a.buffer,
      [block, to = a.dst, offset = a.offset, device = a.buffer->device,
       size = static_cast<size_t>(a.transfer_size)] {
        return device->arrays->read(
            to, static_cast<const char *>(block->data()) + offset, size);
      },
      a.event);
}

/// Arrays are not changed and all devices of a client read the same memory, so
/// a copy shares it. Own memory does not overwrite what is shared (donation
/// looks at the owners).
PjrtError *share(Buffer &source, PjrtDevice *place, Buffer *&copy) {
  std::shared_ptr<ArrayBlock> block = source.read();
  if (!block)
    return deletedBuffer("copied");
  copy = new Buffer(place, source.type, source.dims, source.bytes,
                    std::move(block), source.ready);
  return nullptr;
}

PjrtError *toDevice(Buffer_CopyToDevice_Args &a) {
  if (!a.dst_device || a.dst_device->client != a.buffer->device->client)
    return fail(Code::unimplemented, "copies to another client go through the "
                                     "host's memory");
  return share(*a.buffer, a.dst_device, a.dst_buffer);
}

PjrtError *toMemory(Buffer_CopyToMemory_Args &a) {
  if (!a.dst_memory || a.dst_memory->device->client != a.buffer->device->client)
    return fail(Code::unimplemented, "copies to another client go through the "
                                     "host's memory");
  return share(*a.buffer, a.dst_memory->device, a.dst_buffer);
}

PjrtError *uninitialised(Client_CreateUninitializedBuffer_Args &a) {
  std::optional<size_t> bytes =
      arrayBytes(a.shape_element_type, a.shape_dims, a.shape_num_dims);
  if (!bytes)
    return badArray(a.shape_element_type, a.shape_dims, a.shape_num_dims);
  if (PjrtError *error = checkLayout(a.shape_layout, a.shape_num_dims))
    return error;
  PjrtDevice *place = placeOf(*a.client, a.device, a.memory);
  if (place->client != a.client)
    return otherClient();
  auto block = std::make_shared<ArrayBlock>(place->arrays, *bytes);
  if (isHost(*place))
    memset(block->data(), 0, *bytes);
  a.buffer = new Buffer(
      place, a.shape_element_type,
      std::vector<int64_t>(a.shape_dims, a.shape_dims + a.shape_num_dims),
      *bytes, std::move(block));
  return nullptr;
}

PjrtError *view(Client_CreateViewOfDeviceBuffer_Args &a) {
  std::optional<size_t> bytes = arrayBytes(a.element_type, a.dims, a.num_dims);
  if (!bytes)
    return badArray(a.element_type, a.dims, a.num_dims);
  if (PjrtError *error = checkLayout(a.layout, a.num_dims))
    return error;
  if (!a.device_buffer_ptr && *bytes)
    return fail(Code::invalidArgument, "the memory is null");
  PjrtDevice *place = placeOf(*a.client, a.device, a.memory);
  if (place->client != a.client)
    return otherClient();
  if (place->stream) // whoever made the array may not have waited for it
    if (knapper_error *error =
            knapper().stream_wait_for_others(place->stream->stream.get()))
      return fail(error);
  std::vector<int64_t> dims(a.dims, a.dims + a.num_dims);
  auto block = std::make_shared<ArrayBlock>(
      a.device_buffer_ptr, a.on_delete_callback, a.on_delete_callback_arg);
  if (!isHost(*place))
    LentBlocks::ofProcess().add(block.get());
  a.buffer = new Buffer(place, a.element_type, std::move(dims), *bytes,
                        std::move(block));
  return nullptr;
}

} // namespace

void setTransferFunctions(PjrtApi &api) {
  api.Client_BufferFromHostBuffer = guarded<fromHost>;
  api.Client_CreateUninitializedBuffer = guarded<uninitialised>;
  api.Client_CreateViewOfDeviceBuffer = guarded<view>;
  api.Buffer_ToHostBuffer = guarded<toHost>;
  api.Buffer_CopyRawToHost = guarded<rawToHost>;
  api.Buffer_CopyToDevice = guarded<toDevice>;
  api.Buffer_CopyToMemory = guarded<toMemory>;
}

} // namespace knapper::pjrt
