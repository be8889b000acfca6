/* Language models: a Hugging Face folder, requests in, text out.
 *
 * Who calls this: a program that generates text in its own process. A request
 * is a path and a JSON body with OpenAI's fields, as `knapper serve` takes over
 * HTTP (docs/serve.md). The answer is the same JSON. Many requests run at once:
 * one engine computes a step of all of them together.
 *
 * Library: libknapper; libknapper_rt has no such functions. Ownership, errors
 * and sizes of structs: as in knapper.h. A model and its requests may be
 * released in any order. The last release frees the model's memory. */
#ifndef KNAPPER_LLM_H
#define KNAPPER_LLM_H

#include "knapper/knapper.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct knapper_llm knapper_llm;
typedef struct knapper_llm_request knapper_llm_request;

/* 0 or NULL in a field is the default that its comment names. */
typedef struct {
  size_t size;
  int32_t threads;     /* that compute; 0: one for each core */
  int32_t max_context; /* tokens of a prompt and its answer; 0: the model's */
  int32_t max_batched_tokens; /* tokens of one step; 0: 512 */
  int32_t max_sequences;      /* requests that run at once; 0: 64 */
  int32_t queue_limit;        /* requests that wait, at most; 0: 1024 */
  int32_t no_prefix_cache;    /* 1: equal prefixes are computed again */
  int64_t
      kv_memory_bytes;    /* of keys and values; 0: a quarter of what is free */
  const char *dtype;      /* of the weights: "f32" (NULL), "bf16", "i8", "i4" */
  const char *cache_dir;  /* of compiled programs; NULL: the compiler's */
  const char *target;     /* "cpu" (NULL), "cuda", "cuda:sm_90a" */
  const char *model_name; /* in requests and answers; NULL: the folder's name */
  const char *speculate;  /* "off" (NULL), "ngram", "draft": docs/serve.md */
  const char *draft_model;  /* folder of the model that "draft" uses */
  int32_t speculate_tokens; /* tokens proposed at once; 0: 8 */
  /* Seconds. A step that takes longer hangs: the engine is built again. 0: 4
   * seconds on GPUs, never on CPUs; below 0: never. */
  double hung_after;
  /* 1: the load reads all weights and compares their hashes. 0: it skips
   * weights that an earlier load has checked. */
  int32_t verify_files;
} knapper_llm_options;
#define KNAPPER_LLM_OPTIONS_INIT {sizeof(knapper_llm_options)}

/* Reads and compiles the model, or takes its program from the cache, and starts
 * the engine's thread. Blocks for seconds. `options` may be NULL. User error: a
 * file or field is missing, damaged or not known; the message names it. Device
 * error: memory. If the device is lost later, or a step hangs, the running
 * requests end with status 503 and the model is loaded again in place. Until it
 * is ready, new requests get status 503. */
KNAPPER_API knapper_error *knapper_llm_load(const char *folder,
                                            const knapper_llm_options *options,
                                            knapper_llm **out);
/* Releases the caller's handle. Requests that are not released keep the engine
 * running. */
KNAPPER_API void knapper_llm_release(knapper_llm *llm);
/* The largest number of tokens of a prompt and its answer together. It is less
 * than the model's context if memory or max_context limits it. */
KNAPPER_API int32_t knapper_llm_context(const knapper_llm *llm);

/* Begins a request: parses and tokenises `body` on the caller's thread, queues
 * it, and returns. `path`: "/v1/chat/completions", "/v1/completions",
 * "/tokenize", "/detokenize"; with body NULL "/v1/models", "/metrics",
 * "/health/ready" and the other paths of docs/serve.md. A mistake in the body
 * is reported by the answer's status and JSON, not by this call. Any thread may
 * call it. */
KNAPPER_API knapper_error *knapper_llm_submit(knapper_llm *llm,
                                              const char *path,
                                              const char *body,
                                              knapper_llm_request **out);

typedef enum {
  KNAPPER_LLM_WAITING = 0,   /* no part came in time */
  KNAPPER_LLM_PART = 1,      /* `data` is the whole answer or the next event */
  KNAPPER_LLM_END = 2,       /* there are no more parts */
  KNAPPER_LLM_CANCELLED = 3, /* by knapper_llm_cancel */
} knapper_llm_state;

typedef struct {
  size_t size;
  knapper_llm_state state;
  int32_t status;   /* HTTP's: 200, or 400 and more with an error object */
  const char *data; /* JSON, zero-terminated, until the next poll or release */
  size_t bytes;     /* of data, without the zero */
} knapper_llm_part;
#define KNAPPER_LLM_PART_INIT {sizeof(knapper_llm_part)}

/* Waits for the next part, at most `milliseconds` (0: does not wait; -1: no
 * limit). A request with "stream": true has one part for each event, others
 * have one part. An error after the first event is an event with the field
 * "error". The calling thread turns tokens into text. Only one thread may poll
 * a request at a time. */
KNAPPER_API knapper_error *knapper_llm_poll(knapper_llm_request *request,
                                            int64_t milliseconds,
                                            knapper_llm_part *out);
/* Ends the request at the engine's next step, frees its memory, and wakes the
 * thread that polls. Any thread may call it. A request that has ended is not
 * changed. */
KNAPPER_API void knapper_llm_cancel(knapper_llm_request *request);
/* Cancels the request if it has not ended, and releases it. No other thread may
 * poll it at that time. */
KNAPPER_API void knapper_llm_request_release(knapper_llm_request *request);

#ifdef __cplusplus
}
#endif
#endif
