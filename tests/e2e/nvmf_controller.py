#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A small NVMe/TCP controller for tests of the host: one subsystem, one namespace in a file.

Usage: nvmf_controller.py PORT FILE [digest] [other]

Large writes come by R2Ts of 8 KiB, reads leave in C2HData of 8 KiB, so that each command has
several PDUs. It says "ready" when it listens, "written" at the first write after a flush, and
"flushed" at the first flush after a write. It runs until it is killed. What it has answered is in
the file, also after a kill. With "other" the namespace has another NGUID.
"""
import os
import socket
import socketserver
import struct
import sys

PORT, FILE = int(sys.argv[1]), sys.argv[2]
HAS_DIGESTS = "digest" in sys.argv[3:]
NGUID = 2 if "other" in sys.argv[3:] else 1
PIECE = 8192
IN_CAPSULE = 4096
ADMIN_IN_CAPSULE = 8192
MDTS = 4  # 64 KiB
BLOCK = 512
RECORDS = 20  # of the discovery log page: more than a host reads at once

CRC = []
for value in range(256):
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    CRC.append(value)


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC[(value ^ byte) & 0xFF] ^ value >> 8
    return struct.pack("<I", value ^ 0xFFFFFFFF)


class Connection(socketserver.BaseRequestHandler):
    has_digests = False
    qid = 0

    def receive(self, length):
        data = b""
        while len(data) < length:
            more = self.request.recv(length - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def receive_pdu(self):
        common = self.receive(8)
        kind, _flags, hlen, pdo, plen = struct.unpack("<BBBBI", common)
        rest = self.receive(plen - 8)
        data = b""
        if pdo:
            data = rest[pdo - 8:len(rest) - (4 if self.has_digests else 0)]
            assert not self.has_digests or crc32c(data) == rest[-4:]
        if self.has_digests:
            assert crc32c(common + rest[:hlen - 8]) == rest[hlen - 8:hlen - 4]
        return kind, common + rest[:hlen - 8], data

    def send_pdu(self, kind, body, data=b"", flags=0):
        hlen = 8 + len(body)
        digest = 4 if self.has_digests else 0
        pdo = hlen + digest if data else 0
        flags |= (1 if digest else 0) | (2 if digest and data else 0)
        plen = hlen + digest + (len(data) + digest if data else 0)
        header = struct.pack("<BBBBI", kind, flags, hlen, pdo, plen) + body
        pdu = header + (crc32c(header) if digest else b"")
        if data:
            pdu += data + (crc32c(data) if digest else b"")
        self.request.sendall(pdu)

    def respond(self, cid, status=0, result=0):
        self.send_pdu(5, struct.pack("<QHHHH", result, 0, 0, cid, status << 1))

    def give(self, cid, data):
        for offset in range(0, len(data), PIECE):
            piece = data[offset:offset + PIECE]
            last = offset + len(piece) == len(data)
            self.send_pdu(7, struct.pack("<HHII", cid, 0, offset, len(piece)) + bytes(4), piece,
                          4 if last else 0)
        self.respond(cid)

    def fetch(self, cid, length, in_capsule):
        data = in_capsule
        while len(data) < length:
            piece = min(PIECE, length - len(data))
            self.send_pdu(9, struct.pack("<HHII", cid, 99, len(data), piece) + bytes(4))
            end = len(data) + piece
            while len(data) < end:
                # Other capsules may come in between; they wait.
                kind, header, more = self.receive_pdu()
                if kind == 4:
                    self.waiting.append((header, more))
                    continue
                got_cid, ttag, offset, size = struct.unpack_from("<HHII", header, 8)
                assert (kind, got_cid, ttag, offset) == (6, cid, 99, len(data)) and size == len(more)
                data += more
        return data

    def identify(self, cns, nsid):
        page = bytearray(4096)
        blocks = os.path.getsize(FILE) // BLOCK
        if cns == 1:
            page[4:24] = b"SCRIPTED".ljust(20)
            page[24:64] = b"scripted controller".ljust(40)
            page[64:72] = b"1".ljust(8)
            page[77] = MDTS
            struct.pack_into("<H", page, 78, 1)
            struct.pack_into("<I", page, 92, 1 << 8)
            page[111] = 1
            struct.pack_into("<H", page, 320, 10)
            struct.pack_into("<BBHI", page, 512, 0x66, 0x44, 128, 1)
            struct.pack_into("<H", page, 520, 8)
            page[525] = 1
            struct.pack_into("<I", page, 536, 1 | 1 << 21)
            struct.pack_into("<IIH", page, 1792, (64 + IN_CAPSULE) // 16, 1, 0)
        elif cns == 2:
            struct.pack_into("<I", page, 0, 1)
        elif cns == 0 and nsid == 1:
            struct.pack_into("<QQQ", page, 0, blocks, blocks, blocks)
            page[104] = NGUID
            page[128 + 2] = 9
        return bytes(page)

    @staticmethod
    def discovery():
        page = bytearray(1024 * (1 + RECORDS))
        struct.pack_into("<QQ", page, 0, 5, RECORDS)
        for record in range(1, RECORDS + 1):
            place = 1024 * record
            struct.pack_into("<BBBBHHH", page, place, 3, 1, 2, 0, record, 0xFFFF, 32)
            for offset, text in (32, str(PORT)), (256, f"nqn.2014-08.org.example:{record}"), \
                    (512, "127.0.0.1"):
                page[place + offset:place + offset + len(text)] = text.encode()
        return bytes(page)

    def admin(self, cid, opcode, sqe):
        nsid, = struct.unpack_from("<I", sqe, 4)
        cdw10, cdw11 = struct.unpack_from("<II", sqe, 40)
        if opcode == 0x06:
            self.give(cid, self.identify(cdw10 & 0xFF, nsid))
        elif opcode == 0x02:
            length = 4 * ((cdw10 >> 16) + 1)
            offset, = struct.unpack_from("<Q", sqe, 48)
            page = self.discovery() if cdw10 & 0xFF == 0x70 else b""
            self.give(cid, page[offset:offset + length].ljust(length, b"\0"))
        elif opcode == 0x0A:
            self.respond(cid, result=0x12345678)
        elif opcode == 0x09:
            self.respond(cid, result=cdw11)
        elif opcode != 0x0C:
            self.respond(cid)

    def note(self, is_dirty):
        if self.server.is_dirty != is_dirty:
            self.server.is_dirty = is_dirty
            print("written" if is_dirty else "flushed", flush=True)

    def io(self, cid, opcode, sqe, data):
        slba, cdw12 = struct.unpack_from("<QI", sqe, 40)
        length = ((cdw12 & 0xFFFF) + 1) * BLOCK
        if opcode != 0 and slba * BLOCK + length > os.path.getsize(FILE):
            self.respond(cid, 0x4080)
        elif opcode == 2:
            self.give(cid, os.pread(self.server.file, length, slba * BLOCK))
        elif opcode == 1:
            os.pwrite(self.server.file, self.fetch(cid, length, data), slba * BLOCK)
            self.note(True)
            self.respond(cid)
        elif opcode == 8:
            os.pwrite(self.server.file, bytes(length), slba * BLOCK)
            self.respond(cid)
        elif opcode == 0:
            self.note(False)
            self.respond(cid)
        else:
            self.respond(cid, 0x4001)

    def fabrics(self, cid, sqe, data):
        offset, = struct.unpack_from("<I", sqe, 44)
        if sqe[4] == 1:
            nqn = data[256:512].split(b"\0")[0]
            self.qid, = struct.unpack_from("<H", sqe, 42)
            self.respond(cid, 0x4182 if b"wrong" in nqn else 0, 1)
        elif sqe[4] == 4:
            self.respond(cid, 0, {0: 127 | 1 << 16 | 1 << 37, 8: 0x10400, 0x1C: 1}.get(offset, 0))
        else:
            self.respond(cid)

    def handle(self):
        self.waiting = []
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            asked = self.receive(128)[11]
            self.request.sendall(struct.pack("<BBBBIHBBI", 1, 0, 128, 0, 128, 0, 0,
                                             asked if HAS_DIGESTS else 0, 131072) + bytes(112))
            self.has_digests = HAS_DIGESTS and asked == 3
            while True:
                if self.waiting:
                    header, data = self.waiting.pop(0)
                else:
                    _kind, header, data = self.receive_pdu()
                sqe = header[8:]
                cid, = struct.unpack_from("<H", sqe, 2)
                if sqe[0] == 0x7F:
                    self.fabrics(cid, sqe, data)
                elif self.qid == 0:
                    self.admin(cid, sqe[0], sqe)
                else:
                    self.io(cid, sqe[0], sqe, data)
        except (ConnectionError, OSError):
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


server = Server(("127.0.0.1", PORT), Connection)
server.file = os.open(FILE, os.O_RDWR)
server.is_dirty = False
print("ready", flush=True)
server.serve_forever()
