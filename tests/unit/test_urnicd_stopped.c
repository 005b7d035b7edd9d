/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnicd is stopped (SIGSTOP) while threads of a program are in calls that need it. All other calls
 * of the program go on, among them fork(). The calls that need urnicd go on when urnicd continues
 * or is replaced. Otherwise they end with an error, and a sentence in the log.
 */
#include "support/urnicd.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <rdma/rdma_cma.h>

#include "support/sanitizer.h"
#include "support/verbs_pair.h"

enum {
	LIMIT_MS = 5000, /* of a call, however busy the machine; what waits for urnicd takes 20 s */
	SETTLE_MS = 200, /* until a thread waits for urnicd */
	ROUNDS = 3,
	PORT = 7471, /* and the next ones */
	LOG_BYTES = 8192,
};

static struct ibv_context *context;
static struct rdma_event_channel *channel;
static double longest_ms;

/* --- urnicd --- */

static pid_t urnicd_pid(void)
{
	struct agent_client client;
	pid_t pid;

	MUST(agent_client_connect_running(&client) == 0);
	pid = (pid_t)client.agent_pid;
	agent_client_done(&client);
	MUST(pid > 1);
	return pid;
}

/* How many slots this process leases, as urnicd says. */
static unsigned slots_leased(void)
{
	struct agent_process process;
	struct agent_client client;
	unsigned count = 0;
	uint32_t index = 0;

	MUST(agent_client_connect_running(&client) == 0);
	while (agent_client_list(&client, &index, &process) == 0) {
		for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
			count += process.pid == (uint32_t)getpid() &&
				agent_slots_has(&process.slots, (uint8_t)slot);
		if (process.memory >= 0)
			close(process.memory);
	}
	agent_client_done(&client);
	return count;
}

/* --- calls that need urnicd --- */

/* A thread in a call, whose errno it leaves. */
struct asker {
	pthread_t thread;
	_Atomic bool is_done;
	int error; /* 0: it has succeeded */
	struct ibv_qp *qp; /* on a lane that there was not */
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct rdma_cm_id *id;
	uint16_t port;
};

static void *asks_for_a_slot(void *argument)
{
	struct asker *asker = argument;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};

	init.send_cq = init.recv_cq = asker->cq;
	asker->qp = ibv_create_qp(asker->pd, &init);
	asker->error = asker->qp ? 0 : errno;
	atomic_store(&asker->is_done, true);
	return NULL;
}

static int bind_to(struct rdma_cm_id *id, uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	return rdma_bind_addr(id, (struct sockaddr *)&address) ? errno : 0;
}

static void *asks_for_a_port(void *argument)
{
	struct asker *asker = argument;

	asker->error = bind_to(asker->id, asker->port);
	atomic_store(&asker->is_done, true);
	return NULL;
}

/* What urnicd is not needed for comes first, so that the thread waits for it at once. */
static void asker_start(struct asker *asker, uint16_t port)
{
	*asker = (struct asker){.port = port};
	if (port) {
		MUST(!rdma_create_id(channel, &asker->id, NULL, RDMA_PS_TCP));
	} else {
		asker->pd = ibv_alloc_pd(context);
		asker->cq = ibv_create_cq(context, 4, NULL, NULL, 0);
		MUST(asker->pd && asker->cq);
	}
	MUST(!pthread_create(
		&asker->thread, NULL, port ? asks_for_a_port : asks_for_a_slot, asker));
}

static void asker_end(struct asker *asker)
{
	MUST(!pthread_join(asker->thread, NULL));
	if (asker->id)
		MUST(!rdma_destroy_id(asker->id));
	if (asker->qp)
		MUST(!ibv_destroy_qp(asker->qp));
	if (asker->cq)
		MUST(!ibv_destroy_cq(asker->cq) && !ibv_dealloc_pd(asker->pd));
}

/* --- calls that do not --- */

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The time since `since_ms` was a call's. Returns when the next one begins. */
static double note(const char *call, double since_ms)
{
	double took_ms = now_ms() - since_ms;

	if (took_ms > longest_ms)
		longest_ms = took_ms;
	if (took_ms > LIMIT_MS) {
		print_error("%s takes %.0f ms while urnicd is stopped\n", call, took_ms);
		fail();
	}
	return now_ms();
}

