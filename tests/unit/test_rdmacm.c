/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm as a program calls it: each public call with wrong arguments and in the wrong state,
 * and calls that wait. Errors are those of rdma-core's librdmacm on the kernel's rdma_cm.
 * test_rdmacm_connection.c raises each kind of event, test_cm.c tests the protocol below,
 * tests/e2e/connect.sh Debian's programs.
 */
#include "support/rdmacm_ids.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- wrong arguments, wrong state --- */

static void arguments_that_cannot_be_are_refused(void **state)
{
	struct sockaddr strange = {.sa_family = AF_UNIX};
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP);
	struct rdma_cm_join_mc_attr_ex attr = {0};
	struct ibv_qp_attr qp_attr = {.qp_state = IBV_QPS_INIT};
	const struct rdma_addrinfo hints = {0};
	struct rdma_addrinfo *res;
	struct rdma_cm_event *event;
	struct ibv_ece ece = {.vendor_id = 1};
	int number = 1, mask;

	(void)state;
	assert_fails(rdma_bind_addr(NULL, loopback()), EINVAL);
	assert_fails(rdma_bind_addr(id, &strange), EINVAL);
	assert_fails(rdma_resolve_addr(id, NULL, NULL, 1), EINVAL);
	assert_fails(rdma_resolve_addr(id, NULL, &strange, 1), EINVAL);
	assert_fails(rdma_get_cm_event(NULL, &event), EINVAL);
	assert_fails(rdma_get_cm_event(channel, NULL), EINVAL);
	assert_fails(rdma_ack_cm_event(NULL), EINVAL);
	assert_fails(rdma_destroy_id(NULL), EINVAL);
	assert_fails(rdma_init_qp_attr(id, &qp_attr, &mask), EINVAL);
	assert_fails(rdma_join_multicast(id, NULL, NULL), EINVAL);
	assert_fails(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	assert_fails(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	assert_fails(rdma_leave_multicast(id, &strange), EINVAL);
	assert_fails(rdma_leave_multicast(id, loopback()), EADDRNOTAVAIL);
	assert_fails(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_true(!res->ai_src_addr && !res->ai_dst_addr);
	rdma_freeaddrinfo(res);
	assert_fails(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL), EINVAL);
	assert_fails(rdma_create_ep(NULL, NULL, NULL, NULL), EINVAL);
	assert_fails(rdma_notify(id, IBV_EVENT_QP_FATAL), EINVAL);
	assert_fails(rdma_set_option(id, 77, 0, &number, sizeof(number)), ENOSYS);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, 77, &number, sizeof(number)), ENOSYS);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, 4), EINVAL);
	assert_fails(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, 1), EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
	assert_fails(rdma_set_local_ece(id, NULL), EINVAL);
	assert_fails(rdma_set_local_ece(id, &ece), EOPNOTSUPP);
	assert_fails(rdma_get_remote_ece(id, NULL), EINVAL);
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void calls_on_an_idle_identifier_are_refused(void **state)
{
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP), *request;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};

	(void)state;
	assert_fails(rdma_resolve_route(id, 1), EINVAL);
	assert_fails(rdma_connect(id, NULL), EINVAL);
	assert_fails(rdma_accept(id, NULL), EINVAL);
	assert_fails(rdma_reject(id, NULL, 0), EINVAL);
	assert_fails(rdma_reject_ece(id, NULL, 0), EINVAL);
	assert_fails(rdma_establish(id), EINVAL);
	assert_fails(rdma_disconnect(id), EINVAL);
	assert_fails(rdma_get_request(id, &request), EINVAL);
	assert_fails(rdma_create_qp(id, NULL, &init), EINVAL);
	assert_int_equal(rdma_get_src_port(id), 0);
	assert_int_equal(rdma_get_dst_port(id), 0);
	expect_nothing();
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void calls_on_a_listener_are_refused(void **state)
{
	struct rdma_cm_id *id = id_listening(RDMA_PS_TCP, loopback()), *second;
	int on = 1, off = 0;

	(void)state;
	assert_fails(rdma_bind_addr(id, loopback()), EINVAL);
	assert_fails(rdma_listen(id, 1), EINVAL);
	assert_fails(rdma_resolve_addr(id, NULL, loopback(), 1), EINVAL);
	assert_fails(rdma_connect(id, NULL), EINVAL);
	assert_fails(rdma_accept(id, NULL), EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)),
		EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)),
		EINVAL);
	assert_fails(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &off, sizeof(off)),
		EINVAL);
	assert_int_equal(rdma_get_src_port(id), htons(PORT));
	/* The port is taken; not in another port space. */
	second = id_make(RDMA_PS_TCP);
	assert_fails(rdma_bind_addr(second, loopback()), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(second), 0);
	second = id_make(RDMA_PS_UDP);
	assert_int_equal(rdma_bind_addr(second, loopback()), 0);
	assert_fails(rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &on, 1),
		EINVAL);
	assert_int_equal(rdma_destroy_id(second), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void addresses_without_a_way_or_a_device_are_told_apart(void **state)
{
	struct sockaddr_in nowhere = address_of("192.0.2.1", PORT);
	struct sockaddr_in not_ours = address_of("10.99.0.9", 0);
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP);

	(void)state;
	assert_fails(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nowhere, 1), ENETUNREACH);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = id_make(RDMA_PS_TCP);
	assert_fails(rdma_bind_addr(id, (struct sockaddr *)&not_ours), EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* perftest goes on with an identifier that it has destroyed, when the server was not there yet. */
static void identifier_that_was_destroyed_is_an_error(void **state)
{
	struct sockaddr_in address = address_of("10.99.0.2", PORT);
	struct sockaddr *to = (struct sockaddr *)&address;
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP);
	struct rdma_conn_param param = {0};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr srq = {.attr = {1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	uint8_t tos = 0;
	int mask;

	(void)state;
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_fails(rdma_resolve_addr(id, NULL, to, 100), ENOENT);
	assert_fails(rdma_resolve_route(id, 100), ENOENT);
	assert_fails(rdma_bind_addr(id, to), ENOENT);
	assert_fails(rdma_listen(id, 1), ENOENT);
	assert_fails(rdma_connect(id, &param), ENOENT);
	assert_fails(rdma_accept(id, &param), ENOENT);
	assert_fails(rdma_reject(id, NULL, 0), ENOENT);
	assert_fails(rdma_disconnect(id), ENOENT);
	assert_fails(rdma_notify(id, IBV_EVENT_COMM_EST), ENOENT);
	assert_fails(rdma_establish(id), ENOENT);
	assert_fails(rdma_create_qp(id, NULL, &init), ENOENT);
	assert_fails(rdma_create_srq(id, NULL, &srq), ENOENT);
	assert_fails(rdma_init_qp_attr(id, &attr, &mask), ENOENT);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), ENOENT);
	assert_fails(rdma_join_multicast(id, to, NULL), ENOENT);
	assert_fails(rdma_leave_multicast(id, to), ENOENT);
	assert_fails(rdma_migrate_id(id, NULL), ENOENT);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	assert_fails(rdma_destroy_id(id), ENOENT);
	rdma_destroy_ep(id);
	assert_fails(rdma_resolve_addr(NULL, NULL, to, 100), EINVAL);
}

