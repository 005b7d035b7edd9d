# SPDX-License-Identifier: BSD-2-Clause
"""The ends of a test: urnic on this machine, the kernel's rxe in a guest, or urnic in a guest (the script lab).

A Side runs programs on one RDMA device. run() waits for one; serve() returns when it listens, and the server's end is
had from its finish(). Every program has a time limit, so nothing here waits for ever.
"""
import os
import pathlib
import re
import shlex
import subprocess
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
KILLED = 137  # as the shell says it of SIGKILL
FAMILIES = ("IPv4", "IPv6")


class Ended(NamedTuple):
    status: int
    output: str


class Lab:
    """The namespace and its guests; a context manager that takes them down."""

    def __init__(self, build, kernel, guests):
        self.build = pathlib.Path(build).resolve()
        self.guests = guests
        self.name = f"interop-{os.getpid()}"
        self.environment = dict(os.environ, LAB_NAME=self.name, LAB_KERNEL=kernel, LAB_SHARE=str(self.build))

    def command(self, *words):
        return [str(HERE / "lab"), *words]

    def call(self, *words, check=True):
        return subprocess.run(self.command(*words), env=self.environment, check=check, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout

    def __enter__(self):
        try:
            self.call("up", *(self.guests or ["none"]))
        except BaseException:
            self.call("down", check=False)
            raise
        return self

    def __exit__(self, *_):
        self.call("down", check=False)

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


class Urnic(Side):
    """urnic on this machine."""

    def __init__(self, lab):
        self.lab = lab
        self.urnic = str(lab.build / "urnic")
        super().__init__("urnic", {"IPv4": "10.77.0.1", "IPv6": "fd77::1"}, "rocep_br0", str(lab.build / "tests"))

    def argv(self, argv, seconds):
        return self.lab.inside(["timeout", "-s", "KILL", str(seconds), self.urnic, "run", "--no-view", "--", *argv])

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
        return Server(lambda: ended(process))

    def listens(self, port):
        output = subprocess.run(self.lab.inside(["ss", "-Hltn", f"sport = :{port}"]), check=False,
                                stdout=subprocess.PIPE).stdout
        return bool(output.strip())


class Waits:
    """Whether a child of a process is asleep and has used no CPU time for some looks, or has had a while: then its
    server listens. Who listens by rdma_cm is not to be seen otherwise."""

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


def ended(process):
    output, _ = process.communicate()
    return Ended(process.returncode if process.returncode >= 0 else 128 - process.returncode, output)


class Guest(Side):
    """rxe, or with is_urnic urnic, in a guest."""

    def __init__(self, lab, guest, is_urnic=False):
        self.lab = lab
        self.guest = guest
        self.prefix = "/build/urnic run --no-view -- " if is_urnic else ""
        number = {"a": 2, "b": 3}[guest]
        super().__init__("urnic" if is_urnic else "rxe", {"IPv4": f"10.77.0.{number}", "IPv6": f"fd77::{number}"},
                         "rocep_eth0" if is_urnic else "rxe0", "/build/tests")

    def execute(self, command):
        return subprocess.Popen(self.lab.command("exec", self.guest, command), env=self.lab.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace")

    def shell(self, command):
        return ended(self.execute(command))

    def run(self, argv, seconds):
        return self.shell(f"timeout -s KILL {seconds} {self.prefix}{shlex.join(argv)} 2>&1")

    def serve(self, listens, argv, seconds):
        self.shell(f"serve {listens} {seconds} {self.prefix}{shlex.join(argv)}")
        return Server(self.finish)

    def finish(self):
        lines = self.shell("until [ -e /tmp/server.status ]; do sleep 0.05; done; cat /tmp/server.status /tmp/server")
        status, _, output = lines.output.partition("\n")
        return Ended(int(status), output)
