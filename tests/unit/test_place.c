/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Directories of sockets: their owners, the listeners that a process finds there, and other users
 * who take the names first. Runs with a /run, /tmp and /dev/shm of its own. Tests that need another
 * user run as root only.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/place.h"
#include "os/clock.h"
#include "support/netns.h"
#include "support/sanitizer.h"

enum { USER = 20001, STRANGER = 20002, QUEUE = 300 };

static int here, there; /* network namespaces; tests begin and end here */
static bool is_root; /* and not of a user namespace */

static unsigned count_entries(const char *path)
{
	DIR *entries = opendir(path);
	const struct dirent *entry;
	unsigned count = 0;

	while (entries && (entry = readdir(entries)))
		count += entry->d_name[0] != '.';
	if (entries)
		closedir(entries);
	return count;
}

static bool can_connect(enum place_whose whose)
{
	char path[PLACE_PATH_BYTES];
	int fd = place_connect(PLACE_URNICD, whose, 0, path);

	if (fd >= 0)
		close(fd);
	else if (fd != -ECONNREFUSED)
		printf("connecting: %s\n", strerror(-fd));
	return fd >= 0;
}

/* In a child of a test, in place of the assertions. */
#define must(fact)                                                                     \
	do {                                                                           \
		if (!(fact)) {                                                         \
			printf("line %d: %s: %s\n", __LINE__, #fact, strerror(errno)); \
			fflush(stdout);                                                \
			_exit(1);                                                      \
		}                                                                      \
	} while (0)

/* Does `act` hold for another user? In a child. */
static void as_user(uid_t uid, void (*act)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid) ||
			prctl(PR_SET_DUMPABLE, 1))
			_exit(2);
		act();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static bool count_one(void *context, int fd)
{
	(void)fd;
	++*(unsigned *)context;
	return false;
}

static unsigned count_others(void)
{
	unsigned count = 0;
	uint64_t netns;

	assert_int_equal(place_netns(&netns), 0);
	place_visit_others(PLACE_URNICD, netns, count_one, &count);
	return count;
}

static void listener_is_found_where_it_is_and_visited_from_elsewhere(void **state)
{
	struct place_listener listener;
	uint64_t netns;
	int fd;

	(void)state;
	assert_false(can_connect(PLACE_OWN));
	assert_int_equal(place_listen(PLACE_URNICD, false, &listener), 0);
	assert_true(can_connect(PLACE_OWN));
	assert_int_equal(count_others(), 0);
	netns_switch(there);
	assert_false(can_connect(PLACE_OWN));
	while ((fd = accept(listener.socket, NULL, NULL)) >= 0)
		close(fd);
	assert_int_equal(count_others(), 1);
	assert_int_equal(place_netns(&netns), 0);
	netns_switch(here);
	/* The kernel says where who connected is. */
	fd = accept(listener.socket, NULL, NULL);
	assert_int_equal(place_netns_of(fd), netns);
	assert_int_not_equal(place_netns_of(listener.socket), netns);
	close(fd);
	place_leave(&listener);
	assert_false(can_connect(PLACE_OWN));
}

static void second_listener_is_refused_until_the_first_has_gone(void **state)
{
	struct place_listener one, two, three;

	(void)state;
	assert_int_equal(place_listen(PLACE_URNICD, false, &one), 0);
	assert_int_equal(place_listen(PLACE_URNICD, false, &two), -EADDRINUSE);
	place_leave(&two);
	/* Another kind, and another network namespace, have sockets of their own. */
	assert_int_equal(place_listen(PLACE_CAPTURE, false, &two), 0);
	netns_switch(there);
	assert_int_equal(place_listen(PLACE_URNICD, false, &three), 0);
	netns_switch(here);
	place_leave(&three);
	place_leave(&two);
	place_leave(&one);
	assert_int_equal(place_listen(PLACE_URNICD, false, &one), 0);
	place_leave(&one);
	place_leave(&one);
}

/* Leave without removing anything, as one does that is killed. */
static void listener_kill(struct place_listener *listener)
{
	close(listener->socket);
	close(listener->lock);
	close(listener->directory);
}