/*
 * A host of this network that does not answer: an address error, as with an adapter's driver. Then
 * a host that answers.
 */
static void host_that_is_dead_is_an_error_of_the_address(void **state)
{
	struct sockaddr_in dead = address_of("10.99.0.9", PORT);
	struct sockaddr_in alive = address_of("10.99.0.2", PORT);
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP), *given_up = id_make(RDMA_PS_TCP);

	(void)state;
	assert_int_equal(rdma_resolve_addr(given_up, NULL, (struct sockaddr *)&dead, 60000), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dead, 200), 0);
	assert_fails(rdma_resolve_route(id, 1), EINVAL);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT), id);
	assert_int_equal(rdma_destroy_id(given_up), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&alive, 5000), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0), id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* --- calls that wait --- */

static void calls_without_a_channel_wait_for_their_event(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(), 1000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_fails(rdma_connect(id, &(struct rdma_conn_param){.qp_num = 1}), ECONNREFUSED);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The call does not wait once the identifier has a channel. */
static void identifier_moves_from_channel_to_channel(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(), 1000), 0);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	assert_ptr_equal(id->channel, channel);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0), id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void channel_that_does_not_block_says_so(void **state)
{
	struct rdma_cm_event *event;

	(void)state;
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_fails(rdma_get_cm_event(channel, &event), EAGAIN);
	assert_int_equal(fcntl(channel->fd, F_SETFL, 0), 0);
}

/* --- a channel that is destroyed while a thread waits in it --- */

static atomic_bool has_returned;
static atomic_int reader_tid;

static void *wait_for_ever(void *argument)
{
	struct rdma_cm_event *event;

	reader_tid = (int)syscall(SYS_gettid);
	rdma_get_cm_event(argument, &event);
	has_returned = true;
	return NULL;
}

static void on_signal(int signal)
{
	(void)signal;
}

/* The number that follows `label` at the start of a line of the thread's file in /proc. */
static long task_number(int tid, const char *name, const char *label)
{
	char path[64], line[256];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	file = fopen(path, "re");
	assert_non_null(file);
	while (number < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, label, strlen(label)) == 0)
			number = strtol(line + strlen(label), NULL, 10);
	fclose(file);
	return number;
}

