#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Make another kind of program of a 64-bit one: elf_edit.py FROM TO CHANGE"""
import struct
import sys


def segments(data):
    """Offset and type of each program header."""
    start, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for number in range(count):
        offset = start + number * size
        yield offset, *struct.unpack_from("<I", data, offset)


def be_static(data):
    for offset, kind in segments(data):
        if kind in (2, 3):  # PT_DYNAMIC, PT_INTERP
            struct.pack_into("<I", data, offset, 0)


def be_musl(data):
    for offset, kind in segments(data):
        if kind == 3:
            start, = struct.unpack_from("<Q", data, offset + 8)
            length, = struct.unpack_from("<Q", data, offset + 32)
            data[start:start + length] = b"/lib/ld-musl.so.1".ljust(length, b"\0")


def be_32_bits(data):
    data[4] = 1


def be_foreign(data):
    struct.pack_into("<H", data, 18, 0xf7)  # EM_BPF


def be_short(data):
    del data[100:]


def need_another(data):
    start = data.index(b"libibverbs.so.1\0")
    data[start:start + 15] = b"libibverbs.so.9"


def main():
    changes = {change.__name__: change for change in
               (be_static, be_musl, be_32_bits, be_foreign, be_short, need_another)}
    with open(sys.argv[1], "rb") as file:
        data = bytearray(file.read())
    changes[sys.argv[3]](data)
    with open(sys.argv[2], "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main()
