#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Look at what `urnic capture` has written, with code that shares nothing with urnic's.

Usage: capture_check.py FILE.pcapng

Reads the file as the draft of pcapng says it, looks at each packet as wire_check.py does, and
prints how many of each kind there were on each interface.
"""
import collections
import struct
import sys

import wire_check

INTERFACE, STATISTICS, PACKET = 1, 5, 6
LINKTYPE_RAW = 101


def blocks(data):
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if length % 4 or length < 12 or struct.unpack_from("<I", data, at + length - 4)[0] != length:
            raise ValueError(f"block of type {kind} at {at} is not one")
        yield kind, data[at + 8:at + length - 4]
        at += length


def options(data):
    found = {}
    while data:
        code, length = struct.unpack_from("<HH", data)
        if code == 0:
            break
        found[code] = data[4:4 + length]
        data = data[4 + (length + 3) // 4 * 4:]
    return found


def read(path):
    """(names of the interfaces, [(interface, is outbound, comment, bytes, whole length)], packets
    lost)"""
    names, found, lost = [], [], 0
    with open(path, "rb") as file:
        data = file.read()
    before = 0
    for kind, body in blocks(data):
        if kind == INTERFACE:
            if struct.unpack_from("<H", body)[0] != LINKTYPE_RAW:
                raise ValueError("not raw IP")
            names.append(options(body[8:])[2].decode())
        elif kind == PACKET:
            interface, high, low, captured, whole = struct.unpack_from("<IIIII", body)
            more = options(body[20 + (captured + 3) // 4 * 4:])
            time = high << 32 | low
            if time < before:
                print(f"{before - time} ns back in time")
            before = time
            found.append((interface, more[2][0] == 2, more[1].decode(), body[20:20 + captured], whole))
        elif kind == STATISTICS:
            lost += struct.unpack("<Q", options(body[12:])[5])[0]
    return names, found, lost


def ethernet(ip):
    return bytes(12) + (b"\x08\x00" if ip[0] >> 4 == 4 else b"\x86\xdd") + ip


def split(ip):
    return wire_check.split(ethernet(ip))


def check(names, found):
    """Problems, and how many packets there are of each kind."""
    kinds, faults = collections.Counter(), collections.Counter()
    for interface, _, _, ip, whole in found:
        if len(ip) != whole:
            faults["a packet is cut off"] += 1
            continue
        masked, problems, payload = split(ip)
        more, name = wire_check.check_bth(payload)
        if wire_check.icrc(masked, payload[:-4]) != payload[-4:]:
            more.append("wrong ICRC")
        if len(masked) == 28 and wire_check.BTH and kinds[names[interface], name] < 5 and not wire_check.scapy_icrc(
                ethernet(ip)):
            more.append("wrong ICRC, says scapy")
        kinds[names[interface], name] += 1
        for problem in problems + more:
            faults[f"{name}: {problem}"] += 1
    return faults, kinds


def main(arguments):
    names, found, lost = read(arguments[0])
    faults, kinds = check(names, found)
    for (interface, name), count in sorted(kinds.items()):
        print(f"{count:8} {interface}: {name}")
    if lost:
        faults[f"{lost} packets were lost"] += 1
    for fault, count in sorted(faults.items()):
        print(f"failed: {fault} ({count})")
    return 1 if faults or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
