/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls fail, one at a time, and the libraries and urnicd must handle the error.
 *
 *   syscall_faults NETNS ADDRESS-THERE ADDRESS-HERE [CALL [ERRNO [USE [WAY [VICTIM]]]]]
 *
 * Each run has two ends (syscall_ends.h). The victim is one of the ends, or its urnicd. The USE-th
 * call of CALL in the victim fails with ERRNO; with USE 0, each one does, as in a sandbox that
 * refuses the call. USE may be a range, such as 1-120, of which each use gets a run. CALL "malloc"
 * is no system call, but an allocation by one of urnic's libraries (allocations.h). The client is
 * in this network namespace. The server is in the one that the file NETNS shows, or in this one,
 * too, by the way "local".
 *
 * The victim must end within a time limit, and not by a signal. If one of its verbs failed, it must
 * report why in errno, and in a sentence on standard error. A request may complete with an error
 * instead.
 *
 * The victim installs a seccomp filter that has this process decide on each of these calls. So
 * every use is seen, whichever library or thread it comes from.
 *
 * SYSCALL_FAULTS=all, or further arguments, try each error with every way and every victim.
 * Otherwise each error gets one way and one victim, in turn; only the first error of a call is
 * tried at single uses as well as at all of them. Each allocation gets a run, because each is of
 * another call of verbs. With SYSCALL_FAULTS_SHOW the program prints each
 * run and the victim's output.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack/allocations.h"
#include "attack/syscall_ends.h"

enum {
	USES = 4, /* that are tried */
	RUN_MS_MAX = 60000, /* above what the ends wait for, several times */
	ERRORS_MAX = 6,
	SAID_BYTES = 4096,
	PORT = 7000, /* the first of */
	PORTS = 20000,
	ALWAYS = 0,
	NO_SYSCALL = -1,
};

