#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does Wireshark read in InfiniBand frames what they were made of?

Usage: infiniband-frames.py PROGRAM

PROGRAM (infiniband-frames.c) writes a capture, and the fields that Wireshark should find in it.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def fields_seen(capture, names):
    """For each frame, the values that Wireshark finds for each name."""
    command = ["tshark", "-r", capture, "-T", "fields", "-E", "separator=\t", "-E", "occurrence=f"]
    for name in names:
        command += ["-e", name]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [dict(zip(names, line.split("\t"))) for line in output.splitlines()]


def number_of(text):
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


def main():
    if not shutil.which("tshark"):
        print("skipped: no tshark")
        return SKIPPED
    with tempfile.TemporaryDirectory() as place:
        capture = str(pathlib.Path(place) / "frames.pcap")
        output = subprocess.run([sys.argv[1], capture], check=True, capture_output=True, text=True)
        expected = [line.split() for line in output.stdout.splitlines()]
        frames = fields_seen(capture, sorted({name for _, name, _ in expected}))
    wrong = 0
    for frame, name, value in expected:
        seen = frames[int(frame) - 1][name]
        if not seen or number_of(seen) != int(value):
            print(f"frame {frame}: {name} is {seen or 'missing'}, not {int(value):#x}")
            wrong += 1
    print(f"{len(frames)} frames, {len(expected)} fields, {wrong} wrong")
    return 1 if wrong or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
