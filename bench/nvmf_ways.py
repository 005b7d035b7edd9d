# SPDX-License-Identifier: BSD-2-Clause
"""The targets and hosts that bench/nvmf measures: ours, and its peers.

A way starts a server on host a, and then runs one client after the other against it. A client
returns a dict: p50 and p99 (usec), iops, target_usec and host_usec (processor time of each end for
one I/O). What a program does not print is missing. Both ends are pinned, to the first two
processors that this process may use.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import time

from pairs import SERVER_ADDRESS, end, how_it_ended, start, wait_for_listener

NQN = "nqn.2026-01.org.urnic:bench"
IQN = "iqn.2026-01.org.urnic:bench"
SIZE = "256M"
BLOCK_BYTES = 4096
FILL_BYTES = 131072  # in one write
RUNTIME_SECONDS = 1
START_SECONDS = 60
CLIENT_SECONDS = 120
TARGET_CONTROL_PORT = 7000 + os.getpid() % 20000  # tells our tgtd from others on this machine


class Failure(Exception):
    """A program that did not run, in a sentence."""


def cpu_seconds(pid):
    """Processor time of a process with all threads, also those that have ended: its clock, as
    clock_getcpuclockid(3) names it."""
    return time.clock_gettime((~pid << 3) | 2)


def memory_bytes(pid, name):
    """A size of the process by its name in /proc/PID/status."""
    found = re.search(name + r":\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return int(found.group(1)) * 1024


def reaped_cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Way:
    """A server; a context manager. The subclasses say how it starts and what its clients are."""

    needs = ()  # programs, and the packages that have them
    jobs = ("randread", "randwrite")

    def __init__(self, network, backend):
        self.network, self.backend = network, backend
        cpus = sorted(os.sched_getaffinity(0))
        self.pins = [["taskset", "-c", str(cpu)] for cpu in (cpus[0], cpus[1 % len(cpus)])]
        self.directory = tempfile.mkdtemp(dir="/dev/shm")
        self.server = None

    @classmethod
    def missing(cls):
        return [f"{program} (package {package})" for program, package in cls.needs if not shutil.which(program)]

    def __enter__(self):
        try:
            self.open()
            if self.backend == "memory":
                self.fill()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.close()
        stop(self.server)
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self):
        """Ends what else was started."""

    def fill(self):
        """Writes the namespace once, so that no measured write is the first one of its page."""

    def serve(self, argv, port):
        self.server = start(self.network.on("a", self.pins[0] + argv))
        if not wait_for_listener(self.server, port, START_SECONDS):
            raise Failure(f"{argv[0]}: {how_it_ended(self.server)}")

    def client(self, argv):
        done = subprocess.run(self.network.on(self.network.client_host, self.pins[1] + argv), capture_output=True,
                              text=True, timeout=CLIENT_SECONDS, check=False)
        if done.returncode:
            words = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
            raise Failure(f"{pathlib.Path(argv[0]).name}: {words[-1]}")
        return done.stdout

    def measure(self, job, depth):
        """One row."""
        servers, own = self.servers_cpu_seconds(), reaped_cpu_seconds()
        row = self.run(job, depth)
        count = row.pop("count")
        row["target_usec"] = (self.servers_cpu_seconds() - servers) * 1e6 / count
        row.setdefault("host_usec", (reaped_cpu_seconds() - own) * 1e6 / count)
        return row

    def servers_cpu_seconds(self):
        return cpu_seconds(self.server.pid)

    def fio(self, uri, job, depth):
        output = self.client(["fio", "--name=bench", "--ioengine=nbd", f"--uri={uri}", f"--rw={job}",
                              f"--bs={BLOCK_BYTES}", f"--iodepth={depth}", f"--runtime={RUNTIME_SECONDS}",
                              "--time_based", "--output-format=json", "--thread"])
        return figures(json.loads(output[output.index("{"):])["jobs"][0], job, "clat_ns")


def stop(process):
    """Ends a process, or nothing where none was started."""
    if process:
        process.terminate()
        end(process)


def figures(report, job, latency):
    way = report["read" if job == "randread" else "write"]
    percentile = way[latency]["percentile"]
    if not way["total_ios"]:
        raise Failure("no I/O was done")
    return {"p50": percentile["50.000000"] / 1e3, "p99": percentile["99.000000"] / 1e3, "iops": way["iops"],
            "count": way["total_ios"]}


class Ours(Way):
    """urnic-nvmf-target and urnic-nvmf."""

    trtype, transports, is_busy = "tcp", "roce", False

    def open(self):
        description = {
            "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": 1},
                            "namespaces": [{"nsid": 1, "device": {self.backend: SIZE}}]}],
            "ports": [{"portid": 1, "addr": {"trtype": self.trtype, "traddr": SERVER_ADDRESS, "trsvcid": "4420"},
                       "subsystems": [NQN]}],
        }
        config = pathlib.Path(self.directory) / "target.json"
        config.write_text(json.dumps(description), encoding="ascii")
        words = ["-c", str(config)] + (["--busy"] if self.is_busy else [])
        self.server = start(self.network.on("a", self.pins[0] + self.urnic("urnic-nvmf-target", *words)))
        line = self.server.stdout.readline()
        if line != "ready\n":
            raise Failure(line.strip() or f"urnic-nvmf-target: {how_it_ended(self.server)}")

    def urnic(self, program, *words):
        return ["env", f"URNIC_TRANSPORTS={self.transports}", self.network.urnic, "run", "--no-view", "--",
                str(self.network.build / program)] + list(words)

    def nvmf(self, command, *words):
        return self.urnic("urnic-nvmf", command, "-t", self.trtype, "-a", SERVER_ADDRESS, "-s", "4420", "-n", NQN,
                          *words)

    def fill(self):
        self.client(self.nvmf("bench", "--rw", "write", "--bs", str(FILL_BYTES), "--iodepth", "8", "--runtime",
                              str(RUNTIME_SECONDS), "--quiet"))

    def run(self, job, depth):
        words = ["--rw", job, "--bs", str(BLOCK_BYTES), "--iodepth", str(depth), "--runtime", str(RUNTIME_SECONDS),
                 "--quiet", "-o", "json"] + (["--poll"] if self.is_busy else [])
        report = json.loads(self.client(self.nvmf("bench", *words)))["jobs"][0]
        row = figures(report, job, "lat_ns")
        return row | {"host_usec": report["cpu_seconds"] * 1e6 / row["count"]}

    def exported(self, name, *words):
        """A host that is connected, and serves the namespace as an NBD server."""
        socket = pathlib.Path(self.directory) / name
        process = start(self.network.on(self.network.client_host,
                                        self.pins[1] + self.nvmf("export", "--nbd", str(socket), *words)))
        deadline = time.monotonic() + START_SECONDS
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                how = how_it_ended(process)
                stop(process)
                raise Failure(f"urnic-nvmf export: {how}")
            time.sleep(0.01)
        return process, socket


class OursTcp(Ours):
    """Over TCP."""


class OursTcpPolling(OursTcp):
    """Both ends poll."""

    is_busy = True


class OursRoce(Ours):
    """Over RDMA, RoCEv2."""

    trtype = "rdma"


class OursIwarp(OursRoce):
    """Over RDMA, iWARP."""

    transports = "iwarp"


class OursRocePolling(OursRoce):
    """Both ends poll."""

    is_busy = True


class OursIwarpPolling(OursIwarp):
    """Both ends poll."""

    is_busy = True


class OursNbd(Ours):
    """Our target over TCP, through `urnic-nvmf export --nbd`: the export counts for the host."""

    needs = (("fio", "fio"),)

    export, socket = None, None

    def open(self):
        super().open()
        self.export, self.socket = self.exported("nbd")

    def close(self):
        stop(self.export)

    def run(self, job, depth):
        before, own = cpu_seconds(self.export.pid), reaped_cpu_seconds()
        row = self.fio(f"nbd+unix:///?socket={self.socket}", job, depth)
        spent = cpu_seconds(self.export.pid) - before + reaped_cpu_seconds() - own
        return row | {"host_usec": spent * 1e6 / row["count"]}


class Nbdkit(Way):
    """nbdkit over TCP, and fio's nbd engine."""

    URI = f"nbd://{SERVER_ADDRESS}:10809"
    needs = (("nbdkit", "nbdkit"), ("fio", "fio"))

    def open(self):
        self.serve(["nbdkit", "-f", "-i", SERVER_ADDRESS, self.backend, f"size={SIZE}"], 10809)

    def fill(self):
        self.client(["fio", "--name=fill", "--ioengine=nbd", f"--uri={self.URI}", "--rw=write", f"--bs={FILL_BYTES}",
                     "--iodepth=8"])

    def run(self, job, depth):
        return self.fio(self.URI, job, depth)


