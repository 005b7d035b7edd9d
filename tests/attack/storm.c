/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A storm of SIGKILL, SIGSTOP and SIGCONT over two programs at work and their urnicds.
 *
 *   storm NETNS DEVICE ROUNDS SEED
 *
 * Two ends, processes of their own, send to each other over a reliable connection without a pause,
 * check each byte, and now and then make and destroy queue pairs and regions, and fork. The first
 * half of the rounds they are on one host, the second half on two: the other one is in the network
 * namespace that the file NETNS shows.
 *
 * Each round draws a victim (an end, the urnicd of either host) and its fate. After a stop of some
 * milliseconds the transfer goes on. When an end is killed, the other one gets an error in the time
 * that its settings promise, and two new ends begin. The same holds for an end that is stopped for
 * longer than that time; but on one host its peer may not need it at all, and goes on. While a
 * urnicd is stopped, and after it was killed, the transfer goes on. Programs that start later start
 * another urnicd.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	ENDS = 2,
	RECEIVES = 8,
	MESSAGE_BYTES = 64,
	BLOCK_BYTES = 16 << 10,
	/* sends; more than RECEIVES, so that a block was checked before it is written again */
	BLOCK_EVERY = 16,
	CHURN_EVERY = 256, /* sends */
	FORK_EVERY = 8, /* churns */
	TIMEOUT = 14, /* 67 ms, */
	RETRIES = 3, /* four times */
	PROMISE_MS = 268,
	MARGIN_MS = 1500, /* for the processes to get a processor */
	HANG_MS = 20000,
	STOP_US_MAX = 4000, /* far below the promise */
	LONG_STOP_MS = 600, /* above it */
	/* deregistering and forking, when a peer is stopped; or the caller itself is */
	CHURN_MS = LONG_STOP_MS + 110,
	EXIT_BROKEN = 3,
};

