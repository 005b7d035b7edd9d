# SPDX-License-Identifier: BSD-2-Clause
"""The programs that urnic and rxe, or siw, run with each other: Debian's own, and `verify` of
tests/e2e.

In a command line {d} is the device, {g} the index of the GID, {m} the path MTU; {me} and {peer} are
addresses of the family that is tested, {oob} is the other's IPv4 address, for what the program
itself says over TCP; {tests} is where our own programs are.
"""
import re
from typing import Callable, NamedTuple

# A guest that is emulated on a busy machine may say nothing for half a second, and then a timeout
# of 67 ms with 7 retries is not enough: 268 ms where the program can be told (4.096 us * 2^16).
TIMEOUT = 16
MTUS = (256, 512, 1024, 2048, 4096)
TCP_PINGPONG, TCP_VERIFY = 18515, 18600
BOTH = ("IPv4", "IPv6")


def both_end_well(server, client):
    return server.status == 0 and client.status == 0


def has_figures(server, client):
    """perftest's rows, and figures that are not all 0: a slow guest's may round to that."""
    rows = re.findall(r"^ *\d+ +\d+ +([\d.]+) +([\d.]+)(?:\s+([\d.]+))?", client.output, re.M)
    return both_end_well(server, client) and any(float(x or 0) > 0 for row in rows for x in row)


def both_end_well_or_hang_up(server, client):
    """rstream -T a ends with POLLHUP where the last bytes and the end of the stream are there at
    once; between two rxe 4 times of 10."""
    return {server.status, client.status} <= {0, 16} and server.status + client.status <= 16


def both_end_well_or_read_a_closed_channel(server, client):
    """The thread of rping's client that reads events may do so once more after its main thread has
    closed the channel: EBADF ends the program, at its end."""
    if client.status == 255 and "rdma_get_cm_event: Bad file descriptor" in client.output:
        return server.status == 0 and "DISCONNECT EVENT" in client.output
    return both_end_well(server, client)


class Program(NamedTuple):
    name: str
    listens: object  # a TCP port, or "cm"
    server: str
    client: str
    mtus: tuple = (1024,)
    families: tuple = BOTH
    is_good: Callable = both_end_well
    has_bytes_checked: bool = False  # the program looks at every byte that arrives
    is_reliable: bool = True
    has_events: bool = False  # and rxe in a busy guest loses one of some 150; between two rxe it hung 4 times of 8
    is_impatient: bool = False  # its client does not wait until its server listens, a second time
    is_long: bool = False  # 80 MiB and more, which take an emulated guest a minute
    is_quick: bool = False  # of the subset that is run often
    is_among_few: bool = False  # of the handful that make check runs where guests are emulated
    is_captured: bool = False  # of those whose packets are looked at


def pingpong(program, options="-s 10001 -n 100", mtus=(1024,), **fields):
    command = f"{program} -d {{d}} -g {{g}} {options} -c"
    if mtus != (None,):
        command += " -m {m}"
    else:
        mtus = (1024,)
    return Program(f"{program} {options}", TCP_PINGPONG, command, command + " {oob}", mtus, has_bytes_checked=True,
                   is_reliable=program not in ("ibv_uc_pingpong", "ibv_ud_pingpong"), **fields)


def perftest(program, options, mtus=(1024,), **fields):
    timeout = "" if "-c UD" in options else f"-u {TIMEOUT} "
    command = f"{program} -F -d {{d}} -x {{g}} -m {{m}} {timeout}{options}"
    return Program(f"{program} {options}", TCP_PINGPONG, command, command + " {oob}", mtus, is_good=has_figures,
                   is_reliable="-c U" not in options, has_events=options.endswith(" -e"), **fields)


def perftest_cm(program, options="-n 100", **fields):
    """perftest 4.5 resolves IPv4 addresses only with -R."""
    command = f"{program} -F -R {options}"
    return Program(f"{program} -R {options}", "cm", command, command + " {peer}", families=("IPv4",),
                   is_good=has_figures, is_reliable="-c U" not in options, is_impatient=True, **fields)


def cm(name, server, client, **fields):
    return Program(name, "cm", server, client, **fields)


def stream(options, **fields):
    return cm(f"rstream {options}", f"rstream -b {{me}} -T v {options}", f"rstream -s {{peer}} -T v {options}",
              has_bytes_checked=True, **fields)


def verify(what, count, **fields):
    command = f"{{tests}}/e2e/verify -d {{d}} -x {{g}} -m {{m}} -t {TIMEOUT} -w {what} -n {count}"
    return Program(f"verify {what}", TCP_VERIFY, command, command + " {oob}", MTUS, has_bytes_checked=True, **fields)


