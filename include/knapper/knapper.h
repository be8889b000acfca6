/* Knapper C API: compile, load, inspect and run models.
 *
 * Ownership: every knapper_*_create/load/compile/run result is released with
 * the matching knapper_*_release; strings returned by inspection live as long
 * as the object they came from. Threading: a module may be run from any number
 * of threads at once; releasing it waits for nothing, so the caller must not
 * release what another thread uses. Errors: functions that can fail return NULL
 * on success and otherwise a knapper_error that the caller releases. No
 * function throws, exits or aborts. Structs that may grow begin with `size`:
 * set it to sizeof(the struct) (use the *_INIT macros).
 *
 * The same header serves libknapper (compiler and runtime) and libknapper_rt
 * (runtime only); in the latter knapper_compile returns a user error. */
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
/* 1 when knapper_compile works in this library, 0 in libknapper_rt. */
KNAPPER_API int knapper_has_compiler(void);
/* The command `knapper`, as its executable has it: argv[0] is a name, results go
 * to stdout, errors to stderr. Returns the exit code: 0 done, 1 the caller's
 * mistake, 2 the machine's failure, 3 a defect, and what a command says of itself.
 * It sets the log level of the process, and is one thread's at a time. */
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
/* "" when unknown. */
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
/* The callback may be called from any thread; NULL removes it. */
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
  /* Storage types, one byte an element. The types of less than eight bits hold
     their value in the low bits; the high ones are not looked at, and are
     copies of the sign (or 0) in what was computed. */
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
  /* Storage types too; those of six bits like those of four. */
  KNAPPER_F8E4M3 = 24,
  KNAPPER_F8E3M4 = 25,
  KNAPPER_F8E4M3B11FNUZ = 26,
  KNAPPER_F6E2M3 = 27,
  KNAPPER_F6E3M2 = 28
} knapper_dtype;
/* Bytes an element takes; 0 for an unknown dtype. */
KNAPPER_API size_t knapper_dtype_size(knapper_dtype dtype);
KNAPPER_API const char *knapper_dtype_name(knapper_dtype dtype);

/* Text of any length: bytes that need not end with a null. Of an input they
 * must stay as they are until the run has ended; of an output they belong to
 * the result, also where the array of knapper_string is the caller's. */
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
/* A rank: the tensor is memory for an output, of `bytes` bytes or less. What a
 * caller gives who knows a bound of the output's size, but not its shape. */
#define KNAPPER_FLAT (-1)

/* ---- operators of your own ----
 * A node of a model whose operator Knapper does not have, and the model does
 * not define as a function, is looked up here by domain and name: when the
 * model is compiled, for the shapes of its results, and when the artefact is
 * loaded, for the function that computes it. It runs on the host; the tensors
 * of a model on a GPU are copied for it, unless it is `on_device`.
 * docs/custom-operators.md has a whole example. */
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
  int32_t count; /* of what the pointer of this kind points to; the others are
                    NULL */
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
  /* 0 while the model is compiled: data is NULL, and a size that only a run
     knows is negative. Equal negative sizes are equal sizes. 1 in a run. */
  int32_t running;
  int32_t num_inputs;
  const knapper_tensor *inputs; /* rank -1: an optional one that is left out */
  int32_t num_outputs;
  const knapper_tensor *outputs; /* NULL for the shape function */
  /* Says why the function returns something else than 0; the text is copied. */
  void (*fail)(const knapper_call *call, const char *message);
  /* Memory for the bytes of strings in `outputs`, until the run has ended; NULL
     when there is none. Of the compute function only. */
  void *(*allocate)(const knapper_call *call, size_t bytes);
  void *internal;
  /* Of an operator `on_device`: the stream that its work belongs to, which may
     be the one that the caller gave the run (CUDA: a CUstream, the legacy
     default stream as CU_STREAM_LEGACY); NULL on a device without streams. */
  void *stream;
};

