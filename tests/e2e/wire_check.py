#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Look at captured RoCEv2 packets with code that shares nothing with urnic's.

Usage: wire_check.py FILE.pcap...

Recomputes each ICRC, with zlib and, for IPv4, with scapy, and checks the headers that a reader of
IBTA chapter 9 and annex A17 would look at. Prints how many packets of each opcode there were. Exit
status 1 if anything is wrong, or if an opcode that every test run should produce is missing.
"""
import collections
import struct
import sys
import zlib

try:
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether
except ImportError:
    BTH = None

ROCE_PORT = 4791
BTH_BYTES = 12
ICRC_BYTES = 4
SCAPY_PACKETS_MAX = 400  # it is slow

UD_SEND_ONLY = 0x64
# docs/roce.md, "Selective repeat": a bit that the specification reserves, and the map behind a NAK.
SELECTIVE, ACKNOWLEDGE, SEQUENCE_NAK, MAP_BYTES, RC_END = 0x40, 0x11, 0x60, 16, 0x20
# Opcodes, with the bytes of the headers behind the BTH: IBTA table 38.
RETH, ATOMIC, AETH, ATOMIC_ACK, IMM, DETH, IETH, FETH = 16, 28, 4, 8, 4, 8, 4, 4
OPCODES = {
    0x00: ("SEND first", 0), 0x01: ("SEND middle", 0), 0x02: ("SEND last", 0),
    0x03: ("SEND last with immediate", IMM), 0x04: ("SEND only", 0),
    0x05: ("SEND only with immediate", IMM), 0x06: ("WRITE first", RETH), 0x07: ("WRITE middle", 0),
    0x08: ("WRITE last", 0), 0x09: ("WRITE last with immediate", IMM), 0x0a: ("WRITE only", RETH),
    0x0b: ("WRITE only with immediate", RETH + IMM), 0x0c: ("READ request", RETH),
    0x0d: ("READ response first", AETH), 0x0e: ("READ response middle", 0),
    0x0f: ("READ response last", AETH), 0x10: ("READ response only", AETH),
    0x11: ("acknowledge", AETH), 0x12: ("atomic acknowledge", AETH + ATOMIC_ACK),
    0x13: ("compare and swap", ATOMIC), 0x14: ("fetch and add", ATOMIC), UD_SEND_ONLY: ("UD SEND only", DETH),
}
# What not every run has.
OTHERS = {0x16: ("SEND last with invalidate", IETH), 0x17: ("SEND only with invalidate", IETH),
          0x1c: ("FLUSH", FETH + RETH), 0x1d: ("ATOMIC WRITE", RETH)}
OTHERS.update({0x20 | opcode: ("UC " + name, size) for opcode, (name, size) in OPCODES.items() if opcode < 0x0c})
WITHOUT_PAYLOAD = {0x0c, 0x11, 0x12, 0x13, 0x14}
FULL = {0x00, 0x01, 0x06, 0x07, 0x0d, 0x0e}  # first and middle packets are as long as the path MTU
AETH_KINDS = {0: "ACK", 1: "RNR NAK", 3: "NAK"}
REQUESTS = set(range(0x0d)) | {0x13, 0x14}
# Connection management: where, from the MAD's end of the common header, a message has its sender's
# QPN and the PSN with which packets to that QPN begin: IBTA 12.6.5 and 12.6.8.
MAD_BYTES = 24
CM_CLASS = 7
CM_STARTS = {0x10: (32, 44), 0x13: (12, 20)}


def packets(path):
    """The frames of a pcap file."""
    with open(path, "rb") as file:
        header = file.read(24)
        order = "<" if header[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        while True:
            record = file.read(16)
            if len(record) < 16:
                return
            captured, length = struct.unpack(order + "IIII", record)[2:]
            frame = file.read(captured)
            if captured != length:
                raise ValueError("a frame is cut off")
            yield frame


def split(frame):
    """(masked IP and UDP header, problems of the IP header, UDP payload), or None if it is not
    RoCE."""
    kind = struct.unpack_from("!H", frame, 12)[0]
    ip = frame[14:]
    problems = []
    if kind == 0x0800 and ip[9] == 17:
        ip_bytes = (ip[0] & 15) * 4
        ip = ip[:struct.unpack_from("!H", ip, 2)[0]]
        masked = bytearray(ip[:ip_bytes])
        tos = masked[1]
        if masked[6:8] != b"\x40\x00":
            problems.append("not DF, or a fragment")
        masked[1] = masked[8] = 0xff
        masked[10:12] = b"\xff\xff"
    elif kind == 0x86dd and ip[6] == 17:
        ip_bytes = 40
        ip = ip[:40 + struct.unpack_from("!H", ip, 4)[0]]
        masked = bytearray(ip[:40])
        tos = (ip[0] << 4 | ip[1] >> 4) & 0xff
        masked[0] |= 0x0f
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xff
    else:
        return None
    udp = bytearray(ip[ip_bytes:ip_bytes + 8])
    source, destination, length = struct.unpack_from("!HHH", udp)
    if destination != ROCE_PORT:
        return None
    if tos & 3 != 2 and ip[ip_bytes + 8] != UD_SEND_ONLY:
        problems.append(f"ECN field {tos & 3}, not ECT(0)")
    if source < 0xc000:
        problems.append(f"source port {source}")
    if length != len(ip) - ip_bytes:
        problems.append("UDP length and IP length differ")
    udp[6:8] = b"\xff\xff"
    return bytes(masked + udp), problems, bytes(ip[ip_bytes + 8:])


def icrc(masked, payload):
    """IBTA 7.8.1 and annex A17: ones in place of the LRH, and of what routers may change."""
    bth = bytearray(payload[:BTH_BYTES])
    bth[4] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked + bytes(bth) + payload[BTH_BYTES:]))


def scapy_icrc(frame):
    packet = Ether(frame)
    stored = packet[BTH].icrc
    packet[BTH].icrc = None
    again = Ether(bytes(packet))
    return stored == again[BTH].icrc


def check_bth(payload):
    """Problems of the transport header, and what kind of packet it is."""
    opcode, flags, pkey = struct.unpack_from("!BBH", payload)
    if opcode not in OPCODES and opcode not in OTHERS:
        return [f"opcode 0x{opcode:02x}"], "unknown"
    name, header_bytes = OPCODES.get(opcode) or OTHERS[opcode]
    problems = []
    pad = flags >> 4 & 3
    data_bytes = len(payload) - BTH_BYTES - header_bytes - ICRC_BYTES - pad
    if flags & 0x0f:
        problems.append("transport version is not 0")
    if pkey != 0xffff:
        problems.append(f"P_Key 0x{pkey:04x}")
    is_selective = opcode < RC_END and payload[8] & SELECTIVE
    if payload[4] & 0x3f or payload[8] & 0x7f & ~(SELECTIVE if is_selective else 0):
        problems.append("reserved bits are set")
    if data_bytes < 0 or (data_bytes + pad) % 4:
        problems.append(f"{data_bytes} bytes of data and a pad of {pad}")
    if opcode == ACKNOWLEDGE and is_selective and payload[BTH_BYTES] == SEQUENCE_NAK and data_bytes == MAP_BYTES:
        return problems, "selective NAK"
    if opcode in WITHOUT_PAYLOAD and data_bytes:
        problems.append("data in a packet that has none")
    if opcode in FULL and (data_bytes not in (256, 512, 1024, 2048, 4096) or pad):
        problems.append(f"{data_bytes} bytes where the path MTU is meant")
    if pad and payload[-ICRC_BYTES - pad:-ICRC_BYTES] != bytes(pad):
        problems.append("the pad is not zero")
    if opcode == 0x11:
        kind = payload[BTH_BYTES] >> 5
        name = AETH_KINDS.get(kind, f"AETH of kind {kind}")
    return problems, name


class Starts:
    """With which PSN the packets of each connection begin."""

    def __init__(self):
        self.announced = {}
        self.checked = 0

    def check(self, masked, payload):
        opcode = payload[0]
        source, destination = (masked[12:16], masked[16:20]) if len(masked) == 28 else (masked[8:24], masked[24:40])
        qpn, psn = (value & 0xffffff for value in struct.unpack_from("!II", payload, 4))
        if opcode == UD_SEND_ONLY and qpn == 1:
            mad = payload[BTH_BYTES + DETH:]
            attribute = struct.unpack_from("!H", mad, 16)[0]
            if mad[1] == CM_CLASS and attribute in CM_STARTS:
                sender, start = (int.from_bytes(mad[MAD_BYTES + at:MAD_BYTES + at + 3], "big")
                                 for at in CM_STARTS[attribute])
                self.announced[source, sender] = start
        elif opcode in REQUESTS and (destination, qpn) in self.announced:
            self.checked += 1
            if psn != self.announced.pop((destination, qpn)):
                return ["the first PSN is not the one that the CM message said"]
        return []


def main(paths):
    starts = Starts()
    kinds = collections.Counter()
    faults = collections.Counter()
    scapy_count = 0
    for path in paths:
        for frame in packets(path):
            parts = split(frame)
            if not parts:
                continue
            masked, problems, payload = parts
            if len(payload) < BTH_BYTES + ICRC_BYTES:
                faults["short"] += 1
                continue
            more, name = check_bth(payload)
            kinds[name] += 1
            more += starts.check(masked, payload)
            if icrc(masked, payload[:-ICRC_BYTES]) != payload[-ICRC_BYTES:]:
                more.append("wrong ICRC")
            # A sample of each kind.
            if BTH and len(masked) == 28 and kinds[name] <= 20 and scapy_count < SCAPY_PACKETS_MAX:
                scapy_count += 1
                if not scapy_icrc(frame):
                    more.append("wrong ICRC, says scapy")
            for problem in problems + more:
                faults[f"{name}: {problem}"] += 1
    for name, count in sorted(kinds.items()):
        print(f"{count:8} {name}")
    print(f"{scapy_count:8} of them looked at by scapy")
    print(f"{starts.checked:8} begin a connection that was made by CM messages")
    if starts.checked < 2:
        faults["no such connection"] += 1
    expected = {name for name, _ in OPCODES.values()} - {"acknowledge"} | set(AETH_KINDS.values())
    for name in sorted(expected - set(kinds)):
        faults[f"no {name} at all"] += 1
    for fault, count in sorted(faults.items()):
        print(f"failed: {fault} ({count})")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
