/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic top: the rates of queue pairs and processes, on a terminal. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Use functions of ncurses and not its macros, which convert between signed and unsigned. */
#define NCURSES_NOMACROS
#include <ncurses.h>

#include "base/arith.h"
#include "base/text.h"
#include "common/command.h"
#include "os/clock.h"
#include "port/address.h"
#include "stat/stat_diff.h"
#include "top/top_rows.h"

const char command_top_help[] =
	"usage: urnic top [--interval SECONDS]\n"
	"\n"
	"Shows what each queue pair on this host sends and receives per second, the busiest first, until\n"
	"the key q.\n"
	"\n"
	"  --interval SECONDS  between two readings, 1 to 3600 (default 1)\n"
	"\n"
	"Keys:\n"
	"  s r m p t    sort by bytes sent, bytes received, requests (messages), packets, packets sent\n"
	"               more than once\n"
	"  a            a row per process, or per queue pair again\n"
	"  q            leave\n"
	"\n"
	"`urnic stat --watch` prints all counters, also where there is no terminal.\n";

enum { INTERVAL_S = 1, INTERVAL_S_MAX = 3600 };

static const struct {
	enum top_rate rate;
	char key;
	const char *title;
} columns[] = {
	{TOP_SENT, 's', "SENT/s"},
	{TOP_RECEIVED, 'r', "RCVD/s"},
	{TOP_REQUESTS, 'm', "REQ/s"},
	{TOP_PACKETS, 'p', "PKT/s"},
	{TOP_REPEATED, 't', "REP/s"},
};

struct top {
	uint32_t interval_s;
	enum top_rate sort;
	bool is_by_qp;
	bool is_ending;
	struct baseline before;
	uint64_t before_ns; /* when `before` was read; 0: not yet */
	struct stat_report gained; /* what the counters have gained in the last interval */
	uint64_t elapsed_ns;
};

/* --- the screen --- */

static void title_print(const struct top *top)
{
	attron(A_REVERSE);
	mvprintw(1, 0, "%-8s %-15s %-14s %-8s %-5s %-26s", "PID", "COMMAND", "DEVICE",
		top->is_by_qp ? "QP" : "QPS", "STATE", top->is_by_qp ? "PEER" : "");
	for (size_t i = 0; i < ARRAY_COUNT(columns); i++)
		printw(" %c%7s", columns[i].rate == top->sort ? '>' : ' ', columns[i].title);
	printw(" %7s", "WAITING");
	attroff(A_REVERSE);
}

static void row_print(const struct top *top, int line, const struct top_row *row)
{
	char device[IF_NAMESIZE], peer[ADDRESS_TEXT_BYTES] = "", number[16];

	mvprintw(line, 0, "%-8u %-15.15s ", row->pid, row->command);
	if (row->qp) {
		if (!gid_is_zero(&row->qp->remote))
			gid_to_text(&row->qp->remote, 0, peer);
		printw("%-14.14s 0x%06x %-5s %-26.26s",
			stat_device_name(&top->gained, row->qp->ifindex, device), row->qp->qpn,
			qp_state_name(row->qp->state), peer);
	} else {
		printw("%-14s %-8u %-5s %-26s", "", row->qp_count, "", "");
	}
	for (size_t i = 0; i < ARRAY_COUNT(columns); i++) {
		top_number_print(row->per_s[columns[i].rate], number);
		printw(" %8s", number);
	}
	printw(" %7u", row->waiting);
}

static void screen_draw(const struct top *top)
{
	struct top_rows rows;
	int result = top_rows_make(&top->gained, top->elapsed_ns, top->is_by_qp, &rows);

	top_rows_sort(&rows, top->sort);
	erase();
	mvprintw(0, 0, "urnic top: %u process%s, every %u s; sort: s r m p t, a: %s, q: leave%s",
		top->gained.process_count, top->gained.process_count == 1 ? "" : "es",
		top->interval_s, top->is_by_qp ? "processes" : "queue pairs",
		result < 0                        ? "; out of memory"
			: !top->gained.is_running ? "; no urnicd runs here"
						  : "");
	title_print(top);
	for (uint32_t i = 0; i < rows.count && (int)i + 2 < LINES; i++)
		row_print(top, (int)i + 2, &rows.rows[i]);
	refresh();
	top_rows_done(&rows);
}

