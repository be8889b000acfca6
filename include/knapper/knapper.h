/* Knapper C API: compile, load, inspect and run models.
 *
 * Who calls this: programs in C and C++, and the bindings of other languages.
 *
 * Ownership: the caller releases every result of a create, load, compile or run
 * function with the matching knapper_*_release. A `const char *` of an object
 * lives as long as the object. A `char **` result is released with
 * knapper_string_release.
 *
 * Threads: any number of threads may run one module at once. Releasing an
 * object does not wait for other threads: no other thread may use it then.
 *
 * Errors: a function that can fail returns NULL on success, else a
 * knapper_error, which the caller releases. No function throws, exits or
 * aborts.
 *
 * Structs: one that may grow begins with `size`. Set it to the struct's sizeof;
 * the *_INIT macros do.
 *
 * Units: sizes of memory are bytes. Shapes are in elements, outermost dim
 * first.
 *
 * Libraries: libknapper has the compiler and the runtime. libknapper_rt has the
 * runtime only; its compile functions return a user error. */
#ifndef KNAPPER_KNAPPER_H
#define KNAPPER_KNAPPER_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define KNAPPER_API
#else
#define KNAPPER_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define KNAPPER_VERSION_MAJOR 0
#define KNAPPER_VERSION_MINOR 1
#define KNAPPER_VERSION_PATCH 0

/* "0.1.0" */
KNAPPER_API const char *knapper_version(void);
/* 1 in libknapper, whose knapper_compile works; 0 in libknapper_rt. */
KNAPPER_API int knapper_has_compiler(void);
/* Runs the command `knapper`. argv[0] is a name. Results go to stdout, errors
 * to stderr. Returns the exit code: 0 success, 1 user error, 2 device error, 3
 * internal error; a command may define others. It sets the log level of the
 * process. Only one thread may call it at a time. */
KNAPPER_API int knapper_command_line(int argc, const char *const *argv);

/* ---- errors ---- */
typedef struct knapper_error knapper_error;
typedef enum {
  KNAPPER_ERROR_USER =
      0, /* the model, a file, an argument: the caller can fix it */
  KNAPPER_ERROR_DEVICE = 1,  /* the machine: memory, a failed system call */
  KNAPPER_ERROR_INTERNAL = 2 /* a defect of Knapper */
} knapper_error_kind;
KNAPPER_API knapper_error_kind
knapper_error_get_kind(const knapper_error *error);
/* The whole text: where, what, why and one thing to try. */
KNAPPER_API const char *knapper_error_get_message(const knapper_error *error);
/* What the error is about (a file, a node, an option), and one thing to try. ""
 * if unknown. */
KNAPPER_API const char *knapper_error_get_where(const knapper_error *error);
KNAPPER_API const char *knapper_error_get_hint(const knapper_error *error);
KNAPPER_API void knapper_error_release(knapper_error *error);

/* ---- logging: silent unless a callback is set; process-wide ---- */
typedef enum {
  KNAPPER_LOG_OFF = 0,
  KNAPPER_LOG_ERROR = 1,
  KNAPPER_LOG_WARNING = 2,
  KNAPPER_LOG_INFO = 3,
  KNAPPER_LOG_DEBUG = 4
} knapper_log_level;
typedef void (*knapper_log_callback)(void *user, knapper_log_level level,
                                     const char *text);
/* Calls `callback` for each message up to `level`, from any thread. NULL
 * removes it, and returns when no call of the former one is running. */
KNAPPER_API void knapper_set_log_callback(knapper_log_callback callback,
                                          void *user, knapper_log_level level);