static void exchange(struct verbs_pair *pair, uint32_t seed)
{
	verbs_pattern_fill(pair->a.buffer, 100, seed);
	verbs_post_recv(&pair->b, seed, 0, 100);
	MUST(!verbs_post(&pair->a, IBV_WR_SEND, NULL, 0, 100));
	MUST(verbs_poll_one(pair->b.cq).status == IBV_WC_SUCCESS);
	MUST(verbs_pattern_is(pair->b.buffer, 100, seed));
	MUST(verbs_poll_one(pair->a.cq).status == IBV_WC_SUCCESS);
}

/* Connections to urnicd are the only sockets of their kind. */
static unsigned connections_open(void)
{
	unsigned count = 0;

	for (int fd = 3; fd < 1024; fd++) {
		socklen_t bytes = sizeof(int);
		int domain, type;

		count += !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) &&
			!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) && domain == AF_UNIX &&
			type == SOCK_SEQPACKET;
	}
	return count;
}

/* What the child of a fork does at once. With `go`, it makes a NIC of its own when that is said. */
_Noreturn static void child_run(struct verbs_pair *inherited, int go)
{
	struct verbs_pair own;
	struct ibv_wc wc;
	char byte;

	alarm(PAIR_TIMEOUT_S);
	MUST(ibv_poll_cq(inherited->a.cq, 1, &wc) == 0);
	MUST(connections_open() == 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	MUST(pd && cq);
	struct ibv_mr *mr = ibv_reg_mr(pd, inherited->a.buffer, 64, IBV_ACCESS_LOCAL_WRITE);
	MUST(mr && !ibv_dereg_mr(mr));
	if (go >= 0 && !HAS_THREAD_SANITIZER) { /* no new threads in such a child */
		MUST(read(go, &byte, 1) == 0);
		verbs_pair_make(&own, context);
		exchange(&own, 1);
		verbs_pair_unmake(&own);
	}
	_exit(0);
}

static pid_t child_start(struct verbs_pair *pair, const int go[2])
{
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0) {
		if (go)
			close(go[1]);
		child_run(pair, go ? go[0] : -1);
	}
	return child;
}

static void child_end(pid_t child)
{
	int status;

	MUST(waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
}

/* All on lanes that there are. */
static void calls_go_on(struct verbs_pair *pair, uint32_t seed)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = pair->a.cq,
		.recv_cq = pair->a.cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	double at_ms = now_ms();

	struct ibv_mr *mr = ibv_reg_mr(pair->a.pd, pair->a.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	MUST(mr);
	at_ms = note("ibv_reg_mr", at_ms);
	MUST(!ibv_dereg_mr(mr));
	at_ms = note("ibv_dereg_mr", at_ms);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	MUST(cq);
	at_ms = note("ibv_create_cq", at_ms);
	MUST(!ibv_destroy_cq(cq));
	at_ms = note("ibv_destroy_cq", at_ms);
	struct ibv_qp *one = ibv_create_qp(pair->a.pd, &init);
	struct ibv_qp *other = ibv_create_qp(pair->a.pd, &init);
	MUST(one && other);
	at_ms = note("ibv_create_qp", at_ms);
	verbs_qp_connect(one, other->qp_num, 14);
	at_ms = note("ibv_modify_qp", at_ms);
	MUST(!ibv_destroy_qp(one) && !ibv_destroy_qp(other));
	at_ms = note("ibv_destroy_qp", at_ms);
	exchange(pair, seed);
	at_ms = note("an exchange", at_ms);
	pid_t child = child_start(pair, NULL);
	at_ms = note("fork", at_ms);
	child_end(child);
	note("the child", at_ms);
}

/* --- tests --- */

static void stopped_urnicd_delays_only_the_calls_that_need_it(void **state)
{
	struct rdma_cm_id *bound;
	struct asker slot, port;
	struct verbs_pair pair;
	pid_t urnicd, child;
	int go[2];

	(void)state;
	verbs_pair_make(&pair, context);
	exchange(&pair, 0);
	MUST(!rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP) && !bind_to(bound, PORT));
	/* What a loopback address takes of set-up that happens once. */
	calls_go_on(&pair, 1);
	longest_ms = 0;
	urnicd = urnicd_pid();
	MUST(!pipe(go) && !kill(urnicd, SIGSTOP));
	asker_start(&slot, 0);
	sleep_ms(SETTLE_MS);
	asker_start(&port, PORT + 1);
	sleep_ms(SETTLE_MS);
	for (uint32_t round = 0; round < ROUNDS; round++)
		calls_go_on(&pair, 2 + round);
	child = child_start(&pair, go);
	double at_ms = now_ms();
	MUST(!rdma_destroy_id(bound));
	note("rdma_destroy_id", at_ms);
	assert_false(atomic_load(&slot.is_done));
	assert_false(atomic_load(&port.is_done));
	MUST(!kill(urnicd, SIGCONT));
	close(go[0]);
	close(go[1]);
	asker_end(&slot);
	asker_end(&port);
	assert_int_equal(slot.error, 0);
	assert_int_equal(port.error, 0);
	child_end(child);
	/* The port whose claim was ended meanwhile is free. */
	MUST(!rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP) && !bind_to(bound, PORT));
	MUST(!rdma_destroy_id(bound));
	verbs_pair_unmake(&pair);
	print_message("the longest call beside a stopped urnicd takes %.1f ms\n", longest_ms);
}

