# SPDX-License-Identifier: BSD-2-Clause
"""What passes the link of guest a, and whether programs that share nothing with either end find it well formed."""
import ipaddress
import re
import struct
import subprocess
import tempfile
import time
import zlib

ETHERNET_BYTES, IP6_BYTES, UDP_BYTES, ICRC_BYTES = 14, 40, 8, 4
ROCE_PORT = 4791
RECORD = struct.Struct("<IIII")  # of pcap: seconds, microseconds, captured bytes, bytes


class Capture:
    """On the guest's side of the bridge, where datagrams have been cut into packets. A context manager; afterwards the
    other methods look at what was captured."""

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

    def malformed(self, protocol, names):
        """How many frames of a protocol tshark finds, and its complaints: about dissectors whose names match, not about
        those that guess what a program's bytes may be."""
        output = subprocess.run(["tshark", "-r", self.file.name, "-V", "-Y", protocol], check=False, text=True,
                                errors="replace", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        complaints = re.findall(rf"^.*(?:Malformed Packet: (?:{names})|Bad CRC|Dissector bug).*$", output, re.M)
        return len(re.findall(r"^Frame \d+:", output, re.M)), complaints


def icrc_is_good(frame):
    """(source address, verdict) of a RoCEv2 frame, else None. Fields that routers change count as ones."""
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