#define CHECK(condition)                                                                    \
	do {                                                                                \
		if (!(condition)) {                                                         \
			fprintf(stderr, "failed: line %d: %s: %m\n", __LINE__, #condition); \
			exit(EXIT_FAILURE);                                                 \
		}                                                                           \
	} while (0)

struct call {
	const char *name;
	int number;
	int errors[ERRORS_MAX]; /* 0 ends them */
};

static const struct call calls[] = {
#define CALL(name, ...) {#name, SYS_##name, {__VA_ARGS__}},
#include "attack/syscall_faults.def"
	{"malloc", NO_SYSCALL, {ENOMEM}},
};
enum {
	CALL_COUNT = sizeof(calls) / sizeof(calls[0]),
	CALL_MALLOC = CALL_COUNT - 1,
	FILTER_NONE = -2,
	FILTER_ALL = -1, /* but those that are left out */
};

static const int left_out[] = {
#define CALL(name, ...)
#define LEFT_OUT(name) SYS_##name,
#include "attack/syscall_faults.def"
};
enum { LEFT_OUT_COUNT = sizeof(left_out) / sizeof(left_out[0]) };

/* How the ends reach each other. */
static const struct way {
	const char *name;
	bool is_far; /* the server is in the other network namespace */
	bool is_iwarp;
	const char *settings[3]; /* NULL ends them */
} ways[] = {
	{"packets", true, false, {"URNIC_LINK=off"}},
	{"link", true, false, {"URNIC_LINK=on"}},
	{"local", false, false, {NULL}},
	{"copy", false, false, {"URNIC_MR=copy"}},
	/* Without a CRC, payload is read straight into its place. */
	{"iwarp", true, true, {"URNIC_TRANSPORTS=iwarp", "URNIC_MPA=crc=off"}},
};
enum { WAY_COUNT = sizeof(ways) / sizeof(ways[0]) };

/* Whose calls fail. */
enum victim { VICTIM_SERVER, VICTIM_CLIENT, VICTIM_URNICD, VICTIM_COUNT };
static const char *const victim_names[] = {"server", "client", "urnicd"};

struct run {
	const struct call *call; /* NULL: nothing fails, all calls are counted */
	int error;
	unsigned use;
	const struct way *way;
	enum victim victim;
};

static const char *netns, *addresses[2], *program;
static struct stage *stage;
static int stage_fd;
static unsigned counts[CALL_COUNT]; /* uses seen in the last run */
static int unlisted; /* a call that has no row; -1: none was seen in the last run */
static unsigned failures, runs;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- an end, a process of its own --- */

/*
 * Make the supervisor decide on `call`, or, if that is -1, on all calls that are not left out. This
 * holds from now on in all threads and in children made later.
 */
static void filter_install(int call)
{
	struct sock_filter code[LEFT_OUT_COUNT + 3];
	unsigned short used = 0;
	struct sock_fprog filter;
	int listener;

	code[used++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	if (call >= 0)
		code[used++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[call].number, 0, 1);
	for (int i = 0; i < LEFT_OUT_COUNT && call < 0; i++)
		code[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			(uint32_t)left_out[i], (uint8_t)(LEFT_OUT_COUNT - i), 0);
	code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter = (struct sock_fprog){used, code};
	listener = (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
	CHECK(listener >= 0);
	/* No call that may be filtered before the supervisor has it. */
	atomic_store(&stage->listener, listener + 1);
	while (!atomic_load(&stage->has_listener))
		;
	close(listener);
}

/* syscall_faults --end ROLE ADDRESS STAGE IS-IWARP IS-SECOND FILTER */
static int end_main(char **arguments)
{
	struct end_options options = {
		.role = atoi(arguments[0]),
		.address = arguments[1],
		.is_iwarp = atoi(arguments[3]),
		.is_second = atoi(arguments[4]),
	};
	int filter = atoi(arguments[5]);

	stage_fd = atoi(arguments[2]);
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED, stage_fd, 0);
	CHECK(stage != MAP_FAILED);
	close(stage_fd);
	if (filter != FILTER_NONE)
		allocations_count(&stage->allocations,
			filter == CALL_MALLOC ? (int)stage->use : ALLOCATIONS_NEVER);
	if (filter == CALL_MALLOC)
		atomic_store(&stage->listener, LISTENER_NONE);
	else if (filter != FILTER_NONE)
		filter_install(filter);
	end_run(stage, &options);
	return EXIT_SUCCESS;
}

static bool is_victim(const struct run *run, int role)
{
	return role == (run->victim == VICTIM_SERVER ? END_SERVER : END_CLIENT);
}

static void end_exec(const struct run *run, int role, int said)
{
	char role_text[8], stage_text[16], filter[16];
	bool is_far = run->way->is_far && role == END_SERVER;

	snprintf(role_text, sizeof(role_text), "%d", role);
	snprintf(stage_text, sizeof(stage_text), "%d", stage_fd);
	snprintf(filter, sizeof(filter), "%d",
		!is_victim(run, role) ? FILTER_NONE
			: run->call   ? (int)(run->call - calls)
				      : FILTER_ALL);
	if (is_far) {
		int fd = open(netns, O_RDONLY | O_CLOEXEC);

		CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
		setenv("URNIC_HOST_ID", "far", 1);
	}
	for (int i = 0; run->way->settings[i]; i++)
		putenv((char *)(uintptr_t)run->way->settings[i]);
	dup2(said, STDERR_FILENO);
	execl(program, program, "--end", role_text, addresses[run->way->is_far], stage_text,
		run->way->is_iwarp ? "1" : "0", is_victim(run, role) ? "0" : "1", filter,
		(char *)NULL);
	_exit(EXIT_FAILURE);
}

static pid_t end_start(const struct run *run, int role, int said)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		end_exec(run, role, said);
	return pid;
}

/* --- the supervisor --- */

/* The victim's descriptor; -1 if it has none, or ends first. */
static int listener_take(pid_t victim, int pidfd)
{
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};
	int listener;

	(void)victim;
	while (!atomic_load(&stage->listener))
		if (poll(&ended, 1, 1) > 0)
			return -1;
	if (atomic_load(&stage->listener) == LISTENER_NONE)
		return -1;
	listener = (int)syscall(SYS_pidfd_getfd, pidfd, atomic_load(&stage->listener) - 1, 0);
	CHECK(listener >= 0);
	atomic_store(&stage->has_listener, true);
	return listener;
}

