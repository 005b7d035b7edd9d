# SPDX-License-Identifier: BSD-2-Clause
"""The ways of bench/nvmf --guest: the Linux kernel's target and ours, and both hosts, in one guest.

The guest is that of tests/interop/lab. A row's host and target run in it at once, and share its
only CPU. They meet at the guest's own address, or, where RDMA has to go by packets, in two network
namespaces with a veth pair between them. The kernel's RDMA is rxe, which lives in the first
namespace only, so the end that is ours is then in the other one.

A row's CPU time is that of the whole guest, threads of the kernel included. It is taken from the
middle of the job, so neither the start nor the end of a program counts.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import time
from typing import NamedTuple

from nvmf_ways import BLOCK_BYTES, NQN, Failure, figures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/interop"))
from sides import SSH_FAILS, GuestGone, Lab, urnic_command  # noqa: E402

BACKENDS = ("memory", "null")
JOBS = ("randread", "randwrite")
DEPTHS = (1, 32)
SHAPES = [(backend, job, depth) for backend in BACKENDS for job in JOBS for depth in DEPTHS]
COLUMNS = ("p50", "p99", "iops", "cpu_usec")
LINE = "{:>8} {:>8} {:>8} {:>8}  {}"
CPUS = 1  # of the lab's guests
SIZE_MIB = 16
RUNTIME_SECONDS = 2
WINDOW = (1.6, 0.5)  # CPU time counts from 1.6 to 0.5 seconds before the end of a job
COMMAND_SECONDS = 600
HERE, NEAR, FAR = "10.77.0.2", "10.78.0.1", "10.78.0.2"  # the guest's, and those of the veth pair
FUNCTIONS = pathlib.Path(__file__).with_suffix(".sh").read_text(encoding="ascii")


class Machine:
    """The guest's shell."""

    def __init__(self, lab):
        self.lab = lab

    def run(self, *words):
        """What a command prints; Failure with its last line if it fails. It may be a function of
        nvmf_guest.sh."""
        argv = self.lab.command("exec", "a", FUNCTIONS + shlex.join(words))
        done = subprocess.run(argv, env=self.lab.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=COMMAND_SECONDS,
                              check=False)
        if done.returncode == SSH_FAILS and not self.is_alive():
            raise GuestGone("the guest is gone")
        if done.returncode:
            raise Failure((done.stdout.strip().splitlines() or ["no output"])[-1])
        return done.stdout

    def is_alive(self):
        time.sleep(1)
        return not subprocess.run(self.lab.command("alive", "a"), env=self.lab.environment, check=False).returncode


class Way(NamedTuple):
    """A host and a target. `is_apart`: they are in two network namespaces."""

    trtype: str
    host: str
    target: str
    is_apart: bool = False

    @property
    def address(self):
        if not self.is_apart:
            return HERE
        return FAR if self.target == "urnic" else NEAR

    @property
    def rxe(self):
        """The kernel's RDMA device and its interface. urnic needs its UDP port in its own
        namespace only."""
        if self.trtype == "tcp" or (self.host, self.target) == ("urnic", "urnic"):
            return "none"
        return "near" if self.is_apart else "eth0"

    def ours(self, end, program, *words):
        """The command of a program of ours at one end, "host" or "target"."""
        is_far = self.is_apart and end == ("target" if self.target == "urnic" else "host")
        return [*(["/usr/bin/ip", "netns", "exec", "far"] if is_far else []),  # not busybox's
                *(["env", "URNIC_LOCAL=off"] if self.is_apart else []),
                *(urnic_command("/build", "roce") if self.trtype == "rdma" else []),
                f"/build/{program}", *words]

    def nvmf(self, command, *words):
        return self.ours("host", "urnic-nvmf", command, "-t", self.trtype, "-a", self.address, "-s", "4420", "-n", NQN,
                         *words)


WAYS = {
    "tcp, linux to nvmet": Way("tcp", "linux", "nvmet"),
    "tcp, linux to urnic": Way("tcp", "linux", "urnic"),
    "tcp, urnic to nvmet": Way("tcp", "urnic", "nvmet"),
    "tcp, urnic to urnic": Way("tcp", "urnic", "urnic"),
    "rdma, linux to nvmet": Way("rdma", "linux", "nvmet"),
    "rdma, urnic to urnic": Way("rdma", "urnic", "urnic"),
    "rdma by packets, linux to urnic": Way("rdma", "linux", "urnic", True),
    "rdma by packets, urnic to nvmet": Way("rdma", "urnic", "nvmet", True),
    "rdma by packets, urnic to urnic": Way("rdma", "urnic", "urnic", True),
}

# A way of ours, and the way with which it is compared.
PAIRS = (
    ("tcp, linux to urnic", "tcp, linux to nvmet"),
    ("tcp, urnic to urnic", "tcp, urnic to nvmet"),
    ("tcp, urnic to urnic", "tcp, linux to nvmet"),
    ("rdma, urnic to urnic", "rdma, linux to nvmet"),
    ("rdma by packets, linux to urnic", "rdma, linux to nvmet"),
    ("rdma by packets, urnic to urnic", "rdma by packets, urnic to nvmet"),
)


