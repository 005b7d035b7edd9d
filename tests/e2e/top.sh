#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic top, on a pseudoterminal, beside two programs that move data.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

network_up
"$urnic" top </dev/null >"$scratch/said" 2>&1 && fail 'it runs without a terminal'
grep -q 'needs a terminal' "$scratch/said" || fail "without a terminal it says: $(cat "$scratch/said")"
for bad in '--interval 0' '--interval' '--bogus' 'superfluous'; do
	# shellcheck disable=SC2086
	"$urnic" top $bad >/dev/null 2>&1
	[ $? = 2 ] || fail "$bad is not a usage error"
done

port=18600
start server a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
start client b "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
await 'no data move' has_counted 100 b "$(process client)" sent_pkts

# The screen is what is written; each key is pressed when the screen has what is expected.
on b /usr/bin/python3 - "$urnic" >"$scratch/said" 2>&1 <<'EOF_PYTHON' || fail "$(cat "$scratch/said")"
import os, pty, re, select, struct, sys, fcntl, termios, time

child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], [sys.argv[1], "top", "--interval", "1"])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 160, 0, 0))
written = b""


def ends():
    return os.waitpid(child, os.WNOHANG)[0] != 0


def wait_for(pattern):
    """Read until the terminal has it, which takes an interval or two."""
    global written
    until = time.monotonic() + 120
    while not re.search(pattern, written, re.S):
        if time.monotonic() > until:
            sys.exit(f"no {pattern} in {written[-3000:]!r}")
        if select.select([terminal], [], [], 1)[0]:
            try:
                written += os.read(terminal, 65536)
            except OSError:
                sys.exit(f"it ends before {pattern}: {written[-3000:]!r}")


def press(key):
    global written
    written = b""
    os.write(terminal, key)


wait_for(rb"urnic top: 1 process, .*>.{0,20}SENT/s.*verify.*rocep_veth0.*0x[0-9a-f]{6}.*RTS")
wait_for(rb"10\.99\.0\.1.*[0-9]\.[0-9][KMG]")  # data move
press(b"r")
wait_for(rb">.{0,20}RCVD/s")
press(b"a")
wait_for(rb"a: queue pairs")
press(b"a")
wait_for(rb"a: processes")
press(b"q")
until = time.monotonic() + 120
while True:
    try:
        if not os.read(terminal, 65536):
            break
    except OSError:
        break
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
EOF_PYTHON
kill "$(process server)" "$(process client)"
finish server
finish client
exit 0