/* Is it a thread of that process? Children that run in its memory are not. */
static bool is_thread_of(pid_t thread, pid_t process)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)process, (int)thread);
	return access(path, F_OK) == 0;
}

static void decide(const struct run *run, pid_t victim, int listener)
{
	struct seccomp_notif_resp response = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
	struct seccomp_notif question = {0};
	int call = 0;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0)
		return;
	response.id = question.id;
	while (call < CALL_COUNT && calls[call].number != question.data.nr)
		call++;
	if (call == CALL_COUNT) {
		unlisted = question.data.nr;
	} else if (is_thread_of((pid_t)question.pid, victim) == (run->victim != VICTIM_URNICD)) {
		counts[call]++;
		if (run->call && (run->use == ALWAYS || run->use == counts[call]))
			response = (struct seccomp_notif_resp){
				.id = question.id, .error = -run->error};
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static bool is_crash(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM;
}

/*
 * Kill all descendants of this process. It is a subreaper, so an urnicd becomes its child. Returns
 * whether a descendant had crashed before.
 */
static bool descendants_end(void)
{
	bool has_crashed = false;
	char path[64];
	int pid, status;
	FILE *children;

	do {
		snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
		children = fopen(path, "re");
		CHECK(children);
		while (fscanf(children, "%d", &pid) == 1)
			kill(pid, SIGKILL);
		fclose(children);
		pid = waitpid(-1, &status, 0);
		has_crashed |= pid > 0 && is_crash(status);
	} while (pid > 0);
	return has_crashed;
}

/* Serve the victim's filter until it ends or the time is up. */
static bool supervise(const struct run *run, pid_t victim, int pidfd)
{
	struct pollfd fds[2] = {{.fd = pidfd, .events = POLLIN}};
	uint64_t until_ms = now_ms() + RUN_MS_MAX;
	int listener = listener_take(victim, pidfd);

	fds[1] = (struct pollfd){.fd = listener, .events = POLLIN};
	do {
		if (poll(fds, 2, 100) > 0 && (fds[1].revents & POLLIN))
			decide(run, victim, listener);
	} while (!(fds[0].revents & POLLIN) && now_ms() < until_ms);
	if (listener >= 0)
		close(listener);
	return fds[0].revents & POLLIN;
}

/* What is wrong with how the victim ended; NULL: nothing. */
static const char *verdict(const struct run *run, bool has_ended, int status, const char *said)
{
	const struct end *end =
		&stage->ends[run->victim == VICTIM_SERVER ? END_SERVER : END_CLIENT];
	static char why[128];

	if (unlisted >= 0) {
		snprintf(why, sizeof(why), "system call %d has no row", unlisted);
		return why;
	}
	if (!has_ended) {
		snprintf(why, sizeof(why), "hangs in %s", end->step);
		return why;
	}
	if (WIFSIGNALED(status)) {
		snprintf(why, sizeof(why), "signal %d in %s", WTERMSIG(status), end->step);
		return why;
	}
	if (WEXITSTATUS(status) != EXIT_SUCCESS)
		return "bad exit status";
	if (!end->failed[0])
		return NULL;
	if (end->error == 0 && strncmp(end->failed, "wait", 4) != 0)
		return "fails without errno";
	/* An ordinary answer, of which the program tells its user. */
	if (end->error == EADDRINUSE && run->error == EADDRINUSE)
		return NULL;
	if (run->victim == VICTIM_URNICD && strstr(said, strerror(run->error)))
		return NULL;
	return strstr(said, "urnic[") ? NULL : "fails without a sentence";
}

static void run_name(const struct run *run, char *name, size_t bytes)
{
	snprintf(name, bytes, "%s %s use %u of the %s, %s", run->call ? run->call->name : "nothing",
		run->error ? strerrorname_np(run->error) : "", run->use, victim_names[run->victim],
		run->way->name);
}

static void run_show(const struct run *run, const char *wrong, const char *said, uint64_t took_ms)
{
	const struct end *end =
		&stage->ends[run->victim == VICTIM_SERVER ? END_SERVER : END_CLIENT];
	char name[160];

	run_name(run, name, sizeof(name));
	printf("%s %s: ", wrong ? "FAIL" : "ok  ", name);
	if (wrong)
		printf("%s; ", wrong);
	if (end->failed[0])
		printf("%s: %s; ", end->failed,
			end->error ? strerrorname_np(end->error) : "in vain");
	printf("status %d, %u rounds, %u ms\n%s", end->status, end->rounds, (unsigned)took_ms,
		said);
	fflush(stdout);
}

/* What urnicd has to say, it says in its log. */
static void urnicd_log_append(const struct run *run, char *said)
{
	const char *path = getenv("URNICD_LOG");
	size_t bytes = strlen(said);
	FILE *file = path ? fopen(path, "re") : NULL;

	if (file && run->victim == VICTIM_URNICD)
		said[bytes + fread(said + bytes, 1, SAID_BYTES - bytes, file)] = '\0';
	if (file)
		fclose(file);
}

/* Returns whether all was well. */
static bool run_once(const struct run *run)
{
	int role = run->victim == VICTIM_SERVER ? END_SERVER : END_CLIENT;
	int said_fd = memfd_create("said", MFD_CLOEXEC),
	    quiet = open("/dev/null", O_RDWR | O_CLOEXEC);
	char said[SAID_BYTES + 1] = "";
	const char *log_path = getenv("URNICD_LOG"), *wrong;
	uint64_t since_ms = now_ms();
	bool has_ended;
	int pidfd, status = 0;
	pid_t victim;

	memset(stage, 0, sizeof(*stage));
	stage->port = (uint16_t)(PORT + runs % PORTS);
	stage->use = run->use;
	memset(counts, 0, sizeof(counts));
	unlisted = -1;
	if (log_path)
		unlink(log_path);
	victim = end_start(run, role, said_fd);
	pidfd = (int)syscall(SYS_pidfd_open, victim, 0);
	end_start(run, !role, quiet);
	has_ended = supervise(run, victim, pidfd);
	if (has_ended)
		waitpid(victim, &status, 0);
	counts[CALL_MALLOC] = run->victim == VICTIM_URNICD ? 0 : atomic_load(&stage->allocations);
	if (pread(said_fd, said, SAID_BYTES, 0) < 0)
		said[0] = '\0';
	urnicd_log_append(run, said);
	wrong = verdict(run, has_ended, status, said);
	if (descendants_end())
		wrong = "another process crashes";
	if (wrong || getenv("SYSCALL_FAULTS_SHOW"))
		run_show(run, wrong, said, now_ms() - since_ms);
	close(pidfd);
	close(said_fd);
	close(quiet);
	return !wrong;
}

/* --- which runs --- */

/* Arguments that choose runs; NULL: any. */
enum { ONLY_CALL, ONLY_ERROR, ONLY_USE, ONLY_WAY, ONLY_VICTIM, ONLY_COUNT };
static const char *only[ONLY_COUNT];

/* How often the ends use each call, by each way and at each victim. */
static unsigned uses[WAY_COUNT][VICTIM_COUNT][CALL_COUNT];

static bool is_wanted(int which, const char *name)
{
	return !only[which] || strcmp(only[which], name) == 0;
}

static void try(const struct run *run)
{
	runs++;
	failures += !run_once(run);
}

/* Nothing fails. */
static void uses_count(void)
{
	for (int way = 0; way < WAY_COUNT; way++) {
		for (int victim = 0; victim < VICTIM_COUNT; victim++) {
			if (!is_wanted(ONLY_WAY, ways[way].name) ||
				!is_wanted(ONLY_VICTIM, victim_names[victim]))
				continue;
			try(&(struct run){.way = &ways[way], .victim = (enum victim)victim});
			memcpy(uses[way][victim], counts, sizeof(counts));
		}
	}
}

/* Each row is of use: where all runs were counted, one has such a call. */
static void rows_check(void)
{
	if (only[ONLY_WAY] || only[ONLY_VICTIM])
		return;
	for (int call = 0; call < CALL_COUNT; call++) {
		unsigned sum = 0;

		for (int i = 0; i < WAY_COUNT * VICTIM_COUNT; i++)
			sum += uses[i % WAY_COUNT][i / WAY_COUNT][call];
		if (sum == 0)
			printf("FAIL no run makes the system call %s\n", calls[call].name);
		failures += sum == 0;
	}
}

static void uses_try(struct run run, unsigned first, unsigned last)
{
	for (run.use = first; run.use <= last; run.use++)
		try(&run);
}

/* Try the uses that an argument chooses, also those beyond what the run without errors had. */
static void range_try(struct run run, const char *range)
{
	unsigned first = 0, last = 0;
	int bounds = sscanf(range, "%u-%u", &first, &last);

	CHECK(bounds >= 1);
	uses_try(run, first, bounds == 1 ? first : last);
}

/*
 * Try one error of one call by one way, in a run for each of the first `count` entries of `at`. The
 * call fails at that use, or at every use (ALWAYS). Entries above `uses_max`, the number of uses,
 * are skipped. `count` is 1 for an error that is less likely.
 */
static void error_try(struct run run, unsigned uses_max, size_t count)
{
	static const unsigned at[USES] = {ALWAYS, 1, 2, 100};

	for (size_t i = 0; i < count; i++) {
		run.use = at[i];
		/* Signals do not come without end. */
		if (at[i] == ALWAYS && run.error == EINTR)
			continue;
		if (uses_max >= at[i])
			try(&run);
	}
}

/*
 * Try one error of one call: with each way and victim, or with the `turn`-th of those that make the
 * call.
 */
static void call_try(int call, int error, bool are_all, unsigned turn)
{
	unsigned count = 0, index = 0;

	for (int i = 0; i < WAY_COUNT * VICTIM_COUNT; i++)
		count += uses[i % WAY_COUNT][i / WAY_COUNT][call] > 0;
	for (int i = 0; i < WAY_COUNT * VICTIM_COUNT; i++) {
		struct run run = {
			&calls[call], error, 0, &ways[i % WAY_COUNT], (enum victim)(i / WAY_COUNT)};
		unsigned uses_max = uses[i % WAY_COUNT][i / WAY_COUNT][call];

		if (uses_max > 0 && only[ONLY_USE])
			range_try(run, only[ONLY_USE]);
		else if (uses_max > 0 && call == CALL_MALLOC && (are_all || index == turn % count))
			uses_try(run, ALWAYS, uses_max);
		else if (uses_max > 0 && (are_all || index == turn % count))
			error_try(run, uses_max,
				are_all || error == calls[call].errors[0] ? USES : 1);
		index += uses_max > 0;
	}
}

static void calls_try(bool are_all)
{
	unsigned turn = 0;

	for (int call = 0; call < CALL_COUNT; call++) {
		if (!is_wanted(ONLY_CALL, calls[call].name))
			continue;
		for (int i = 0; i < ERRORS_MAX && calls[call].errors[i]; i++)
			if (is_wanted(ONLY_ERROR, strerrorname_np(calls[call].errors[i])))
				call_try(call, calls[call].errors[i], are_all, turn++);
	}
}

int main(int argc, char **argv)
{
	const char *how = getenv("SYSCALL_FAULTS");
	bool are_all = argc > 4 || (how && strcmp(how, "all") == 0);

	program = argv[0];
	if (argc == 8 && strcmp(argv[1], "--end") == 0)
		return end_main(argv + 2);
	CHECK(argc >= 4);
	netns = argv[1];
	addresses[true] = argv[2];
	addresses[false] = argv[3];
	for (int i = 4; i < argc && i < 4 + ONLY_COUNT; i++)
		only[i - 4] = argv[i];
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	stage_fd = memfd_create("stage", 0);
	CHECK(stage_fd >= 0 && ftruncate(stage_fd, sizeof(*stage)) == 0);
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED, stage_fd, 0);
	CHECK(stage != MAP_FAILED);
	uses_count();
	rows_check();
	calls_try(are_all);
	printf("%u runs, %u failures\n", runs, failures);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
