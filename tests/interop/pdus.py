# SPDX-License-Identifier: BSD-2-Clause
"""Hosts of NVMe over TCP that break its rules: PDUs, commands, connections. See nvmf-streams."""
import socket
import struct
import time

IC_REQ, IC_RESP, H2C_TERM, C2H_TERM, CAPSULE, RESPONSE, H2C_DATA, C2H_DATA, R2T = 0, 1, 2, 3, 4, 5, 6, 7, 9
HEADER_BYTES = {IC_REQ: 128, H2C_TERM: 24, CAPSULE: 72, H2C_DATA: 24, R2T: 24, C2H_DATA: 24, IC_RESP: 128, C2H_TERM: 24,
                RESPONSE: 24, 8: 24}
HDGST, DDGST, LAST, SUCCESS = 1, 2, 4, 8
IN_CAPSULE, TRANSPORT, KEYED = 0x01, 0x5A, 0x40
FABRICS, PROPERTY_SET, CONNECT, PROPERTY_GET = 0x7F, 0, 1, 4
CAP, VS, CC, CSTS = 0x00, 0x08, 0x14, 0x1C
CC_ENABLED = 6 << 16 | 4 << 20 | 1
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
HOST = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000"
BLOCK = 4096  # of the namespace, which has to have it
PROBE = 0x7EEE  # the command identifier of the question whether the connection lives
SECONDS_MAX = 60  # for an answer that must come

CRC_TABLE = []
for index in range(256):
    for _ in range(8):
        index = index >> 1 ^ (0x82F63B78 if index & 1 else 0)
    CRC_TABLE.append(index)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def sqe_of(opcode, cid=1, nsid=0, sgl=None, psdt=1, fuse=0, words=()):
    """`sgl` is type, length and address; `words` are the command dwords from 10 on."""
    kind, length, address = (sgl or (TRANSPORT, 0)) + ((0,) if len(sgl or ()) < 3 else ())
    sqe = struct.pack("<BBHI16xQ", opcode, psdt << 6 | fuse, cid, nsid, address)
    if kind >> 4 == 4:
        sqe += struct.pack("<I", length)[:3] + struct.pack("<IB", 0x1234, kind)
    else:
        sqe += struct.pack("<I3xB", length, kind)
    return sqe + struct.pack("<6I", *words, *(0,) * (6 - len(words)))


def io_of(opcode, slba, blocks, **fields):
    fields.setdefault("nsid", 1)
    return sqe_of(opcode, words=(slba & 0xFFFFFFFF, slba >> 32, blocks - 1), **fields)


def connect_sqe(qid=0, sqsize=31, recfmt=0, kato=0, length=1024):
    return sqe_of(FABRICS, nsid=CONNECT, sgl=(IN_CAPSULE, length),
                  words=(recfmt | qid << 16, sqsize, kato))


def property_sqe(kind, offset, value=0, attribute=0, cid=1):
    return sqe_of(FABRICS, cid=cid, nsid=kind, words=(attribute, offset, value))


class Ended(Exception):
    pass


class Silent(Exception):
    pass


