/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of rdma-core 57 and newer in librdmacm: events of the program's own, names that a thread
 * resolves, and the words of epoll for rsockets.
 */
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "front/rdmacm/id/id.h"
#include "front/rsocket/rsocket.h"
#include "os/setting.h"
#include "support/netns.h"

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static int set_up(void **state)
{
	(void)state;
	channel = rdma_create_event_channel();
	return !channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP);
}

static int tear_down(void **state)
{
	(void)state;
	if (id)
		assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	return 0;
}

static void expect(struct rdma_event_channel *where, int type, int status, uint64_t argument)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(where, &event), 0);
	assert_int_equal(event->event, type);
	assert_int_equal(event->status, status);
	assert_ptr_equal(event->id, id);
	if (type == ID_EVENT_USER)
		assert_memory_equal(&event->param, &argument, sizeof(argument));
	assert_string_not_equal(rdma_event_str(event->event), "UNKNOWN EVENT");
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void assert_fails(int result, int error)
{
	assert_int_equal(result, -1);
	assert_int_equal(errno, error);
}

static int user_event(int status, uint64_t argument)
{
	return rdma_write_cm_event(id, (enum rdma_cm_event_type)ID_EVENT_USER, status, argument);
}

static void events_of_the_program_keep_order_status_and_argument(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(user_event(-(int)i, 1ull << 40 | i), 0);
	for (uint64_t i = 0; i < 5; i++)
		expect(channel, ID_EVENT_USER, -(int)i, 1ull << 40 | i);
	assert_fails(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
}

static void events_of_the_program_move_with_their_identifier(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();

	(void)state;
	assert_int_equal(user_event(0, 1), 0);
	expect(channel, ID_EVENT_USER, 0, 1);
	assert_int_equal(user_event(0, 2), 0);
	assert_int_equal(user_event(0, 3), 0);
	assert_int_equal(rdma_migrate_id(id, other), 0);
	expect(other, ID_EVENT_USER, 0, 2);
	expect(other, ID_EVENT_USER, 0, 3);
	assert_int_equal(user_event(0, 4), 0);
	/* It ends with the identifier. */
	assert_int_equal(rdma_destroy_id(id), 0);
	id = NULL;
	rdma_destroy_event_channel(other);
}

static void name_is_resolved_in_a_thread(void **state)
{
	const struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *info = NULL;

	(void)state;
	assert_fails(rdma_query_addrinfo(id, &info), ENODATA);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7174", &hints), 0);
	expect(channel, ID_EVENT_ADDRINFO_RESOLVED, 0, 0);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_int_equal(info->ai_family, AF_INET);
	assert_int_equal(((struct sockaddr_in *)(void *)info->ai_dst_addr)->sin_port, htons(7174));
	rdma_freeaddrinfo(info);
	assert_fails(rdma_query_addrinfo(id, &info), ENODATA);
}

static void name_that_is_none_is_an_error_event(void **state)
{
	const struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP};
	const struct rdma_addrinfo subnet = {.ai_flags = 0x10};

	(void)state;
	assert_int_equal(rdma_resolve_addrinfo(id, "no address", "7174", &hints), 0);
	expect(channel, ID_EVENT_ADDRINFO_ERROR, EAI_NONAME, 0);
	assert_fails(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	assert_fails(rdma_resolve_addrinfo(id, NULL, "1", &subnet), EOPNOTSUPP);
}

/* The answer is not taken, or comes after the end. */
static void identifier_ends_while_a_name_is_resolved(void **state)
{
	(void)state;
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7174", NULL), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = NULL;
}

/* --- repoll --- */

static void members_come_change_and_go(void **state)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, got[4];
	int epoll = repoll_create(EPOLL_CLOEXEC), pipe_fds[2];

	(void)state;
	assert_true(epoll >= 0);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(repoll_ctl(epoll, EPOLL_CTL_ADD, pipe_fds[0], &event), 0);
	assert_fails(repoll_ctl(epoll, EPOLL_CTL_ADD, pipe_fds[0], &event), EEXIST);
	assert_fails(repoll_ctl(epoll, EPOLL_CTL_MOD, pipe_fds[1], &event), ENOENT);
	assert_fails(repoll_ctl(pipe_fds[0], EPOLL_CTL_ADD, pipe_fds[1], &event), EBADF);
	assert_int_equal(repoll_wait(epoll, got, 4, 0), 0);
	assert_int_equal(write(pipe_fds[1], "x", 1), 1);
	assert_int_equal(repoll_wait(epoll, got, 4, -1), 1);
	assert_int_equal(got[0].data.u64, 7);
	assert_int_equal(got[0].events, EPOLLIN);
	event.events = EPOLLIN | EPOLLET;
	assert_fails(repoll_ctl(epoll, EPOLL_CTL_MOD, pipe_fds[0], &event), EINVAL);
	event.events = EPOLLIN | EPOLLONESHOT;
	assert_int_equal(repoll_ctl(epoll, EPOLL_CTL_MOD, pipe_fds[0], &event), 0);
	assert_int_equal(repoll_wait(epoll, got, 4, -1), 1);
	assert_int_equal(repoll_wait(epoll, got, 4, 0), 0);
	assert_int_equal(repoll_ctl(epoll, EPOLL_CTL_MOD, pipe_fds[0], &event), 0);
	assert_int_equal(repoll_wait(epoll, got, 4, -1), 1);
	assert_int_equal(repoll_ctl(epoll, EPOLL_CTL_DEL, pipe_fds[0], NULL), 0);
	assert_fails(repoll_ctl(epoll, EPOLL_CTL_DEL, pipe_fds[0], NULL), ENOENT);
	assert_int_equal(rclose(epoll), 0);
	assert_fails(repoll_wait(epoll, got, 4, 0), EBADF);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

/* An unconnected rsocket can be written to in the words of poll(), as a TCP socket can. */
static void all_ready_members_have_their_turn(void **state)
{
	struct epoll_event event = {.events = EPOLLOUT}, got;
	int epoll = repoll_create(0), sockets[3];
	unsigned seen = 0;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		sockets[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		assert_true(sockets[i] >= 0);
		event.data.u32 = i;
		assert_int_equal(repoll_ctl(epoll, EPOLL_CTL_ADD, sockets[i], &event), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(repoll_wait(epoll, &got, 1, -1), 1);
		seen |= 1u << got.data.u32;
	}
	assert_int_equal(seen, 7);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rclose(sockets[i]), 0);
	assert_int_equal(rclose(epoll), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(events_of_the_program_keep_order_status_and_argument),
		TEST(events_of_the_program_move_with_their_identifier),
		TEST(name_is_resolved_in_a_thread),
		TEST(name_that_is_none_is_an_error_event),
		TEST(identifier_ends_while_a_name_is_resolved),
		TEST(members_come_change_and_go),
		TEST(all_ready_members_have_their_turn),
	};

	if (netns_enter_new() < 0)
		return 77;
	settings_read();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
