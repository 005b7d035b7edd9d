/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes work on each other's memory (verify_mixed.c), and one of them is killed or stopped
 * at a random moment. This repeats for COUNT rounds from the seed that -w names. The other process
 * checks every byte of every completion, and its connection breaks within the time that its
 * settings promise. The program prints how long that took.
 *
 * KILLS_NETNS names a network namespace that one of the two enters.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verify.h"

enum {
	EXIT_BROKEN = 3, /* of verify_mixed() */
	TIMEOUT = 12, /* 16.8 ms, */
	RETRIES = 3, /* four times */
	PROMISE_MS = 68,
	MARGIN_MS = 1500, /* both ends share the processors with other programs */
	HANG_MS = 60000,
	WORK_US_MAX = 40000, /* before the moment comes */
	STOP_US_MAX = 20000,
};

#define LATE_MAX(rounds) (1 + (rounds) / 16)

/* What happens to the victim. */
enum fate {
	KILLED,
	STOPPED_AND_KILLED, /* after a short while */
	STOPPED_AND_CONTINUED, /* after a short while; and killed later */
	STOPPED_FOR_LONG, /* until the other one has given up; then it goes on, and gives up, too */
	FATES
};

struct child {
	pid_t pid;
	int link; /* its end says a byte when it is at work */
	int said; /* what it prints */
};

static void child_run(const struct peer_options *options, int meet, int link)
{
	const char *netns = getenv("KILLS_NETNS");
	struct peer peer;

	if (options->server && netns)
		CHECK(!setns(open(netns, O_RDONLY | O_CLOEXEC), CLONE_NEWNET), "cannot enter %s",
			netns);
	peer_open(&peer, options);
	peer.socket = meet;
	verify_mixed(&peer, UINT32_MAX, link);
	exit(EXIT_SUCCESS);
}

static struct child child_start(struct peer_options options, bool is_client, const int meet[2])
{
	struct child child;
	int link[2], said[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, link) && !pipe(said), "no socket pair");
	fflush(stdout);
	child.pid = fork();
	CHECK(child.pid >= 0, "no process");
	if (child.pid == 0) {
		close(meet[!is_client]);
		close(link[0]);
		dup2(said[1], STDOUT_FILENO);
		options.server = is_client ? "the other" : NULL;
		child_run(&options, meet[is_client], link[1]);
	}
	close(link[1]);
	close(said[1]);
	child.link = link[0];
	child.said = said[0];
	return child;
}

static void sleep_us(uint64_t us)
{
	const struct timespec time = {0, (long)us * 1000};

	nanosleep(&time, NULL);
}

struct said {
	char text[256];
};

/* What a child that has ended, or is about to, has printed last. */
static struct said child_said(const struct child *child)
{
	struct said said = {""};

	if (read(child->said, said.text, sizeof(said.text) - 1) < 0)
		said.text[0] = '\0';
	return said;
}

static void child_wait_for_work(const struct child *child)
{
	char byte;

	CHECK(read(child->link, &byte, 1) == 1, "a process ends before it has begun: %s",
		child_said(child).text);
	close(child->link);
}

static uint64_t time_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Wait until it has ended by itself, because its connection broke. Returns when that was. */
static uint64_t child_broken_ms(const struct child *child, const char *who)
{
	uint64_t until_ms = peer_now_ms() + HANG_MS;
	unsigned long long s, ms;
	struct said said;
	int status;

	while (!waitpid(child->pid, &status, WNOHANG)) {
		CHECK(peer_now_ms() < until_ms, "%s hangs", who);
		sleep_us(500);
	}
	CHECK(WIFEXITED(status), "%s ends by signal %d", who, WTERMSIG(status));
	said = child_said(child);
	close(child->said);
	CHECK(WEXITSTATUS(status) == EXIT_BROKEN &&
			sscanf(said.text, "broken %llu.%3llu: status 12 ", &s, &ms) == 2,
		"%s ends with %d: %s", who, WEXITSTATUS(status), said.text);
	return s * 1000 + ms;
}

static void child_kill(const struct child *child)
{
	int status;

	kill(child->pid, SIGKILL);
	CHECK(waitpid(child->pid, &status, 0) == child->pid && WIFSIGNALED(status),
		"the victim ended before it was killed: %d, %s", status, child_said(child).text);
	close(child->said);
}

/* Returns how long the survivor took. */
static uint64_t round_run(const struct peer_options *options, uint64_t *random, enum fate fate)
{
	struct child child[2];
	const struct child *victim, *survivor;
	uint64_t killed_ms, took_ms;
	int meet[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, meet), "no socket pair");
	for (int i = 0; i < 2; i++)
		child[i] = child_start(*options, i, meet);
	close(meet[0]);
	close(meet[1]);
	for (int i = 0; i < 2; i++)
		child_wait_for_work(&child[i]);
	victim = &child[peer_random(random) >> 60 & 1];
	survivor = &child[victim == &child[0]];
	sleep_us(peer_random(random) % WORK_US_MAX);
	if (fate != KILLED)
		kill(victim->pid, SIGSTOP);
	if (fate == STOPPED_AND_KILLED || fate == STOPPED_AND_CONTINUED)
		sleep_us(peer_random(random) % STOP_US_MAX);
	if (fate == STOPPED_AND_CONTINUED) {
		kill(victim->pid, SIGCONT);
		sleep_us(peer_random(random) % STOP_US_MAX);
	}
	killed_ms = time_ms();
	if (fate != STOPPED_FOR_LONG)
		child_kill(victim);
	took_ms = child_broken_ms(survivor, "the survivor");
	/* A stop that takes long breaks it, too. */
	took_ms = took_ms > killed_ms ? took_ms - killed_ms : 0;
	if (fate == STOPPED_FOR_LONG) {
		kill(victim->pid, SIGCONT);
		child_broken_ms(victim, "who was stopped");
	}
	return took_ms;
}

int main(int argc, char **argv)
{
	struct peer_options options;
	uint64_t random, took_ms, sum_ms = 0, most_ms = 0;
	uint32_t rounds, late = 0;

	peer_parse(&options, argc, argv);
	options.timeout = TIMEOUT;
	options.retry_cnt = RETRIES;
	random = options.what ? strtoull(options.what, NULL, 0) : 1;
	rounds = options.count ? options.count : 40;
	for (uint32_t i = 0; i < rounds; i++) {
		options.is_shared = i / FATES % 2;
		took_ms = round_run(&options, &random, (enum fate)(i % FATES));
		sum_ms += took_ms;
		late += took_ms > PROMISE_MS + MARGIN_MS;
		most_ms = took_ms > most_ms ? took_ms : most_ms;
	}
	printf("%u rounds: noticed after %" PRIu64 " ms on average, %" PRIu64 " at most\n", rounds,
		sum_ms / rounds, most_ms);
	/* On a busy machine one may be late by itself. */
	CHECK(late <= LATE_MAX(rounds), "%u of %u notice late", late, rounds);
	return EXIT_SUCCESS;
}
