#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# bash completion offers each command and option that --help has, and no others.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/../../packaging/bash-completion"
bin=$1

# offered WORD...: what the completion offers for the last word, a line each.
offered() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	_urnic "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	[ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}" | sort -u
}

# helped WORD...: the options that the help of a program or of its command has: those of its usage,
# and those that begin a line.
helped() {
	"$@" --help | sed '/xample/,$d' | awk '
		/^[Uu]sage/, /^$/ { print; next }
		/^  urnic / { print $2, $3, $4; next }
		/^ +-/ { sub(/^ +/, ""); sub(/  .*/, ""); print }' |
		grep -oE -- '(^|[^[:alnum:]-])--?[[:alpha:]][[:alpha:]-]*' | grep -oE -- '-.*' | sort -u
}

# offers EXPECTED WORD...: exactly that for the last word.
offers() {
	expected=$1
	shift
	[ "$(offered "$@")" = "$expected" ] || fail "$*: offers $(offered "$@"), not $expected"
}

# has EXPECTED WORD...: that among others.
has() {
	expected=$1
	shift
	offered "$@" | grep -qx -e "$expected" || fail "$*: offers no $expected, but $(offered "$@")"
}

# commands_of PROGRAM: those in the list of its help.
commands_of() {
	"$1" --help | sed -n 's/^  \([a-z][a-z-]*\)   *[A-Za-z].*/\1/p' | sort
}

for program in "$bin/urnic" "$bin/urnic-nvmf"; do
	[ "$(commands_of "$program" | wc -l)" -ge 7 ] || fail "$program --help lists no commands"
	offers "$(commands_of "$program")" "$program" ''
	for command in $(commands_of "$program"); do
		helped=$( (echo --help && helped "$program" "$command") | sort -u)
		offers "$helped" "$program" "$command" -
	done
done
[ "$(helped "$bin/urnic" pair | wc -l)" -gt 10 ] || fail 'the help of urnic pair has no options'
[ "$(helped "$bin/urnic-nvmf" read | wc -l)" -gt 40 ] || fail 'the help of urnic-nvmf read has no options'
offers "$(helped "$bin/urnic-nvmf-target")" "$bin/urnic-nvmf-target" -
has --version "$bin/urnic" --v

# Each option of the help is in the manual page.
pages=$(dirname "$0")/../../docs/man
for command in $(commands_of "$bin/urnic"); do
	page=$pages/urnic-$command.1
	for option in $(helped "$bin/urnic" "$command"); do
		sed 's/\\-/-/g' "$page" | grep -qE -e "(^|[^[:alnum:]-])$option([^[:alnum:]-]|\$)" ||
			fail "$page has no $option"
	done
done

# Operands and values.
offers exec "$bin/urnic" host e
has sed "$bin/urnic" run se
has sed "$bin/urnic" run --view -- se
has sed "$bin/urnic" pair --loss 1% -- se
has sed "$bin/urnic" pair -- true --view -- se
has sed "$bin/urnic" host exec -n x a se
has lo "$bin/urnic" capture -i l
has /etc/passwd "$bin/urnic" capture -w /etc/passw
has /etc/passwd "$bin/urnic" pair --faults = /etc/passw
offers '' "$bin/urnic" pair --mtu ''
offers '' "$bin/urnic" run sed -
offers '' "$bin/urnic" host exec a sed --