static void what_a_killed_listener_leaves_is_removed_by_the_next(void **state)
{
	struct place_listener killed, one, two;

	(void)state;
	netns_switch(there);
	assert_int_equal(place_listen(PLACE_URNICD, false, &killed), 0);
	netns_switch(here);
	listener_kill(&killed);
	assert_int_equal(access(killed.path, F_OK), 0);
	assert_int_equal(place_listen(PLACE_URNICD, false, &one), 0);
	assert_int_equal(access(killed.path, F_OK), -1);
	*strrchr(killed.path, '/') = '\0';
	assert_int_equal(count_entries(killed.path), 2);
	/* The sweep removes neither the files of a live listener nor files with other names. */
	assert_int_equal(chdir(killed.path), 0);
	assert_int_equal(close(open("notes", O_CREAT | O_WRONLY, 0600)), 0);
	netns_switch(there);
	assert_int_equal(place_listen(PLACE_URNICD, false, &two), 0);
	netns_switch(here);
	assert_int_equal(count_entries(killed.path), 5);
	assert_true(can_connect(PLACE_OWN));
	place_leave(&two);
	assert_int_equal(count_entries(killed.path), 3);
	listener_kill(&one);
	assert_false(can_connect(PLACE_OWN));
	assert_int_equal(place_listen(PLACE_URNICD, false, &one), 0);
	assert_int_equal(unlink("notes"), 0);
	place_leave(&one);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(access(killed.path, F_OK), -1);
}

static void directory_that_others_may_enter_or_that_is_a_link_is_absent(void **state)
{
	struct place_listener listener, another;
	char directory[PLACE_PATH_BYTES];

	(void)state;
	assert_int_equal(place_listen(PLACE_URNICD, false, &listener), 0);
	snprintf(directory, sizeof(directory), "%s", listener.path);
	*strrchr(directory, '/') = '\0';
	assert_true(can_connect(PLACE_OWN));
	assert_int_equal(chmod(directory, 0770), 0);
	assert_false(can_connect(PLACE_OWN));
	assert_int_equal(place_listen(PLACE_URNICD, false, &another), 0);
	assert_int_not_equal(strncmp(another.path, directory, strlen(directory)), 0);
	place_leave(&another);
	assert_int_equal(chmod(directory, 0700), 0);
	assert_int_equal(rename(directory, "/run/moved"), 0);
	assert_int_equal(symlink("/run/moved", directory), 0);
	assert_false(can_connect(PLACE_OWN));
	assert_int_equal(unlink(directory), 0);
	assert_int_equal(rename("/run/moved", directory), 0);
	if (is_root) {
		assert_int_equal(chown(directory, STRANGER, STRANGER), 0);
		assert_false(can_connect(PLACE_OWN));
		assert_int_equal(chown(directory, 0, 0), 0);
	}
	assert_true(can_connect(PLACE_OWN));
	place_leave(&listener);
}

static void full_queue_is_tried_again_for_as_long_as_asked(void **state)
{
	struct place_listener listener;
	char path[PLACE_PATH_BYTES];
	uint64_t begin_ns = clock_now_ns();
	int fds[QUEUE + 1];
	unsigned count = 0;

	(void)state;
	assert_int_equal(place_listen(PLACE_URNICD, false, &listener), 0);
	while (count < QUEUE && (fds[count] = place_connect(PLACE_URNICD, PLACE_OWN, 0, path)) >= 0)
		count++;
	assert_true(count < QUEUE);
	assert_int_equal(fds[count], -ETIMEDOUT);
	assert_true(clock_now_ns() - begin_ns < 2000000000u);
	*path = '\0';
	begin_ns = clock_now_ns();
	assert_int_equal(place_connect(PLACE_URNICD, PLACE_OWN, 100, path), -ETIMEDOUT);
	assert_true(clock_now_ns() - begin_ns >= 100000000u);
	assert_string_equal(path, listener.path);
	close(accept(listener.socket, NULL, NULL));
	assert_true(can_connect(PLACE_OWN));
	while (count > 0)
		close(fds[--count]);
	place_leave(&listener);
}

/* --- several users --- */

static struct place_listener roots;

static void only_roots_is_found(void)
{
	must(can_connect(PLACE_ROOTS));
	must(!can_connect(PLACE_OWN));
}

static void nothing_is_found(void)
{
	must(!can_connect(PLACE_ROOTS));
	must(!can_connect(PLACE_OWN));
}

static void roots_listener_is_everybodys_only_where_it_says_so(void **state)
{
	(void)state;
	if (!is_root)
		skip();
	assert_int_equal(place_listen(PLACE_URNICD, false, &roots), 0);
	as_user(USER, nothing_is_found);
	place_leave(&roots);
	assert_int_equal(place_listen(PLACE_URNICD, true, &roots), 0);
	as_user(USER, only_roots_is_found);
	assert_true(can_connect(PLACE_OWN));
	assert_false(can_connect(PLACE_ROOTS));
	/* In another's directory it is another's. */
	assert_int_equal(chown("/run/urnic", STRANGER, STRANGER), 0);
	as_user(USER, nothing_is_found);
	assert_int_equal(chown("/run/urnic", 0, 0), 0);
	assert_int_equal(chmod("/run/urnic", 0777), 0);
	as_user(USER, nothing_is_found);
	assert_int_equal(chmod("/run/urnic", 0755), 0);
	place_leave(&roots);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(3);
	close(fd);
}