/* ---- tensors ---- */
typedef enum {
  KNAPPER_F32 = 0,
  KNAPPER_F16 = 1,
  KNAPPER_BF16 = 2,
  KNAPPER_F64 = 3,
  KNAPPER_I1 = 4, /* one byte an element */
  KNAPPER_I8 = 5,
  KNAPPER_U8 = 6,
  KNAPPER_I16 = 7,
  KNAPPER_I32 = 8,
  KNAPPER_I64 = 9,
  KNAPPER_U16 = 10,
  KNAPPER_U32 = 11,
  KNAPPER_U64 = 12,
  /* Storage types, one byte an element. A type of fewer than eight bits has its
     value in the low bits. The high bits of an input are ignored; those of an
     output are copies of the sign bit, or 0. */
  KNAPPER_F8E4M3FN = 13,
  KNAPPER_F8E4M3FNUZ = 14,
  KNAPPER_F8E5M2 = 15,
  KNAPPER_F8E5M2FNUZ = 16,
  KNAPPER_F8E8M0 = 17,
  KNAPPER_F4E2M1 = 18,
  KNAPPER_I4 = 19,
  KNAPPER_U4 = 20,
  KNAPPER_I2 = 21,
  KNAPPER_U2 = 22,
  KNAPPER_STRING = 23, /* a knapper_string an element */
  /* Storage types too; six bits are stored as four are. */
  KNAPPER_F8E4M3 = 24,
  KNAPPER_F8E3M4 = 25,
  KNAPPER_F8E4M3B11FNUZ = 26,
  KNAPPER_F6E2M3 = 27,
  KNAPPER_F6E3M2 = 28
} knapper_dtype;
/* Bytes an element takes; 0 for an unknown dtype. */
KNAPPER_API size_t knapper_dtype_size(knapper_dtype dtype);
KNAPPER_API const char *knapper_dtype_name(knapper_dtype dtype);

/* Text of any length; the bytes need not end with a null. The bytes of an input
 * must not change until the run has ended. The bytes of an output belong to the
 * result, even if the caller gave the array of knapper_string. */
typedef struct {
  const char *data; /* may be NULL only when size is 0 */
  size_t size;
} knapper_string;

/* Dense, row-major memory that the caller (or a result) owns. */
typedef struct {
  void *data;   /* may be NULL only when the tensor has no elements */
  size_t bytes; /* size of the memory at data */
  knapper_dtype dtype;
  int32_t rank; /* KNAPPER_FLAT for an output's memory without a shape */
  const int64_t *shape; /* rank entries */
} knapper_tensor;
/* A value of `rank`: the tensor is memory for an output of at most `bytes`
 * bytes. For a caller that knows a bound of the output's size, not its shape.
 */
#define KNAPPER_FLAT (-1)

/* ---- operators of your own ----
 * Knapper looks an operator up here, by domain and name, if it does not have it
 * itself and the model does not define it as a function. Compiling needs its
 * shape function, loading the artefact its compute function. The compute
 * function runs on the host: tensors of a model on a GPU are copied for it,
 * unless the operator is `on_device`. docs/custom-operators.md has an example.
 */
typedef enum {
  KNAPPER_ATTRIBUTE_INT = 0,
  KNAPPER_ATTRIBUTE_FLOAT = 1,
  KNAPPER_ATTRIBUTE_STRING = 2,
  KNAPPER_ATTRIBUTE_INTS = 3,
  KNAPPER_ATTRIBUTE_FLOATS = 4,
  KNAPPER_ATTRIBUTE_STRINGS = 5,
  KNAPPER_ATTRIBUTE_TENSOR = 6
} knapper_attribute_kind;
typedef struct {
  const char *name;
  knapper_attribute_kind kind;
  int32_t count; /* entries of the pointer of this kind; the others are NULL */
  const int64_t *ints;
  const float *floats;
  const knapper_string *strings;
  const knapper_tensor *tensor;
} knapper_attribute;

#define KNAPPER_MAX_RANK 32
typedef struct {
  knapper_dtype dtype;
  int32_t rank;
  int64_t shape[KNAPPER_MAX_RANK];
} knapper_result_shape;