/* Both functions return 0, or something else for an error, which the caller of
 * the compile or the run gets as a user error with the node's name. They may be
 * called from several threads at once, must not throw, and must not call the
 * module that they run in. */
typedef struct {
  size_t size;
  const char *domain, *name; /* copied */
  /* Fills in dtype and shape of every result, call->num_outputs. A size is a
   * number, a negative one that an input has (the same size), or -1 while the
   * model is compiled: known in the run only, where the function is called
   * again with numbers and data. NULL: every result has the dtype of the first
   * input and the shape that the inputs broadcast to. */
  int (*shape)(void *user, const knapper_call *call,
               knapper_result_shape *results);
  /* Fills the memory of the outputs: dense, row-major, as large as the shape
   * function said; aligned to 16 bytes unless it is the caller's of the run. */
  int (*compute)(void *user, const knapper_call *call);
  void *user; /* given to the functions */
  /* Unless NULL, called with `user` when the operator is registered no more and
   * no loaded module uses it. */
  void (*release)(void *user);
  /* Unless 0, the tensors of a model on a GPU are not copied: `data` is an
   * address of the device. The compute function gives its work to
   * `call->stream` and does not wait for it; while the caller captures that
   * stream, it is called once, and what it gave is replayed. */
  int32_t on_device;
} knapper_operator;
#define KNAPPER_OPERATOR_INIT {sizeof(knapper_operator), 0, 0, 0, 0, 0, 0, 0}

/* Registers an operator for the process, in place of one of the same domain and
 * name; modules that are loaded keep theirs. Thread-safe. Not for operators
 * that Knapper has itself: those are never looked up. */
KNAPPER_API knapper_error *
knapper_register_operator(const knapper_operator *given);
/* A user error when there is no such operator. */
KNAPPER_API knapper_error *knapper_unregister_operator(const char *domain,
                                                       const char *name);
/* 1 when the operator is registered. */
KNAPPER_API int knapper_has_operator(const char *domain, const char *name);
/* Loads a shared object, for as long as the process runs, and calls the
 * function `knapper_operators` that it exports, which registers its operators:
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

/* When the constants of a file are compared with their hashes. A file that was
 * damaged is a user error then; everything else of a file is checked when it is
 * loaded. */
typedef enum {
  KNAPPER_VERIFY_BEFORE_USE = 0, /* each constant before the first launch that
                                    reads it (on GPUs: at load); the run then
                                    fails, its outputs partly written */
  KNAPPER_VERIFY_AT_LOAD = 1,    /* all of them at load, by `threads` threads */
  KNAPPER_VERIFY_NOT = 2         /* never: damage gives other numbers */
} knapper_verify_constants;

typedef struct {
  size_t size;
  int32_t threads;          /* worker threads of this module; 0: the environment
                               variable KNAPPER_THREADS, else one a core that
                               the process may use (affinity, the control
                               group's quota), at most OMP_NUM_THREADS */
  int32_t verify_constants; /* a knapper_verify_constants */
  int32_t spin_microseconds; /* how long idle workers spin before they sleep;
                                -1: default */
  const char *isa;    /* code for this instruction set ("x86-64-v3"); NULL: the
                         environment variable KNAPPER_ISA, else the best that the
                         artefact has and the machine can run */
  const char *device; /* "cpu" or "cuda", of an artefact with code for both;
                         NULL: the environment variable KNAPPER_DEVICE, else a
                         GPU where one is found, else the CPU */
  int32_t describe;   /* 1: where the device is not here the module is loaded
                         all the same: it is described, explained and saved, and
                         refuses to run */
} knapper_load_options;
#define KNAPPER_LOAD_OPTIONS_INIT                                              \
  {sizeof(knapper_load_options), 0, 0, -1, 0, 0, 0}

/* Maps the file; nothing is copied and weights are not touched. options may be
 * NULL. */
