/* Memory of a device, and streams on it.
 *
 * Who calls this: a program that keeps tensors on a GPU between runs and has no
 * other library that allocates there. Inputs and outputs of knapper_run may lie
 * in this memory. A run can be queued in such a stream
 * (knapper_run_options.in_stream). A program with CUDA memory and streams of
 * another library (PyTorch, CuPy) does not need this header.
 *
 * Ownership: each create, open and mark call has a release call. Release a
 * device after its memory and its streams. Threads: any number of threads may
 * use one device, stream or mark at once. Errors and strings: as in knapper.h.
 */
#ifndef KNAPPER_DEVICE_H
#define KNAPPER_DEVICE_H

#include "knapper/knapper.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct knapper_device knapper_device;

/* Opens a device. `kind` is "cpu" or "cuda" (the first GPU). NULL: the value of
 * the environment variable KNAPPER_DEVICE; if that is not set, the first GPU;
 * if there is none, the CPU. Device error: the machine has no such device. */
KNAPPER_API knapper_error *knapper_device_open(const char *kind,
                                               knapper_device **out);
KNAPPER_API void knapper_device_release(knapper_device *device);
/* The device's entry of knapper_devices, as JSON. Release *json with
 * knapper_string_release. */
KNAPPER_API knapper_error *knapper_device_describe(const knapper_device *device,
                                                   char **json);
/* 1 if the host can read and write the device's memory through its addresses,
 * else 0. A device with 1 has no streams. */
KNAPPER_API int knapper_device_addresses_host(const knapper_device *device);
/* Bytes that are free now; 0 if the device has no memory of its own. */
KNAPPER_API uint64_t knapper_device_free_bytes(const knapper_device *device);

/* Allocates `bytes` bytes, aligned to 64 bytes or more, with undefined
 * contents. 0 bytes give NULL. Device error: there is not enough memory. */
KNAPPER_API knapper_error *knapper_device_allocate(knapper_device *device,
                                                   size_t bytes, void **out);
/* Frees memory of knapper_device_allocate, or does nothing for NULL. No run and
 * no stream may still use it. */
KNAPPER_API void knapper_device_free(knapper_device *device, void *memory);
/* Copy `bytes` bytes from the host to the device (write) and back (read). Both
 * return when the bytes have arrived. They do not wait for streams: if a stream
 * writes or reads the memory, call knapper_mark_wait first. */
KNAPPER_API knapper_error *knapper_device_write(knapper_device *device,
                                                void *target,
                                                const void *host_source,
                                                size_t bytes);
KNAPPER_API knapper_error *knapper_device_read(knapper_device *device,
                                               void *host_target,
                                               const void *source,
                                               size_t bytes);

/* ---- streams ----
 * A stream does its work in the order in which it was given. It keeps what it
 * needs of its device. A mark may outlive its stream. */
typedef struct knapper_stream knapper_stream;
/* Creates a stream. User error: the device has no streams. */
KNAPPER_API knapper_error *knapper_stream_create(knapper_device *device,
                                                 knapper_stream **out);
/* Waits until the stream's work is done, then releases it. */
KNAPPER_API void knapper_stream_release(knapper_stream *stream);
/* The value for knapper_run_options.stream. On CUDA it is a CUstream. */
KNAPPER_API void *knapper_stream_handle(const knapper_stream *stream);

/* Orders the stream behind other users of the device in this process: work
 * given to the stream after this call starts when the work that the device's
 * default order has now is done (CUDA: the legacy default stream). */
KNAPPER_API knapper_error *
knapper_stream_wait_for_others(knapper_stream *stream);

/* A mark is a place in a stream's order of work (CUDA: an event). It is reached
 * when all work that the stream was given before it is done. */
typedef struct knapper_mark knapper_mark;
KNAPPER_API knapper_error *knapper_stream_mark(knapper_stream *stream,
                                               knapper_mark **out);
/* 1 if the mark is reached, else 0. Does not block. */
KNAPPER_API int knapper_mark_reached(const knapper_mark *mark);
/* Blocks until the mark is reached. Device error: the device failed. */
KNAPPER_API knapper_error *knapper_mark_wait(const knapper_mark *mark);
KNAPPER_API void knapper_mark_release(knapper_mark *mark);

#ifdef __cplusplus
}
#endif
#endif /* KNAPPER_DEVICE_H */