#define CHECK(condition)                                                                    \
	do {                                                                                \
		if (!(condition)) {                                                         \
			fprintf(stderr, "failed: line %d: %s: %m\n", __LINE__, #condition); \
			exit(EXIT_FAILURE);                                                 \
		}                                                                           \
	} while (0)

struct end {
	atomic_bool is_ready; /* what follows is filled */
	union ibv_gid gid;
	uint64_t address;
	uint32_t rkey;
	uint32_t qpn;
	atomic_uint sent; /* requests that have completed */
	atomic_uint churn_ms_max; /* the longest call that makes or destroys */
	atomic_ullong broken_ms; /* when its connection broke */
	atomic_int status; /* of the completion that reported that */
};

struct stage {
	struct end ends[ENDS];
};

static struct stage *stage;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_us(unsigned us)
{
	const struct timespec time = {us / 1000000, (long)(us % 1000000) * 1000};

	nanosleep(&time, NULL);
}

/* --- an end --- */

/* A block that the peer writes, then room for each receive request, then what is sent. */
static _Alignas(4096) uint8_t memory[2 * BLOCK_BYTES + RECEIVES * MESSAGE_BYTES + MESSAGE_BYTES];
static uint8_t *const arrived = memory + BLOCK_BYTES;
static uint8_t *const outbox = memory + BLOCK_BYTES + RECEIVES * MESSAGE_BYTES;

static struct end *own, *other;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static uint32_t posted, received;

static uint8_t pattern(uint32_t number, uint32_t index)
{
	return (uint8_t)(number * 131 + index * 7 + (index >> 8));
}

static void fill(uint8_t *bytes, uint32_t count, uint32_t number)
{
	for (uint32_t i = 0; i < count; i++)
		bytes[i] = pattern(number, i);
}

static void check(const uint8_t *bytes, uint32_t count, uint32_t number)
{
	for (uint32_t i = 0; i < count; i++)
		CHECK(bytes[i] == pattern(number, i));
}

static struct ibv_qp *qp_make(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *made = ibv_create_qp(pd, &init);

	CHECK(made);
	return made;
}

static void receive_post(uint32_t number)
{
	uint32_t place = number % RECEIVES;
	struct ibv_sge sge = {(uintptr_t)arrived + place * MESSAGE_BYTES, MESSAGE_BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}

static void send_post(void)
{
	uint8_t *block = outbox + MESSAGE_BYTES;
	bool has_block = ++posted % BLOCK_EVERY == 0;
	struct ibv_sge message = {(uintptr_t)outbox, MESSAGE_BYTES, mr->lkey};
	struct ibv_sge block_sge = {(uintptr_t)block, BLOCK_BYTES, mr->lkey};
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &message,
		.num_sge = 1};
	struct ibv_send_wr write = {
		.opcode = IBV_WR_RDMA_WRITE, .next = &send, .sg_list = &block_sge, .num_sge = 1};
	struct ibv_send_wr *bad;

	fill(outbox, MESSAGE_BYTES, posted);
	if (has_block)
		fill(block, BLOCK_BYTES, posted);
	write.wr.rdma.remote_addr = other->address;
	write.wr.rdma.rkey = other->rkey;
	CHECK(ibv_post_send(qp, has_block ? &write : &send, &bad) == 0);
}

static void message_take(uint32_t number)
{
	CHECK(number == ++received);
	check(arrived + number % RECEIVES * MESSAGE_BYTES, MESSAGE_BYTES, number);
	if (number % BLOCK_EVERY == 0)
		check(memory, BLOCK_BYTES, number);
	receive_post(number + RECEIVES);
}

/* Calls that take locks, make and destroy, and wait for peers. */
static void churn(void)
{
	static unsigned churns;
	static uint8_t bytes[8192];
	uint64_t since_ms = now_ms(), took_ms;
	struct ibv_mr *another = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);

	CHECK(another);
	CHECK(ibv_destroy_qp(qp_make()) == 0);
	CHECK(ibv_dereg_mr(another) == 0);
	if (++churns % FORK_EVERY == 0) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(EXIT_SUCCESS);
		CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
	}
	took_ms = now_ms() - since_ms;
	if (took_ms > atomic_load(&own->churn_ms_max))
		atomic_store(&own->churn_ms_max, (unsigned)took_ms);
}

static void broken(enum ibv_wc_status status)
{
	atomic_store(&own->status, (int)status);
	atomic_store(&own->broken_ms, now_ms());
	_exit(EXIT_BROKEN);
}

static bool completions_take(void)
{
	struct ibv_wc wc;
	bool has_some = false;

	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		has_some = true;
		if (wc.status != IBV_WC_SUCCESS)
			broken(wc.status);
		if (wc.opcode & IBV_WC_RECV) {
			message_take((uint32_t)wc.wr_id);
			continue;
		}
		if ((atomic_fetch_add(&own->sent, 1) + 1) % CHURN_EVERY == 0)
			churn();
		send_post();
	}
	return has_some;
}

static void work(void)
{
	struct ibv_cq *woken;
	void *argument;

	send_post();
	for (;;) {
		if (completions_take())
			continue;
		CHECK(ibv_req_notify_cq(cq, 0) == 0);
		if (completions_take())
			continue;
		CHECK(ibv_get_cq_event(channel, &woken, &argument) == 0);
		ibv_ack_cq_events(cq, 1);
	}
}

