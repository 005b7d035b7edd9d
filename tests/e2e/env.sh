#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic env: an unmodified program finds urnic by the printed variables, in each format.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ibv_devinfo
network_up
unset LD_LIBRARY_PATH
libraries=$("$urnic" run --print)

# finds_urnic WHAT SCRIPT: a shell on host a runs SCRIPT, and then ibv_devinfo.
finds_urnic() {
	said=$(on a sh -c "$2
ibv_devinfo" 2>&1) || fail "$1: ibv_devinfo fails: $said"
	echo "$said" | grep -q '^hca_id:	*rocep_veth0$' || fail "$1: ibv_devinfo says: $said"
}

finds_urnic sh "$("$urnic" env)"
finds_urnic 'sh, with a path' "LD_LIBRARY_PATH=/before
$("$urnic" env --format sh)
[ \"\$LD_LIBRARY_PATH\" = '$libraries:/before' ] || exit"

# A shell expands the value of ENV as a builder of images does.
docker=$("$urnic" env --format docker)
[ "${docker#ENV }" != "$docker" ] || fail "docker: $docker"
finds_urnic docker "export ${docker#ENV }"
finds_urnic 'docker, with a path' "LD_LIBRARY_PATH=/before
export ${docker#ENV }
[ \"\$LD_LIBRARY_PATH\" = '$libraries:/before' ] || exit"

# A runner takes all behind the first = as it is.
github=$("$urnic" env --format github)
[ "$github" = "LD_LIBRARY_PATH=$libraries" ] || fail "github: $github"
github=$(LD_LIBRARY_PATH=/before "$urnic" env --format github)
[ "$github" = "LD_LIBRARY_PATH=$libraries:/before" ] || fail "github, with a path: $github"
finds_urnic github "export LD_LIBRARY_PATH='${github#*=}'"

# A directory whose name a shell would expand.
mkdir "$scratch/\$(exit 3) \`\"it's"
cp -r "$1/urnic" "$1/lib" "$scratch/\$(exit 3) \`\"it's/" 2>/dev/null
odd=$("$scratch/\$(exit 3) \`\"it's/urnic" env) || fail 'a directory with an odd name'
finds_urnic 'a directory with an odd name' "$odd"

"$urnic" env --format bogus 2>/dev/null
[ $? = 2 ] || fail 'a wrong format is not a usage error'
"$urnic" env superfluous 2>/dev/null
[ $? = 2 ] || fail 'a superfluous argument is not a usage error'