/* Become user `inside` of a user namespace without other users. */
static void enter_user_namespace(uid_t inside)
{
	uid_t outside = geteuid();
	char map[64];

	if (unshare(CLONE_NEWUSER))
		_exit(77);
	snprintf(map, sizeof(map), "%u %u 1", inside, outside);
	write_file("/proc/self/uid_map", map);
}

/* Root's is found from user namespaces that do not know root. */
static void find_from_user_namespaces(void)
{
	enter_user_namespace(USER);
	only_roots_is_found();
}

static void find_as_root_of_a_user_namespace(void)
{
	enter_user_namespace(0);
	only_roots_is_found();
}

static void listen_as_root_of_a_user_namespace(void)
{
	struct place_listener listener;

	enter_user_namespace(0);
	must(place_listen(PLACE_URNICD, false, &listener) == 0);
	must(memcmp(listener.path, "/dev/shm/urnic-20001/", 21) == 0);
	must(can_connect(PLACE_OWN));
	place_leave(&listener);
}

static void listener_that_is_passed_on_is_adopted_in_its_namespace_only(void **state)
{
	struct place_listener first, second;
	int other, lock, socket_kept;

	(void)state;
	if (!is_root)
		skip();
	assert_int_equal(place_listen(PLACE_URNICD, true, &first), 0);
	socket_kept = fcntl(first.socket, F_DUPFD_CLOEXEC, 0);
	lock = fcntl(first.lock, F_DUPFD_CLOEXEC, 0);
	place_pass_on(&first);
	assert_true(can_connect(PLACE_OWN)); /* it waits in the queue */
	assert_int_equal(place_listen(PLACE_URNICD, true, &second), -EADDRINUSE);
	netns_switch(there);
	assert_int_equal(place_adopt(PLACE_URNICD, socket_kept, lock, &second), -EINVAL);
	netns_switch(here);
	other = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(place_adopt(PLACE_URNICD, socket_kept, other, &second), -EINVAL);
	assert_int_equal(place_adopt(PLACE_URNICD, other, lock, &second), -EINVAL);
	close(other);
	assert_int_equal(place_listen(PLACE_CAPTURE, true, &first), 0);
	assert_int_equal(place_adopt(PLACE_URNICD, first.socket, lock, &second), -EINVAL);
	place_leave(&first);
	assert_int_equal(place_adopt(PLACE_URNICD, socket_kept, lock, &second), 0);
	other = accept(second.socket, NULL, NULL);
	assert_true(other >= 0);
	close(other);
	place_leave(&second);
	assert_false(can_connect(PLACE_OWN));
}

static void root_of_a_user_namespace_is_the_user_that_it_is_outside(void **state)
{
	(void)state;
	/* ThreadSanitizer's thread keeps its process from entering a user namespace. */
	if (!is_root || HAS_THREAD_SANITIZER)
		skip();
	assert_int_equal(place_listen(PLACE_URNICD, true, &roots), 0);
	as_user(USER, find_from_user_namespaces);
	as_user(USER, find_as_root_of_a_user_namespace);
	/* In a user namespace, user 65534 stands for each user that it does not map. */
	as_user(65534, find_as_root_of_a_user_namespace);
	place_leave(&roots);
	as_user(USER, listen_as_root_of_a_user_namespace);
}

/* What an attacker puts in the way, in turn. */
static void squat_directory(void)
{
	must(mkdir("/dev/shm/urnic-20001", 0700) == 0);
	must(mkdir("/tmp/urnic-20001", 0777) == 0);
	must(chmod("/tmp/urnic-20001", 0777) == 0);
}

static void squat_link(void)
{
	must(mkdir("/tmp/trap", 0777) == 0);
	must(chmod("/tmp/trap", 0777) == 0);
	must(symlink("/tmp/trap", "/dev/shm/urnic-20001") == 0);
	must(symlink("/tmp/trap", "/tmp/urnic-20001") == 0);
}

static void squat_file(void)
{
	must(mkfifo("/dev/shm/urnic-20001", 0666) == 0);
	must(close(open("/tmp/urnic-20001", O_CREAT | O_WRONLY, 0666)) == 0);
}