/* What an operator's functions are called with; valid during the call. */
typedef struct knapper_call knapper_call;
struct knapper_call {
  size_t size;
  const char *node; /* of the model: for messages */
  const char *domain, *name;
  int64_t version; /* of the domain in the model's opset_import */
  int32_t num_attributes;
  const knapper_attribute *attributes;
  /* 0 while the model is compiled: `data` is NULL, and a size that is known in
     a run only is negative. Two equal negative sizes are one size. 1 in a run.
   */
  int32_t running;
  int32_t num_inputs;
  const knapper_tensor *inputs; /* rank -1: an optional one that is left out */
  int32_t num_outputs;
  const knapper_tensor *outputs; /* NULL for the shape function */
  /* Gives the message of the error if the function returns a nonzero value. The
     text is copied. */
  void (*fail)(const knapper_call *call, const char *message);
  /* Allocates memory for the bytes of strings in `outputs`. It is freed when
     the run has ended. Returns NULL if there is none. For the compute function.
   */
  void *(*allocate)(const knapper_call *call, size_t bytes);
  void *internal;
  /* For an operator `on_device`: the stream for its work, which may be the one
     that the run was given. CUDA: a CUstream; the legacy default stream is
     CU_STREAM_LEGACY. NULL on a device without streams. */
  void *stream;
};

/* Both functions return 0 on success. Any other value is a user error of the
 * compile or the run, with the node's name. Several threads may call them at
 * once. They must not throw, and must not call the module that they run in. */
typedef struct {
  size_t size;
  const char *domain, *name; /* copied */
  /* Fills in dtype and shape of the call->num_outputs results. A size is a
   * number, or a negative size of an input (meaning the same size). While the
   * model is compiled it may be -1: the size is known in a run only, and the
   * function is called again then, with numbers and data. A NULL function:
   * every result has the dtype of the first input and the broadcast shape of
   * all. */
  int (*shape)(void *user, const knapper_call *call,
               knapper_result_shape *results);
  /* Writes the outputs: dense, row-major memory of the shapes that the shape
   * function gave, aligned to 16 bytes unless the run's caller gave it. */
  int (*compute)(void *user, const knapper_call *call);
  void *user; /* given to the functions */
  /* Unless NULL, called with `user` when the operator is no longer registered
   * and no loaded module uses it. */
  void (*release)(void *user);
  /* Unless 0, tensors of a model on a GPU are not copied: `data` is a device
   * address. The compute function queues its work in `call->stream` and does
   * not wait. While the caller captures that stream, it is called once, and the
   * work that it queued is replayed. */
  int32_t on_device;
} knapper_operator;
#define KNAPPER_OPERATOR_INIT {sizeof(knapper_operator), 0, 0, 0, 0, 0, 0, 0}

/* Registers an operator for the process. It replaces one of the same domain and
 * name; loaded modules keep the one they have. Any thread may call it. An
 * operator that Knapper has itself is never looked up here. */
KNAPPER_API knapper_error *
knapper_register_operator(const knapper_operator *given);
/* User error: no such operator is registered. */
KNAPPER_API knapper_error *knapper_unregister_operator(const char *domain,
                                                       const char *name);
/* 1 when the operator is registered. */
KNAPPER_API int knapper_has_operator(const char *domain, const char *name);
/* Loads a shared object until the process ends, and calls the function
 * `knapper_operators` that it exports. That function registers its operators:
 *
 *   knapper_error *knapper_operators(knapper_register_function *add) {
 *     return add(&mine);
 *   }
 *
 * It needs this header only, and is linked with nothing of Knapper. */
typedef knapper_error *knapper_register_function(const knapper_operator *given);
typedef knapper_error *
knapper_operators_function(knapper_register_function *add);
KNAPPER_API knapper_error *knapper_load_operators(const char *path);

/* ---- modules ---- */
typedef struct knapper_module knapper_module;

/* When the constants of a file are compared with their hashes. A difference is
 * a user error. All other parts of a file are checked at load. */
typedef enum {
  KNAPPER_VERIFY_BEFORE_USE = 0, /* each constant before the first launch that
                                    reads it (on GPUs: at load). The run fails
                                    then, with its outputs partly written */
  KNAPPER_VERIFY_AT_LOAD = 1, /* all constants at load, by `threads` threads */
  KNAPPER_VERIFY_NOT = 2      /* never: a damaged file gives wrong results */
} knapper_verify_constants;

