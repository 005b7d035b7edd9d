/* SPDX-License-Identifier: BSD-2-Clause */
/* IsSM follows the open files of ports, also when the kernel drops events about them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabricd/server/server_internal.h"
#include "fabricd_make.h"

static struct fabric_server *server;
static char fabric_name[32];

/* More than the kernel keeps for a reader that is behind. */
static unsigned events_max(void)
{
	FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	unsigned most = 16384;

	if (file) {
		if (fscanf(file, "%u", &most) != 1)
			most = 16384;
		fclose(file);
	}
	return most;
}

static bool has_issm(void)
{
	struct subnet_port_view view;

	assert_true(subnet_port(server->subnet, 1, 1, &view));
	return view.info->capability_mask & IB_CAPABILITY_IS_SM;
}

/* Open and close the file, so often that the events overflow; leave it open or closed. */
static int storm(const char *path, bool is_left_open)
{
	const unsigned count = events_max();
	int fd = -1;

	for (unsigned i = 0; i <= count / 2 + 1; i++) {
		if (fd >= 0)
			close(fd);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
	}
	if (is_left_open)
		return fd;
	close(fd);
	return -1;
}

static void lost_events_are_made_up_for(void **state)
{
	struct server_port *port = server_port_find(server, 1, 1);
	char path[ATTACH_TEXT_BYTES];
	int fd;

	(void)state;
	assert_non_null(port);
	assert_int_equal(issm_path(port, path), 0);
	fd = storm(path, true);
	issm_event(server);
	assert_true(has_issm());
	close(fd);
	issm_event(server);
	assert_false(has_issm());
	/* The events of the last opening are there, and that of its end is lost. */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	issm_event(server);
	assert_true(has_issm());
	storm(path, false);
	close(fd);
	issm_event(server);
	assert_false(has_issm());
}

/* The server does not run: the test calls it. */
static int server_make(void **state)
{
	static const char text[] = "Switch 4 \"s\"\n[1] \"a\"[1]\n\nCa 1 \"a\"\n";

	(void)state;
	snprintf(fabric_name, sizeof(fabric_name), "issm-%d", getpid());
	server = fabricd_make(fabric_name, text, NULL);
	return server ? 0 : -1;
}

static int server_unmake(void **state)
{
	(void)state;
	fabric_server_destroy(server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_events_are_made_up_for),
	};

	return cmocka_run_group_tests(tests, server_make, server_unmake);
}
