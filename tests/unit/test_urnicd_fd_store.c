/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "urnicd/lease/fd_store.h"

/* What a visit saw. */
struct seen {
	unsigned messages;
	unsigned descriptors;
	unsigned wrong; /* descriptors that are not the file they should be */
};

/* Each descriptor is a memfd whose size is its slot. */
static int marked_descriptor(unsigned slot)
{
	int fd = memfd_create("marked", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, slot), 0);
	return fd;
}

static void put(int store, unsigned first, unsigned count)
{
	const struct fd_store_label label = {
		.version = AGENT_VERSION,
		.kind = FD_STORE_SOCKETS,
		.first = first,
		.count = count,
	};
	int fds[FD_STORE_DESCRIPTORS_MAX] = {0};

	for (unsigned i = 0; i < count; i++)
		fds[i] = marked_descriptor(first + i);
	assert_int_equal(fd_store_put(store, &label, fds), 0);
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

static void look(void *context, const struct fd_store_label *label, const int *fds)
{
	struct seen *seen = context;

	seen->messages++;
	for (unsigned i = 0; i < label->count; i++) {
		struct stat status;

		if (fstat(fds[i], &status) != 0 || status.st_size != label->first + i)
			seen->wrong++;
		seen->descriptors++;
		close(fds[i]);
	}
}

static void assert_holds(int store, unsigned messages, unsigned descriptors)
{
	struct seen seen = {0};

	assert_int_equal(fd_store_visit(store, look, &seen), 0);
	assert_int_equal(seen.messages, messages);
	assert_int_equal(seen.descriptors, descriptors);
	assert_int_equal(seen.wrong, 0);
}

static void contents_survive_any_number_of_visits(void **state)
{
	int store = fd_store_create();

	(void)state;
	assert_true(store >= 0);
	assert_holds(store, 0, 0);
	put(store, 0, 32);
	put(store, 32, 32);
	put(store, 64, FD_STORE_DESCRIPTORS_MAX);
	for (unsigned i = 0; i < 3; i++)
		assert_holds(store, 3, 64 + FD_STORE_DESCRIPTORS_MAX);
	put(store, 128, 1);
	assert_holds(store, 4, 65 + FD_STORE_DESCRIPTORS_MAX);
	close(store);
}

static void contents_survive_the_process_that_filled_it(void **state)
{
	int store = fd_store_create();
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		put(store, 0, 32);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_holds(store, 1, 32);
	/* The process that has it can go on filling it. */
	put(store, 32, 32);
	assert_holds(store, 2, 64);
	close(store);
}

static void full_bag_refuses_and_keeps_what_it_has(void **state)
{
	const struct fd_store_label label = {
		.version = AGENT_VERSION, .kind = FD_STORE_MARK, .first = 1};
	int store = fd_store_create();
	unsigned count = 0;
	int rc;

	(void)state;
	put(store, 0, 1);
	while ((rc = fd_store_put(store, &label, NULL)) == 0)
		count++;
	assert_int_equal(rc, -ENOSPC);
	/* The usual 768 sockets are at most 192 messages. */
	assert_true(count >= 192);
	assert_holds(store, 1, 1);
	close(store);
}

static bool is_odd(void *context, const struct fd_store_label *label, const int *fds)
{
	unsigned *kept = context;

	(void)fds;
	*kept += label->first & 1;
	return label->first & 1;
}

static void look_at_slots(void *context, const struct fd_store_label *label, const int *fds)
{
	struct stat status;
	uint64_t *slots = context;

	assert_int_equal(fstat(fds[0], &status), 0);
	assert_int_equal(status.st_size, label->first);
	*slots = *slots * 16 + label->first;
	close(fds[0]);
}

static void sweep_keeps_what_is_needed_in_its_order(void **state)
{
	int store = fd_store_create();
	uint64_t slots = 0;
	unsigned kept = 0;

	(void)state;
	assert_int_equal(fd_store_sweep(store, is_odd, &kept), 0);
	for (unsigned slot = 1; slot < 10; slot++)
		put(store, slot, 1);
	assert_int_equal(send(store, "junk", 4, 0), 4);
	assert_int_equal(fd_store_sweep(store, is_odd, &kept), 0);
	assert_int_equal(kept, 5);
	assert_int_equal(fd_store_visit(store, look_at_slots, &slots), 0);
	assert_int_equal(slots, 0x13579);
	assert_holds(store, 5, 5);
	assert_int_equal(fd_store_sweep(store, is_odd, &kept), 0);
	assert_holds(store, 5, 5);
	close(store);
}

static void strangers_can_put_nothing_in(void **state)
{
	struct sockaddr_un address;
	socklen_t bytes = sizeof(address);
	int store = fd_store_create();
	int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(getsockname(store, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(connect(stranger, (struct sockaddr *)&address, bytes), -1);
	assert_int_equal(sendto(stranger, "x", 1, 0, (struct sockaddr *)&address, bytes), -1);
	assert_holds(store, 0, 0);
	close(stranger);
	close(store);
}

/* How many descriptors are open, by the number of the next. */
static int next_descriptor(void)
{
	int fd = dup(STDOUT_FILENO);

	close(fd);
	return fd;
}

static void unlabelled_messages_are_skipped_and_leak_nothing(void **state)
{
	const struct fd_store_label wrong[] = {
		{.version = 99, .kind = FD_STORE_SOCKETS, .count = 1},
		{.version = AGENT_VERSION, .kind = 77, .count = 1},
		{.version = AGENT_VERSION, .kind = FD_STORE_MARK, .count = 1},
		{.version = AGENT_VERSION,
			.kind = FD_STORE_SOCKETS,
			.first = AGENT_SLOTS,
			.count = 1},
		{.version = AGENT_VERSION, .kind = FD_STORE_SOCKETS, .count = 0},
	};
	int store = fd_store_create();
	int fd = marked_descriptor(0);
	int before;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(fd_store_put(store, &wrong[i], &fd), 0);
	assert_int_equal(send(store, "junk", 4, 0), 4);
	put(store, 0, 2);
	before = next_descriptor();
	assert_holds(store, 1, 2);
	assert_int_equal(next_descriptor(), before);
	close(fd);
	close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contents_survive_any_number_of_visits),
		cmocka_unit_test(contents_survive_the_process_that_filled_it),
		cmocka_unit_test(full_bag_refuses_and_keeps_what_it_has),
		cmocka_unit_test(sweep_keeps_what_is_needed_in_its_order),
		cmocka_unit_test(strangers_can_put_nothing_in),
		cmocka_unit_test(unlabelled_messages_are_skipped_and_leak_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
