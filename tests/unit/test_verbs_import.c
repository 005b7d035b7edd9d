/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices, domains, regions and device memory that are imported by a descriptor: in the same
 * process, in a forked child, and in an unrelated process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nic/nic_failure.h"
#include "support/netns.h"
#include "support/sanitizer.h"
#include "support/verbs_pair.h"

enum { DM_BYTES = 64 };

static struct ibv_context *context;

static void imported_objects_are_the_ones_of_the_first(void **state)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	struct ibv_alloc_dm_attr attr = {.length = DM_BYTES};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr), *dm_again;
	struct ibv_mr *mr_again;
	struct ibv_pd *pd;
	struct verbs_end end;
	uint64_t word = 4711;

	(void)state;
	assert_non_null(imported);
	assert_string_equal(
		ibv_get_device_name(imported->device), ibv_get_device_name(context->device));
	verbs_end_make(&end, context, NULL);
	assert_non_null(pd = ibv_import_pd(imported, end.pd->handle));
	assert_non_null(mr_again = ibv_import_mr(pd, end.mr->handle));
	assert_int_equal(mr_again->rkey, end.mr->rkey);
	assert_ptr_equal(mr_again->addr, end.mr->addr);
	assert_non_null(dm);
	assert_non_null(dm_again = ibv_import_dm(imported, dm->handle));
	assert_int_equal(ibv_memcpy_to_dm(dm, 8, &word, sizeof(word)), 0);
	word = 0;
	assert_int_equal(ibv_memcpy_from_dm(&word, dm_again, 8, sizeof(word)), 0);
	assert_int_equal(word, 4711);
	ibv_unimport_dm(dm_again);
	ibv_unimport_mr(mr_again);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_free_dm(dm), 0);
	verbs_end_unmake(&end);
	assert_int_equal(ibv_close_device(imported), 0);
}

static void handles_of_other_kinds_are_not_imported(void **state)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	struct verbs_end end;

	(void)state;
	assert_non_null(imported);
	verbs_end_make(&end, context, NULL);
	assert_null(ibv_import_pd(imported, end.mr->handle));
	assert_int_equal(errno, ENOENT);
	errno = 0;
	assert_null(ibv_import_mr(end.pd, end.pd->handle));
	assert_int_equal(errno, ENOENT);
	errno = 0;
	assert_null(ibv_import_dm(imported, end.mr->handle));
	assert_int_equal(errno, ENOENT);
	verbs_end_unmake(&end);
	assert_int_equal(ibv_close_device(imported), 0);
}

static void descriptor_of_nothing_is_refused(void **state)
{
	int other = memfd_create("something", MFD_CLOEXEC);

	(void)state;
	errno = 0;
	assert_null(ibv_import_device(other));
	assert_int_equal(errno, EINVAL);
	close(other);
	errno = 0;
	assert_null(ibv_import_device(-1));
	assert_int_equal(errno, EBADF);
}