KNAPPER_API knapper_error *knapper_load(const char *path,
                                        const knapper_load_options *options,
                                        knapper_module **out);
/* Loads from memory; the bytes are copied. */
KNAPPER_API knapper_error *
knapper_load_memory(const void *bytes, size_t size,
                    const knapper_load_options *options, knapper_module **out);
/* Finishes the module's asynchronous runs first. */
KNAPPER_API void knapper_module_release(knapper_module *module);
/* Writes the artefact: atomically, never a half-written file. */
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
  const int64_t *shape;        /* -1 where the dim is symbolic */
  const char *const *dim_text; /* "batch", "128", "2*seq" */
} knapper_tensor_info;
/* info->size must be set by the caller. */
KNAPPER_API knapper_error *knapper_module_input(const knapper_module *module,
                                                int32_t index,
                                                knapper_tensor_info *info);
KNAPPER_API knapper_error *knapper_module_output(const knapper_module *module,
                                                 int32_t index,
                                                 knapper_tensor_info *info);
/* 1 when the output may be given exactly the input's memory at a run, which
 * then overwrites it: keys and values that grow, a state, the operand of an
 * elementwise model. 0 when not, and for an index that there is not. */
KNAPPER_API int knapper_module_may_replace(const knapper_module *module,
                                           int32_t output, int32_t input);
/* Bytes of planned memory for symbols bound as in names/values (count of them);
 * symbols that the run computes are left out. A user error where one of those
 * decides how large a buffer is. */
KNAPPER_API knapper_error *
knapper_module_peak_memory(const knapper_module *module,
                           const char *const *names, const int64_t *values,
                           int32_t count, uint64_t *arena_bytes,
                           uint64_t *constant_bytes);
/* A JSON document about the module (signature, in-place pairs, kernels,
 * launches, memory, compile phases). Lives as long as the module. */
KNAPPER_API knapper_error *knapper_module_describe(const knapper_module *module,
                                                   const char **json);

/* ---- run ---- */
typedef struct knapper_result knapper_result;
/* Runs the module. inputs: num_inputs tensors in signature order, read only.
 * outputs: NULL, or num_outputs tensors; an entry with data != NULL is written
 * in place: it has the output's dtype and shape, or is of rank KNAPPER_FLAT and
 * has as many bytes or more, of which the first are written. An entry with
 * data == NULL is provided by the module from reused memory. Another shape or
 * dtype is a user error. An output must not overlap an input or another
 * output; it may be exactly the memory of an input that it may replace
 * (knapper_module_may_replace), which is then overwritten, in part also where
 * the run fails or is cancelled.
 * The result owns the memory of provided outputs until it is released. */
KNAPPER_API knapper_error *
knapper_run(knapper_module *module, const knapper_tensor *inputs,
            int32_t num_inputs, const knapper_tensor *outputs,
            int32_t num_outputs, knapper_result **out);
