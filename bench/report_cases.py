# SPDX-License-Identifier: BSD-2-Clause
"""What bench/report measures: its plots, and the programs that make their points.

A case runs one program, or several at once, and returns its figures by x and what went wrong. A
program that is not installed has no cases.
"""
import concurrent.futures
import os
import re
import shutil
from typing import Callable, NamedTuple

from pairs import NETPEER_PORT, PERFTEST_ATTEMPTS, PERFTEST_PORT, SERVER_ADDRESS

UCX_PORT = 13337
FABRIC_PORT = 47592
MIB = 1 << 20
UDP_BYTES_MAX = 32768
TIMEOUT_S = 60

# Columns of perftest: -lat and -bw. Of ucx_perftest: latency and bandwidth.
TYPICAL, MEAN, P99, P999 = 4, 5, 7, 8
AVERAGE, RATE = 3, 4
UCX_LATENCY, UCX_BANDWIDTH = 1, 5


class Plot(NamedTuple):
    title: str
    x_title: str
    unit: str
    less_is_better: bool


PLOTS = {
    "latency": Plot("Latency, both ends poll", "bytes", "usec", True),
    "asleep": Plot("Latency, both ends sleep", "bytes", "usec", True),
    "percentiles": Plot("Percentiles of 8 bytes, polling", "percentile", "usec", True),
    "bandwidth": Plot("Bandwidth between two hosts", "bytes", "MiB/s", False),
    "rate": Plot("Rate of 8-byte writes", "queue pairs", "M/s", False),
    "processes": Plot("Bandwidth of several processes", "pairs of processes", "MiB/s", False),
    "local latency": Plot("Latency within one host", "bytes", "usec", True),
    "local bandwidth": Plot("Bandwidth within one host", "bytes", "MiB/s", False),
}


class Scale(NamedTuple):
    latency_sizes: tuple
    bandwidth_sizes: tuple
    queue_pairs: tuple
    processes: tuple
    rounds: int  # of a ping-pong
    stream_bytes: int
    stream_ms: int
    cost_s: float  # how much longer the second counted run of a program takes (report_cost.py)


FULL = Scale((8, 64, 512, 4096, 32768), (64, 1024, 8192, 65536, MIB), (1, 4, 16, 64, 256), (1, 2, 4),
             5000, 1 << 29, 1000, 1.0)
QUICK = Scale((8, 4096), (4096, MIB), (1, 16), (1, 2), 1000, 1 << 27, 300, 0.3)


class Case(NamedTuple):
    plot: str
    series: str
    x: object
    run: Callable  # returns ({x: figure}, problem)


def is_installed(program):
    return shutil.which(program) is not None


def numbers_below(output, pattern):
    """The numbers of the last line that begins like `pattern`."""
    rows = [line.split() for line in output.splitlines() if re.match(pattern, line)]
    return rows[-1] if rows else []


class Bench:
    """How each program is run on the two hosts, each end on its own processor."""

    def __init__(self, network):
        self.network = network
        cpus = sorted(os.sched_getaffinity(0))
        self.pin = [["taskset", "-c", str(cpu)] for cpu in (cpus[0], cpus[1 % len(cpus)])]

    def pair(self, server, client, port, environment=(), is_pinned=True):
        before = ["env", *environment]
        pin = self.pin if is_pinned else [[], []]
        return self.network.run_pair(before + pin[0] + server, before + pin[1] + client, port, TIMEOUT_S)

    def perftest(self, program, arguments, port=PERFTEST_PORT, is_pinned=True):
        """Its row of figures, or []; and what went wrong."""
        command = [self.network.urnic, "run", "--no-view", "--", program, "-F", "-x", "0", "-p", str(port)] + arguments
        for _ in range(PERFTEST_ATTEMPTS):
            result = self.pair(command, command + [SERVER_ADDRESS], port, is_pinned=is_pinned)
            row = numbers_below(result.output.partition("#bytes")[2], r"\s*\d+\s+\d+\s")
            if result.problem:
                return [], result.problem
            if row and "inf" not in row and "nan" not in row:
                return row, ""
        return [], "perftest printed no figure"

    def netpeer(self, arguments, port=NETPEER_PORT, is_pinned=True):
        program = [self.network.netpeer, "-p", str(port)]
        return self.pair(program + ["server"], program + arguments + [SERVER_ADDRESS], port, is_pinned=is_pinned)

    def ucx(self, settings, arguments):
        common = ["ucx_perftest", "-p", str(UCX_PORT)]
        return self.pair(common, common + [SERVER_ADDRESS, "-f"] + arguments, UCX_PORT, settings)

    def fabric(self, provider, endpoint, size, count):
        common = ["fi_pingpong", "-p", provider, "-e", endpoint, "-S", str(size), "-I", str(count)]
        return self.pair(common + ["-B", str(FABRIC_PORT)], common + ["-P", str(FABRIC_PORT), SERVER_ADDRESS],
                         FABRIC_PORT)