class Stream:
    """A connection, raw until initialize()."""

    def __init__(self, target):
        self.target = target
        self.socket = socket.create_connection(target.address, timeout=SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.digests = 0
        self.is_connected = False
        self.pending = b""

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # what the target has said before is still there

    def pdu(self, kind, body=b"", data=b"", flags=0, **wrong):
        """A right PDU, but for what `wrong` says of flags, hlen, pdo, plen and digests."""
        header_bytes = HEADER_BYTES[kind]
        digests = self.digests if kind not in (IC_REQ, H2C_TERM) else 0
        if not data:
            digests &= ~DDGST
        pdo = header_bytes + 4 * (digests & HDGST) if data and kind != H2C_TERM else 0
        plen = header_bytes + 4 * (digests & HDGST) + len(data) + (4 if digests & DDGST else 0)
        header = struct.pack("<BBBBI", kind, wrong.get("all_flags", flags | digests), wrong.get("hlen", header_bytes),
                             wrong.get("pdo", pdo), wrong.get("plen", plen)) + body
        header = header.ljust(header_bytes, b"\0")
        header_digest = wrong.get("header_digest", crc32c(header)) if digests & HDGST else b""
        data_digest = wrong.get("data_digest", crc32c(data)) if digests & DDGST else b""
        self.send(header + header_digest + data + data_digest)

    def take(self, length, deadline):
        while len(self.pending) < length:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                more = self.socket.recv(65536)
            except socket.timeout:
                raise Silent from None
            except OSError:
                raise Ended from None
            if not more:
                raise Ended
            self.pending += more
        taken, self.pending = self.pending[:length], self.pending[length:]
        return taken

    def receive(self, seconds=SECONDS_MAX):
        """The next PDU: kind, flags, header behind its common part, data."""
        deadline = time.monotonic() + seconds
        common = self.take(8, deadline)
        kind, flags, hlen, pdo, plen = struct.unpack("<BBBBI", common)
        rest = self.take(plen - 8, deadline)
        begin = (pdo or hlen + 4 * (flags & HDGST)) - 8
        return kind, flags, rest[:hlen - 8], rest[begin:len(rest) - (4 if flags & DDGST else 0)]

    def initialize(self, digests=0):
        self.pdu(IC_REQ, struct.pack("<HBBI", 0, 0, digests, 0))
        kind, _flags, body, _data = self.receive()
        if kind != IC_RESP or body[3] != digests:
            raise ValueError("the target refuses ICReq")
        self.max_h2c, = struct.unpack_from("<I", body, 4)
        self.digests = digests
        return self

    def run(self, sqe, data=b""):
        """A command that must be answered: status, result, data."""
        self.pdu(CAPSULE, sqe, data)
        page = b""
        while True:
            kind, flags, body, data = self.receive()
            if kind == C2H_DATA:
                page += data
                if flags & SUCCESS:
                    return 0, 0, page
            elif kind == RESPONSE:
                status, = struct.unpack_from("<H", body, 14)
                return status >> 1 & 0x7FF, struct.unpack_from("<Q", body)[0], page
            else:
                raise ValueError(f"a PDU of type {kind}")

    def need(self, sqe, data=b""):
        status, result, page = self.run(sqe, data)
        if status:
            raise ValueError(f"a right command fails: {status:03x}")
        return result, page

    def connect(self, nqn, qid=0, cntlid=0xFFFF, sqsize=31, host=1):
        self.qid = qid
        result, _ = self.need(connect_sqe(qid, sqsize), connect_data(nqn, cntlid, host))
        self.is_connected = True
        return result & 0xFFFF

    def enable(self):
        self.need(property_sqe(PROPERTY_SET, CC, CC_ENABLED))

    def lives(self):
        self.pdu(CAPSULE, property_sqe(PROPERTY_GET, CSTS, cid=PROBE))
        try:
            while True:
                kind, _flags, body, _data = self.receive(self.target.quiet_s)
                if kind == RESPONSE and struct.unpack_from("<H", body, 12)[0] == PROBE:
                    return True
                if kind == C2H_TERM:
                    return False
        except Ended:
            return False
        except Silent:
            return True

    def answer(self):
        """The class of the next answer."""
        try:
            while True:
                kind, flags, body, _data = self.receive(self.target.quiet_s)
                if kind == C2H_TERM:
                    return f"TermReq {struct.unpack_from('<H', body)[0]}"
                if kind == R2T:
                    return "R2T"
                if kind == IC_RESP or kind == C2H_DATA and flags & SUCCESS:
                    return "success"
                if kind == RESPONSE:
                    status = struct.unpack_from("<H", body, 14)[0] >> 1 & 0x7FF
                    name = f"status {status:03x}" if status else "success"
                    return name + ", ends" if self.is_connected and not self.lives() else name
        except Ended:
            return "closed"
        except Silent:
            return "silence"

    def close(self):
        self.socket.close()


def connect_data(nqn, cntlid=0xFFFF, host=1, hostid=None):
    host_nqn = host if isinstance(host, bytes) else (HOST + str(host)).encode()
    nqn = nqn if isinstance(nqn, bytes) else nqn.encode()
    if hostid is None:
        hostid = bytes(15) + bytes([host if isinstance(host, int) else 1])
    return struct.pack("<16sH238x256s256s256x", hostid, cntlid, nqn, host_nqn)


class Target:
    def __init__(self, address, nqn, quiet_s):
        self.address, self.nqn, self.quiet_s = address, nqn, quiet_s
        self.streams = []

    def raw(self):
        stream = Stream(self)
        self.streams.append(stream)
        return stream

    def initialized(self, digests=0):
        return self.raw().initialize(digests)

    def admin(self, digests=0, nqn=None):
        stream = self.initialized(digests)
        self.cntlid = stream.connect(nqn or self.nqn)
        stream.enable()
        return stream

    def io(self, digests=0, sqsize=31):
        """The I/O queue of a new controller."""
        admin = self.admin(digests)
        _, page = admin.need(sqe_of(0x06, sgl=(TRANSPORT, 4096), words=(1,)))
        self.capsule_bytes = struct.unpack_from("<I", page, 1792)[0] * 16 - 64
        self.data_bytes = 1 << page[77] + 12 if page[77] else 0
        _, page = admin.need(sqe_of(0x06, nsid=1, sgl=(TRANSPORT, 4096), words=(0,)))
        self.blocks, = struct.unpack_from("<Q", page)
        if 1 << page[130] != BLOCK:
            raise ValueError(f"the namespace has blocks of {1 << page[130]} bytes")
        stream = self.initialized(digests)
        stream.connect(self.nqn, 1, self.cntlid, sqsize)
        return stream

    def written(self, length=64 * BLOCK, digests=0):
        """An I/O queue with a write that waits for its data: the stream, R2T's TTAG and length."""
        stream = self.io(digests)
        stream.pdu(CAPSULE, io_of(1, 0, length // BLOCK, sgl=(TRANSPORT, length)))
        kind, _flags, body, _data = stream.receive()
        if kind != R2T:
            raise ValueError("no R2T")
        _cid, ttag, _offset, asked = struct.unpack_from("<HHII", body)
        return stream, ttag, asked

    def close(self):
        for stream in self.streams:
            stream.close()
        self.streams = []