typedef struct {
  size_t size;
  int32_t threads;          /* worker threads of this module. 0: the environment
                               variable KNAPPER_THREADS; if that is not set, one
                               for each core that the process may use (affinity,
                               quota of the control group), at most
                               OMP_NUM_THREADS */
  int32_t verify_constants; /* a knapper_verify_constants */
  int32_t spin_microseconds; /* how long idle workers spin before they sleep;
                                -1: default */
  const char *isa;    /* use code of this instruction set ("x86-64-v3"). NULL:
                         the environment variable KNAPPER_ISA; if that is not
                         set, the best that the artefact has and the machine can
                         run */
  const char *device; /* "cpu" or "cuda", for an artefact with code for both.
                         NULL: the environment variable KNAPPER_DEVICE; if that
                         is not set, a GPU if there is one, else the CPU */
  int32_t describe;   /* 1: load the module even if the machine has no such
                         device. It can be described, explained and saved, but
                         not run */
} knapper_load_options;
#define KNAPPER_LOAD_OPTIONS_INIT                                              \
  {sizeof(knapper_load_options), 0, 0, -1, 0, 0, 0}

/* Maps the file into memory. It copies nothing and does not read the weights.
 * `options` may be NULL. User error: the file is missing, damaged, or has no
 * code for this machine. */
KNAPPER_API knapper_error *knapper_load(const char *path,
                                        const knapper_load_options *options,
                                        knapper_module **out);
/* The same from memory. The bytes are copied. */
KNAPPER_API knapper_error *
knapper_load_memory(const void *bytes, size_t size,
                    const knapper_load_options *options, knapper_module **out);
/* Releases the module when its asynchronous runs have ended. */
KNAPPER_API void knapper_module_release(knapper_module *module);
/* Writes the artefact to a file, atomically: no reader sees half of it. */
KNAPPER_API knapper_error *knapper_module_save(const knapper_module *module,
                                               const char *path);

/* ---- signature ---- */
KNAPPER_API int32_t knapper_module_num_inputs(const knapper_module *module);
KNAPPER_API int32_t knapper_module_num_outputs(const knapper_module *module);
typedef struct {
  size_t size;
  const char *name;
  knapper_dtype dtype;
  int32_t rank;
  const int64_t *shape;        /* rank entries; -1: the dim is symbolic */
  const char *const *dim_text; /* "batch", "128", "2*seq" */
} knapper_tensor_info;
/* Describe an input or output. The caller sets info->size. User error: there is
 * no tensor `index`. */
KNAPPER_API knapper_error *knapper_module_input(const knapper_module *module,
                                                int32_t index,
                                                knapper_tensor_info *info);
KNAPPER_API knapper_error *knapper_module_output(const knapper_module *module,
                                                 int32_t index,
                                                 knapper_tensor_info *info);
/* 1 if a run may be given the input's memory as the output's, which the run
 * then overwrites: growing keys and values, a state, the operand of an
 * elementwise model. 0 if not, or if there is no such index. */
KNAPPER_API int knapper_module_may_replace(const knapper_module *module,
                                           int32_t output, int32_t input);
/* Bytes that a run needs if the symbols names[i] have values[i], i < count.
 * Symbols that the run computes are left out. User error: a symbol has no
 * value, or the size of a buffer depends on a symbol that the run computes. */
KNAPPER_API knapper_error *
knapper_module_peak_memory(const knapper_module *module,
                           const char *const *names, const int64_t *values,
                           int32_t count, uint64_t *arena_bytes,
                           uint64_t *constant_bytes);
/* The module as JSON: signature, in-place pairs, kernels, launches, memory,
 * compile phases. *json lives as long as the module. */
KNAPPER_API knapper_error *knapper_module_describe(const knapper_module *module,
                                                   const char **json);

