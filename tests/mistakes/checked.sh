#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Each wrong program of checked.def: `urnic run --check` reports its kind, in the line that the
# source marks, and the exit status says that there are reports. By packets and within the host.
. "$(dirname "$0")/../e2e/common.sh"

mistake=$1/tests/mistakes/mistake
sources=$(dirname "$0")
network_up
scratch=$(mktemp -d)

# checked NAME KIND LOCAL MODE: make the mistake; its report is in the log.
checked() {
	place=$(cd "$sources" && grep -n "wrong: $1 \*/" mistakes_*.c | cut -d : -f 1,2)
	[ -n "$place" ] || fail "$1: no line of $sources is marked"
	status=0
	on a env URNIC_LOCAL="$3" "$urnic" run --no-view "--check=$4" "$mistake" "$1" \
		>"$scratch/log" 2>&1 || status=$?
	[ $status = 66 ] || fail "$1: exit status $status: $(cat "$scratch/log")"
	# The lines of a report after its first are indented; its first stack has the line.
	awk -v kind=": $2: " -v place="$place\$" '
		/^urnic check/ { is_wanted = index($0, kind) > 0; stacks = 0 }
		/^  [a-z]/ { stacks += / at$/ }
		is_wanted && stacks == 1 && $0 ~ place { is_found = 1 }
		END { exit !is_found }' "$scratch/log" ||
		fail "$1, $3, $4: no report $2 at $place: $(cat "$scratch/log")"
}

"$mistake" --list-checked >"$scratch/list"
count=0
while IFS="$(printf '\t')" read -r name kind modes; do
	for mode in $modes; do
		for local in on off; do
			checked "$name" "$kind" $local $mode
		done
	done
	count=$((count + 1))
done <"$scratch/list"
[ $count -ge 20 ] || fail "only $count mistakes"
kinds=$(sed -n 's/^KIND([A-Z_]*, "\([a-z-]*\)",$/\1/p' "$sources/../../src/check/kind.def")
[ -n "$kinds" ] || fail 'no kinds'
for kind in $kinds; do
	cut -f 2 "$scratch/list" | grep -qx "$kind" || fail "no mistake is a $kind"
done

# SARIF is JSON, with a result at the line; a suppressed report leaves the exit status alone.
on a "$urnic" run --no-view --check --report "$scratch/report.sarif" \
	"$mistake" source_freed_before_completion >"$scratch/log" 2>&1 && fail 'SARIF: no exit status'
/usr/bin/python3 - "$scratch/report.sarif" <<-'EOF' || fail "SARIF: $(cat "$scratch/report.sarif")"
	import json, sys
	run, = json.load(open(sys.argv[1]))["runs"]
	freed = [result for result in run["results"] if result["ruleId"] == "memory-freed"]
	frames = [frame["location"]["physicalLocation"] for frame in freed[0]["stacks"][0]["frames"]]
	assert any(frame["artifactLocation"]["uri"].endswith("mistakes_order.c") and
		frame["region"]["startLine"] > 1 for frame in frames), frames
	assert freed[0]["locations"] and {"memory-freed"} <= {
		rule["id"] for rule in run["tool"]["driver"]["rules"]}
EOF
# A process adds to what its parent, and other processes of the run, have written.
for name in both.sarif both.txt; do
	echo 'of another run' >"$scratch/$name"
	on a "$urnic" run --no-view --check --report "$scratch/$name" sh -c \
		"'$mistake' domain_leaked; '$mistake' child_posts" >"$scratch/log" 2>&1
	for kind in object-leaked object-inherited; do
		[ "$(grep -c "urnic check\[[0-9]*\]: $kind: \|\"ruleId\": \"$kind\"" "$scratch/$name")" -ge 1 ] ||
			fail "$name has no $kind: $(cat "$scratch/$name")"
	done
	! grep 'of another run' "$scratch/$name" || fail "$name was not emptied"
done
/usr/bin/python3 -m json.tool "$scratch/both.sarif" >/dev/null ||
	fail "SARIF of several processes: $(cat "$scratch/both.sarif")"
printf 'memory-freed\nmemory-fried:x\n' >"$scratch/supp"
on a "$urnic" run --no-view --check --suppress "$scratch/supp" /bin/true >"$scratch/log" 2>&1
[ "$(grep -c 'supp:[12]: no line KIND:TEXT with a known kind$' "$scratch/log")" -ge 2 ] ||
	fail "wrong suppressions: $(cat "$scratch/log")"
printf '# a comment\n\nmemory-freed:mistakes_order.c\nobject-leaked:*\n' >"$scratch/supp"
on a "$urnic" run --no-view --check --suppress "$scratch/supp" "$mistake" \
	source_freed_before_completion >"$scratch/log" 2>&1 ||
	fail "suppressed, and the status is $?: $(cat "$scratch/log")"
grep -q ': 0 reports, [1-9][0-9]* suppressed$' "$scratch/log" || fail "suppressed: $(cat "$scratch/log")"
echo "$count mistakes are reported"