# --- figures of what a program printed ---


def figures_of(row, problem, columns):
    """{x: number in a column} of a row of words."""
    if problem:
        return {}, problem
    try:
        return {x: float(row[column]) for x, column in columns.items()}, ""
    except (IndexError, ValueError):
        return {}, "the client printed no figure"


def netpeer_figures(result, keys):
    values = dict(re.findall(r"^(\w+) ([0-9.]+)$", result.output, re.M))
    if result.problem or not all(key in values for key in keys.values()):
        return {}, result.problem or "the client printed no figure"
    return {x: float(values[key]) for x, key in keys.items()}, ""


def fabric_figures(result, size):
    name = f"{size // 1024}k" if size >= 1024 else str(size)
    return figures_of(numbers_below(result.output, rf"{name}\s"), result.problem, {size: 6})


# --- cases ---


def perftest_case(bench, plot, series, program, x, arguments, columns):
    return Case(plot, series, x, lambda: figures_of(*bench.perftest(program, arguments), columns))


def netpeer_case(bench, plot, series, x, arguments, keys):
    return Case(plot, series, x, lambda: netpeer_figures(bench.netpeer(arguments), keys))


def ucx_case(bench, plot, series, x, settings, arguments, column):
    def run():
        result = bench.ucx(settings, arguments)
        return figures_of(numbers_below(result.output, r"\s*\d+\s+[0-9.]+\s"), result.problem, {x: column})
    return [Case(plot, series, x, run)] if is_installed("ucx_perftest") else []


def fabric_case(bench, plot, series, size, provider, endpoint, count):
    def run():
        return fabric_figures(bench.fabric(provider, endpoint, size, count), size)
    return [Case(plot, series, size, run)] if is_installed("fi_pingpong") else []


UCX_TCP = ("UCX_TLS=tcp,self", "UCX_NET_DEVICES=veth0")


def latency_cases(bench, scale, plot, waits):
    count = str(scale.rounds)
    sleeps = waits == "asleep"
    for size in scale.latency_sizes:
        arguments = ["-s", str(size), "-n", count] + (["-e"] if sleeps else [])
        if not sleeps:
            yield perftest_case(bench, plot, "urnic ib_write_lat", "ib_write_lat", size, arguments, {size: TYPICAL})
        yield perftest_case(bench, plot, "urnic ib_send_lat", "ib_send_lat", size, arguments, {size: TYPICAL})
        option = ["-b"] if sleeps else []
        for name, mode in (("raw UDP", "udp-pingpong"), ("raw TCP", "tcp-pingpong")):
            yield netpeer_case(bench, plot, name, size, option + ["-s", str(size), "-n", count, mode],
                               {size: "median_usec"})
        if sleeps:
            continue
        yield from ucx_case(bench, plot, "UCX tcp", size, UCX_TCP,
                            ["-t", "tag_lat", "-s", str(size), "-n", count], UCX_LATENCY)
        yield from fabric_case(bench, plot, "libfabric tcp", size, "tcp", "msg", scale.rounds)


def percentile_cases(bench, scale):
    count = str(4 * scale.rounds)
    columns = {50: TYPICAL, 99: P99, 99.9: P999}
    keys = {50: "median_usec", 99: "p99_usec", 99.9: "p999_usec"}
    for program in ("ib_write_lat", "ib_send_lat"):
        yield perftest_case(bench, "percentiles", f"urnic {program}", program, "all",
                            ["-s", "8", "-n", count], columns)
    for name, mode in (("raw UDP", "udp-pingpong"), ("raw TCP", "tcp-pingpong")):
        yield netpeer_case(bench, "percentiles", name, "all", ["-s", "8", "-n", count, mode], keys)


