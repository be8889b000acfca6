"""Loop nests in C as anyone would write them, compiled by clang -O3
-march=native: what no kernel may be slower than. Their calls and those of
compiled models are timed in C: what an interpreter reads between two of them
would have to be read again after each kernel that fills the caches.

A nest is the body of `void f(const void *const *in, float *out, long begin,
long end)`, which does the steps from `begin` to before `end` of its outermost
loop; several threads get equal parts of them.
"""

from __future__ import annotations

import ctypes
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

PRELUDE = """
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*Nest)(const void *const *in, float *out, long begin, long end);

static Nest nest;
static const void *const *in;
static float *out;
static long steps;
static int threads = 1;
static atomic_int turn, done, stopping;
static pthread_t workers[256];

static void part(int worker) {
  nest(in, out, steps * worker / threads, steps * (worker + 1) / threads);
}
static void *work(void *number) {
  for (int seen = 0;;) {
    while (atomic_load_explicit(&turn, memory_order_acquire) == seen)
      __builtin_ia32_pause();
    ++seen;
    if (atomic_load(&stopping))
      return 0;
    part((int)(intptr_t)number);
    atomic_fetch_add_explicit(&done, 1, memory_order_release);
  }
}
/* Workers spin from begin to finish, on other cores than the caller's. */
void begin(Nest f, const void *const *inputs, float *output, long count, int n) {
  nest = f, in = inputs, out = output, steps = count, threads = n;
  atomic_store(&turn, 0), atomic_store(&stopping, 0);
  cpu_set_t cores;
  sched_getaffinity(0, sizeof cores, &cores);
  if (CPU_COUNT(&cores) >= n)
    CPU_CLR(sched_getcpu(), &cores);
  for (int i = 1; i < n; ++i) {
    pthread_create(&workers[i], 0, work, (void *)(intptr_t)i);
    pthread_setaffinity_np(workers[i], sizeof cores, &cores);
  }
}
void run(void) {
  atomic_store_explicit(&done, 0, memory_order_relaxed);
  atomic_fetch_add_explicit(&turn, 1, memory_order_release);
  part(0);
  while (atomic_load_explicit(&done, memory_order_acquire) < threads - 1)
    __builtin_ia32_pause();
}
void finish(void) {
  atomic_store(&stopping, 1);
  atomic_fetch_add(&turn, 1);
  for (int i = 1; i < threads; ++i)
    pthread_join(workers[i], 0);
}

/* knapper_run and knapper_result_release, with their arguments. */
struct model {
  void *(*run)(void *, const void *, int32_t, const void *, int32_t, void **);
  void (*release)(void *);
  void *module;
  const void *inputs, *outputs;
  int32_t num_inputs, num_outputs;
};
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
/* The seconds of each call of a model, or (null) of `run`, until `seconds` are
   over, three at least and `most` at most. Returns how many; -1: an error. */
long time_calls(const struct model *model, double seconds, double *times, long most) {
  long count = 0;
  for (double start = now(), end = start + seconds; count < most;) {
    if (model) {
      void *result = 0;
      if (model->run(model->module, model->inputs, model->num_inputs, model->outputs,
                     model->num_outputs, &result))
        return -1;
      model->release(result);
    } else {
      run();
    }
    double stop = now();
    times[count++] = stop - start;
    if (stop >= end && count >= 3)
      break;
    start = now();
  }
  return count;
}
"""


class Model(ctypes.Structure):
    _fields_ = [
        ("run", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("module", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("num_inputs", ctypes.c_int32),
        ("num_outputs", ctypes.c_int32),
    ]


class Nests:
    """Compiled nests. `bodies`: C by name."""

    def __init__(self, bodies: dict[str, str], folder: Path):
        names = ("clang-22", "clang", "clang-21", "clang-20")
        compiler = next(filter(None, map(shutil.which, names)), None)
        if not compiler:
            raise FileNotFoundError("clang is missing: naive loop nests need it")
        source, binary = folder / "nests.c", folder / "nests.so"
        head = "(const void *const *in, float *restrict y, long begin, long end)"
        source.write_text(
            PRELUDE + "".join(f"void {n}{head} {{\n{b}\n}}\n" for n, b in bodies.items())
        )
        subprocess.run(
            [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-pthread"]
            + ["-o", binary, source, "-lm"],
            check=True,
        )
        self.library = ctypes.CDLL(str(binary))
        self.library.time_calls.restype = ctypes.c_long
        self.times = (ctypes.c_double * 200_000)()

    def seconds(self, model: Model | None, seconds: float) -> float:
        """The median time of a call, after two to warm up: of a model, or of
        the nest that is bound."""
        pointer = ctypes.byref(model) if model else None
        for limit in (0.0, seconds):
            count = self.library.time_calls(
                pointer, ctypes.c_double(limit), self.times, ctypes.c_long(len(self.times))
            )
            if count < 0:
                raise RuntimeError("a run failed")
        return statistics.median(self.times[:count])

    def bind(
        self, name: str, inputs: Sequence[np.ndarray], y: np.ndarray, steps: int, threads: int
    ) -> Bound:
        return Bound(self.library, name, inputs, y, steps, threads)


class Bound:
    """A nest with its arrays; to be called or timed inside `with`."""

    def __init__(self, library, name, inputs, y, steps, threads):
        self.library, self.held = library, (inputs, y)
        pointers = (ctypes.c_void_p * len(inputs))(*(a.ctypes.data for a in inputs))
        self.arguments = (
            ctypes.cast(getattr(library, name), ctypes.c_void_p),
            pointers,
            ctypes.c_void_p(y.ctypes.data),
            ctypes.c_long(steps),
            ctypes.c_int(max(1, min(threads, steps))),
        )
        self.call = library.run

    def __enter__(self):
        self.library.begin(*self.arguments)
        return self.call

    def __exit__(self, *_):
        self.library.finish()
