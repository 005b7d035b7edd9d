#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Cause traps through libibumad, as a program of the host:

    umad_misuse.py qkey LID    send a MAD with a wrong Q_Key to QP1 of a LID (its trap is 258)
    umad_misuse.py issm        set IsSM of the own port, and clear it (trap 144)
"""
import ctypes
import os
import sys

MAD_BYTES = 256
PERF_CLASS, GET, PORT_COUNTERS = 4, 1, 0x12
WRONG_QKEY = 0x1234


def mad():
    header = bytes([1, PERF_CLASS, 1, GET]) + bytes(4) + (7).to_bytes(8, "big")
    return (header + PORT_COUNTERS.to_bytes(2, "big")).ljust(MAD_BYTES, b"\0")


def send_with_qkey(umad, lid):
    port = umad.umad_open_port(None, 1)
    agent = umad.umad_register(port, PERF_CLASS, 1, 0, None)
    buffer = ctypes.create_string_buffer(umad.umad_size() + MAD_BYTES)
    umad.umad_get_mad.restype = ctypes.c_void_p
    ctypes.memmove(umad.umad_get_mad(buffer), mad(), MAD_BYTES)
    umad.umad_set_addr(buffer, lid, 1, 0, ctypes.c_uint32(WRONG_QKEY))
    if agent < 0 or umad.umad_send(port, agent, buffer, MAD_BYTES, 0, 0):
        sys.exit("the MAD is not sent")
    umad.umad_close_port(port)


def set_issm(umad):
    path = ctypes.create_string_buffer(256)
    if umad.umad_get_issm_path(None, 1, path, len(path)):
        sys.exit("the port has no IsSM file")
    os.close(os.open(path.value, os.O_RDONLY | os.O_NONBLOCK))


library = ctypes.CDLL("libibumad.so.3")
library.umad_init()
if sys.argv[1] == "qkey":
    send_with_qkey(library, int(sys.argv[2]))
else:
    set_issm(library)
