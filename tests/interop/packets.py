# SPDX-License-Identifier: BSD-2-Clause
"""RoCEv2 packets, made and read by code that shares nothing with urnic's.

A Packet is what a UDP datagram to port 4791 carries, without the ICRC. Socket sends and receives
them; it is unconnected and forbids fragments, so that Linux sends IPv4 identification 0, which the
ICRC covers.
"""
import ipaddress
import socket
import struct
import time
import zlib
from typing import NamedTuple

ROCE_PORT = 4791
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
PKEY_DEFAULT = 0xFFFF

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = range(12, 17)
ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD = range(17, 21)
SEND_LAST_INV, SEND_ONLY_INV, FLUSH, ATOMIC_WRITE = 0x16, 0x17, 0x1C, 0x1D
UC, UD_SEND_ONLY, CNP, XRC = 0x20, 0x64, 0x81, 0xA0

ACK, RNR_NAK, NAK = 0, 1, 3
NAK_SEQUENCE, NAK_INVALID, NAK_ACCESS, NAK_OPERATION = range(4)
NAK_NAMES = {0: "sequence error", 1: "invalid request", 2: "remote access", 3: "remote operational",
             4: "invalid RD request"}


class Packet(NamedTuple):
    opcode: int
    psn: int
    rest: bytes = b""  # all headers behind the BTH, and the payload
    ack: bool = True
    qpn: int = 0  # 0: the other's, filled in by who sends it
    pad: int = None  # bytes of padding behind `rest`; None: as many as it takes
    pkey: int = PKEY_DEFAULT
    version: int = 0
    reserved: bool = False  # set all reserved bits
    migrated: bool = True
    solicited: bool = False
    wrong_icrc: bool = False

    def encode(self):
        pad = -len(self.rest) % 4 if self.pad is None else self.pad
        flags = self.solicited << 7 | self.migrated << 6 | pad << 4 | self.version
        high = 0x7F if self.reserved else 0
        bth = struct.pack(">BBHII", self.opcode, flags, self.pkey, (0xFF if self.reserved else 0) << 24 | self.qpn,
                          (self.ack << 7 | high) << 24 | self.psn & 0xFFFFFF)
        return bth + self.rest + bytes(pad if self.pad is None else 0)


def reth(address, rkey, length):
    return struct.pack(">QII", address, rkey, length)


def atomic(address, rkey, swap_add, compare=0):
    return struct.pack(">QIQQ", address, rkey, swap_add, compare)


def aeth(kind, value, msn):
    return struct.pack(">I", (kind << 5 | value) << 24 | msn & 0xFFFFFF)


class Answer(NamedTuple):
    """A packet that came."""
    opcode: int
    psn: int
    ack: bool
    qpn: int
    rest: bytes

    def aeth(self):
        word = struct.unpack(">I", self.rest[:4])[0]
        return word >> 29, word >> 24 & 0x1F, word & 0xFFFFFF


class Socket:
    """Port 4791 of one IPv4 address, towards another. Packets that come with a wrong ICRC are an
    error."""

    def __init__(self, address, peer):
        self.addresses = [ipaddress.ip_address(address).packed, ipaddress.ip_address(peer).packed]
        self.peer = peer
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.socket.bind((address, ROCE_PORT))

    def send(self, packet, qpn):
        payload = packet._replace(qpn=packet.qpn or qpn).encode()
        masked = bytearray(payload)
        masked[4] = 0xFF
        length = 8 + len(payload) + 4
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xFF, 20 + length, 0, 0x4000, 0xFF, 17, 0xFFFF, *self.addresses)
        udp = struct.pack(">HHHH", ROCE_PORT, ROCE_PORT, length, 0xFFFF)
        icrc = zlib.crc32(b"\xff" * 8 + ip + udp + masked) ^ packet.wrong_icrc
        self.socket.sendto(payload + struct.pack("<I", icrc), (self.peer, ROCE_PORT))

    def receive(self, seconds):
        """The next packet, or None."""
        self.socket.settimeout(seconds)
        data = b""
        try:
            while not data:  # a requester that gave up probes the port by an empty datagram
                data = self.socket.recv(65536)
        except (socket.timeout, BlockingIOError):
            return None
        opcode, flags, _, qpn, psn = struct.unpack(">BBHII", data[:12])
        rest = data[12:len(data) - 4 - (flags >> 4 & 3)]
        return Answer(opcode, psn & 0xFFFFFF, bool(psn >> 31), qpn & 0xFFFFFF, rest)

    def receive_all(self, quiet, seconds, count=None):
        """Until `count` have come, or none for `quiet` seconds, `seconds` at most."""
        answers = []
        until = time.monotonic() + seconds
        while time.monotonic() < until and (count is None or len(answers) < count):
            answer = self.receive(min(quiet, max(until - time.monotonic(), 0.001)))
            if not answer:
                break
            answers.append(answer)
        return answers
