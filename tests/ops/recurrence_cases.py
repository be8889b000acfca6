"""Recurrent cells and all of their steps (ts.recurrence)."""

from case_list import case, In, np_, T, wide

# Reduced types round each value of the reference, and only what is stored of ours.
NEAR = {"f32": "relative 2e-5", "f16": "relative 6e-3", "bf16": "relative 4e-2"}


def sigmoid(x):
    return 1 / (1 + np_().exp(-x))


def walk(cell, states, sequences, reverse, outputs):
    """NumPy's steps: `cell` gives the next states, then an output a flag."""
    np = np_()
    states = [wide(s) for s in states]
    count = len(sequences[0])
    collected = [[None] * count for _ in outputs]
    for step in range(count):
        rows = [wide(s[count - 1 - step if r else step]) for s, r in zip(sequences, reverse)]
        values = cell(states, rows)
        states = values[:len(states)]
        for into, value, backwards in zip(collected, values[len(states):], outputs):
            into[count - 1 - step if backwards else step] = value
    empty = np.zeros((0, *states[0].shape))
    return states + [np.stack(c) if count else empty for c in collected]


def flags(values):
    return "[" + ", ".join("true" if v else "false" for v in values) + "]"


def recurrence(name, dtype, units, states, matmuls, body, cell, sizes, reverse=False, width=None, transposed=False, sources=None):
    """`matmuls` weights [H, H], a sequence [t, b, width] and as many states: `body` computes %n0, %n1, ... (the next states) from
    %h0.., %x, %p0.. = h0 (or the state in `sources`) times a weight; the first one is the output, too."""
    sources = sources or [0] * matmuls
    width = width or units * matmuls
    h, x, w = T(dtype, "b", units), T(dtype, "t", "b", width), T(dtype, units, units)
    one, out = T(dtype, "b", width), T(dtype, "t", "b", units)
    inputs = [In("x", x)] + [In(f"s{i}", h, "unit") for i in range(states)] + [In(f"w{i}", w, "unit") for i in range(matmuls)]
    scale = units ** -0.5
    text = f"%c = ts.constant dense<{scale}> : tensor<{dtype}>\n  %f = ts.broadcast %c [] : tensor<{dtype}> to {w}\n"
    for i in range(matmuls):
        text += f"  %v{i} = ts.mul %w{i}, %f : {w}\n"
    hs, vs = [f"%s{i}" for i in range(states)], [f"%v{i}" for i in range(matmuls)]
    results = [f"%r{i}" for i in range(states + 1)]
    text += (f"  %r:{states + 1} = ts.recurrence steps <\"t\"> states({', '.join(hs)} : {', '.join([str(h)] * states)}) sequences(%x : {x}) "
             f"reversed {flags([reverse])} weights({', '.join(vs)} : {', '.join([str(w)] * matmuls)}) outputs {flags([reverse])} "
             f"to({', '.join([str(h)] * states)}, {out}) {{\n")
    arguments = [f"%h{i}: {h}" for i in range(states)] + [f"%xt: {one}"] + [f"%u{i}: {w}" for i in range(matmuls)]
    text += f"  ^bb0({', '.join(arguments)}):\n"
    for i in range(matmuls):
        text += f"    %p{i} = ts.dot %h{sources[i]}, %u{i} batch [] x [] contract [1] x [{0 if transposed else 1}] : {h}, {w}\n"
    if width > units:
        for i in range(width // units):
            text += f"    %x{i} = ts.slice %xt [#ts.dim<0>, #ts.dim<{i * units}>] [1, 1] : {one} to {h}\n"
    for line in body.strip().splitlines():
        text += f"    {line.strip()} : {h}\n"
    nexts = [f"%n{i}" for i in range(states)] + ["%n0"]
    text += f"    ts.next {', '.join(nexts)} : {', '.join([str(h)] * (states + 1))}\n  }}\n"
    for i, r in enumerate(results):
        kind = h if i < states else out
        text += f"  {r} = ts.neg %r#{i} : {kind}\n"

    def numpy(**named):
        matrices = [wide(named[f"w{i}"]) * scale for i in range(matmuls)]

        def step(now, rows):
            sums = [now[s] @ (m if transposed else m.T) for s, m in zip(sources, matrices)]
            parts = [rows[0][:, i * units:(i + 1) * units] for i in range(width // units)]
            after = cell(now, parts, sums)
            return after + [after[0]]

        walked = walk(step, [named[f"s{i}"] for i in range(states)], [named["x"]], [reverse], [reverse])
        return tuple(-v for v in walked)

    case(f"recurrence {name} {units} {dtype}", inputs, text, [h] * states + [out], sizes, numpy if dtype == "f32" else None, NEAR[dtype])


RNN = """%a = ts.add %xt, %p0
         %n0 = ts.tanh %a"""
GRU = """%a = ts.add %x0, %p0
         %z = ts.sigmoid %a
         %b = ts.add %x1, %p1
         %q = ts.sigmoid %b
         %d = ts.mul %q, %p2
         %e = ts.add %x2, %d
         %g = ts.tanh %e
         %k = ts.sub %h0, %g
         %l = ts.mul %z, %k
         %n0 = ts.add %g, %l"""
LSTM = """%a = ts.add %x0, %p0
          %i = ts.sigmoid %a
          %b = ts.add %x1, %p1
          %o = ts.sigmoid %b
          %d = ts.add %x2, %p2
          %q = ts.sigmoid %d
          %e = ts.add %x3, %p3
          %g = ts.tanh %e
          %k = ts.mul %q, %h1
          %l = ts.mul %i, %g
          %n1 = ts.add %k, %l
          %m = ts.tanh %n1
          %n0 = ts.mul %o, %m"""


COUPLED = """%a = ts.add %xt, %p0
             %b = ts.sub %p1, %p0
             %n0 = ts.tanh %b
             %n1 = ts.tanh %a"""


def rnn(now, x, p):
    return [np_().tanh(x[0] + p[0])]


def coupled(now, x, p):
    return [np_().tanh(p[1] - p[0]), np_().tanh(x[0] + p[0])]


def gru(now, x, p):
    z, q = sigmoid(x[0] + p[0]), sigmoid(x[1] + p[1])
    g = np_().tanh(x[2] + q * p[2])
    return [g + z * (now[0] - g)]


def lstm(now, x, p):
    i, o, q = sigmoid(x[0] + p[0]), sigmoid(x[1] + p[1]), sigmoid(x[2] + p[2])
    c = q * now[1] + i * np_().tanh(x[3] + p[3])
    return [o * np_().tanh(c), c]


STEPS = [dict(t=0, b=2), dict(t=1, b=1), dict(t=2, b=3), dict(t=9, b=5), dict(t=4, b=0), dict(t=3, b=150)]
FEW = [dict(t=1, b=1), dict(t=6, b=4)]
for dtype in ["f32", "f16", "bf16"]:
    # A thread a unit and several, runs of one weight and of four, units that no slice divides.
    for units in [1, 5, 31, 36, 64]:
        recurrence("rnn", dtype, units, 1, 1, RNN, rnn, STEPS, reverse=units == 31)
        recurrence("gru", dtype, units, 1, 3, GRU, gru, STEPS if units == 36 else FEW)
        recurrence("lstm", dtype, units, 2, 4, LSTM, lstm, STEPS if units == 64 else FEW, reverse=units == 36)
    recurrence("rnn transposed", dtype, 40, 1, 1, RNN, rnn, FEW, transposed=True)
    # Two states are multiplied.
    for units in [36, 31, 200]:
        recurrence("coupled", dtype, units, 2, 2, COUPLED, coupled, STEPS if units == 36 else FEW, width=units, sources=[0, 1])
    # Shared out to the CTAs of a cluster.
    for units in [128, 200, 250, 320]:
        recurrence("gru", dtype, units, 1, 3, GRU, gru, FEW, reverse=units == 200)
        recurrence("lstm", dtype, units, 2, 4, LSTM, lstm, FEW)
