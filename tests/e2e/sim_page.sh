#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The page of urnic sim in a real browser, Chromium without a window: it complains about nothing,
# and all plots are drawn.
. "$(dirname "$0")/common.sh"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
	skip 'chromium is not installed'
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

cat >"$files/scenario.json" <<'END'
{"topology": {"kind": "dumbbell", "hosts": 3, "hosts_right": 4, "rate_gbps": 40}, "hosts": {"kind": "engine"},
	"duration_us": 4000, "switch": {"size": 1000000}, "workloads": [
		{"kind": "pairs", "name": "congesting", "bytes": 1000000, "pairs": [["h0", "h5"], ["h1", "h5"]]},
		{"kind": "pairs", "name": "victim", "bytes": 1000000, "pairs": [["h2", "h6"]]}]}
END
"$urnic" sim --html "$files/page.html" "$files/scenario.json" >/dev/null || fail 'urnic sim --html'

# browse OPTIONS: the browser with a profile of its own; what it says goes to $files/said.
browse() {
	timeout 300 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
		--user-data-dir="$files/profile" --hide-scrollbars --enable-logging=stderr "$@" 2>"$files/said"
}
browse --dump-dom about:blank >"$files/blank" || skip "$browser does not run here: $(tail -1 "$files/said")"

# The copy asks the browser where it has drawn each picture's lines.
{
	cat "$files/page.html"
	cat <<'END'
<script>
	let answers = [];
	for (const picture of document.querySelectorAll("svg"))
		for (const line of picture.querySelectorAll("polyline, line, circle")) {
			const box = line.getBoundingClientRect();
			answers.push([picture.classList[0] || "plot", line.tagName, line.getTotalLength(),
				box.width, box.height].join(" "));
		}
	document.body.innerHTML = "<pre>" + answers.join("\n") + "</pre>";
</script>
END
} >"$files/asking.html"
browse --dump-dom "file://$files/asking.html" >"$files/answers" || fail "the browser: $(cat "$files/said")"
grep 'CONSOLE' "$files/said" && fail 'the browser complains about the page'
awk '/chart polyline / { if ($(NF - 2) > 20) lines++; else unseen++ }
	/^network circle / && $NF > 1 { nodes++ }
	/^network line / && $(NF - 2) > 10 { cables++ }
	END { print lines, unseen, nodes, cables; exit !(lines >= 7 && !unseen && nodes == 9 && cables == 8) }' "$files/answers" >"$files/counts" ||
	fail "lines, lines that nobody sees, nodes and cables: $(cat "$files/counts"); $(cat "$files/answers")"

browse --window-size=1000,1800 --screenshot="$files/page.png" "file://$files/page.html" ||
	fail "the screenshot: $(cat "$files/said")"
grep 'CONSOLE' "$files/said" && fail 'the browser complains about the page'
# A picture of an empty page has few bytes.
[ "$(wc -c <"$files/page.png")" -gt 20000 ] || fail 'the page is nearly empty'
exit 0
