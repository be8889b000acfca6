"""Random sequences of calls of the plugin's functions, as a client of OpenXLA may make
them: arrays in and out, runs, donation, deletions, events, with wrong arguments among
them.

    python tests/stablehlo/plugin_calls.py [--first SEED] [--count N]

A sequence has a seed, and its number is printed before a crash could happen: go on
with --first. Every element that comes back is compared; at the end of a sequence all
memory is free and every event has called. A call that takes a minute ends the process
with its stack.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import random
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python"), str(Path(__file__).resolve().parent)]

import numpy as np  # noqa: E402
from plugin_table import PluginError, Table, plugin_path  # noqa: E402

F32, S32 = 11, 4
SIZES = (0, 8, 60000)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def single(function: str, size: int, donated: bool) -> bytes:
    array = f"tensor<{size}xf32>"
    given = " {tf.aliasing_output = 0 : i32}" if donated else ""
    return f"module @m {{ func.func public @main(%x: {array}{given}) -> {array} {{\n{function.replace('ARRAY', array)}\n return %r : {array} }} }}".encode()


DOUBLE = """%c = stablehlo.constant dense<2.0> : ARRAY
 %m = stablehlo.multiply %x, %c : ARRAY
 %o = stablehlo.constant dense<1.0> : ARRAY
 %r = stablehlo.add %m, %o : ARRAY"""
# 400 times y / 2 + 1: long enough to go on after its call
LONG = """%h = stablehlo.constant dense<0.5> : ARRAY
 %o = stablehlo.constant dense<1.0> : ARRAY
 %i = stablehlo.constant dense<0> : tensor<i32>
 %n = stablehlo.constant dense<400> : tensor<i32>
 %e = stablehlo.constant dense<1> : tensor<i32>
 %w:2 = stablehlo.while(%a = %i, %y = %x) : tensor<i32>, ARRAY
 cond { %t = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %t : tensor<i1> }
 do { %b = stablehlo.add %a, %e : tensor<i32>
  %z = stablehlo.multiply %y, %h : ARRAY
  %u = stablehlo.add %z, %o : ARRAY
  stablehlo.return %b, %u : tensor<i32>, ARRAY }
 %r = stablehlo.add %w#1, %o : ARRAY"""


def long_value(x):
    for _ in range(400):
        x = np.float32(x * np.float32(0.5) + np.float32(1))
    return np.float32(x + np.float32(1))


class Array:
    """A buffer that lives, and the number that all its elements have."""

    def __init__(self, handle, size, value):
        self.handle, self.size, self.value = handle, size, value
        self.deleted = False
        self.held = 0


class Session:
    """One client and its programs; sequences use it one after the other."""

    def __init__(self):
        self.table = Table()
        library = str(plugin_path()[1]).encode()
        self.kept = [library]
        option = (ctypes.c_void_p * 7)(56, None, self.text(b"library"), 7, 0, self.text(library), len(library))
        self.client = self.table.call("Client_Create", create_options=ctypes.addressof(option), num_options=1).client
        devices = self.table.call("Client_AddressableDevices", client=self.client)
        self.device = ctypes.cast(devices.addressable_devices, ctypes.POINTER(ctypes.c_void_p))[0]
        self.memory = self.table.call("Device_DefaultMemory", device=self.device).memory
        self.programs = []
        for size in SIZES:
            for function, value in ((DOUBLE, lambda x: np.float32(x * 2 + 1)), (LONG, long_value)):
                for donated in (False, True):
                    code = single(function, size, donated)
                    self.programs.append((self.compile(code), size, value, donated))

    def text(self, data: bytes):
        self.kept.append(data)
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value

    def compile(self, code: bytes):
        program = (ctypes.c_void_p * 6)(48, None, self.text(code), len(code), self.text(b"mlir"), 4)
        return self.table.call("Client_Compile", client=self.client, program=ctypes.addressof(program)).executable

    def in_use(self) -> int:
        return self.table.call("Device_MemoryStats", device=self.device).bytes_in_use