def count_of(scale, size):
    """How many messages of a size make a stream."""
    return str(max(200, min(scale.stream_bytes // size, 200000)))


def bandwidth_cases(bench, scale, plot):
    for size in scale.bandwidth_sizes:
        arguments = ["-s", str(size), "-n", count_of(scale, size)]
        for program in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
            yield perftest_case(bench, plot, f"urnic {program}", program, size, arguments, {size: AVERAGE})
        yield netpeer_case(bench, plot, "raw TCP", size,
                           ["-s", str(size), "-t", str(scale.stream_ms), "tcp-stream"], {size: "MiBps"})
        yield from ucx_case(bench, plot, "UCX tcp", size, UCX_TCP, ["-t", "tag_bw"] + arguments, UCX_BANDWIDTH)
    largest = scale.bandwidth_sizes[-1]
    for name, mode in (("raw UDP, 4 KiB packets", "udp-stream"), ("UDP with ICRCs", "udp-icrc")):
        yield netpeer_case(bench, plot, name, largest, ["-P", "4112", "-t", str(scale.stream_ms), mode],
                           {largest: "MiBps"})


def rate_cases(bench, scale):
    for count in scale.queue_pairs:
        # -n is for each queue pair, and not less than the depth of its queue.
        iterations = max(128, 40 * scale.rounds // count)
        yield perftest_case(bench, "rate", "urnic ib_write_bw", "ib_write_bw", count,
                            ["-s", "8", "-q", str(count), "-n", str(iterations)], {count: RATE})


# Several pairs do not begin at the same moment. So that they overlap, each runs so many times as
# long as a single pair.
OVERLAP = 5


def several(count, run_one):
    """The sum of what `count` pairs at once move; run_one(number) returns a pair's figures."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        results = list(pool.map(run_one, range(count)))
    problems = [problem for _, problem in results if problem]
    if problems:
        return {}, problems[0]
    return {count: sum(figures[count] for figures, _ in results)}, ""


def process_cases(bench, scale):
    messages = str(OVERLAP * int(count_of(scale, MIB)))

    def urnic(count, number):
        return figures_of(*bench.perftest("ib_write_bw", ["-s", str(MIB), "-n", messages],
                                          port=PERFTEST_PORT + number, is_pinned=False), {count: AVERAGE})

    def tcp(count, number):
        result = bench.netpeer(["-s", str(MIB), "-t", str(OVERLAP * scale.stream_ms), "tcp-stream"],
                               port=NETPEER_PORT + number, is_pinned=False)
        return netpeer_figures(result, {count: "MiBps"})

    for count in scale.processes:
        for name, one in (("urnic ib_write_bw", urnic), ("raw TCP", tcp)):
            yield Case("processes", name, count, lambda count=count, one=one: several(
                count, lambda number: one(count, number)))


def local_cases(bench, scale):
    count = str(4 * scale.rounds)
    for size in scale.latency_sizes:
        arguments = ["-s", str(size), "-n", count]
        for program in ("ib_write_lat", "ib_send_lat"):
            yield perftest_case(bench, "local latency", f"urnic {program}", program, size, arguments,
                                {size: TYPICAL})
        yield from ucx_case(bench, "local latency", "UCX shm", size, ("UCX_TLS=posix,cma,self",),
                            ["-t", "ucp_put_lat"] + arguments, UCX_LATENCY)
        yield from fabric_case(bench, "local latency", "libfabric shm", size, "shm", "rdm", 4 * scale.rounds)
    for size in scale.bandwidth_sizes:
        arguments = ["-s", str(size), "-n", count_of(scale, size)]
        for program in ("ib_write_bw", "ib_send_bw"):
            yield perftest_case(bench, "local bandwidth", f"urnic {program}", program, size, arguments,
                                {size: AVERAGE})
        yield from ucx_case(bench, "local bandwidth", "UCX shm", size, ("UCX_TLS=posix,cma,self",),
                            ["-t", "ucp_put_bw"] + arguments, UCX_BANDWIDTH)


def cases(bench, scale, one_host):
    if one_host:
        yield from local_cases(bench, scale)
        return
    yield from latency_cases(bench, scale, "latency", "polling")
    yield from latency_cases(bench, scale, "asleep", "asleep")
    yield from percentile_cases(bench, scale)
    yield from bandwidth_cases(bench, scale, "bandwidth")
    yield from rate_cases(bench, scale)
    yield from process_cases(bench, scale)