static void call_that_needs_a_stopped_urnicd_is_served_by_the_next_one(void **state)
{
	struct rdma_cm_id *bound;
	struct asker slot, port;
	struct verbs_pair pair;
	pid_t urnicd;

	(void)state;
	verbs_pair_make(&pair, context);
	MUST(!rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP) && !bind_to(bound, PORT));
	exchange(&pair, 0);
	urnicd = urnicd_pid();
	MUST(!kill(urnicd, SIGSTOP));
	asker_start(&slot, 0);
	sleep_ms(SETTLE_MS);
	asker_start(&port, PORT + 1);
	calls_go_on(&pair, 1);
	MUST(!kill(urnicd, SIGKILL));
	asker_end(&slot);
	asker_end(&port);
	assert_int_equal(slot.error, 0);
	assert_int_equal(port.error, 0);
	exchange(&pair, 2);
	MUST(!rdma_destroy_id(bound));
	verbs_pair_unmake(&pair);
}

/* Returns what was written to it, which the caller frees; what standard error was is back. */
static char *log_end(int log, int before)
{
	char *text = calloc(1, LOG_BYTES);

	fflush(stderr);
	MUST(dup2(before, STDERR_FILENO) >= 0 && text);
	MUST(pread(log, text, LOG_BYTES - 1, 0) >= 0);
	close(before);
	close(log);
	return text;
}

static void call_that_is_not_answered_says_so_and_works_later(void **state)
{
	int log = memfd_create("log", 0), before = dup(STDERR_FILENO);
	struct asker slot, port;
	char sentence[200];
	unsigned leased;
	pid_t urnicd;
	char *text;

	(void)state;
	asker_start(&slot, 0);
	asker_end(&slot);
	leased = slots_leased();
	urnicd = urnicd_pid();
	MUST(log >= 0 && dup2(log, STDERR_FILENO) >= 0);
	MUST(!kill(urnicd, SIGSTOP));
	asker_start(&slot, 0);
	sleep_ms(SETTLE_MS);
	asker_start(&port, PORT);
	asker_end(&slot);
	MUST(!pthread_join(port.thread, NULL));
	MUST(!kill(urnicd, SIGCONT));
	text = log_end(log, before);
	snprintf(sentence, sizeof(sentence),
		"urnicd (process %d) does not answer within 20 seconds: it is stopped (kill -CONT)",
		urnicd);
	if (!strstr(text, sentence))
		print_error("the log has no \"%s\": %s\n", sentence, text);
	assert_true(strstr(text, sentence));
	free(text);
	assert_int_equal(slot.error, ETIMEDOUT);
	assert_int_equal(port.error, ETIMEDOUT);

	/* The slot whose answer came too late went back to urnicd. */
	assert_int_equal(bind_to(port.id, PORT), 0);
	MUST(!rdma_destroy_id(port.id));
	for (int i = 0; slots_leased() != leased && i < WAIT_MS; i++)
		sleep_ms(1);
	assert_int_equal(slots_leased(), leased);
	asker_start(&slot, 0);
	asker_end(&slot);
	assert_int_equal(slot.error, 0);
}

static int start(void **state)
{
	(void)state;
	context = verbs_pair_open();
	channel = rdma_create_event_channel();
	return !channel;
}

static int end(void **state)
{
	rdma_destroy_event_channel(channel);
	ibv_close_device(context);
	return end_urnicd(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped_urnicd_delays_only_the_calls_that_need_it),
		cmocka_unit_test(call_that_needs_a_stopped_urnicd_is_served_by_the_next_one),
		cmocka_unit_test(call_that_is_not_answered_says_so_and_works_later),
	};
	int status = urnicd_prepare();

	if (status)
		return status;
	setenv("URNIC_LANES", "16", 1); /* each test makes some */
	settings_read();
	return cmocka_run_group_tests(tests, start, end);
}
