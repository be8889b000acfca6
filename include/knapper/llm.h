/* Language models: a Hugging Face folder, requests in, text out.
 *
 * A request is what `knapper serve` answers over HTTP, without the network: a
 * path and a body in JSON, with OpenAI's fields (docs/serve.md); what comes
 * back is the same JSON. Many requests run at once and share the steps of one
 * engine.
 *
 * Only libknapper has these functions; libknapper_rt does not. Ownership,
 * errors and sizes of structs: as in knapper.h. A model and its requests may be
 * released in any order; the model's memory is given back with the last of
 * them. */
#ifndef KNAPPER_LLM_H
#define KNAPPER_LLM_H

#include "knapper/knapper.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct knapper_llm knapper_llm;
typedef struct knapper_llm_request knapper_llm_request;

/* Zero, or NULL, is the default that is named. */
typedef struct {
  size_t size;
  int32_t threads;     /* that compute; 0: one for each core */
  int32_t max_context; /* tokens of a prompt and its answer; 0: the model's */
  int32_t max_batched_tokens; /* of one step; 0: 512 */
  int32_t max_sequences;      /* that run at once; 0: 64 */
  int32_t queue_limit;        /* requests that wait; 0: 1024 */
  int32_t no_prefix_cache;    /* 1: equal prefixes are computed again */
  int64_t
      kv_memory_bytes;    /* of keys and values; 0: a quarter of what is free */
  const char *dtype;      /* of the weights: "f32" (NULL), "bf16", "i8", "i4" */
  const char *cache_dir;  /* of compiled programs; NULL: the compiler's */
  const char *target;     /* "cpu" (NULL), "cuda", "cuda:sm_90a" */
  const char *model_name; /* in requests and answers; NULL: the folder's name */
  const char *speculate;  /* "off" (NULL), "ngram", "draft": docs/serve.md */
  const char *draft_model;  /* folder, of "draft" */
  int32_t speculate_tokens; /* proposed at once; 0: 8 */
  /* Seconds of one step after which the engine is taken to hang and is built
   * again; 0: 4 on GPUs, never on CPUs; below 0: never. */
  double hung_after;
  /* 1: all weights are read at load and their hashes compared, also where they
   * are known from an earlier load. */
  int32_t verify_files;
} knapper_llm_options;
#define KNAPPER_LLM_OPTIONS_INIT {sizeof(knapper_llm_options)}

/* Reads and compiles the model, or takes its program from the cache; blocks for
 * seconds. `options` may be NULL. Starts the engine's thread. User error: a
 * file or field that is missing, damaged or not known, with its name; device
 * error: memory. When the device is lost later, or a step hangs, the requests
 * of that time end with status 503 and the model is loaded again in place;
 * until then new ones get 503. */
KNAPPER_API knapper_error *knapper_llm_load(const char *folder,
                                            const knapper_llm_options *options,
                                            knapper_llm **out);
/* Ends nothing that still has a request. */
KNAPPER_API void knapper_llm_release(knapper_llm *llm);
/* Tokens of a prompt and its answer; less than the model's where memory or
 * max_context is less. */
KNAPPER_API int32_t knapper_llm_context(const knapper_llm *llm);

/* Begins a request; reads and tokenises `body` on the caller's thread, and
 * returns. `path`: "/v1/chat/completions", "/v1/completions", "/tokenize",
 * "/detokenize"; with body NULL "/v1/models", "/metrics", "/health/ready" and
 * the other paths of docs/serve.md. What is wrong in the body is the answer's
 * status and JSON, not an error of this call. From any thread. */
KNAPPER_API knapper_error *knapper_llm_submit(knapper_llm *llm,
                                              const char *path,
                                              const char *body,
                                              knapper_llm_request **out);

typedef enum {
  KNAPPER_LLM_WAITING = 0,   /* nothing came in time */
  KNAPPER_LLM_PART = 1,      /* `data` is the whole answer or the next event */
  KNAPPER_LLM_END = 2,       /* all parts were given */
  KNAPPER_LLM_CANCELLED = 3, /* by knapper_llm_cancel */
} knapper_llm_state;

typedef struct {
  size_t size;
  knapper_llm_state state;
  int32_t status;   /* as of HTTP: 200, or 400 and more with an error object */
  const char *data; /* JSON, ends with a zero; until the next poll or release */
  size_t bytes;     /* of data, without the zero */
} knapper_llm_part;
#define KNAPPER_LLM_PART_INIT {sizeof(knapper_llm_part)}

/* Waits for the next part, at most so many milliseconds (0: not at all; -1: for
 * ever). A request with "stream": true has a part for each event, others one.
 * An error after the first event is an event with the field "error". Tokens
 * become text on the thread that polls; one thread polls a request at a time.
 */
KNAPPER_API knapper_error *knapper_llm_poll(knapper_llm_request *request,
                                            int64_t milliseconds,
                                            knapper_llm_part *out);
/* Ends the request at the engine's next step, gives its memory back, and wakes
 * who polls. From any thread; nothing happens to a request that has ended. */
KNAPPER_API void knapper_llm_cancel(knapper_llm_request *request);
/* Cancels what has not ended. Not while another thread polls. */
KNAPPER_API void knapper_llm_request_release(knapper_llm_request *request);

#ifdef __cplusplus
}
#endif
#endif
