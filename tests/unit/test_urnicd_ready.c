/* SPDX-License-Identifier: BSD-2-Clause */
/* urnicd tells a service manager that it listens, and has it keep descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/setting.h"
#include "urnicd/ready.h"

static void manager_name(const char *name)
{
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
	settings_read();
}

/* What arrives at a socket that is bound to `name`; an abstract one begins with a zero byte. */
static void told(const char *variable, const struct sockaddr_un *name, size_t bytes)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	char message[32] = {0};

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)name,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)),
		0);
	manager_name(variable);
	ready_tell();
	assert_int_equal(recv(fd, message, sizeof(message), 0), 7);
	assert_string_equal(message, "READY=1");
	assert_int_equal(recv(fd, message, sizeof(message), 0), -1);
	assert_int_equal(errno, EAGAIN);
	close(fd);
}

static void manager_with_a_path_is_told_once(void **state)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};

	(void)state;
	snprintf(name.sun_path, sizeof(name.sun_path), "/tmp/urnic-ready-%d", getpid());
	told(name.sun_path, &name, strlen(name.sun_path) + 1);
	unlink(name.sun_path);
}

static void manager_with_an_abstract_name_is_told_once(void **state)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char variable[64];

	(void)state;
	snprintf(variable, sizeof(variable), "@urnic-ready-%d", getpid());
	memcpy(name.sun_path + 1, variable + 1, strlen(variable) - 1);
	told(variable, &name, strlen(variable));
}

static void descriptor_to_keep_arrives_with_its_name(void **state)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	char text[64] = {0}, variable[64];
	struct iovec iov = {text, sizeof(text) - 1};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int ends[2], passed;
	char byte = 0;

	(void)state;
	snprintf(variable, sizeof(variable), "@urnic-keep-%d", getpid());
	memcpy(name.sun_path + 1, variable + 1, strlen(variable) - 1);
	assert_int_equal(
		bind(manager, (struct sockaddr *)&name,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(variable))),
		0);
	manager_name(variable);
	assert_true(ready_has_manager());
	assert_int_equal(pipe(ends), 0);
	ready_keep("lock", ends[1]);
	assert_true(recvmsg(manager, &message, 0) > 0);
	assert_string_equal(text, "FDSTORE=1\nFDPOLL=0\nFDNAME=lock");
	assert_non_null(CMSG_FIRSTHDR(&message));
	assert_int_equal(CMSG_FIRSTHDR(&message)->cmsg_type, SCM_RIGHTS);
	memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(passed));
	assert_int_equal(write(passed, "k", 1), 1);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, 'k');
	close(passed);
	close(ends[0]);
	close(ends[1]);
	close(manager);
}

static void names_that_cannot_be_are_ignored(void **state)
{
	char name[300];

	(void)state;
	memset(name, 'x', sizeof(name));
	name[0] = '/';
	name[sizeof(name) - 1] = '\0';
	manager_name(name);
	ready_tell();
	manager_name("/");
	ready_tell();
	manager_name("relative");
	ready_tell();
	manager_name("/tmp/no/such/socket");
	ready_tell();
	unsetenv("NOTIFY_SOCKET");
	settings_read();
	assert_false(ready_has_manager());
	ready_tell();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(manager_with_a_path_is_told_once),
		cmocka_unit_test(manager_with_an_abstract_name_is_told_once),
		cmocka_unit_test(descriptor_to_keep_arrives_with_its_name),
		cmocka_unit_test(names_that_cannot_be_are_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