class Sequence:
    def __init__(self, session: Session, seed: int):
        self.s, self.call, self.choose = session, session.table.call, random.Random(seed)
        self.arrays: list[Array] = []
        self.events: list = []
        self.hosts: list = []
        self.awaited, self.called = 0, 0
        self.callback = CALLBACK(self.ready)

    def ready(self, error, _user):
        if error:
            self.s.table.taken(error)
        self.called += 1

    def array(self, **wanted):
        living = [a for a in self.arrays if all(getattr(a, k) == v for k, v in wanted.items())]
        return self.choose.choice(living) if living else None

    def event(self, handle, waits=True):
        """An event is waited for, asked, called by or left alone, and destroyed now or at the end."""
        how = self.choose.randrange(4) if waits else 1
        if how == 0:
            self.call("Event_Await", event=handle)
        elif how == 1:
            self.awaited += 1
            self.call("Event_OnReady", event=handle, callback=ctypes.cast(self.callback, ctypes.c_void_p).value)
        elif how == 2 and self.call("Event_IsReady", event=handle).is_ready:
            self.call("Event_Error", event=handle)
        if self.choose.random() < 0.5:
            self.call("Event_Destroy", event=handle)
        else:
            self.events.append(handle)

    def expect(self, good: bool, name: str, **values):
        """Calls; what is wrong must be refused, and nothing else."""
        try:
            made = self.call(name, **values)
        except PluginError as error:
            assert not good, (name, str(error))
            assert len(str(error)) > 10, (name, str(error))
            return None
        assert good, name
        return made

    # What there is to do, each as often as it is named in `STEPS`.

    def host_array(self):
        size = self.choose.choice(SIZES)
        value = np.float32(self.choose.randrange(-50, 50))
        host = np.full(size, value, np.float32)
        dims = (ctypes.c_int64 * 1)(size)
        wrong = self.choose.random() < 0.1
        broken = self.choose.choice([{"type": 0}, {"type": 23}, {"num_dims": 100}, {"num_byte_strides": 2, "byte_strides": ctypes.addressof(dims)}]) if wrong else {}
        if self.choose.random() < 0.2 and not wrong:
            dims[0] = -size - 1
            wrong = True
        values = {"client": self.s.client, "data": host.ctypes.data, "type": F32, "dims": ctypes.addressof(dims), "num_dims": 1,
                  "host_buffer_semantics": self.choose.randrange(3), "memory": self.s.memory} | broken  # fmt: skip
        made = self.expect(not wrong, "Client_BufferFromHostBuffer", **values)
        if made:
            self.hosts.append(host)
            self.arrays.append(Array(made.buffer, size, value))
            # In place, it is done when the array is gone.
            self.event(made.done_with_host_buffer, waits=values["host_buffer_semantics"] != 2)

    def run(self):
        executable, size, function, donated = self.choose.choice(self.s.programs)
        array = self.array() if self.choose.random() < 0.1 else self.array(size=size) or self.array()
        count = self.choose.choice((0, 2)) if self.choose.random() < 0.05 else 1
        if not array:
            return
        keeps = self.choose.random() < 0.3
        index = (ctypes.c_int64 * 1)(0)
        options = self.s.table.make("ExecuteOptions", non_donatable_input_indices=ctypes.addressof(index), num_non_donatable_input_indices=int(keeps))
        arguments = (ctypes.c_void_p * 2)(array.handle, array.handle)
        lists = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        results, events = (ctypes.c_void_p * 1)(), (ctypes.c_void_p * 1)()
        into = (ctypes.c_void_p * 1)(ctypes.addressof(results))
        asks = self.choose.random() < 0.7
        good = not array.deleted and array.size == size and count == 1
        made = self.expect(good, "LoadedExecutable_Execute", executable=executable, options=ctypes.addressof(options), argument_lists=ctypes.addressof(lists),
                           num_devices=1, num_args=count, output_lists=ctypes.addressof(into),
                           device_complete_events=ctypes.addressof(events) if asks else None)  # fmt: skip
        if not made:
            return
        self.arrays.append(Array(results[0], size, function(array.value)))
        if donated and not keeps:
            array.deleted = True
        if asks:
            self.event(events[0])

    def read(self):
        array = self.array()
        if not array:
            return
        host = np.full(array.size + 1, 77, np.float32)
        short = bool(array.size) and self.choose.random() < 0.1
        good = not array.deleted and not short
        if self.choose.random() < 0.5:
            made = self.expect(good, "Buffer_ToHostBuffer", src=array.handle, dst=host.ctypes.data, dst_size=array.size * 4 - short)
        else:
            made = self.expect(good, "Buffer_CopyRawToHost", buffer=array.handle, dst=host.ctypes.data, offset=int(short), transfer_size=array.size * 4)
        if made:
            self.call("Event_Await", event=made.event)
            self.call("Event_Destroy", event=made.event)
            assert (host[:-1] == array.value).all() and host[-1] == 77, (host[:3], array.value)

    def look(self):
        """Without a copy, as NumPy does; the memory stays also when the array is deleted."""
        array = self.array(held=0)
        if not array:
            return
        self.call("Buffer_IncreaseExternalReferenceCount", buffer=array.handle)
        array.held = 1
        made = self.expect(not array.deleted, "Buffer_OpaqueDeviceMemoryDataPointer", buffer=array.handle)
        if made and array.size:
            if self.choose.random() < 0.5:
                self.call("Buffer_Delete", buffer=array.handle)
                array.deleted = True
            seen = np.ctypeslib.as_array(ctypes.cast(made.device_memory_ptr, ctypes.POINTER(ctypes.c_float)), (array.size,))
            assert (seen == array.value).all(), (seen[:3], array.value)

    def let_go(self):
        array = self.array(held=1)
        if array:
            self.call("Buffer_DecreaseExternalReferenceCount", buffer=array.handle)
            array.held = 0

    def copy(self):
        array = self.array()
        if not array:
            return
        if self.choose.random() < 0.5:
            made = self.expect(not array.deleted, "Buffer_CopyToDevice", buffer=array.handle, dst_device=self.s.device)
        else:
            made = self.expect(not array.deleted, "Buffer_CopyToMemory", buffer=array.handle, dst_memory=self.s.memory)
        if made:
            self.arrays.append(Array(made.dst_buffer, array.size, array.value))

    def wait(self):
        array = self.array()
        if array:
            made = self.expect(not array.deleted, "Buffer_ReadyEvent", buffer=array.handle)
            if made:
                self.event(made.event)

    def ask(self):
        array = self.array()
        if not array:
            return
        assert self.call("Buffer_IsDeleted", buffer=array.handle).is_deleted == array.deleted
        dims = self.call("Buffer_Dimensions", buffer=array.handle)
        assert dims.num_dims == 1 and ctypes.c_int64.from_address(dims.dims).value == array.size
        assert self.call("Buffer_ElementType", buffer=array.handle).type == F32

    def delete(self):
        array = self.array()
        if array:
            self.call("Buffer_Delete", buffer=array.handle)  # also twice
            array.deleted = True

    def destroy(self):
        array = self.array(held=0)
        if array:
            self.arrays.remove(array)
            self.call("Buffer_Destroy", buffer=array.handle)

    def own_event(self):
        handle = self.call("Event_Create").event
        self.awaited += 1
        self.call("Event_OnReady", event=handle, callback=ctypes.cast(self.callback, ctypes.c_void_p).value)
        self.call("Event_Set", event=handle, error_code=self.choose.choice((0, 13)), error_message=None, error_message_size=0)
        self.expect(False, "Event_Set", event=handle, error_code=0, error_message=None, error_message_size=0)
        self.call("Event_Destroy", event=handle)

    def program(self):
        if self.choose.random() < 0.9:  # compiling takes long
            return
        code = bytearray(single(DOUBLE, 8, False))
        for _ in range(self.choose.randrange(1, 4)):
            code[self.choose.randrange(len(code))] = self.choose.randrange(256)
        try:
            made = self.s.compile(bytes(code))
        except PluginError as error:
            assert len(str(error)) > 10
            return
        self.call("LoadedExecutable_Delete", executable=made)
        assert self.call("LoadedExecutable_IsDeleted", executable=made).is_deleted
        self.call("LoadedExecutable_Destroy", executable=made)

    STEPS = (host_array,) * 4 + (run,) * 8 + (read,) * 4 + (look, let_go, copy, wait, ask, delete, destroy, own_event, program)

    def play(self) -> None:
        for _ in range(self.choose.randrange(5, 60)):
            self.choose.choice(self.STEPS)(self)
        for array in self.arrays:
            if self.choose.random() < 0.5 and not array.deleted:  # else it goes while its run goes on
                self.call("Event_Await", event=self.keep(self.call("Buffer_ReadyEvent", buffer=array.handle).event))
            if array.held:
                self.call("Buffer_DecreaseExternalReferenceCount", buffer=array.handle)
            self.call("Buffer_Destroy", buffer=array.handle)
        for event in self.events:
            self.call("Event_Await", event=event)
            self.call("Event_Destroy", event=event)
        self.drain()
        assert self.called == self.awaited, f"{self.awaited} events were to call, {self.called} did"
        assert self.s.in_use() == 0, f"{self.s.in_use()} bytes are left"

    def keep(self, event):
        self.events.append(event)
        return event

    def drain(self):
        """Runs are in order: when a last one has ended, all have."""
        executable = next(p[0] for p in self.s.programs if p[1] == SIZES[-1] and p[2] is long_value and not p[3])
        host, dims = np.zeros(SIZES[-1], np.float32), (ctypes.c_int64 * 1)(SIZES[-1])
        made = self.call("Client_BufferFromHostBuffer", client=self.s.client, data=host.ctypes.data, type=F32, dims=ctypes.addressof(dims), num_dims=1, memory=self.s.memory)
        arguments, results, events = (ctypes.c_void_p * 1)(made.buffer), (ctypes.c_void_p * 1)(), (ctypes.c_void_p * 1)()
        lists, into = (ctypes.c_void_p * 1)(ctypes.addressof(arguments)), (ctypes.c_void_p * 1)(ctypes.addressof(results))
        self.call("LoadedExecutable_Execute", executable=executable, argument_lists=ctypes.addressof(lists), num_devices=1, num_args=1,
                  output_lists=ctypes.addressof(into), device_complete_events=ctypes.addressof(events))  # fmt: skip
        self.call("Event_Await", event=events[0])
        for event in (events[0], made.done_with_host_buffer):
            self.call("Event_Destroy", event=event)
        for buffer in (made.buffer, results[0]):
            self.call("Buffer_Destroy", buffer=buffer)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    arguments = parser.parse_args()
    session = Session()
    for seed in range(arguments.first, arguments.first + arguments.count):
        print(f"\r{seed}", end="", flush=True)
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            Sequence(session, seed).play()
        except BaseException:
            print(f"\nsequence {seed} fails; again with --first {seed} --count 1")
            raise
    faulthandler.cancel_dump_traceback_later()
    print(f"\r{arguments.count} sequences from {arguments.first} on: 0 crashes, 0 hangs, nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
