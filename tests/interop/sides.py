# SPDX-License-Identifier: BSD-2-Clause
"""The ends of a test: urnic on this machine; the kernel's rxe or siw, or urnic, in a guest (the
script lab).

A Side runs programs on one RDMA device. run() waits for one; serve() returns when it listens, and
the server's end is had from its finish(). Every program has a time limit, so nothing here waits for
ever.
"""
import os
import pathlib
import re
import shlex
import subprocess
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
KILLED, TERMINATED = 137, 143  # as the shell says it of SIGKILL and SIGTERM
QUEUE = "pfifo limit 10000"  # of an interface that does nothing to packets; ifb's own is 32 packets long
SIW_SETTINGS = {"mpa_crc_required": 0, "mpa_version": 2, "peer_to_peer": 0}
SSH_FAILS = 255  # a program of the guest may end with it as well
DEVICE_PREFIXES = {"roce": "rocep_", "iwarp": "iwp_"}


class Ended(NamedTuple):
    status: int
    output: str


class GuestGone(Exception):
    """A guest has ended, as it does when its kernel panics."""


class Lab:
    """The namespace and its guests; a context manager that takes them down."""

    def __init__(self, build, kernel, guests, has_siw=True):
        self.build = pathlib.Path(build).resolve()
        self.guests = guests
        self.name = f"interop-{os.getpid()}"
        self.environment = dict(os.environ, LAB_NAME=self.name, LAB_KERNEL=kernel, LAB_SHARE=str(self.build),
                                LAB_SIW="yes" if has_siw else "no")

    def command(self, *words):
        return [str(HERE / "lab"), *words]

    def call(self, *words, check=True):
        return subprocess.run(self.command(*words), env=self.environment, check=check, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout

    def reason_not_to_boot(self):
        """What stands in the way of an image for the guests, or None."""
        built = subprocess.run(self.command("build"), env=self.environment, check=False, text=True, errors="replace",
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = built.stderr.strip().splitlines() or ["?"]
        return f"no image for a guest: {said[-1]}" if built.returncode else None

    def __enter__(self):
        try:
            self.call("up", *(self.guests or ["none"]))
        except BaseException:
            self.call("down", check=False)
            raise
        return self

    def __exit__(self, *_):
        self.call("down", check=False)

    def console(self, guest):
        return self.call("console", guest, check=False)

    def version(self):
        return self.call("version").strip()

    def inside(self, argv):
        return ["ip", "netns", "exec", self.name, *argv]


class Side:
    """One end. `tests` is where our own programs are."""

    def __init__(self, stack, addresses, device, tests):
        self.stack = stack
        self.addresses = addresses
        self.device = device
        self.tests = tests
        self.gids = self.find_gids()

    def find_gids(self):
        text = self.run(["ibv_devinfo", "-v", "-d", self.device], 30).output
        gids = {}
        for index, gid in re.findall(r"GID\[ *(\d+)\]:\s+(\S+?),", text):
            for family, address in self.addresses.items():
                if gid.removeprefix("::ffff:") == address:
                    gids[family] = int(index)
        return gids


class Server(NamedTuple):
    finish: object  # () -> Ended
    stop: object  # (seconds) -> None: then, if it has not ended by itself


class Urnic(Side):
    """urnic on this machine; `mpa` is URNIC_MPA."""

    def __init__(self, lab, transport="roce", mpa=""):
        self.lab = lab
        self.run_command = urnic_command(lab.build, transport, mpa)
        super().__init__("urnic", {"IPv4": "10.77.0.1", "IPv6": "fd77::1"}, DEVICE_PREFIXES[transport] + "br0",
                         str(lab.build / "tests"))

    def argv(self, argv, seconds):
        return self.lab.inside(["timeout", "-s", "KILL", str(seconds), *self.run_command, *argv])

    def start(self, argv, seconds):
        return subprocess.Popen(self.argv(argv, seconds), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace")

    def run(self, argv, seconds):
        return ended(self.start(argv, seconds))

    def serve(self, listens, argv, seconds):
        process = self.start(argv, seconds)
        waits = Waits(process.pid)
        while process.poll() is None and not (waits.enough() if listens == "cm" else self.listens(listens)):
            time.sleep(0.05)
        return Server(lambda: ended(process), lambda seconds: stop(process, seconds))

    def listens(self, port):
        output = subprocess.run(self.lab.inside(["ss", "-Hltn", f"sport = :{port}"]), check=False,
                                stdout=subprocess.PIPE).stdout
        return bool(output.strip())


class Waits:
    """Whether a child of a process is asleep and has used no CPU time for some looks, or has had a
    while: then its server listens. Who listens by rdma_cm is not to be seen otherwise."""

    def __init__(self, parent):
        self.until = time.monotonic() + 3
        self.parent = parent
        self.looked = None
        self.quiet = 0

    def enough(self):
        if time.monotonic() > self.until:
            return True
        try:
            children = pathlib.Path(f"/proc/{self.parent}/task/{self.parent}/children").read_text("ascii").split()
            fields = pathlib.Path(f"/proc/{children[-1]}/stat").read_text("ascii").rpartition(")")[2].split()
        except (OSError, IndexError):
            return False
        now = (fields[0], fields[11], fields[12])
        self.quiet = self.quiet + 1 if now == self.looked and now[0] == "S" else 0
        self.looked = now
        return self.quiet >= 6


def urnic_command(build, transport, mpa=""):
    return ["env", f"URNIC_TRANSPORTS={transport}", f"URNIC_MPA={mpa}", f"{build}/urnic", "run", "--no-view", "--"]


def stop(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.terminate()


def ended(process):
    output, _ = process.communicate()
    return Ended(process.returncode if process.returncode >= 0 else 128 - process.returncode, output)


class Guest(Side):
    """A guest with rxe, siw or urnic. `settings`: where siw's differ from SIW_SETTINGS."""

    def __init__(self, lab, guest, stack="rxe", settings=None, transport="roce"):
        self.lab = lab
        self.guest = guest
        self.prefix = shlex.join(urnic_command("/build", transport)) + " " if stack == "urnic" else ""
        device = DEVICE_PREFIXES[transport] + "eth0" if stack == "urnic" else stack + "0"
        settings = {**SIW_SETTINGS, **(settings or {})} if stack == "siw" else {}
        changed = self.shell(f"rdma-device {'none' if stack == 'urnic' else stack} " +
                             " ".join(f"{name}={settings[name]}" for name in settings))
        if changed.status:
            raise OSError(f"guest {guest} has no {stack}: {changed.output}")
        number = {"a": 2, "b": 3}[guest]
        super().__init__(stack, {"IPv4": f"10.77.0.{number}", "IPv6": f"fd77::{number}"}, device, "/build/tests")

    def execute(self, command):
        return subprocess.Popen(self.lab.command("exec", self.guest, command), env=self.lab.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace")

    def shell(self, command):
        said = ended(self.execute(command))
        if said.status == SSH_FAILS:
            time.sleep(1)  # its console says more, and it has time to go
            if subprocess.run(self.lab.command("alive", self.guest), env=self.lab.environment, check=False).returncode:
                raise GuestGone(f"guest {self.guest} is gone; the last of its console:\n{self.lab.console(self.guest)}")
        return said

    def tc(self, *commands):
        changed = self.shell("set -e; [ -e /sys/class/net/ifb0 ] || {"
                             " modprobe ifb numifbs=1; modprobe -a sch_netem sch_prio sch_ingress act_mirred cls_matchall cls_u32;"
                             " ip link set ifb0 mtu 9000 up; tc qdisc add dev eth0 ingress;"
                             " tc filter add dev eth0 ingress matchall action mirred egress redirect dev ifb0; }; "
                             + "; ".join(f"tc {command}" for command in commands))
        if changed.status:
            raise OSError(f"guest {self.guest} does not impair its link: {changed.output}")

    def impair(self, incoming, outgoing=""):
        """What tc-netem does to packets of each direction, in its words; "" for nothing."""
        self.tc(*(f"qdisc replace dev {device} root {'netem ' + netem if netem else QUEUE}"
                  for device, netem in (("ifb0", incoming), ("eth0", outgoing))))

    def impair_some(self, match, netem, others):
        """The same for what arrives and matches, in the words of tc-u32, and for all else."""
        self.tc(f"qdisc replace dev ifb0 root {QUEUE}",
                "qdisc replace dev ifb0 root handle 1: prio priomap" + 16 * " 0",
                f"qdisc add dev ifb0 parent 1:1 {'netem ' + others if others else QUEUE}",
                f"qdisc add dev ifb0 parent 1:2 {'netem ' + netem if netem else QUEUE}",
                f"filter add dev ifb0 parent 1: protocol ip u32 {match} flowid 1:2")

    def impair_roce(self, netem):
        """Both directions of all but TCP: its checksums were looked at (GRO) before arriving
        packets are damaged here."""
        self.impair("", netem)
        self.impair_some("match ip protocol 6 0xff", "", netem)

    def give_time(self):
        """What arrives is late, and what comes to the connection manager later still, so that what
        the guest has begun is done."""
        self.impair("")
        self.impair_some("match ip protocol 17 0xff match u32 1 0xffffff at 32", "delay 500ms", "delay 30ms limit 10000")

    def run(self, argv, seconds):
        return self.shell(f"timeout -s KILL {seconds} {self.prefix}{shlex.join(argv)} 2>&1")

    def serve(self, listens, argv, seconds):
        self.shell(f"serve {listens} {seconds} {self.prefix}{shlex.join(argv)}")
        return Server(self.finish, self.stop)

    def stop(self, seconds):
        self.shell(f"for i in {{1..{seconds}}}; do [ ! -e /tmp/server.status ] || exit; sleep 1; done; kill -KILL $(cat /tmp/server.pid)")

    def finish(self):
        lines = self.shell("until [ -e /tmp/server.status ]; do sleep 0.05; done; cat /tmp/server.status /tmp/server")
        status, _, output = lines.output.partition("\n")
        return Ended(int(status), output)
