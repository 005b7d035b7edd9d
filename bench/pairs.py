# SPDX-License-Identifier: BSD-2-Clause
"""Client and server programs in pairs, on the two hosts of a test network.

For scripts/demo and bench/run: make the network, start a server on host a, wait until it listens,
run the client on host b, and read the figure from what it prints. Nothing here raises for a program
that failed: a Result says what went wrong in a sentence, and the caller goes on.
"""
import math
import os
import pathlib
import re
import signal
import subprocess
import time
from typing import NamedTuple, Optional

SERVER_ADDRESS = "10.99.0.1"
PERFTEST_PORT = 18515
NETPEER_PORT = 18600

# perftest measures the processor's clock when it starts. If too much else runs meanwhile, its
# figures are "inf", and it has to run again.
PERFTEST_ATTEMPTS = 3

# Where a figure stands in the line of numbers that perftest prints below its "#bytes" heading.
BANDWIDTH_AVERAGE_COLUMN = 3
LATENCY_TYPICAL_COLUMN = 4


class Result(NamedTuple):
    figure: Optional[float]
    problem: str
    output: str = ""


class Network:
    """The two hosts; a context manager. With one_host=True both programs run on host a."""

    def __init__(self, build, one_host=False):
        self.build = pathlib.Path(build).resolve()
        self.urnic = str(self.build / "urnic")
        self.netpeer = str(self.build / "bench" / "netpeer")
        self.name = f"pairs-{os.getpid()}"
        self.client_host = "a" if one_host else "b"
        self.before_client = []  # a program that runs `urnic host exec` for the client

    def __enter__(self):
        subprocess.run([self.urnic, "host", "up", "-n", self.name], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run([self.urnic, "host", "down", "-n", self.name], check=False)

    def on(self, host, argv):
        return [self.urnic, "host", "exec", "-n", self.name, host, "--"] + argv

    def run_pair(self, server, client, port, timeout_s):
        """Run a server and a client; the client's Result has its output and no figure yet."""
        server_process = start(self.on("a", server))
        try:
            if not wait_for_listener(server_process, port, timeout_s):
                return Result(None, "the server: " + how_it_ended(server_process))
            client_process = start(self.before_client + self.on(self.client_host, client))
            try:
                output, _ = client_process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                end(client_process)
                return Result(None, f"the client was not done after {timeout_s} s")
            if client_process.returncode != 0:
                return Result(None, "the client: " + last_words(output, client_process.returncode), output)
            return Result(None, "", output)
        finally:
            end(server_process)

    def alone(self, argv, timeout_s=60):
        """What one program prints on host a, or why it did not."""
        try:
            done = subprocess.run(self.on("a", argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            return f"not done after {timeout_s} s"
        return done.stdout

    def perftest(self, program, arguments, timeout_s=30):
        """A perftest pair over urnic: usec for *_lat, MiB/s for *_bw."""
        command = [self.urnic, "run", "--", program, "-F", "-x", "0"] + arguments
        column = LATENCY_TYPICAL_COLUMN if program.endswith("_lat") else BANDWIDTH_AVERAGE_COLUMN
        for _ in range(PERFTEST_ATTEMPTS):
            result = self.run_pair(command, command + [SERVER_ADDRESS], PERFTEST_PORT, timeout_s)
            if result.problem:
                return result
            figure = perftest_figure(result.output, column)
            if figure is None:
                return Result(None, "the client printed no figure", result.output)
            if math.isfinite(figure) and figure > 0:
                return Result(figure, "", result.output)
        return Result(None, "perftest could not measure how fast the processor's clock runs", result.output)

    def pingpong(self, program, arguments, timeout_s=30):
        """An ibv_*_pingpong pair over urnic: usec one way."""
        command = [self.urnic, "run", "--", program, "-g", "0"] + arguments
        result = self.run_pair(command, command + [SERVER_ADDRESS], PERFTEST_PORT, timeout_s)
        found = re.search(r"= ([0-9.]+) usec/iter", result.output)
        if result.problem or not found:
            return result._replace(problem=result.problem or "the client printed no figure")
        return Result(float(found.group(1)) / 2, "", result.output)

    def sockets(self, mode, key, arguments, timeout_s=30):
        """A netpeer pair: the value it prints for `key`."""
        result = self.run_pair([self.netpeer, "server"], [self.netpeer] + arguments + [mode, SERVER_ADDRESS],
                               NETPEER_PORT, timeout_s)
        found = re.search(rf"^{key} ([0-9.]+)$", result.output, re.M)
        if result.problem or not found:
            return result._replace(problem=result.problem or "the client printed no figure")
        return Result(float(found.group(1)), "", result.output)


def start(argv):
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, errors="replace", start_new_session=True)


def end(process):
    """A server that has served ends by itself; one that has not is stuck and is killed."""
    try:
        process.communicate(timeout=1)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def listens(pid, port):
    """Whether a TCP socket of the process's network namespace listens on the port."""
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        try:
            rows = pathlib.Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            local, state = row.split()[1], row.split()[3]
            if local.endswith(wanted) and state == "0A":
                return True
    return False


def wait_for_listener(process, port, timeout_s):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        if listens(process.pid, port):
            return True
        time.sleep(0.01)
    return False


def last_words(output, status):
    lines = [line.strip() for line in output.splitlines() if re.search(r"[A-Za-z]", line)]
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return f"{lines[-1]} ({how})" if lines else how


def how_it_ended(process):
    if process.poll() is None:
        return "did not listen in time"
    output, _ = process.communicate()
    return last_words(output, process.returncode)


def perftest_figure(output, column):
    """The number in a column of the last line below the heading, or None. What perftest complains
    of may follow on that line."""
    figure = None
    below_heading = False
    for line in output.splitlines():
        if line.lstrip().startswith("#bytes"):
            below_heading = True
        elif below_heading and (numbers := re.match(r"\s*\d+\s+\d+\s(?:\s|[\d.]|inf|nan)*", line)):
            columns = numbers.group().split()
            figure = float(columns[column]) if len(columns) > column else None
    return figure