/* A directory with a name that the user's own could have, and a listener in it. */
static void squat_random(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	uint64_t netns;

	squat_directory();
	must(mkdir("/tmp/urnic-20001.AAAAAA", 0777) == 0);
	must(chmod("/tmp/urnic-20001.AAAAAA", 0777) == 0);
	must(place_netns(&netns) == 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/urnic-20001.AAAAAA/net-%llx",
		(unsigned long long)netns);
	umask(0);
	must(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	must(listen(fd, 1) == 0);
}

static void listen_all_the_same(void)
{
	struct place_listener listener, another;

	nothing_is_found();
	must(place_listen(PLACE_URNICD, false, &listener) == 0);
	must(can_connect(PLACE_OWN));
	must(place_listen(PLACE_URNICD, false, &another) == -EADDRINUSE);
	place_leave(&listener);
	*strrchr(listener.path, '/') = '\0';
	must(access(listener.path, F_OK) == -1);
}

static void names_that_others_have_taken_stop_nobody(void **state)
{
	static void (*const squats[])(void) = {
		squat_directory, squat_link, squat_file, squat_random};

	(void)state;
	if (!is_root)
		skip();
	as_user(USER, listen_all_the_same);
	for (unsigned i = 0; i < sizeof(squats) / sizeof(*squats); i++) {
		as_user(STRANGER, squats[i]);
		as_user(USER, listen_all_the_same);
		assert_int_equal(netns_run("rm -rf /tmp/* /dev/shm/*"), 0);
	}
}

/* A name that was taken is free again: the listener elsewhere is still the only one. */
static void listen_while_the_name_comes_free(void)
{
	struct place_listener listener, another;

	must(place_listen(PLACE_URNICD, false, &listener) == 0);
	must(strstr(listener.path, "/urnic-20001."));
	must(close(open("/tmp/go", O_CREAT | O_WRONLY, 0600)) == 0);
	while (access("/tmp/urnic-20001", F_OK) == 0)
		usleep(1000);
	must(can_connect(PLACE_OWN));
	must(place_listen(PLACE_URNICD, false, &another) == -EADDRINUSE);
	place_leave(&listener);
}

static void squat_until_told(void)
{
	squat_directory();
	if (fork())
		return;
	while (access("/tmp/go", F_OK))
		usleep(1000);
	must(rmdir("/dev/shm/urnic-20001") == 0);
	must(rmdir("/tmp/urnic-20001") == 0);
	_exit(0);
}

static void listener_elsewhere_keeps_the_lock_when_the_name_comes_free(void **state)
{
	(void)state;
	if (!is_root)
		skip();
	as_user(STRANGER, squat_until_told);
	as_user(USER, listen_while_the_name_comes_free);
	assert_int_equal(unlink("/tmp/go"), 0);
}

static void set_read_only(const char *path, bool is_read_only)
{
	if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | (is_read_only ? MS_RDONLY : 0), NULL))
		fail_msg("%s: %s", path, strerror(errno));
}

static void nobody_listens_where_no_directory_can_be_made(void **state)
{
	static const char *const paths[] = {"/dev/shm", "/tmp", "/run"};
	struct place_listener listener;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		set_read_only(paths[i], true);
	assert_int_equal(place_listen(PLACE_URNICD, true, &listener), -EROFS);
	assert_int_equal(place_listen(PLACE_URNICD, false, &listener), -EACCES);
	set_read_only("/dev/shm", false);
	assert_int_equal(place_listen(PLACE_URNICD, false, &listener), 0);
	assert_memory_equal(listener.path, "/dev/shm/", 9);
	place_leave(&listener);
	for (unsigned i = 0; i < 3; i++)
		set_read_only(paths[i], false);
}

static int prepare(void)
{
	is_root = geteuid() == 0;
	there = netns_enter_new();
	here = there < 0 ? -1 : netns_enter_new();
	if (here < 0)
		return 77;
	if (unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_PRIVATE | MS_REC, NULL) ||
		mount("tmpfs", "/run", "tmpfs", 0, "mode=755") ||
		mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777") ||
		mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")) {
		printf("skipped: no /run of our own: %s\n", strerror(errno));
		return 77;
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listener_is_found_where_it_is_and_visited_from_elsewhere),
		cmocka_unit_test(second_listener_is_refused_until_the_first_has_gone),
		cmocka_unit_test(what_a_killed_listener_leaves_is_removed_by_the_next),
		cmocka_unit_test(directory_that_others_may_enter_or_that_is_a_link_is_absent),
		cmocka_unit_test(full_queue_is_tried_again_for_as_long_as_asked),
		cmocka_unit_test(roots_listener_is_everybodys_only_where_it_says_so),
		cmocka_unit_test(listener_that_is_passed_on_is_adopted_in_its_namespace_only),
		cmocka_unit_test(root_of_a_user_namespace_is_the_user_that_it_is_outside),
		cmocka_unit_test(names_that_others_have_taken_stop_nobody),
		cmocka_unit_test(listener_elsewhere_keeps_the_lock_when_the_name_comes_free),
		cmocka_unit_test(nobody_listens_where_no_directory_can_be_made),
	};

	if (prepare())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