/* ---- run ---- */
typedef struct knapper_result knapper_result;
/* Runs the module and waits for the outputs. Any number of threads may call it.
 *
 * inputs: num_inputs tensors in the order of the signature. They are read only.
 * outputs: NULL, or num_outputs tensors in the order of the signature.
 *
 * An output with data == NULL gets memory of the module. The result owns that
 * memory until it is released. An output with data != NULL is written there. It
 * has the dtype and shape of the signature, or the rank KNAPPER_FLAT and at
 * least as many bytes, of which the first are written.
 *
 * An output must not overlap an input or another output. It may be exactly the
 * memory of an input that it may replace (knapper_module_may_replace). That
 * memory is overwritten, in part even if the run fails or is cancelled.
 * User error: a wrong count, dtype, shape or size, or overlapping memory. */
KNAPPER_API knapper_error *
knapper_run(knapper_module *module, const knapper_tensor *inputs,
            int32_t num_inputs, const knapper_tensor *outputs,
            int32_t num_outputs, knapper_result **out);
typedef struct {
  size_t size;
  /* Unless NULL, read atomically before each launch. If another thread sets it,
   * the run ends with a user error and the outputs are partly written. */
  const int32_t *cancel;
  /* 1: makes the checks that a run makes before its first launch, and computes
   * nothing. The result has the shapes of the outputs. Their data is the
   * caller's memory, or NULL if none was given. A dim that the model computes
   * from data is -1. */
  int32_t check_only;
  /* 1: queues the run in `stream`, a stream of the module's device, and
   * returns. The run starts after the work that the stream has. Inputs and
   * given outputs must stay until the stream has done the run. If the module
   * provides an output, the call waits for it. An error that a kernel finds (an
   * index out of range) is the error of a later run of the module. The stream
   * may be captured, if a run with the same sizes came before. Replays use
   * memory of their own, which the module keeps: release the module after the
   * graph. User error: the module is on a CPU. */
  int32_t in_stream;
  /* The stream of in_stream. CUDA: a CUstream; NULL is the legacy default
   * stream. */
  void *stream;
  /* Unless NULL, measures every launch and sets *profile to the JSON of
   * knapper_profile. Not with check_only or in_stream. */
  char **profile;
} knapper_run_options;
#define KNAPPER_RUN_OPTIONS_INIT {sizeof(knapper_run_options), 0, 0, 0, 0, 0}
/* knapper_run with options, which may be NULL. */
KNAPPER_API knapper_error *
knapper_run_with(knapper_module *module, const knapper_tensor *inputs,
                 int32_t num_inputs, const knapper_tensor *outputs,
                 int32_t num_outputs, const knapper_run_options *options,
                 knapper_result **out);
KNAPPER_API int32_t knapper_result_num_outputs(const knapper_result *result);
/* The tensor's shape and data live as long as the result. */
KNAPPER_API knapper_error *knapper_result_output(const knapper_result *result,
                                                 int32_t index,
                                                 knapper_tensor *tensor);
KNAPPER_API void knapper_result_release(knapper_result *result);

/* The same without waiting. The event completes when the outputs are written.
 * Inputs and given outputs must stay until then; shapes are copied. */
typedef struct knapper_event knapper_event;
KNAPPER_API knapper_error *
knapper_run_async(knapper_module *module, const knapper_tensor *inputs,
                  int32_t num_inputs, const knapper_tensor *outputs,
                  int32_t num_outputs, knapper_event **out);
/* Waits for the run, releases the event, and gives the result or the error of
 * the run. */
KNAPPER_API knapper_error *knapper_event_wait(knapper_event *event,
                                              knapper_result **out);
/* Waits at most `nanoseconds`. 1 if the run has ended: knapper_event_wait would
 * not block. Does not release the event. */
KNAPPER_API int knapper_event_wait_for(const knapper_event *event,
                                       int64_t nanoseconds);
/* 1 if knapper_event_wait would not block. */
KNAPPER_API int knapper_event_done(const knapper_event *event);
/* Asks the run to end with a user error, before its next launch or before it
 * begins. A run that has ended keeps its result. Does not release the event. */
KNAPPER_API void knapper_event_cancel(knapper_event *event);

