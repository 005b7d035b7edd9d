/* SPDX-License-Identifier: BSD-2-Clause */
/* urnicd takes what a service manager has kept, and nothing else that looks like it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/setting.h"
#include "urnicd/kept.h"
#include "urnicd/lease/fd_store.h"

enum {
	FIRST_FD = STDERR_FILENO + 1,
	TAKEN = 0,
	NOT_TAKEN = 1,
	WRONG = 2,
};

static void variable_set(const char *name, long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", value);
	setenv(name, text, 1);
}

/* In a process of its own, whose first descriptors are these. */
static int take_by(const char *names, int count, bool has_own_pid, int descriptors)
{
	struct kept kept;

	for (int fd = FIRST_FD; fd < FIRST_FD + descriptors; fd++)
		if (dup2(STDERR_FILENO, fd) != fd)
			return WRONG;
	close_range(FIRST_FD + (unsigned)descriptors, ~0u, 0);
	setenv("LISTEN_FDNAMES", names, 1);
	variable_set("LISTEN_FDS", count);
	variable_set("LISTEN_PID", has_own_pid ? getpid() : getppid());
	settings_read();
	if (!kept_take(&kept))
		return NOT_TAKEN;
	if (kept.lock != FIRST_FD || kept.fd_store != FIRST_FD + 1 || kept.socket != FIRST_FD + 2)
		return WRONG;
	return fcntl(kept.lock, F_GETFD) & FD_CLOEXEC ? TAKEN : WRONG;
}

static int take(const char *names, int count, bool has_own_pid, int descriptors)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(take_by(names, count, has_own_pid, descriptors));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void kept_descriptors_are_taken_by_their_names(void **state)
{
	(void)state;
	assert_int_equal(take("lock:fd-store:socket", 3, true, 3), TAKEN);
}

static void others_are_not_taken(void **state)
{
	(void)state;
	assert_int_equal(take("lock:fd-store:socket", 3, false, 3), NOT_TAKEN);
	assert_int_equal(take("lock:fd-store:socket", 2, true, 3), NOT_TAKEN);
	assert_int_equal(take("lock:fd-store:socket", 3, true, 2), NOT_TAKEN);
	assert_int_equal(take("lock:fd-store", 3, true, 3), NOT_TAKEN);
	assert_int_equal(take("lock:fd-store:lock", 3, true, 3), NOT_TAKEN);
	assert_int_equal(take("lock:fd-store:sockets", 3, true, 3), NOT_TAKEN);
	assert_int_equal(take("lock:fd-store:sock", 3, true, 3), NOT_TAKEN);
	assert_int_equal(take("", 3, true, 3), NOT_TAKEN);
}

/*
 * A socket that does not listen, and a lock of another file. The lock is free although the manager
 * has the same open file.
 */
static void what_does_not_listen_is_closed(void **state)
{
	char path[] = "/tmp/urnic-test-XXXXXX";
	int managers_lock = mkstemp(path), other = open(path, O_RDWR | O_CLOEXEC);
	struct place_listener listener;
	struct kept kept = {
		.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
		.lock = dup(managers_lock),
		.fd_store = fd_store_create(),
	};

	(void)state;
	assert_int_equal(flock(managers_lock, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(kept_adopt(&kept, &listener), -EINVAL);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	close(managers_lock);
	close(other);
	unlink(path);
	assert_int_equal(fcntl(kept.socket, F_GETFD), -1);
	assert_int_equal(fcntl(kept.lock, F_GETFD), -1);
	assert_int_equal(fcntl(kept.fd_store, F_GETFD), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept_descriptors_are_taken_by_their_names),
		cmocka_unit_test(others_are_not_taken),
		cmocka_unit_test(what_does_not_listen_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
