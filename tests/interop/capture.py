# SPDX-License-Identifier: BSD-2-Clause
"""What passes the link of guest a, and whether programs that share nothing with either end find it
well formed."""
import ipaddress
import re
import struct
import subprocess
import tempfile
import time
import zlib

ETHERNET_BYTES, IP6_BYTES, UDP_BYTES, ICRC_BYTES = 14, 40, 8, 4
ROCE_PORT = 4791
SYN = 2
MPA_FRAMES, MPA_HAS_CRC, CRC_BYTES = (b"MPA ID Req Frame", b"MPA ID Rep Frame"), 0x40, 4
TORN_BYTES = 8
CRC32C = []  # of each byte
for value in range(256):
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    CRC32C.append(value)
RECORD = struct.Struct("<IIII")  # of pcap: seconds, microseconds, captured bytes, bytes


class Capture:
    """On the guest's side of the bridge, where datagrams have been cut into packets. A context
    manager; afterwards the other methods look at what was captured."""

    def __init__(self, lab, what):
        self.lab = lab
        self.what = what  # a capture filter
        self.file = tempfile.NamedTemporaryFile(suffix=".pcap")
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(
            self.lab.inside(["dumpcap", "-q", "-P", "-B", "16", "-i", "tap-a", "-w", self.file.name, "-f", self.what]),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.process.stderr.readline()  # "Capturing on": it does, soon
        time.sleep(1)
        return self

    def __exit__(self, *_):
        time.sleep(1)
        self.process.terminate()
        self.process.communicate()

    def frames(self):
        with open(self.file.name, "rb") as file:
            data = file.read()
        at = 24
        while at + RECORD.size <= len(data):
            length = RECORD.unpack_from(data, at)[2]
            yield data[at + RECORD.size:at + RECORD.size + length]
            at += RECORD.size + length

    def icrcs(self, addresses):
        """How many packets from these addresses there are whose ICRC zlib confirms, and others."""
        sources = [ipaddress.ip_address(address).packed for address in addresses]
        verdicts = [found[1] for found in map(icrc_is_good, self.frames()) if found and found[0] in sources]
        return verdicts.count(True), verdicts.count(False)

    def streams(self):
        """What each end of each TCP connection over IPv4 sent: {ports: (bytes, where segments
        end)}."""
        begins, segments = {}, {}
        for frame in self.frames():
            if struct.unpack_from(">H", frame, 12)[0] != 0x0800 or frame[ETHERNET_BYTES + 9] != 6:
                continue
            ip = frame[ETHERNET_BYTES:ETHERNET_BYTES + struct.unpack_from(">H", frame, ETHERNET_BYTES + 2)[0]]
            tcp = ip[(ip[0] & 15) * 4:]
            *ports, sequence = struct.unpack_from(">HHI", tcp)
            ports = tuple(ports)
            if tcp[13] & SYN:
                begins[ports], segments[ports] = sequence + 1, {}
            data = tcp[(tcp[12] >> 4) * 4:]
            if ports in begins and data:
                at = sequence - begins[ports] & 0xFFFFFFFF
                segments[ports][at] = max(segments[ports].get(at, b""), data, key=len)
        for ports, found in segments.items():
            stream = bytearray()
            for at, data in sorted(found.items()):
                stream[at:at + len(data)] = data
            yield ports, bytes(stream), {at + len(data) for at, data in found.items()}

    def fpdus(self):
        """How many FPDUs there are whose CRC our own sum confirms, and others; and a filter of
        tshark's for connections that it can follow: it loses its place where a segment ends behind
        the first bytes of a FPDU."""
        good, bad, followed = 0, 0, ""
        for ports, stream, ends in self.streams():
            if stream[:16] not in MPA_FRAMES or not stream[16] & MPA_HAS_CRC:
                continue
            at = 20 + struct.unpack_from(">H", stream, 18)[0]
            is_torn = False
            while at + 2 < len(stream):
                is_torn |= any(at + i in ends for i in range(1, TORN_BYTES))
                end = at + 2 + struct.unpack_from(">H", stream, at)[0]
                end += -(end - at) % 4
                if stream[end:end + CRC_BYTES] != struct.pack("<I", crc32c(stream[at:end])):
                    bad += 1
                    break
                good += 1
                at = end + CRC_BYTES
            if is_torn:
                followed += f" and not (tcp.srcport == {ports[0]} and tcp.dstport == {ports[1]})"
        return good, bad, followed

    def malformed(self, protocol, names):
        """How many frames that match a filter tshark finds, and its complaints: about dissectors
        whose names match, not about those that guess what a program's bytes may be."""
        output = subprocess.run(["tshark", "-r", self.file.name, "-V", "-Y", protocol], check=False, text=True,
                                errors="replace", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        complaints = re.findall(rf"^.*(?:Malformed Packet: (?:{names})|Bad CRC|Dissector bug).*$", output, re.M)
        return len(re.findall(r"^Frame \d+:", output, re.M)), complaints


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def icrc_is_good(frame):
    """(source address, verdict) of a RoCEv2 frame, else None. Fields that routers change count as
    ones."""
    kind = struct.unpack_from(">H", frame, 12)[0]
    ip = bytearray(frame[ETHERNET_BYTES:])
    if kind == 0x0800 and ip[9] == 17:
        header_bytes = (ip[0] & 15) * 4
        source = bytes(ip[12:16])
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
        end = struct.unpack_from(">H", ip, 2)[0]
    elif kind == 0x86DD and ip[6] == 17:
        header_bytes = IP6_BYTES
        source = bytes(ip[8:24])
        ip[0] |= 0x0F
        ip[1:4] = b"\xff" * 3
        ip[7] = 0xFF
        end = IP6_BYTES + struct.unpack_from(">H", ip, 4)[0]
    else:
        return None
    if struct.unpack_from(">H", ip, header_bytes + 2)[0] != ROCE_PORT:
        return None
    ip[header_bytes + 6:header_bytes + 8] = b"\xff\xff"  # the UDP checksum
    ip[header_bytes + UDP_BYTES + 4] = 0xFF
    icrc = struct.unpack_from("<I", ip, end - ICRC_BYTES)[0]
    return source, zlib.crc32(b"\xff" * 8 + ip[:end - ICRC_BYTES]) == icrc
