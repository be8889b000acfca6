/* Memory of a device, and streams on it.
 *
 * For callers who keep tensors on a GPU from one run to the next and have no
 * library of their own that allocates there: inputs and outputs of knapper_run
 * may lie in this memory, and runs take their place in such a stream
 * (knapper_run_options.in_stream). A caller with CUDA memory and streams of
 * another library (PyTorch, CuPy) needs none of it.
 *
 * Ownership, errors and strings: as in knapper.h. A device may be used by any
 * number of threads at once; it is released after its memory and streams. */
#ifndef KNAPPER_DEVICE_H
#define KNAPPER_DEVICE_H

#include "knapper/knapper.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct knapper_device knapper_device;

/* `kind`: "cpu" or "cuda" (the first GPU); NULL: the environment variable
 * KNAPPER_DEVICE, else a GPU where one is found, else the CPU. A device error
 * where the machine has none. */
KNAPPER_API knapper_error *knapper_device_open(const char *kind,
                                               knapper_device **out);
KNAPPER_API void knapper_device_release(knapper_device *device);
/* One entry of knapper_devices. Release with knapper_string_release. */
KNAPPER_API knapper_error *knapper_device_describe(const knapper_device *device,
                                                   char **json);
/* 1 when the host reads and writes the device's memory by its addresses. Such a
 * device has no streams. */
KNAPPER_API int knapper_device_addresses_host(const knapper_device *device);
/* Bytes that are free now; 0 where the device has no memory of its own. */
KNAPPER_API uint64_t knapper_device_free_bytes(const knapper_device *device);

/* Memory, aligned to 64 bytes or more, with undefined contents; *out is NULL
 * for 0 bytes. A device error when there is not enough. */
KNAPPER_API knapper_error *knapper_device_allocate(knapper_device *device,
                                                   size_t bytes, void **out);
/* Of memory that knapper_device_allocate gave, or NULL. Nothing may use it any
 * more, a stream included. */
KNAPPER_API void knapper_device_free(knapper_device *device, void *memory);
/* Copies between the host's memory and the device's. Both return when the bytes
 * have arrived, and wait for no stream: knapper_mark_wait first where one
 * writes or reads the memory. */
KNAPPER_API knapper_error *knapper_device_write(knapper_device *device,
                                                void *target,
                                                const void *host_source,
                                                size_t bytes);
KNAPPER_API knapper_error *knapper_device_read(knapper_device *device,
                                               void *host_target,
                                               const void *source,
                                               size_t bytes);

/* ---- streams ----
 * A stream and a mark may be used by any number of threads at once. A stream
 * keeps what it needs of its device; a mark may outlive its stream. */
typedef struct knapper_stream knapper_stream;
/* A user error on a device that has none. */
KNAPPER_API knapper_error *knapper_stream_create(knapper_device *device,
                                                 knapper_stream **out);
/* Waits for the stream's work. */
KNAPPER_API void knapper_stream_release(knapper_stream *stream);
/* For knapper_run_options.stream; CUDA: a CUstream. */
KNAPPER_API void *knapper_stream_handle(const knapper_stream *stream);

/* The stream's work after this call starts after what others in the process
 * have given the device in its default order (CUDA: the legacy default stream).
 */
KNAPPER_API knapper_error *
knapper_stream_wait_for_others(knapper_stream *stream);

/* A place in a stream's order of work: it is reached when all that the stream
 * was given before has been done. */
typedef struct knapper_mark knapper_mark;
KNAPPER_API knapper_error *knapper_stream_mark(knapper_stream *stream,
                                               knapper_mark **out);
/* 1 when the place is reached; does not block. */
KNAPPER_API int knapper_mark_reached(const knapper_mark *mark);
/* Blocks until then. A device error where the device fails first. */
KNAPPER_API knapper_error *knapper_mark_wait(const knapper_mark *mark);
KNAPPER_API void knapper_mark_release(knapper_mark *mark);

#ifdef __cplusplus
}
#endif
#endif /* KNAPPER_DEVICE_H */
