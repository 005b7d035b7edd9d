# SPDX-License-Identifier: BSD-2-Clause
"""The commands of a recipe of docs/ci.md, as a shell script.

Usage: recipes.py PAGE RECIPE PART

RECIPE is the heading above the recipe. PART is the step (`Test`), the key (`script`), the service
or container (`client`) or the instruction (`RUN`) whose commands are printed.
"""
import json
import re
import sys


def block_of(page, heading):
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    if not section:
        sys.exit(f"recipes: no heading '{heading}'")
    return [block for block in re.findall(r"^```(?:yaml|Dockerfile)\n(.*?)^```$", section[1], re.M | re.S)]


def indented(lines, first):
    """The lines below line `first` that are indented more, with that indentation removed."""
    own = len(lines[first]) - len(lines[first].lstrip())
    below = []
    for line in lines[first + 1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= own:
            break
        below.append(line)
    margin = min((len(line) - len(line.lstrip()) for line in below if line.strip()), default=0)
    return [line[margin:] for line in below]


def commands(text, part):
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if re.fullmatch(rf"\s*- name: {re.escape(part)}|\s*{re.escape(part)}:", line):
            inner = indented(lines, number)
            for key, value in enumerate(inner):
                if value == "run: |":
                    return indented(inner, key)
                if value.startswith("command: "):
                    shell, option, script = json.loads(value.partition(": ")[2])
                    if (shell, option) != ("sh", "-c"):
                        sys.exit(f"recipes: {value}")
                    return [script]
            return [item.removeprefix("- ") for item in inner]
    return [line.removeprefix(f"{part} ") for line in lines if line.startswith(f"{part} ")]


def main():
    path, heading, part = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        page = file.read()
    found = [line for block in block_of(page, heading) for line in commands(block, part)]
    if not found:
        sys.exit(f"recipes: no '{part}' in '{heading}'")
    print("\n".join(found))


if __name__ == "__main__":
    main()