static void device_open(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK(devices);
	for (int i = 0; devices[i] && !context; i++)
		if (strcmp(ibv_get_device_name(devices[i]), name) == 0)
			context = ibv_open_device(devices[i]);
	CHECK(context);
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = channel ? ibv_create_cq(context, 64, NULL, channel, 0) : NULL;
	mr = ibv_reg_mr(
		pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(pd && cq && mr);
}

static void connect_qp(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	CHECK(ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	for (uint32_t number = 1; number <= RECEIVES; number++)
		receive_post(number);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = other->qpn,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = other->gid, .hop_limit = 64}}};
	CHECK(ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = TIMEOUT, .retry_cnt = RETRIES, .rnr_retry = 7};
	CHECK(ibv_modify_qp(qp, &attr,
		      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* storm --end INDEX DEVICE STAGE */
static int end_main(char **arguments)
{
	int index = atoi(arguments[0]), fd = atoi(arguments[2]);

	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(stage != MAP_FAILED);
	close(fd);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	own = &stage->ends[index];
	other = &stage->ends[!index];
	device_open(arguments[1]);
	qp = qp_make();
	CHECK(ibv_query_gid(context, 1, 0, &own->gid) == 0);
	own->address = (uintptr_t)memory;
	own->rkey = mr->rkey;
	own->qpn = qp->qp_num;
	atomic_store(&own->is_ready, true);
	while (!atomic_load(&other->is_ready))
		sleep_us(200);
	connect_qp();
	work();
	return EXIT_SUCCESS;
}

/* --- the storm --- */

static const char *program, *netns, *device;
static int stage_fd;
static bool is_far;
static pid_t pids[ENDS];
static char netns_names[ENDS][64]; /* of the ends' network namespaces, as readlink() says them */
static uint64_t seed;

/* What has happened, for the last line. */
static struct {
	unsigned stops, long_stops, urnicd_stops, urnicd_long_stops, kills, urnicd_kills, late;
	unsigned notice_ms_max, resume_ms_max, churn_ms_max;
} seen;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % below);
}

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
	va_list arguments;

	printf("failed: ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	for (int i = 0; i < ENDS; i++)
		printf("; end %d: process %d, %u sent, status %d", i, (int)pids[i],
			atomic_load(&stage->ends[i].sent), atomic_load(&stage->ends[i].status));
	printf("\n");
	exit(EXIT_FAILURE);
}

static void end_exec(int index)
{
	char index_text[8], stage_text[16];

	snprintf(index_text, sizeof(index_text), "%d", index);
	snprintf(stage_text, sizeof(stage_text), "%d", stage_fd);
	if (is_far && index == 1) {
		int fd = open(netns, O_RDONLY | O_CLOEXEC);

		CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
		setenv("URNIC_HOST_ID", "far", 1);
	}
	execl(program, program, "--end", index_text, device, stage_text, (char *)NULL);
	_exit(EXIT_FAILURE);
}

static void netns_read(pid_t pid, char name[64])
{
	char path[64];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	bytes = readlink(path, name, 63);
	name[bytes > 0 ? bytes : 0] = '\0';
}

static bool is_urnicd(pid_t pid)
{
	char path[64], comm[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = fopen(path, "re");
	if (file) {
		if (!fgets(comm, sizeof(comm), file))
			comm[0] = '\0';
		fclose(file);
	}
	return strcmp(comm, "urnicd\n") == 0;
}

/* The urnicd of the end's host, which is our child as it has no other parent; 0: none runs. */
static pid_t urnicd_of(int index)
{
	char path[64], name[64];
	pid_t found = 0;
	FILE *children;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	children = fopen(path, "re");
	CHECK(children);
	while (!found && fscanf(children, "%d", &pid) == 1) {
		netns_read(pid, name);
		if (is_urnicd(pid) && strcmp(name, netns_names[index]) == 0)
			found = pid;
	}
	fclose(children);
	return found;
}

/*
 * Has an end given up a peer that is alive? A busy machine may keep a peer from running for longer
 * than the settings promise; the test then reports a missed time limit. Any other failed end is an
 * error.
 */
static bool has_given_up(void)
{
	bool has = false;
	int status;

	for (int i = 0; i < ENDS; i++) {
		if (!pids[i] || waitpid(pids[i], &status, WNOHANG) == 0)
			continue;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_BROKEN ||
			atomic_load(&stage->ends[i].status) != IBV_WC_RETRY_EXC_ERR)
			fail("an end has ended: 0x%x", status);
		pids[i] = 0;
		has = true;
	}
	return has;
}

