# SPDX-License-Identifier: BSD-2-Clause
"""What a message costs the client's processor, and which limit follows from it.

perf counts the client twice, with different numbers of messages. The difference belongs to the
messages alone, without start and end. In a ping-pong the client sends one message and receives one,
so its cost is that of one message at both ends. In a stream it is the sender's cost. A counter that
the machine or the kernel does not give is left out.
"""
import re
import subprocess
import tempfile

from report_cases import AVERAGE, MEAN, MIB, is_installed, netpeer_figures

EVENTS = {
    "task-clock": "cpu_usec",
    "context-switches": "switches",
    "raw_syscalls:sys_enter": "system_calls",
    "sched:sched_waking": "wake_ups",
    "cycles": "cycles",
    "instructions": "instructions",
}
MESSAGES_MAX = 1000000  # how many messages the second run has more than the first, at most
SCALE = {"msec": 1000.0, "usec": 1.0, "nsec": 1e-3}

# If the client's processor is busy for this share of a message's time, it is the limit.
BUSY = 0.8


def counted(text):
    """{name: count} of what perf stat -x, wrote; events without a number are left out."""
    counts = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > 3 and fields[2] in EVENTS and re.fullmatch(r"[0-9.]+", fields[0]):
            counts[EVENTS[fields[2]]] = float(fields[0]) * SCALE.get(fields[1], 1.0)
    return counts


def available_events():
    """Those that perf can count here; an event that it does not know ends it."""
    if not is_installed("perf"):
        return []
    return [event for event, name in EVENTS.items() if name in counted(subprocess.run(
        ["perf", "stat", "-x", ",", "-e", event, "true"], capture_output=True, text=True, check=False).stderr)]


def programs(scale):
    """label -> (is it urnic's, arguments without count, messages, bytes of a stream's message)"""
    size, stream = scale.rounds, scale.stream_bytes // MIB
    return {
        "ib_write_lat, 8 bytes": (True, ["ib_write_lat", "-s", "8"], size, 0),
        "ib_send_lat, 8 bytes": (True, ["ib_send_lat", "-s", "8"], size, 0),
        "ib_send_lat -e, 8 bytes": (True, ["ib_send_lat", "-e", "-s", "8"], size, 0),
        "raw UDP, polling": (False, ["-s", "8", "udp-pingpong"], size, 0),
        "raw TCP, polling": (False, ["-s", "8", "tcp-pingpong"], size, 0),
        "raw UDP, asleep": (False, ["-b", "-s", "8", "udp-pingpong"], size, 0),
        "raw TCP, asleep": (False, ["-b", "-s", "8", "tcp-pingpong"], size, 0),
        "ib_write_bw, 8 bytes": (True, ["ib_write_bw", "-s", "8"], size, 8),
        "ib_write_bw, 1 MiB": (True, ["ib_write_bw", "-s", str(MIB)], stream, MIB),
        "ib_read_bw, 1 MiB": (True, ["ib_read_bw", "-s", str(MIB)], stream, MIB),
    }


def run_counted(bench, events, row, count):
    """({name: count}, usec per message, problem) of one run."""
    is_urnic, arguments, _, stream_bytes = row
    with tempfile.NamedTemporaryFile("r", encoding="ascii") as file:
        # Start perf outside of the test network: there it sees the kernel's trace points.
        bench.network.before_client = ["perf", "stat", "-x", ",", "-o", file.name, "-e", ",".join(events), "--"]
        if is_urnic:
            figures, problem = bench.perftest(arguments[0], arguments[1:] + ["-n", str(count)])
        else:
            figures, problem = netpeer_figures(bench.netpeer(["-n", str(count)] + arguments), {0: "mean_usec"})
        bench.network.before_client = []
        counts = counted(file.read())
    if problem:
        return {}, 0.0, problem
    if not is_urnic:
        return counts, 2 * figures[0], ""
    if stream_bytes:
        return counts, stream_bytes / MIB / float(figures[AVERAGE]) * 1e6, ""
    return counts, 2 * float(figures[MEAN]), ""


def limit_of(cost):
    """What keeps a message from being faster, in a sentence."""
    usec, cpu_usec = cost["usec"], cost.get("cpu_usec", 0.0)
    calls = cost.get("system_calls")
    work = f"{cpu_usec:.2f} of {usec:.2f} usec are this end's processor"
    if calls is not None:
        work += f", with {calls:.2f} system calls"
    if cost["waits_by"] == "polling":
        return work + "; it polls while the other end and the kernel work"
    if cost["waits_by"] == "sleeping":
        return f"wake-ups: {cost.get('switches', 0.0):.1f} switches a message; {work}"
    if cpu_usec >= BUSY * usec:
        return "this end's processor: " + work
    return "the other end, or the link: only " + work


def measure_one(bench, events, label, row, seconds):
    _, arguments, count, stream_bytes = row
    few, usec, problem = run_counted(bench, events, row, count)
    if problem:
        return {"what": label, "problem": problem}
    more = max(count, min(int(seconds * 1e6 / usec), MESSAGES_MAX))
    many, usec, problem = run_counted(bench, events, row, count + more)
    if problem:
        return {"what": label, "problem": problem}
    cost = {name: max(0.0, many[name] - few[name]) / more for name in many if name in few}
    sleeps = "-e" in arguments or "-b" in arguments
    cost.update({"what": label, "usec": usec,
                 "waits_by": "streaming" if stream_bytes else "sleeping" if sleeps else "polling"})
    cost["limit"] = limit_of(cost)
    return cost


def measure(bench, scale, only):
    """A dictionary for each program; none where perf is missing."""
    events = available_events()
    if not events:
        return []
    return [measure_one(bench, events, label, row, scale.cost_s) for label, row in programs(scale).items()
            if only in f"cost {label}"]
