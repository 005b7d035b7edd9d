#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hold JSON against a schema of docs/schema.

schema_check.py SCHEMA <DOCUMENT

The document must match. Then each change that the schema has to notice is made, one at a time: a
required member is taken away, or a value gets another type. The schema must refuse each of them, so
it does say what the document has. Exit status 0 / 1, with what is wrong on standard output.

Only the keywords below are known; any other one is an error, so none goes unchecked.
"""
import copy
import json
import re
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float),
         "integer": (int, float), "null": type(None)}
NOTES = {"$schema", "$defs", "title", "description"}


def has_type(value, name):
    if name in ("number", "integer") and isinstance(value, bool):
        return False
    return isinstance(value, TYPES[name]) and (name != "integer" or value == int(value))


def complaints(value, schema, root, where):
    for keyword, argument in schema.items():
        if keyword in NOTES:
            continue
        yield from CHECKS[keyword](value, argument, schema, root, where)


def check_ref(value, argument, _schema, root, where):
    name = re.fullmatch(r"#/\$defs/(\w+)", argument).group(1)
    yield from complaints(value, root["$defs"][name], root, where)


def check_type(value, argument, _schema, _root, where):
    names = argument if isinstance(argument, list) else [argument]
    if not any(has_type(value, name) for name in names):
        yield f"{where}: {value!r} is not of type {' or '.join(names)}"


def check_enum(value, argument, _schema, _root, where):
    if not any(value == choice and type(value) is type(choice) for choice in argument):
        yield f"{where}: {value!r} is none of {argument}"


def check_required(value, argument, _schema, _root, where):
    if isinstance(value, dict):
        yield from (f"{where}: no member {name}" for name in argument if name not in value)


def check_properties(value, argument, schema, root, where):
    if set(argument) != set(schema.get("required", [])):
        yield f"{where}: the schema has members that are not required, or the other way round"
    if isinstance(value, dict):
        for name, member in value.items():
            if name in argument:
                yield from complaints(member, argument[name], root, f"{where}.{name}")


def check_additional(value, argument, schema, root, where):
    if isinstance(value, dict):
        for name in value.keys() - schema.get("properties", {}).keys():
            yield from complaints(value[name], argument, root, f"{where}.{name}")


def check_items(value, argument, _schema, root, where):
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from complaints(item, argument, root, f"{where}[{number}]")


def check_minimum(value, argument, _schema, _root, where):
    if has_type(value, "number") and value < argument:
        yield f"{where}: {value} is less than {argument}"


def check_maximum(value, argument, _schema, _root, where):
    if has_type(value, "number") and value > argument:
        yield f"{where}: {value} is more than {argument}"


def check_pattern(value, argument, _schema, _root, where):
    if isinstance(value, str) and not re.search(argument, value):
        yield f"{where}: {value!r} does not match {argument}"


CHECKS = {
    "$ref": check_ref, "type": check_type, "enum": check_enum, "required": check_required,
    "properties": check_properties, "additionalProperties": check_additional, "items": check_items,
    "minimum": check_minimum, "maximum": check_maximum, "pattern": check_pattern,
}


def places(value, path=()):
    """The paths of all members and items."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def changed(document, path, change):
    copied = copy.deepcopy(document)
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return copied


# Members of these may have any name, and so may be missing.
OPEN = ("counters", "port_counters", "percentile", "parameters")


def place_kind(path):
    """Items of one list are alike."""
    return tuple("[]" if isinstance(key, int) else key for key in path)


def unnoticed(document, schema):
    seen = set()
    for path in places(document):
        kind = place_kind(path)
        if kind in seen:
            continue
        seen.add(kind)
        name = ".".join(map(str, path))
        # No schema here allows an array in an array.
        other = changed(document, path, lambda holder, key: holder.__setitem__(key, [[]]))
        if not any(complaints(other, schema, schema, "")):
            yield f"the schema takes any value for {name}"
        if isinstance(path[-1], int) or (len(path) > 1 and path[-2] in OPEN):
            continue
        other = changed(document, path, lambda holder, key: holder.pop(key))
        if not any(complaints(other, schema, schema, "")):
            yield f"the schema does not need {name}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    document = json.load(sys.stdin)
    wrong = list(complaints(document, schema, schema, "")) or list(unnoticed(document, schema))
    for complaint in wrong[:20]:
        print(complaint)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