static void ends_start(void);

static void ends_end(void)
{
	for (int i = 0; i < ENDS; i++) {
		if (!pids[i])
			continue;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

/* Both ends get on, within HANG_MS. */
static void progress_await(void)
{
	unsigned before[ENDS];
	uint64_t since_ms = now_ms(), took_ms = 0;
	bool is_done = false;

	for (int i = 0; i < ENDS; i++)
		before[i] = atomic_load(&stage->ends[i].sent);
	while (!is_done) {
		sleep_us(100);
		is_done = atomic_load(&stage->ends[0].sent) != before[0] &&
			atomic_load(&stage->ends[1].sent) != before[1];
		took_ms = now_ms() - since_ms;
		if (took_ms > HANG_MS)
			fail("the transfer does not go on");
		if (!is_done && has_given_up()) {
			seen.late++;
			ends_end();
			ends_start();
			return;
		}
	}
	if (took_ms > MARGIN_MS)
		seen.late++;
	if (took_ms > seen.resume_ms_max)
		seen.resume_ms_max = (unsigned)took_ms;
}

static void ends_start(void)
{
	memset(stage, 0, sizeof(*stage));
	for (int i = 0; i < ENDS; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] == 0)
			end_exec(i);
	}
	progress_await();
	for (int i = 0; i < ENDS; i++)
		netns_read(pids[i], netns_names[i]);
}

static void churn_note(void)
{
	for (int i = 0; i < ENDS; i++)
		if (atomic_load(&stage->ends[i].churn_ms_max) > seen.churn_ms_max)
			seen.churn_ms_max = atomic_load(&stage->ends[i].churn_ms_max);
}

static void stop_for_a_moment(pid_t pid)
{
	CHECK(kill(pid, SIGSTOP) == 0);
	sleep_us(draw(STOP_US_MAX));
	CHECK(kill(pid, SIGCONT) == 0);
	progress_await();
}

/* The end hears within the promise that its peer is gone, and ends. */
static void loss_await(int index, uint64_t since_ms)
{
	uint64_t took_ms;
	int status = 0;

	while (waitpid(pids[index], &status, WNOHANG) == 0) {
		if (now_ms() - since_ms > HANG_MS)
			fail("end %d does not hear that its peer is gone", index);
		sleep_us(500);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_BROKEN)
		fail("end %d, whose peer is gone, ends with 0x%x", index, status);
	took_ms = now_ms() - since_ms;
	if (took_ms > PROMISE_MS + MARGIN_MS)
		seen.late++;
	if (took_ms > seen.notice_ms_max)
		seen.notice_ms_max = (unsigned)took_ms;
	pids[index] = 0;
}

static void end_kill(int index)
{
	uint64_t since_ms = now_ms();

	if (draw(2)) {
		CHECK(kill(pids[index], SIGSTOP) == 0);
		sleep_us(draw(STOP_US_MAX));
	}
	CHECK(kill(pids[index], SIGKILL) == 0);
	CHECK(waitpid(pids[index], NULL, 0) == pids[index]);
	loss_await(!index, since_ms);
	churn_note();
	seen.kills++;
	ends_start();
}

/*
 * Stop an end for longer than its peer waits for an acknowledgement. The peer then gives up, in
 * time. On the same host the peer may find all that it needs in shared memory; then the transfer
 * goes on.
 */
static void end_stop_long(int index)
{
	uint64_t since_ms = now_ms();
	bool is_lost;

	CHECK(kill(pids[index], SIGSTOP) == 0);
	sleep_us(LONG_STOP_MS * 1000);
	is_lost = is_far || atomic_load(&stage->ends[!index].broken_ms);
	if (is_lost)
		loss_await(!index, since_ms);
	since_ms = now_ms();
	CHECK(kill(pids[index], SIGCONT) == 0);
	seen.long_stops++;
	if (!is_lost) {
		progress_await();
		return;
	}
	loss_await(index, since_ms);
	churn_note();
	ends_start();
}