class Running:
    """A way with its target started and, where the kernel is the host, connected."""

    def __init__(self, machine, way, backend):
        self.machine, self.way, self.backend = machine, way, backend

    def __enter__(self):
        try:
            self.machine.run("choose_rxe", self.way.rxe)
            if self.way.target == "urnic":
                self.start_urnic()
            else:
                device = {"memory": "/dev/ram0", "null": "/dev/nullb0"}[self.backend]
                self.machine.run("start_nvmet", NQN, device, self.way.trtype, self.way.address)
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.machine.run("take_down")

    def start_urnic(self):
        description = {
            "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": 1},
                            "namespaces": [{"nsid": 1, "device": {self.backend: f"{SIZE_MIB}M"}}]}],
            "ports": [{"portid": 1, "addr": {"trtype": self.way.trtype, "traddr": self.way.address, "trsvcid": "4420"},
                       "subsystems": [NQN]}],
        }
        self.machine.run("start_urnic", json.dumps(description),
                         *self.way.ours("target", "urnic-nvmf-target", "-c", "/tmp/target.json"))

    def connect(self):
        """A namespace of ours in memory is written, so that blocks exist which are read."""
        way = self.way
        if way.host == "linux":
            self.machine.run("connect", NQN, way.trtype, way.address)
        if way.target == "urnic" and self.backend == "memory":
            self.machine.run(*(["dd", "if=/tmp/zeroes", "of=/dev/nvme0n1", "bs=1M", "oflag=direct"]
                               if way.host == "linux" else way.nvmf("write", "-d", "/tmp/zeroes")))

    def measure(self, job, depth):
        """One row."""
        shape = [f"--rw={job}", f"--bs={BLOCK_BYTES}", f"--iodepth={depth}", f"--runtime={RUNTIME_SECONDS}"]
        if self.way.host == "linux":
            command = ["fio", "--name=bench", "--filename=/dev/nvme0n1", "--ioengine=libaio", "--direct=1", *shape,
                       "--time_based", "--norandommap", "--scramble_buffers=0", "--thread", "--lat_percentiles=1",
                       "--output-format=json"]
        else:
            command = self.way.nvmf("bench", *shape, "--quiet", "-o", "json")
        output = self.machine.run("run_job", str(60 + RUNTIME_SECONDS), *command)
        row = figures(json.loads(output[output.index("{"):output.rindex("}") + 1])["jobs"][0], job, "lat_ns")
        del row["count"]
        return row | {"cpu_usec": busy_cpus(output) * 1e6 / row["iops"]}


def busy_cpus(output):
    """How many CPUs were busy, on average, in the middle of a job."""
    samples = [tuple(map(float, found)) for found in re.findall(r"^sample (\S+) (\d+) (\d+)", output, re.M)]
    end = samples[-1][0]
    first, *_, last = [sample for sample in samples if end - WINDOW[0] <= sample[0] <= end - WINDOW[1]]
    seconds = last[0] - first[0]
    return CPUS - (last[1] - first[1] + last[2] - first[2]) / 100 / seconds


def shape_label(backend, job, depth):
    return f"{backend}, {job}, depth {depth}"


def label_of(way, *shape):
    return f"{way}, {shape_label(*shape)}"


def measure_way(table, machine, name, backend, only):
    rows = [(label, job, depth) for job in JOBS for depth in DEPTHS
            if only in (label := label_of(name, backend, job, depth))]
    if not rows:
        return
    try:
        with Running(machine, WAYS[name], backend) as running:
            for label, job, depth in rows:
                table.attempt(label, lambda job=job, depth=depth: running.measure(job, depth))
    except (Failure, OSError, subprocess.SubprocessError) as error:
        table.problems.append(f"{name}, {backend}: {error}")


def measure(table, build, kernel, only, rounds):
    """Fill bench/nvmf's table of figures, in rounds in which each way takes its turn."""
    lab = Lab(build, kernel, ["a"], has_siw=False)
    lab.environment |= {"LAB_NVME": "yes", "LAB_MEMORY": "1024", "LAB_CLOCK": "instructions"}
    reason = lab.reason_not_to_boot()
    if reason:
        table.problems.append(reason)
        return
    with lab:
        machine = Machine(lab)
        print(f"Linux {lab.version()} in a guest of {CPUS} CPU", flush=True)
        try:
            machine.run("prepare", str(SIZE_MIB), NEAR, FAR)
            for turn in range(rounds):
                print(f"  round {turn + 1} of {rounds}", file=sys.stderr)
                for backend in BACKENDS:
                    for name in WAYS:
                        measure_way(table, machine, name, backend, only)
        except (Failure, GuestGone) as error:
            table.problems.append(str(error))


def show_rows(table):
    print(LINE.format("p50 us", "p99 us", "IOPS", "CPU us", ""))
    for backend, job, depth in SHAPES:
        for name in WAYS:
            label = label_of(name, backend, job, depth)
            if label in table.rows:
                values = [table.median(label, column) for column in COLUMNS]
                print(LINE.format(*(f"{value:.0f}" for value in values), label))


def show_ratios(table):
    """Of medians."""
    for ours, theirs in PAIRS:
        shapes = [shape for shape in SHAPES
                  if label_of(ours, *shape) in table.rows and label_of(theirs, *shape) in table.rows]
        if shapes:
            print("\n" + LINE.format("p50", "p99", "IOPS", "CPU", f"[{ours}] by [{theirs}]"))
        for shape in shapes:
            medians = [[table.median(label_of(way, *shape), column) for column in COLUMNS] for way in (ours, theirs)]
            print(LINE.format(*(f"{own / peer:.2f}" for own, peer in zip(*medians)), shape_label(*shape)))


def show(table):
    if table.rows:
        show_rows(table)
        show_ratios(table)
        print("\nWithout hardware virtualization the guest is emulated, and its clock counts instructions.\n"
              "Only ratios within this run mean something then.")
