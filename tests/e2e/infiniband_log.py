#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The counters that a subnet's PMAs have answered, beside the frames of its capture.

Usage: infiniband_log.py CAPTURE DUMP LEAST

CAPTURE is of `urnic fabric up --pcap`, DUMP of `urnic fabric dump --json`. Each answer with
PortCounters or PortCountersExtended must have the counts of the frames before it: those that the
port sent, and those that its peer did. There have to be LEAST answers. No port drops frames.
"""
import collections
import json
import re
import struct
import sys

ERF_BYTES, LRH_BYTES, GRH_BYTES, BTH_BYTES, DETH_BYTES, VCRC_BYTES = 16, 8, 40, 12, 8, 2
CLASS_PERF, GET_RESPONSE = 4, 0x81
PORT_COUNTERS, PORT_COUNTERS_EXTENDED = 0x12, 0x1d
DATA = 64  # where an attribute of performance management begins in its MAD
MULTICAST_FIRST = 0xc000


def frames(path):
    """Interface names and packets, LRH to ICRC."""
    data = open(path, "rb").read()
    names, at = [], 0
    while at + 12 <= len(data):
        kind, size = struct.unpack_from("=II", data, at)
        body = data[at + 8:at + size - 4]
        if kind == 1:
            option = 8
            while True:
                code, count = struct.unpack_from("=HH", body, option)
                if code == 2:
                    names.append(body[option + 4:option + 4 + count].decode())
                if code == 0:
                    break
                option += 4 + (count + 3) // 4 * 4
        elif kind == 6:
            interface, _, _, count, whole = struct.unpack_from("=IIIII", body)
            assert count == whole
            yield names[interface], body[20 + ERF_BYTES:20 + count - VCRC_BYTES]
        at += size
    assert at == len(data), "the capture has half a block"


class Port:
    def __init__(self):
        self.packets = self.words = self.multicast = 0

    def send(self, packet):
        self.packets += 1
        self.words += len(packet) // 4
        self.multicast += struct.unpack_from(">H", packet, 2)[0] >= MULTICAST_FIRST


def mad_of(packet):
    """The MAD of a datagram, or None."""
    bth = LRH_BYTES + (GRH_BYTES if packet[1] & 3 == 3 else 0)
    if len(packet) <= bth or packet[bth] != 0x64:
        return None
    mad = packet[bth + BTH_BYTES + DETH_BYTES:-4]
    return mad if len(mad) == 256 and mad[1] == CLASS_PERF and mad[3] == GET_RESPONSE else None


def answer_of(mad):
    """The port's number, and its counters: data and packets sent, received, multicast."""
    attribute = struct.unpack_from(">H", mad, 16)[0]
    if attribute == PORT_COUNTERS:
        return mad[DATA + 1], struct.unpack_from(">4I", mad, DATA + 24)
    if attribute == PORT_COUNTERS_EXTENDED:
        values = struct.unpack_from(">8Q", mad, DATA + 8)
        return mad[DATA + 1], values[:4] + values[6:]
    return None, None


def main():
    capture, dump, least = sys.argv[1:]
    peers = {f'{node["name"]}[{port["number"]}]': f'{port["cable"]["node"]}[{port["cable"]["port"]}]'
             for node in json.load(open(dump))["nodes"] for port in node["ports"] if port["cable"]}
    ports, seen, answers = collections.defaultdict(Port), set(), 0
    for name, packet in frames(capture):
        mad = mad_of(packet)
        key = mad and (packet[2:4], packet[6:8], mad[8:16], mad[DATA + 1])
        if mad and key not in seen:  # the first cable that the answer crosses
            seen.add(key)
            number, found = answer_of(mad)
            end = re.sub(r"\[\d+\]$", f"[{number}]", name)
            if found and end in peers:
                out, into = ports[end], ports[peers[end]]
                counted = (out.words, into.words, out.packets, into.packets, out.multicast, into.multicast)
                if counted[:len(found)] != found:
                    sys.exit(f"{end}: the PMA says {found}, and the capture has {counted}")
                answers += 1
        ports[name].send(packet)
    total = sum(port.packets for port in ports.values())
    print(f"{answers} answers of PMAs are as the {total} frames of the capture")
    if answers < int(least) or total < 10000:
        sys.exit("that is too few")


main()