/* The transfer, and calls that make and destroy, go on meanwhile. */
static void urnicd_stop_long(pid_t pid)
{
	uint64_t since_ms = now_ms();

	CHECK(kill(pid, SIGSTOP) == 0);
	while (now_ms() - since_ms < LONG_STOP_MS) {
		progress_await();
		sleep_us(STOP_US_MAX);
	}
	CHECK(kill(pid, SIGCONT) == 0);
	seen.urnicd_long_stops++;
}

enum fate { FATE_KILLED, FATE_STOPPED, FATE_STOPPED_LONG };

static void urnicd_round(enum fate fate)
{
	pid_t pid = urnicd_of((int)draw(ENDS));

	/* A urnicd that was killed is started again by whoever asks it next. */
	if (!pid)
		return;
	switch (fate) {
	case FATE_KILLED:
		CHECK(kill(pid, SIGKILL) == 0);
		CHECK(waitpid(pid, NULL, 0) == pid);
		seen.urnicd_kills++;
		progress_await();
		break;
	case FATE_STOPPED:
		stop_for_a_moment(pid);
		seen.urnicd_stops++;
		break;
	case FATE_STOPPED_LONG:
		urnicd_stop_long(pid);
		break;
	}
}

static void end_round(enum fate fate)
{
	int index = (int)draw(ENDS);

	switch (fate) {
	case FATE_KILLED:
		end_kill(index);
		break;
	case FATE_STOPPED:
		stop_for_a_moment(pids[index]);
		seen.stops++;
		break;
	case FATE_STOPPED_LONG:
		end_stop_long(index);
		break;
	}
}

/*
 * Of a hundred rounds: 4 kill an end, 4 a urnicd, 20 stop a urnicd, 70 an end. One stops an end,
 * and one a urnicd, for longer than any promise.
 */
static void round_run(void)
{
	uint32_t lot = draw(100);

	if (lot < 25)
		urnicd_round(lot < 4 ? FATE_KILLED : lot < 24 ? FATE_STOPPED : FATE_STOPPED_LONG);
	else
		end_round(lot < 29 ? FATE_KILLED : lot < 99 ? FATE_STOPPED : FATE_STOPPED_LONG);
}

static void everything_end(void)
{
	ends_end();
	for (int i = 0; i < ENDS; i++) {
		pid_t pid = urnicd_of(i);

		if (pid) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned rounds;

	program = argv[0];
	if (argc == 5 && strcmp(argv[1], "--end") == 0)
		return end_main(argv + 2);
	CHECK(argc == 5);
	netns = argv[1];
	device = argv[2];
	rounds = (unsigned)atoi(argv[3]);
	seed = strtoull(argv[4], NULL, 0);
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	stage_fd = memfd_create("stage", 0);
	CHECK(stage_fd >= 0 && ftruncate(stage_fd, sizeof(*stage)) == 0);
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED, stage_fd, 0);
	CHECK(stage != MAP_FAILED);
	for (int way = 0; way < 2; way++) {
		is_far = way == 1;
		ends_start();
		for (unsigned i = 0; i < rounds / 2; i++)
			round_run();
		churn_note();
		everything_end();
	}
	if (seen.churn_ms_max > CHURN_MS + MARGIN_MS)
		seen.late++;
	printf("%u rounds, seed %s: %u stops of ends, %u long ones, %u and %u of urnicds, %u kills of ends, %u of urnicds; the longest: "
	       "%u ms until a loss is heard of, %u ms until the transfer goes on, %u ms to make and destroy; %u late\n",
		rounds, argv[4], seen.stops, seen.long_stops, seen.urnicd_stops,
		seen.urnicd_long_stops, seen.kills, seen.urnicd_kills, seen.notice_ms_max,
		seen.resume_ms_max, seen.churn_ms_max, seen.late);
	return seen.late > 1 + rounds / 100 ? EXIT_FAILURE : EXIT_SUCCESS;
}