/*
 * Wait until the thread sleeps in a call of recv(), for at least the `sleep`-th time since it
 * began. Returns how often it has slept. The signal handler could not count the wake-ups:
 * ThreadSanitizer calls it only when recv() returns.
 */
static long await_reader(long sleep)
{
	long slept = 0;

	while (!has_returned) {
		slept = reader_tid ? task_number(reader_tid, "status", "voluntary_ctxt_switches:")
				   : 0;
		if (slept >= sleep && reader_tid &&
			task_number(reader_tid, "syscall", "") == SYS_recvfrom)
			break;
		poll(NULL, 0, 1);
	}
	return slept;
}

/* As on an adapter, where the kernel keeps the descriptor's file until the call returns. */
static void reader_of_a_destroyed_channel_sleeps_on(void **state)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct rdma_event_channel *own = rdma_create_event_channel();
	pthread_t thread;
	long slept;

	(void)state;
	assert_non_null(own);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, own), 0);
	slept = await_reader(1);
	rdma_destroy_event_channel(own);
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	await_reader(slept + 1);
	assert_false(has_returned);
	assert_int_equal(pthread_detach(thread), 0);
}

enum { LATE_MS = 1, LATE_ROUNDS = 20 };

static atomic_bool has_acked, is_ending, is_destroyed, was_late;

static void *come_back_late(void *argument)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(argument, &event) == 0)
		rdma_ack_cm_event(event);
	has_acked = true;
	while (!is_ending)
		sched_yield();
	poll(NULL, 0, LATE_MS);
	if (is_destroyed) { /* the channel's memory may be gone */
		was_late = true;
		has_returned = true;
		return NULL;
	}
	return wait_for_ever(argument);
}

/* Destroy a channel while its reader is between two events. Returns whether the reader waits on. */
static bool reader_comes_back(void)
{
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_cm_id *other;
	pthread_t thread;

	assert_non_null(own);
	has_returned = has_acked = is_ending = is_destroyed = was_late = false;
	reader_tid = 0;
	assert_int_equal(rdma_create_id(own, &other, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(other, NULL, loopback(), 1000), 0);
	assert_int_equal(pthread_create(&thread, NULL, come_back_late, own), 0);
	while (!has_acked)
		sched_yield();
	assert_int_equal(rdma_destroy_id(other), 0);
	is_ending = true;
	rdma_destroy_event_channel(own);
	is_destroyed = true;
	await_reader(1);
	assert_int_equal(pthread_detach(thread), 0);
	if (was_late)
		printf("retried: the reader was later than its channel's end can wait\n");
	return !has_returned;
}

/* On a busy machine the reader may be later than its channel's end can wait. */
static void reader_that_comes_back_late_sleeps_on(void **state)
{
	int round = 0;
	bool has_waited;

	(void)state;
	do
		has_waited = reader_comes_back();
	while (was_late && ++round < LATE_ROUNDS);
	assert_true(has_waited);
}

/* --- fork --- */

/* front/rdmacm/id/id.h does not go together with cmocka.h. */
extern pthread_mutex_t id_lock;

static atomic_bool is_inside;

static void *change_something(void *unused)
{
	pthread_mutex_lock(&id_lock);
	is_inside = true;
	poll(NULL, 0, 100);
	is_inside = false;
	pthread_mutex_unlock(&id_lock);
	return unused;
}

static int child_main(void)
{
	struct rdma_cm_id *id;

	alarm(TIMEOUT_MS / 1000);
	if (is_inside)
		return 1;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return 2;
	return rdma_destroy_id(id) ? 3 : 0;
}

static void fork_waits_for_who_changes_identifiers(void **state)
{
	struct rdma_cm_id *id;
	pthread_t thread;
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(pthread_create(&thread, NULL, change_something, NULL), 0);
	while (!is_inside)
		sched_yield();
	child = fork();
	if (child == 0)
		_exit(child_main());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pthread_join(thread, NULL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(arguments_that_cannot_be_are_refused),
		TEST(calls_on_an_idle_identifier_are_refused),
		TEST(calls_on_a_listener_are_refused),
		TEST(addresses_without_a_way_or_a_device_are_told_apart),
		TEST(identifier_that_was_destroyed_is_an_error),
		TEST(host_that_is_dead_is_an_error_of_the_address),
		TEST(calls_without_a_channel_wait_for_their_event),
		TEST(identifier_moves_from_channel_to_channel),
		TEST(channel_that_does_not_block_says_so),
		TEST(reader_of_a_destroyed_channel_sleeps_on),
		TEST(reader_that_comes_back_late_sleeps_on),
		TEST(fork_waits_for_who_changes_identifiers),
	};

	return rdmacm_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
