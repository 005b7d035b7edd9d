#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Write a capture with a congestion notification, and one of a capture's packets spoiled.

Usage: dissector_write.py CAPTURE.pcap RESULT.pcap

The result has the frames of CAPTURE with a wrong bit in the fifth, and then a CNP with BECN and a
marked SEND with FECN.
"""
import struct
import sys

import wire_check

HEAD, FRAME = 24, 16
CNP, SEND_ONLY, FECN, BECN = 0x81, 0x04, 0x80, 0x40


def frames(data):
    at = HEAD
    while at < len(data):
        count = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at:at + FRAME], bytearray(data[at + FRAME:at + FRAME + count])
        at += FRAME + count


def roce(opcode, bits, payload):
    """An Ethernet frame with this packet and a right ICRC."""
    bth = struct.pack("!BBHII", opcode, 0x40, 0xffff, bits << 24 | 17, 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 2, 28 + len(bth + payload) + 4, 0, 0x4000, 64, 17, 0,
                     bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
    udp = struct.pack("!HHHH", 50000, 4791, 8 + len(bth + payload) + 4, 0)
    masked, _, _ = wire_check.split(bytes(12) + b"\x08\x00" + ip + udp + bth + payload + bytes(4))
    return (bytes(12) + b"\x08\x00" + ip + udp + bth + payload +
            wire_check.icrc(masked, bth + payload))


def main(arguments):
    with open(arguments[0], "rb") as file:
        data = file.read()
    result = bytearray(data[:HEAD])
    for number, (head, frame) in enumerate(frames(data), 1):
        if number == 5:
            frame[-5] ^= 1
        result += head + frame
        last = head
    for frame in roce(CNP, BECN, bytes(16)), roce(SEND_ONLY, FECN, b"data"):
        result += last[:8] + struct.pack("<II", len(frame), len(frame)) + frame
    with open(arguments[1], "wb") as file:
        file.write(result)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