PROGRAMS = [
    pingpong("ibv_rc_pingpong", mtus=MTUS, is_quick=True),
    pingpong("ibv_rc_pingpong", "-n 100 -e"),
    pingpong("ibv_uc_pingpong", mtus=MTUS, is_quick=True),
    pingpong("ibv_srq_pingpong", "-s 4096 -n 100", mtus=MTUS, is_quick=True),
    pingpong("ibv_ud_pingpong", "-s 1000 -n 100", mtus=(None,), is_quick=True, is_captured=True),
    verify("each", 4097, is_quick=True, is_among_few=True, is_captured=True),
    verify("mixed", 200),

    perftest("ib_write_bw", "-n 200 -s 10001", MTUS, is_quick=True, is_among_few=True),
    perftest("ib_read_bw", "-n 200 -s 10001", MTUS, is_quick=True),
    perftest("ib_send_bw", "-n 200 -s 10001", MTUS, is_quick=True),
    perftest("ib_atomic_bw", "-n 200", is_quick=True),
    perftest("ib_atomic_bw", "-n 200 -A CMP_AND_SWAP"),
    *(perftest(f"ib_{what}_lat", "-n 200", is_quick=True) for what in ("write", "read", "send", "atomic")),
    *(perftest(f"ib_{what}_bw", options) for what in ("write", "read", "send", "atomic")
      for options in ("-n 100 -q 4", "-n 100 -b", "-n 160 -l 8")),
    *(perftest(f"ib_{what}_bw", "-n 100 -e") for what in ("read", "send", "atomic")),
    *(perftest(f"ib_{what}_bw", "-n 5 -a", is_long=True) for what in ("write", "read", "send")),
    perftest("ib_send_bw", "-n 100 --use-srq -q 4"),
    perftest("ib_read_bw", "-n 100 -s 65536 -o 1"),
    perftest("ib_read_bw", "-n 100 -s 65536 -o 16"),
    *(perftest(f"ib_{what}_bw", "-n 20 -c UC -s 10001") for what in ("write", "send")),
    *(perftest(f"ib_{what}_lat", "-n 100 -c UC") for what in ("write", "send")),
    perftest("ib_send_bw", "-n 100 -c UD -s 1000"),
    perftest("ib_send_bw", "-n 100 -c UD -s 64 -q 4"),
    perftest("ib_send_lat", "-n 100 -c UD -s 1000"),
    perftest("ib_send_lat", "-n 20 -e"),
    *(perftest_cm(f"ib_{what}_{figure}", is_quick=what == "write") for what in ("write", "read", "send", "atomic")
      for figure in ("bw", "lat")),
    perftest_cm("ib_send_bw", "-n 100 -c UD -s 1000"),

    cm("rping", "rping -s -a {me} -C 100", "rping -c -a {peer} -V -C 100", has_bytes_checked=True, is_quick=True,
       is_among_few=True, is_captured=True, is_good=both_end_well_or_read_a_closed_channel),
    cm("rping -S 65535", "rping -s -a {me} -C 10 -S 65535", "rping -c -a {peer} -V -C 10 -S 65535",
       has_bytes_checked=True, is_good=both_end_well_or_read_a_closed_channel),
    cm("rping -q", "rping -s -q -a {me} -C 10", "rping -c -q -a {peer} -V -C 10", has_bytes_checked=True,
       is_good=both_end_well_or_read_a_closed_channel),
    cm("ucmatose", "ucmatose -b {me} -C 10 -S 3000", "ucmatose -s {peer} -C 10 -S 3000", is_quick=True),
    cm("ucmatose -c 10", "ucmatose -b {me} -c 10 -C 5", "ucmatose -s {peer} -c 10 -C 5"),
    cm("udaddy", "udaddy -b {me} -C 10 -S 500", "udaddy -s {peer} -C 10 -S 500", is_reliable=False, is_quick=True,
       is_captured=True),
    cm("rdma_server, rdma_client", "rdma_server -s {me}", "rdma_client -s {peer}"),
    cm("rdma_xserver, rdma_xclient -c r", "rdma_xserver -c r", "rdma_xclient -s {peer} -c r",
       families=("IPv4",)),  # its server binds to an IPv4 address
    stream("-S 5000 -I 50 -C 5", is_quick=True),
    stream("-T b -S 5000 -I 50 -C 5"),
    stream("-T n -S 5000 -I 50 -C 5"),
    stream("-T a -S 5000 -I 50 -C 5", is_good=both_end_well_or_hang_up),
    stream("-S 1048576 -I 4 -C 2"),
    cm("riostream", "riostream -b {me} -S 5000 -I 50 -C 5", "riostream -s {peer} -S 5000 -I 50 -C 5"),
    # The kernel joins no IPv6 group on rxe: ENOTSUPP.
    cm("mckey, both receive and one sends", "mckey -m {group} -b {me} -C 10 -c 1",
       "mckey -s -m {group} -b {me} -C 10 -c 1", families=("IPv4",), is_reliable=False, is_quick=True),
]

# iWARP has neither SEND with immediate data nor, with siw, atomics; queue pairs are connected by
# rdma_cm only. rstream -T a mostly ends with POLLHUP. perftest's figures may round to 0.
IWARP_PROGRAMS = [program._replace(is_good=both_end_well) for program in (
    *(program for program in PROGRAMS if program.name.startswith(("rping", "ucmatose", "rdma_server", "rstream"))
      and not program.name.startswith(("rping -q", "rstream -T a"))),
    *(perftest_cm(f"ib_{what}_{figure}", is_captured=figure == "bw") for what in ("write", "read", "send")
      for figure in ("bw", "lat")),
    *(perftest_cm(f"ib_{what}_bw", options) for what in ("write", "read", "send")
      for options in ("-n 100 -b", "-n 40 -q 4", "-n 20 -s 300000")),
)]