/* Runs the module once and measures every launch. Release *json with
 * knapper_string_release:
 * {"launches": [{"kernel", "origin", "schedule", "executions", "index", "ns",
 * "flops", "bytes"}], "events": [{"launch", "start_ns", "ns", "flops",
 * "bytes"}], "total_ns", "isa", "sizes"}
 * "ns" is in nanoseconds. "events" are the executions of the launches, in
 * order. "index" is the launch's place in the list of knapper_module_describe;
 * numbers past its end are operators of yours. */
KNAPPER_API knapper_error *knapper_profile(knapper_module *module,
                                           const knapper_tensor *inputs,
                                           int32_t num_inputs, char **json);
KNAPPER_API void knapper_string_release(char *text);

/* ---- compile ---- */
typedef struct {
  const char *key;
  const char *value;
} knapper_option;
typedef struct {
  size_t size;
  const char *model_path; /* an .onnx file; or NULL with model_bytes */
  const void *model_bytes;
  size_t model_size;
  const char
      *output_path; /* where to write the artefact; NULL: keep it in memory */
  /* Rows of the options table: "target", "dtype", "threads", "stop-after",
   * "dump-dir", ... An unknown key or a bad value is a user error that lists
   * the valid ones. */
  const knapper_option *options;
  int32_t num_options;
  /* Called as phases start, from the compiling thread; may be NULL. */
  void (*progress)(void *user, const char *phase, int32_t done, int32_t total);
  void *progress_user;
  /* Unless NULL, *stopped_text is set to the program after the phase that
   * "stop-after" names, or to NULL. Release it with knapper_string_release. */
  char **stopped_text;
  /* Unless NULL, *stats_json is set to what the compile did: phases with
   * seconds, launches, kernels, variants, bytes. Release it in the same way. */
  char **stats_json;
  /* Unless NULL, read atomically before each phase and each kernel. If another
   * thread or `progress` sets it, the compile ends with a user error and writes
   * nothing. */
  const int32_t *cancel;
} knapper_compile_options;
#define KNAPPER_COMPILE_OPTIONS_INIT                                           \
  {sizeof(knapper_compile_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* Compiles a model. Loads the artefact too, unless `out` is NULL. */
KNAPPER_API knapper_error *
knapper_compile(const knapper_compile_options *options,
                const knapper_load_options *load, knapper_module **out);
/* Reads a model without compiling it. *json has its signature, its sizes, its
 * operators by name, opset and dtype, and which of them are not supported.
 * Release it with knapper_string_release. */
KNAPPER_API knapper_error *
knapper_inspect(const knapper_compile_options *options, char **json);
/* Writes the model as portable StableHLO text, for the compilers of other
 * accelerators. Release *text with knapper_string_release. User error: a size
 * is symbolic (the option "dim" makes it a number), or StableHLO cannot express
 * an operator, which the error names. */
KNAPPER_API knapper_error *
knapper_translate(const knapper_compile_options *options, char **text);
/* The self-contained HTML report of a module. Release with
 * knapper_string_release. */
KNAPPER_API knapper_error *knapper_explain(const knapper_module *module,
                                           char **html);
typedef struct {
  size_t size;
  /* 1: runs the module once to warm up, then `runs` times. The report then has
   * the median time of each kernel, its share of the machine's peaks (as
   * knapper_devices measures them), and what would make it faster. The fields
   * below are for these runs. */
  int32_t profile;
  int32_t num_inputs;
  const knapper_tensor *inputs; /* num_inputs, in the order of the signature */
  int64_t runs;   /* 1 to 1000; 0: as many as fit `seconds`, 3 to 50 */
  double seconds; /* 0: one second; at most 3600 */
  /* Unless NULL, another module with the same inputs, such as another artefact
   * of the model. Their runs are interleaved, and the report compares their
   * kernels.
   */
  knapper_module *other;
  const char *name,
      *other_name; /* for the comparison; NULL: as their files say */
  /* Called from the calling thread as a step begins; may be NULL. */
  void (*progress)(void *user, const char *phase, int32_t done, int32_t total);
  void *progress_user;
} knapper_explain_options;
#define KNAPPER_EXPLAIN_OPTIONS_INIT                                           \
  {sizeof(knapper_explain_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* knapper_explain with options, which may be NULL. Either of html and json may
 * be NULL. Release the results with knapper_string_release. *json has the data
 * of the page: the JSON of knapper_module_describe; for profiled runs also
 * "profile" (times in microseconds by launch and by kernel, the longest first)
 * and "comparison". Any number of threads may call it, but runs of other
 * threads disturb the times. */
KNAPPER_API knapper_error *
knapper_explain_with(knapper_module *module,
                     const knapper_explain_options *options, char **html,
                     char **json);

/* Compiles the model and runs it on the num_inputs inputs, in the order of the
 * signature. Checks every kernel: evaluates what it computes in double
 * precision, slowly, on the values that the kernel read. A kernel that diverges
 * is no error of the call. Release *json with knapper_string_release:
 * {"kernels": [{"origin", "hero", "error", "bound", "passed", "worst"}],
 * "first_divergent": index or null, "reproducer": {"program": tensor IR,
 * "inputs": [{"dtype": a knapper_dtype, "shape", "base64"}]} or null}. The
 * reproducer is of the first kernel that diverges. */
KNAPPER_API knapper_error *
knapper_verify(const knapper_compile_options *options,
               const knapper_tensor *inputs, int32_t num_inputs, char **json);

/* ---- quantise ---- */
typedef struct {
  size_t size;
  /* "int8" or "int4": quantises only the weights of matmuls; the compile
   * options "weight-group" and "weight-zero-points" say how. NULL: static
   * quantisation. Matmuls and convolutions then multiply bytes, and the ranges
   * of activations come from calibration data. */
  const char *weights_only;
  const char *range;       /* how the range of an activation is found: "minmax"
                              (NULL), "percentile" or "error" */
  double percentile;       /* of "percentile", in (0, 100]; 0: 99.99 */
  const char *activations; /* "u8" (NULL), or "i8" around 0 */
  const char *const *keep; /* names of nodes (or of their results) that stay
                              float */
  int32_t num_keep;
  /* Calibration data. The accuracy is measured on it too. Static quantisation
   * needs at least one sample. sample(user, index, model, inputs) fills one
   * entry of `inputs` for each input of `model`, in the order of its signature.
   * The data must live until the next call. The calling thread calls it, more
   * than once for an index. A return value other than 0 ends the quantisation
   * with an error. */
  int32_t num_samples;
  int (*sample)(void *user, int32_t index, const knapper_module *model,
                knapper_tensor *inputs);
  void *sample_user;
  const char *const *sample_names; /* for messages; NULL: "sample 3" */
} knapper_quantize_options;
#define KNAPPER_QUANTIZE_OPTIONS_INIT                                          \
  {sizeof(knapper_quantize_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* Quantises a model and writes output_path: an artefact (.knap), or an ONNX
 * model with QuantizeLinear and DequantizeLinear (.onnx). Loads the artefact
 * unless `out` is NULL. Unless `json` is NULL, *json is set to a string to
 * release with knapper_string_release: {"artefact_bytes", "float_bytes",
 * "samples", "outputs": [{"name", "relative_rms", "decibels", ...}], "layers":
 * [{"name", "operator", "input", "low", "high", "scale", "zero_point", "alone":
 * {..}, "together": {..}}], "kept": [{"name", "operator", "why"}]}. */
KNAPPER_API knapper_error *knapper_quantize(
    const knapper_compile_options *options, const knapper_quantize_options *how,
    const knapper_load_options *load, knapper_module **out, char **json);

/* ---- devices ---- */
/* The devices of this machine as JSON: [{"device": "cpu", "name", "isa",
 * "cores", "fma_gflops", "copy_gbps", ...}]. If measure is not 0, the peaks are
 * measured, which takes about a second the first time on a machine. Release
 * *json with knapper_string_release. */
KNAPPER_API knapper_error *knapper_devices(int measure, char **json);

#ifdef __cplusplus
}
#endif
#endif /* KNAPPER_KNAPPER_H */