static void fd_send(int to, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = {.bytes = {0}};
	struct iovec byte = {"", 1};
	struct msghdr message = {
		.msg_iov = &byte,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	MUST(sendmsg(to, &message, 0) == 1);
}

static int fd_receive(int from)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control;
	char text;
	struct iovec byte = {&text, 1};
	struct msghdr message = {
		.msg_iov = &byte,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	MUST(recvmsg(from, &message, 0) == 1 && message.msg_controllen);
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static void must_end_well(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* --- another process's --- */

/* What a process tells of its objects. */
struct story {
	uint64_t address; /* of the region */
	uint32_t pd, mr, dm; /* handles */
	uint32_t key;
	uint32_t other_pd, other_mr; /* of another opening of the device */
};

/* What it is asked to do next. */
enum request {
	END,
	FILL, /* its buffer with 17 */
	COUNT, /* tell how many bytes of its buffer are 42 */
	READ_DM, /* tell the first word of its device memory */
	DEREGISTER,
};

static uint64_t owner_answer(
	enum request request, uint8_t *buffer, struct ibv_mr **mr, struct ibv_dm *dm)
{
	uint64_t answer = 0;

	if (request == FILL)
		memset(buffer, 17, PAIR_BYTES);
	for (int i = 0; request == COUNT && i < PAIR_BYTES; i++)
		answer += buffer[i] == 42;
	if (request == READ_DM)
		MUST(!ibv_memcpy_from_dm(&answer, dm, 0, sizeof(answer)));
	if (request == DEREGISTER) {
		MUST(!ibv_dereg_mr(*mr));
		*mr = NULL;
	}
	return answer;
}

_Noreturn static void owner(int socket)
{
	struct ibv_context *own = verbs_pair_open();
	struct ibv_context *other = verbs_pair_open();
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_alloc_dm_attr attr = {.length = DM_BYTES};
	uint8_t *buffer = malloc(PAIR_BYTES);
	struct ibv_pd *pd, *other_pd;
	struct ibv_mr *mr, *other_mr;
	struct ibv_dm *dm;
	enum request request;

	MUST(pd = ibv_alloc_pd(own));
	MUST(mr = ibv_reg_mr(pd, buffer, PAIR_BYTES, access));
	MUST(dm = ibv_alloc_dm(own, &attr));
	MUST(other_pd = ibv_alloc_pd(other));
	MUST(other_mr = ibv_reg_mr(other_pd, buffer, PAIR_BYTES, access));
	struct story story = {(uintptr_t)buffer, pd->handle, mr->handle, dm->handle, mr->rkey,
		other_pd->handle, other_mr->handle};
	fd_send(socket, own->cmd_fd);
	MUST(write(socket, &story, sizeof(story)) == sizeof(story));
	while (read(socket, &request, sizeof(request)) == sizeof(request) && request != END) {
		uint64_t answer = owner_answer(request, buffer, &mr, dm);

		MUST(write(socket, &answer, sizeof(answer)) == sizeof(answer));
	}
	_exit(0);
}

static struct {
	pid_t child;
	int socket;
	struct story story;
	struct ibv_context *context;
} there;

/* Before this process has a NIC of its own to leave behind: the owner starts anew. */
static int owner_start(void **state)
{
	int sockets[2];

	(void)state;
	if (HAS_THREAD_SANITIZER)
		return 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	there.child = fork();
	if (!there.child)
		owner(sockets[1]);
	close(sockets[1]);
	there.socket = sockets[0];
	there.context = ibv_import_device(fd_receive(there.socket));
	assert_non_null(there.context);
	assert_int_equal(
		read(there.socket, &there.story, sizeof(there.story)), sizeof(there.story));
	return 0;
}

static uint64_t owner_ask(enum request request)
{
	uint64_t answer = 0;

	assert_int_equal(write(there.socket, &request, sizeof(request)), sizeof(request));
	assert_int_equal(read(there.socket, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static void owner_end(void)
{
	enum request request = END;

	assert_int_equal(write(there.socket, &request, sizeof(request)), sizeof(request));
	must_end_well(there.child);
	there.child = 0;
}

static int owner_stop(void **state)
{
	(void)state;
	if (HAS_THREAD_SANITIZER)
		return 0;
	if (there.child)
		owner_end();
	close(there.socket);
	return ibv_close_device(there.context);
}

/* An end in the imported domain, whose region is the imported one. */
static void end_import(struct verbs_end *end)
{
	struct ibv_qp_init_attr init = {
		.cap = {PAIR_DEPTH, PAIR_DEPTH, 4, 4, 0},
		.qp_type = IBV_QPT_RC,
	};

	memset(end, 0, sizeof(*end));
	assert_non_null(end->pd = ibv_import_pd(there.context, there.story.pd));
	assert_non_null(end->mr = ibv_import_mr(end->pd, there.story.mr));
	assert_non_null(end->cq = ibv_create_cq(there.context, 2 * PAIR_DEPTH, NULL, NULL, 0));
	init.send_cq = init.recv_cq = end->cq;
	assert_non_null(end->qp = ibv_create_qp(end->pd, &init));
	end->buffer = (uint8_t *)(uintptr_t)there.story.address;
}

static void end_unimport(struct verbs_end *end)
{
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
	ibv_unimport_mr(end->mr);
	ibv_unimport_pd(end->pd);
}

static void must_succeed(struct verbs_end *end, enum ibv_wr_opcode opcode, struct verbs_end *to)
{
	assert_int_equal(verbs_post(end, opcode, to, 0, PAIR_BYTES), 0);
	assert_int_equal(verbs_poll_one(end->cq).status, IBV_WC_SUCCESS);
}

static bool is_filled(const uint8_t *bytes, uint8_t value)
{
	for (int i = 0; i < PAIR_BYTES; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

/* A queue pair on imported objects, connected with one on our own. */
static void ends_make(struct verbs_end *imported, struct verbs_end *own)
{
	end_import(imported);
	verbs_end_make(own, context, NULL);
	verbs_ends_connect(imported, own, 14);
}

static void ends_unmake(struct verbs_end *imported, struct verbs_end *own)
{
	verbs_end_unmake(own);
	end_unimport(imported);
}

static void region_of_another_process_is_sent_from_and_received_into(void **state)
{
	struct verbs_end imported, own;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	end_import(&imported);
	assert_null(imported.mr->addr);
	assert_int_equal(imported.mr->length, PAIR_BYTES);
	assert_int_equal(imported.mr->rkey, there.story.key);
	verbs_end_make(&own, context, NULL);
	verbs_ends_connect(&imported, &own, 14);
	owner_ask(FILL);
	verbs_post_recv(&own, 1, 0, PAIR_BYTES);
	must_succeed(&imported, IBV_WR_SEND, &own);
	assert_int_equal(verbs_poll_one(own.cq).status, IBV_WC_SUCCESS);
	assert_true(is_filled(own.buffer, 17));

	memset(own.buffer, 42, PAIR_BYTES);
	verbs_post_recv(&imported, 1, 0, PAIR_BYTES);
	must_succeed(&own, IBV_WR_SEND, &imported);
	assert_int_equal(verbs_poll_one(imported.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(owner_ask(COUNT), PAIR_BYTES);
	ends_unmake(&imported, &own);
}

static void region_of_another_process_is_read_and_written_by_peers(void **state)
{
	struct verbs_end imported, own;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	ends_make(&imported, &own);
	owner_ask(FILL);
	must_succeed(&own, IBV_WR_RDMA_READ, &imported);
	assert_true(is_filled(own.buffer, 17));
	memset(own.buffer, 42, PAIR_BYTES);
	must_succeed(&own, IBV_WR_RDMA_WRITE, &imported);
	assert_int_equal(owner_ask(COUNT), PAIR_BYTES);
	/* And the other way round: the imported region is the request's own. */
	memset(own.buffer, 1, PAIR_BYTES);
	must_succeed(&imported, IBV_WR_RDMA_READ, &own);
	assert_int_equal(owner_ask(COUNT), 0);
	owner_ask(FILL);
	must_succeed(&imported, IBV_WR_RDMA_WRITE, &own);
	assert_true(is_filled(own.buffer, 17));
	ends_unmake(&imported, &own);
}

static void region_that_its_owner_deregisters_is_refused(void **state)
{
	struct verbs_end imported, own;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	ends_make(&imported, &own);
	must_succeed(&own, IBV_WR_RDMA_WRITE, &imported);
	owner_ask(DEREGISTER);
	assert_null(ibv_import_mr(imported.pd, there.story.mr));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(verbs_post(&own, IBV_WR_RDMA_WRITE, &imported, 0, 100), 0);
	assert_int_equal(verbs_poll_one(own.cq).status, IBV_WC_REM_ACCESS_ERR);
	ends_unmake(&imported, &own);
}

static void region_made_in_an_imported_domain_is_used_there(void **state)
{
	static uint8_t bytes[PAIR_BYTES];
	struct verbs_end imported, own;
	struct ibv_mr *theirs, *mine;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	ends_make(&imported, &own);
	assert_non_null(mine = ibv_reg_mr(imported.pd, bytes, sizeof(bytes),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	theirs = imported.mr;
	imported.mr = mine;
	imported.buffer = bytes;
	memset(own.buffer, 3, PAIR_BYTES);
	must_succeed(&own, IBV_WR_RDMA_WRITE, &imported);
	assert_true(is_filled(bytes, 3));
	imported.mr = theirs;
	verbs_end_unmake(&own);
	assert_int_equal(ibv_dereg_mr(mine), 0);
	end_unimport(&imported);
}

static void device_memory_of_another_process_is_shared(void **state)
{
	struct ibv_dm *dm;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint64_t word = 4711;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	assert_non_null(dm = ibv_import_dm(there.context, there.story.dm));
	assert_int_equal(ibv_memcpy_to_dm(dm, 0, &word, sizeof(word)), 0);
	assert_int_equal(owner_ask(READ_DM), 4711);
	assert_int_equal(ibv_memcpy_to_dm(dm, DM_BYTES, &word, sizeof(word)), EINVAL);
	assert_non_null(pd = ibv_alloc_pd(there.context));
	assert_non_null(mr = ibv_reg_dm_mr(pd, dm, 0, DM_BYTES,
				IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	owner_end();
	word = 0;
	assert_int_equal(ibv_memcpy_from_dm(&word, dm, 0, sizeof(word)), 0); /* it stays mapped */
	assert_int_equal(word, 4711);
	ibv_unimport_dm(dm);
}

static enum reason reason_of_last_failure(void)
{
	const struct failures *kept = nic_failures();

	return (enum reason)kept->list[(kept->count - 1) % FAILURES_MAX].reason;
}

static void handles_of_another_process_are_checked(void **state)
{
	const struct story *story = &there.story;
	struct ibv_pd *pd;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	const uint32_t wrong_pds[] = {
		0, 1, UINT32_MAX, story->mr, story->dm, story->other_pd, story->pd ^ 1u << 25};
	for (size_t i = 0; i < sizeof(wrong_pds) / sizeof(*wrong_pds); i++) {
		errno = 0;
		assert_null(ibv_import_pd(there.context, wrong_pds[i]));
		assert_int_equal(errno, ENOENT);
	}
	assert_non_null(pd = ibv_import_pd(there.context, story->pd));
	assert_null(ibv_import_mr(pd, story->other_mr));
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_import_mr(pd, story->pd));
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_import_dm(there.context, story->mr));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(reason_of_last_failure(), REASON_IMPORT_OWNER);
	ibv_unimport_pd(pd);
}

static void process_that_ended_has_nothing_to_import(void **state)
{
	struct verbs_end imported, own;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	ends_make(&imported, &own);
	owner_end();
	errno = 0;
	assert_null(ibv_import_pd(there.context, there.story.pd));
	assert_int_equal(errno, ESRCH);
	assert_int_equal(reason_of_last_failure(), REASON_IMPORT_ENDED);
	assert_int_equal(verbs_post(&own, IBV_WR_RDMA_WRITE, &imported, 0, 100), 0);
	assert_int_equal(verbs_poll_one(own.cq).status, IBV_WC_REM_ACCESS_ERR);
	ends_unmake(&imported, &own);
}

/*
 * The child can import the device, and a domain in which it makes its own objects. Regions and
 * device memory are the parent NIC's, so the child cannot import them.
 */
static void in_child(const struct verbs_end *end, struct ibv_dm *dm)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	uint64_t word;

	MUST(imported);
	MUST(pd = ibv_import_pd(imported, end->pd->handle));
	MUST(!ibv_import_mr(pd, end->mr->handle) && errno == EIO);
	errno = 0;
	MUST(!ibv_import_dm(imported, dm->handle) && errno == EIO);
	MUST(ibv_memcpy_from_dm(&word, dm, 0, sizeof(word)) == EIO);
	MUST(ibv_memcpy_to_dm(dm, 0, &word, sizeof(word)) == EIO);
	errno = 0;
	MUST(!ibv_reg_dm_mr(pd, dm, 0, DM_BYTES, IBV_ACCESS_ZERO_BASED) && errno == EIO);
	MUST(mr = ibv_reg_mr(pd, end->buffer, 10, 0));
	MUST(!ibv_dereg_mr(mr));
	_exit(0);
}

static void child_of_a_fork_imports_the_device(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = DM_BYTES};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	struct verbs_end end;
	pid_t child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	verbs_end_make(&end, context, NULL);
	assert_non_null(dm);
	child = fork();
	if (!child)
		in_child(&end, dm);
	must_end_well(child);
	assert_int_equal(ibv_free_dm(dm), 0);
	verbs_end_unmake(&end);
}

static int open_context(void **state)
{
	(void)state;
	context = verbs_pair_open();
	return 0;
}

static int close_context(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

#define FOREIGN(name) cmocka_unit_test_setup_teardown(name, owner_start, owner_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(imported_objects_are_the_ones_of_the_first),
		cmocka_unit_test(handles_of_other_kinds_are_not_imported),
		cmocka_unit_test(descriptor_of_nothing_is_refused),
		FOREIGN(region_of_another_process_is_sent_from_and_received_into),
		FOREIGN(region_of_another_process_is_read_and_written_by_peers),
		FOREIGN(region_that_its_owner_deregisters_is_refused),
		FOREIGN(region_made_in_an_imported_domain_is_used_there),
		FOREIGN(device_memory_of_another_process_is_shared),
		FOREIGN(handles_of_another_process_are_checked),
		FOREIGN(process_that_ended_has_nothing_to_import),
		cmocka_unit_test(child_of_a_fork_imports_the_device),
	};

	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, open_context, close_context);
}