typedef struct {
  size_t size;
  const int32_t *cancel; /* unless NULL, looked at atomically before each
                            launch: where another thread sets it, the run ends
                            with a user error, the outputs partly written */
  int32_t check_only;    /* 1: checks what a run checks before its first launch,
                            and computes nothing. The result has the shapes of
                            the outputs, and the caller's memory as their data:
                            NULL where none was given. A dim that the model
                            computes from data is -1. */
  int32_t in_stream;        /* 1: the run takes its place in `stream`, a stream
                               of the module's device: it starts after the work
                               that the stream has, and the call returns when
                               the run is queued. Inputs and given outputs must
                               stay until the stream has done it; outputs that
                               the module provides are waited for. What kernels
                               find wrong (an index out of range) is the error
                               of a later run of the module. Works while the
                               stream is captured, once the sizes have been run:
                               replays use memory of their own, which the module
                               keeps until it is freed; free it after the graph.
                               On a CPU a user error. */
  void *stream;             /* of in_stream; CUDA: a CUstream, NULL is the legacy
                               default stream */
  char **profile;           /* unless NULL, a clock is around every launch, and
                               the JSON of knapper_profile is put here; not with
                               check_only or in_stream */
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

/* The same, without waiting: the event completes when the outputs are written.
 * Inputs and given outputs must stay alive until then. */
typedef struct knapper_event knapper_event;
KNAPPER_API knapper_error *
knapper_run_async(knapper_module *module, const knapper_tensor *inputs,
                  int32_t num_inputs, const knapper_tensor *outputs,
                  int32_t num_outputs, knapper_event **out);
/* Waits, then hands out the result (or the error of the run). Releases the
 * event. */
KNAPPER_API knapper_error *knapper_event_wait(knapper_event *event,
                                              knapper_result **out);
/* Waits at most so many nanoseconds; 1 when the run has ended, and a wait would
 * not block. The event is still to be waited for. */
KNAPPER_API int knapper_event_wait_for(const knapper_event *event,
                                       int64_t nanoseconds);
/* 1 when a wait would not block. */
KNAPPER_API int knapper_event_done(const knapper_event *event);
/* Asks the run to end: before its next launch, or before it begins, with a user
 * error. A run that has ended keeps its result. The event is still to be waited
 * for. */
KNAPPER_API void knapper_event_cancel(knapper_event *event);

/* Runs once with a clock around every launch; *json is released with
 * knapper_string_release:
 * {"launches": [{"kernel", "origin", "schedule", "executions", "index", "ns",
 * "flops", "bytes"}], "events": [{"launch", "start_ns", "ns", "flops",
 * "bytes"}], "total_ns", "isa", "sizes"}; the events are the executions of the
 * launches, in order; "index" is the launch's place in what
 * knapper_module_describe lists, from their number on that of an operator of
 * the host's. */
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
  /* Unless NULL, set to a string that knapper_string_release frees (or NULL):
   * the program after the phase that "stop-after" names; and what the compile
   * did as JSON: phases with seconds, launches, kernels, variants, bytes. */
  char **stopped_text;
  char **stats_json;
  /* Unless NULL, looked at atomically before each phase and kernel: where
   * another thread (or `progress`) sets it, the compile ends with a user error
   * and writes nothing. */
  const int32_t *cancel;
} knapper_compile_options;
#define KNAPPER_COMPILE_OPTIONS_INIT                                           \
  {sizeof(knapper_compile_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* Compiles and, unless out is NULL, loads the result. */
KNAPPER_API knapper_error *
knapper_compile(const knapper_compile_options *options,
                const knapper_load_options *load, knapper_module **out);
/* What a model needs, without compiling: JSON with signature, sizes, operators
 * by name, opset and dtype, and those that are not supported. Release with
 * knapper_string_release. */
KNAPPER_API knapper_error *
knapper_inspect(const knapper_compile_options *options, char **json);
/* The model as portable StableHLO text, for other accelerators' compilers.
 * Every size must be a number (option "dim"); what StableHLO has no spelling
 * for is a user error that lists it. Release with knapper_string_release. */
KNAPPER_API knapper_error *
knapper_translate(const knapper_compile_options *options, char **text);
/* The self-contained HTML report of a module. Release with
 * knapper_string_release. */
KNAPPER_API knapper_error *knapper_explain(const knapper_module *module,
                                           char **html);
typedef struct {
  size_t size;
  /* 1: runs the module on `inputs` (num_inputs in the order of the signature),
   * once to warm up and then `runs` times: the report has the medians of each
   * kernel's times, their shares of the machine's peaks (as knapper_devices
   * measures them) and what would make the kernels faster. What follows is for
   * these runs. */
  int32_t profile;
  int32_t num_inputs;
  const knapper_tensor *inputs;
  int64_t runs;   /* 1 to 1000; 0: as many as fit `seconds`, 3 to 50 */
  double seconds; /* 0: one second; at most 3600 */
  /* Unless NULL, another module with the same inputs (another artefact of the
   * model), which runs interleaved with this one: the report compares their
   * kernels. */
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
 * be NULL; release both with knapper_string_release. *json is what the page is
 * made of: the JSON of knapper_module_describe and, of profiled runs, "profile"
 * (times in microseconds, by launch and by kernel, the longest first) and
 * "comparison". Any number of threads may call it; runs of other threads
 * disturb the times. */
KNAPPER_API knapper_error *
knapper_explain_with(knapper_module *module,
                     const knapper_explain_options *options, char **html,
                     char **json);

/* Compiles the model, runs it on the inputs (num_inputs in the order of the
 * signature), and checks every kernel against a slow evaluation in double
 * precision on the very values that the kernel read. Release *json with
 * knapper_string_release:
 * {"kernels": [{"origin", "hero", "error", "bound", "passed", "worst"}],
 * "first_divergent": index or null, "reproducer": {"program": tensor IR,
 * "inputs": [{"dtype": a knapper_dtype, "shape", "base64"}]} or null, of the
 * first that diverges}. A kernel that diverges is no error. */
KNAPPER_API knapper_error *
knapper_verify(const knapper_compile_options *options,
               const knapper_tensor *inputs, int32_t num_inputs, char **json);

/* ---- quantise ---- */
typedef struct {
  size_t size;
  /* "int8" or "int4": the weights of matmuls alone (the options
   * "weight-group" and "weight-zero-points" of the compile say how). NULL:
   * static, matmuls of bytes whose ranges come from calibration data. */
  const char *weights_only;
  const char *range; /* "minmax" (NULL), "percentile" or "error": which numbers
                        of an activation its bytes stand for */
  double percentile; /* of "percentile", in (0, 100]; 0: 99.99 */
  const char *activations; /* "u8" (NULL), or "i8" around 0 */
  const char *const *keep; /* names of nodes (or of their results) that stay
                              float */
  int32_t num_keep;
  /* Calibration data, which the accuracy is measured on too: static
   * quantisation needs at least one sample. sample(user, index, model, inputs)
   * fills one entry an input of `model`, whose signature tells their names and
   * order; what they point to must live until the next call. It is called more
   * than once for an index, from the calling thread. Not 0: it failed, and the
   * quantisation ends. */
  int32_t num_samples;
  int (*sample)(void *user, int32_t index, const knapper_module *model,
                knapper_tensor *inputs);
  void *sample_user;
  const char *const *sample_names; /* for messages; NULL: "sample 3" */
} knapper_quantize_options;
#define KNAPPER_QUANTIZE_OPTIONS_INIT                                          \
  {sizeof(knapper_quantize_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* Quantises a model and writes output_path: an artefact (.knap), or an ONNX
 * model with QuantizeLinear and DequantizeLinear (.onnx). With out, which needs
 * an artefact, it is loaded. Unless NULL, *json is set to a string that
 * knapper_string_release frees: {"artefact_bytes", "float_bytes", "samples",
 * "outputs": [{"name", "relative_rms", "decibels", ...}], "layers": [{"name",
 * "operator", "input", "low", "high", "scale", "zero_point", "alone": {..},
 * "together": {..}}], "kept": [{"name", "operator", "why"}]}. */
KNAPPER_API knapper_error *knapper_quantize(
    const knapper_compile_options *options, const knapper_quantize_options *how,
    const knapper_load_options *load, knapper_module **out, char **json);

/* ---- devices ---- */
/* JSON: [{"device": "cpu", "name", "isa", "cores", "fma_gflops", "copy_gbps",
 * ...}]. measure != 0 measures the peaks (a second; cached per machine). */
KNAPPER_API knapper_error *knapper_devices(int measure, char **json);

#ifdef __cplusplus
}
#endif
#endif /* KNAPPER_KNAPPER_H */
