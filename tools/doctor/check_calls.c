/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each system call is made once, in a child, because a sandbox may kill the caller. The calls that
 * access another process access a sibling of that child and not a child, because Yama lets every
 * process access its children.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/arith.h"
#include "doctor/checks.h"
#include "doctor/trial.h"
#include "os/yama.h"

/* --- calls on the process itself --- */

/* 0, or the -errno of a call that returned `result`. */
static int error_of(long result)
{
	return result < 0 ? -errno : 0;
}

static int call_memfd(void *unused)
{
	int file = memfd_create("doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)unused;
	if (file < 0 || ftruncate(file, 4096) < 0)
		return -errno;
	return error_of(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
}

static int call_reserve(void *unused)
{
	(void)unused;
	return mmap(NULL, 2 * ARENA_SIDE_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED
		? -errno
		: 0;
}

static int call_netlink(void *unused)
{
	(void)unused;
	return error_of(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
}

static int call_udp(void *unused)
{
	(void)unused;
	return error_of(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

static int call_unix_socket(void *unused)
{
	(void)unused;
	return error_of(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

static int call_sendmmsg(void *unused)
{
	struct mmsghdr message = {.msg_len = 0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)unused;
	return fd < 0 ? -errno : error_of(sendmmsg(fd, &message, 0, MSG_DONTWAIT));
}

static int call_recvmmsg(void *unused)
{
	struct mmsghdr message = {.msg_len = 0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)unused;
	if (fd < 0)
		return -errno;
	return recvmmsg(fd, &message, 1, MSG_DONTWAIT, NULL) < 0 && errno != EAGAIN ? -errno : 0;
}

static int call_epoll(void *unused)
{
	(void)unused;
	return error_of(epoll_create1(EPOLL_CLOEXEC));
}

static int call_eventfd(void *unused)
{
	(void)unused;
	return error_of(eventfd(0, EFD_CLOEXEC));
}

static int call_timerfd(void *unused)
{
	(void)unused;
	return error_of(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

static void *thread_run(void *unused)
{
	return unused;
}

static int call_thread(void *unused)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, thread_run, unused);

	if (!error)
		pthread_join(thread, NULL);
	return -error;
}

static int call_pidfd(void *unused)
{
	(void)unused;
	return error_of(syscall(SYS_pidfd_open, getpid(), 0));
}

static int call_uring(void *unused)
{
	struct io_uring_params parameters = {0};

	(void)unused;
	return error_of(syscall(SYS_io_uring_setup, 1, &parameters));
}

/* --- calls on a sibling --- */

#define SIBLING_WORD 0x75726e6963ull

/* SIBLING_WORD in the sibling, 0 in this process. */
static uint64_t sibling_word;

struct sibling {
	pid_t pid;
	int end; /* a descriptor that the sibling has open */
};

/* The child writes that it is ready, and runs until the parent closes its end of the pipe. */
static void sibling_run(int ready, int end)
{
	char byte = 0;

	sibling_word = SIBLING_WORD;
	yama_admit_all();
	if (write(ready, &byte, 1) == 1)
		while (read(end, &byte, 1) < 0 && errno == EINTR)
			;
	_exit(0);
}

/* Make a sibling, then run `run` with its struct sibling, in another child of this process. */
static int with_sibling(trial_function *run)
{
	int ready[2], end[2];
	struct sibling sibling;
	struct trial trial;
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(end, O_CLOEXEC) < 0)
		return -errno;
	sibling = (struct sibling){.pid = fork(), .end = end[0]};
	if (sibling.pid < 0)
		return -errno;
	if (sibling.pid == 0) {
		close(end[1]);
		sibling_run(ready[1], end[0]);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		return -ECHILD;
	trial = trial_run(run, &sibling);
	close(end[1]);
	waitpid(sibling.pid, NULL, 0);
	if (trial.signal)
		raise(trial.signal);
	return trial.result;
}

static int sibling_getfd(void *context)
{
	const struct sibling *sibling = context;
	long pidfd = syscall(SYS_pidfd_open, sibling->pid, 0);

	return pidfd < 0 ? -errno : error_of(syscall(SYS_pidfd_getfd, pidfd, sibling->end, 0));
}

static int call_getfd(void *unused)
{
	(void)unused;
	return with_sibling(sibling_getfd);
}

static int sibling_read(void *context)
{
	const struct sibling *sibling = context;
	uint64_t word = 0;
	struct iovec local = {&word, sizeof(word)}, remote = {&sibling_word, sizeof(sibling_word)};

	if (process_vm_readv(sibling->pid, &local, 1, &remote, 1, 0) < 0)
		return -errno;
	return word == SIBLING_WORD ? 0 : -EIO;
}

static int call_process_read(void *unused)
{
	(void)unused;
	return with_sibling(sibling_read);
}

static int sibling_write(void *context)
{
	const struct sibling *sibling = context;
	uint64_t word = 0;
	struct iovec local = {&word, sizeof(word)}, remote = {&sibling_word, sizeof(sibling_word)};

	return error_of(process_vm_writev(sibling->pid, &local, 1, &remote, 1, 0));
}

static int call_process_write(void *unused)
{
	(void)unused;
	return with_sibling(sibling_write);
}

/* --- all of them --- */

static const struct system_call {
	const char *name;
	trial_function *run;
	enum finding_result result; /* of the finding if the call is refused */
	const char *lost; /* what does not work without the call */
} calls[] = {
#define CALL(function, name, result, lost) {name, call_##function, FINDING_##result, lost},
#include "doctor/system_call.def"
};

void check_calls(struct findings *findings)
{
	for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
		const struct system_call *call = &calls[i];
		struct trial trial = trial_run(call->run, NULL);

		if (trial.result == 0)
			finding_add(findings, "call", call->name, FINDING_OK, "works");
		else
			finding_add(findings, "call", call->name, call->result,
				"refused (%s), so %s", trial_reason(&trial), call->lost);
	}
}
