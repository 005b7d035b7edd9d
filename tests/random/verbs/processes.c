/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random programs that share an XRC domain and import each other's objects: fuzz_processes
 * [--seconds N] [--processes N] [--seed N] [--scribble PROGRAM].
 *
 * Each process makes random verbs calls: it makes and destroys shared receive queues, receiving and
 * sending queue pairs in one domain, opens the receiving queue pairs of others, connects any with
 * any, sends to queues and memory of any process, and imports protection domains and regions. A
 * shared board lists the objects of all processes. Meanwhile processes are killed, stopped for a
 * moment or told to end, at random, and others take their places.
 *
 * With --scribble one more process of the same user, PROGRAM (tests/attack/scribble.c), writes
 * random words into the NIC memory of all others.
 *
 * The program fails when a call has an impossible result, when a process hangs, or when a sanitizer
 * reports a crash, leak or race.
 */
#include "processes.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/netns.h"

enum { HANG_SECONDS = 120 };

struct card *board;
unsigned process_count = 3;
int domain_file;
struct sim_random randomness;

static pid_t process_start(unsigned i, uint64_t seed)
{
	pid_t pid;

	board[i].shall_end = false;
	board[i].beats++;
	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	randomness.state = seed;
	process_run(&board[i]);
	exit(0);
}

/* --- who starts and kills them ------------------------------------------------------------- */

struct process {
	pid_t pid; /* 0: to be started */
	bool was_killed;
	uint64_t beats;
	double since; /* when they last changed */
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Take in one that has ended. False when it should not have, or not like that. */
static bool reap(struct process *process, int options)
{
	int status;

	if (waitpid(process->pid, &status, options) != process->pid)
		return true;
	if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) &&
		!(process->was_killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
		fprintf(stderr, "process %d ended with status 0x%x\n", process->pid, status);
		return false;
	}
	process->pid = 0;
	return true;
}

static bool is_hanging(struct process *process, const struct card *card)
{
	if (card->beats != process->beats) {
		process->beats = card->beats;
		process->since = now();
	}
	if (now() - process->since < HANG_SECONDS)
		return false;
	fprintf(stderr, "process %d hangs in %s\n", process->pid, card->call);
	kill(process->pid, SIGABRT);
	return true;
}

static void disturb(struct process *process, struct card *card)
{
	uint32_t what = below(100);

	if (what < 50) {
		process->was_killed = true;
		kill(process->pid, SIGKILL);
	} else if (what < 80) {
		card->shall_end = true;
	} else {
		kill(process->pid, SIGSTOP);
		usleep(below(100000));
		kill(process->pid, SIGCONT);
	}
}

/* --- an attacker --------------------------------------------------------------------------- */

enum {
	ATTACK_MS = 300, /* then another attacker begins, which sees the processes of that time */
	ATTACK_FOUND_NOTHING = 3, /* tests/attack/scribble.c */
};

static pid_t attack_start(const char *program, const struct process *processes, uint64_t seed)
{
	char numbers[PROCESSES_MAX + 2][24];
	char *arguments[PROCESSES_MAX + 4] = {(char *)(uintptr_t)program, numbers[0], numbers[1]};
	unsigned count = 3;
	pid_t pid;

	snprintf(numbers[0], sizeof(numbers[0]), "%llu", (unsigned long long)seed);
	snprintf(numbers[1], sizeof(numbers[1]), "%d", ATTACK_MS);
	for (unsigned i = 0; i < process_count; i++) {
		if (!processes[i].pid)
			continue;
		snprintf(numbers[2 + i], sizeof(numbers[0]), "%d", processes[i].pid);
		arguments[count++] = numbers[2 + i];
	}
	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
	execv(program, arguments);
	_exit(127);
}

/* Counts in `*attacks` one that has written. False when the attacker itself has failed. */
static bool attack_reap(pid_t *attacker, uint64_t *attacks, int options)
{
	int status;

	if (*attacker <= 0 || waitpid(*attacker, &status, options) != *attacker)
		return true;
	*attacker = 0;
	if (status == 0)
		++*attacks;
	else if (!WIFEXITED(status) || WEXITSTATUS(status) != ATTACK_FOUND_NOTHING) {
		fprintf(stderr, "the attacker ended with status 0x%x\n", (unsigned)status);
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seconds", required_argument, NULL, 's'},
		{"processes", required_argument, NULL, 'p'},
		{"seed", required_argument, NULL, 'r'},
		{"scribble", required_argument, NULL, 'a'},
		{0},
	};
	struct process processes[PROCESSES_MAX] = {0};
	double seconds = 5, until;
	uint64_t seed = 1, started = 0, beats = 0, attacks = 0;
	const char *scribble = NULL;
	pid_t attacker = 0;
	bool is_well = true;
	int letter;

	while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (letter == 's')
			seconds = atof(optarg);
		else if (letter == 'p')
			process_count = (unsigned)atoi(optarg) % (PROCESSES_MAX + 1);
		else if (letter == 'r')
			seed = strtoull(optarg, NULL, 0);
		else if (letter == 'a')
			scribble = optarg;
		else
			return 2;
	}
	if (!process_count)
		return 2;
	if (netns_enter_new() < 0)
		return 77;
	domain_file = memfd_create("domain", MFD_CLOEXEC);
	board = mmap(NULL, PROCESSES_MAX * sizeof(*board), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED || domain_file < 0)
		return 1;
	randomness.state = seed;
	until = now() + seconds;
	while (is_well && now() < until) {
		for (unsigned i = 0; i < process_count && is_well; i++) {
			struct process *process = &processes[i];

			if (!process->pid) {
				*process = (struct process){.since = now()};
				process->pid = process_start(i, seed << 32 | started++);
			}
			is_well = process->pid > 0 && reap(process, WNOHANG) &&
				!is_hanging(process, &board[i]);
		}
		is_well = attack_reap(&attacker, &attacks, WNOHANG) && is_well;
		if (scribble && !attacker)
			attacker = attack_start(scribble, processes, seed + attacks);
		usleep(20000);
		if (is_well && below(100) < 10) {
			unsigned i = below(process_count);

			if (processes[i].pid)
				disturb(&processes[i], &board[i]);
		}
	}
	is_well = attack_reap(&attacker, &attacks, 0) && is_well;
	if (scribble && !attacks) {
		fprintf(stderr, "no attacker has found NIC memory that it may write to\n");
		is_well = false;
	}
	for (unsigned i = 0; i < process_count; i++) {
		board[i].shall_end = true;
		if (processes[i].pid > 0 && is_well)
			is_well = reap(&processes[i], 0);
		beats += board[i].beats;
	}
	printf("seed %llu: %llu calls of %llu processes, %llu attacks\n", (unsigned long long)seed,
		(unsigned long long)beats, (unsigned long long)started,
		(unsigned long long)attacks);
	return is_well ? 0 : 1;
}