class Tgt(Way):
    """tgtd, iSCSI over TCP, and iscsi-perf, which only reads and prints no percentiles."""

    needs = (("tgtd", "tgt"), ("tgtadm", "tgt"), ("iscsi-perf", "libiscsi-bin"))
    jobs = ("randread",)

    def open(self):
        self.serve(["tgtd", "-f", "-C", str(TARGET_CONTROL_PORT), "--iscsi", f"portal={SERVER_ADDRESS}:3260"], 3260)
        disk = pathlib.Path(self.directory) / "disk"
        with disk.open("wb") as file:
            file.write(bytes(256 << 20))
        self.admin("target", "new", "-T", IQN)
        self.admin("logicalunit", "new", "--lun", "1", *(["-b", str(disk)] if self.backend == "memory" else
                                                       ["--bstype", "null", "-b", "/dev/null"]))
        self.admin("target", "bind", "-I", "ALL")

    def admin(self, mode, operation, *words):
        done = subprocess.run(["tgtadm", "-C", str(TARGET_CONTROL_PORT), "--lld", "iscsi", "--mode", mode, "--op",
                               operation, "--tid", "1", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"tgtadm: {done.stderr.strip()}")

    def run(self, job, depth):
        output = self.client(["iscsi-perf", "-m", str(depth), "-b", str(BLOCK_BYTES // 512), "-t",
                              str(RUNTIME_SECONDS), "-r", f"iscsi://{SERVER_ADDRESS}/{IQN}/1"])
        rates = re.findall(r"iops average (\d+)", output)
        if not rates or not int(rates[-1]):
            raise Failure("iscsi-perf prints no rate")
        return {"iops": int(rates[-1]), "count": int(rates[-1]) * RUNTIME_SECONDS}