/* --- readings --- */

/* Read the counters. Returns 0 or -errno. */
static int counters_read(struct top *top)
{
	static const struct stat_filter all;
	struct stat_report report;
	struct baseline now;
	uint64_t now_ns;
	int result = stat_report_make(&all, &report);

	if (result < 0)
		return result;
	now_ns = clock_now_ns();
	now = baseline_of(&report);
	if (now.is_incomplete) {
		baseline_done(&now);
		stat_report_done(&report);
		return -ENOMEM;
	}
	/* The first reading is compared with itself, so its gains are 0. */
	baseline_subtract(top->before_ns ? &top->before : &now, &report);
	stat_report_done(&top->gained);
	top->gained = report;
	top->elapsed_ns = top->before_ns && now_ns > top->before_ns ? now_ns - top->before_ns : 1;
	baseline_done(&top->before);
	top->before = now;
	top->before_ns = now_ns;
	return 0;
}

/* Handle a key; ERR if none came in time. After every key the whole screen is drawn anew. */
static void key_take(struct top *top, int key)
{
	clearok(stdscr, key != ERR);
	if (key == 'q')
		top->is_ending = true;
	else if (key == 'a')
		top->is_by_qp = !top->is_by_qp;
	for (size_t i = 0; i < ARRAY_COUNT(columns); i++)
		if (key == columns[i].key)
			top->sort = columns[i].rate;
}

/* Draw, and take keys, until the next reading is due. */
static void interval_pass(struct top *top)
{
	uint64_t until_ns = top->before_ns + top->interval_s * 1000000000ull;

	while (!top->is_ending && clock_now_ns() < until_ns) {
		screen_draw(top);
		wtimeout(stdscr, clock_ms_until(until_ns));
		key_take(top, wgetch(stdscr));
	}
}

static int top_run(struct top *top)
{
	int result = 0;

	initscr();
	cbreak();
	noecho();
	curs_set(0);
	while (!top->is_ending && result == 0) {
		result = counters_read(top);
		if (result == 0)
			interval_pass(top);
	}
	endwin();
	/* A message that was printed on the screen is lost, so print one now. */
	if (result < 0)
		complain("top: the counters cannot be read: %s", strerror(-result));
	baseline_done(&top->before);
	stat_report_done(&top->gained);
	return result;
}

/* --- the command --- */

static int parse_options(int argc, char **argv, uint32_t *ret_interval_s)
{
	static const struct option names[] = {
		{"interval", required_argument, NULL, 'i'},
		{0},
	};
	int letter;

	*ret_interval_s = INTERVAL_S;
	while ((letter = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (letter != 'i')
			return -EINVAL;
		if (!text_number(optarg, 1, INTERVAL_S_MAX, ret_interval_s)) {
			complain("top: --interval must be 1 to %d seconds, not '%s'",
				INTERVAL_S_MAX, optarg);
			return -EINVAL;
		}
	}
	if (optind != argc) {
		complain("top: unknown argument '%s'; urnic top --help", argv[optind]);
		return -EINVAL;
	}
	return 0;
}

int command_top(int argc, char **argv)
{
	struct top top = {.sort = TOP_SENT, .is_by_qp = true};

	if (parse_options(argc, argv, &top.interval_s) < 0)
		return EXIT_USAGE;
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		complain("top: needs a terminal; `urnic stat --watch` does not");
		return EXIT_FAILED;
	}
	return top_run(&top) < 0 ? EXIT_FAILED : EXIT_OK;
}
