/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_SLOW_DISK_H
#define URNIC_TESTS_SUPPORT_NVMF_SLOW_DISK_H

/*
 * A target over TCP with two namespaces, 2 and 3, whose backends keep each request until the test
 * lets it go; and hosts with an I/O queue.
 *
 * Each test begins with slow_begin() and ends with slow_end().
 */

#include "support/nvmf_tcp_client.h"

#include "nvmf/target/backend/object.h"

#define OTHER_NQN "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000004"

enum { KEPT_MAX = 64, SHST_MASK = 3 << 2, IDLE_STEPS = 30 };

static struct backend slow, slow_too;
static struct backend_request *kept[KEPT_MAX];
static unsigned kept_count; /* requests that the backend has */

static inline void slow_submit(
	struct backend *backend, struct backend_ring *ring, struct backend_request *request)
{
	(void)backend;
	(void)ring;
	assert_in_range(kept_count, 0, KEPT_MAX - 1);
	kept[kept_count++] = request;
}

static inline int slow_resize(struct backend *backend, uint64_t size_bytes, char *sentence)
{
	(void)sentence;
	backend->size_bytes = size_bytes;
	return 0;
}

static inline void slow_close(struct backend *backend)
{
	(void)backend;
}

static const struct backend_kind slow_kind = {slow_submit, slow_resize, slow_close};

/* A request ends: the oldest one has index 0. */
static inline void end_kept(unsigned index, enum backend_status status)
{
	struct backend_request *request = kept[index];

	assert_in_range(index + 1, 1, kept_count);
	kept_count--;
	memmove(kept + index, kept + index + 1,
		(kept_count - index) * sizeof(struct backend_request *));
	backend_finish(request, status);
}

static inline void let_go(void)
{
	end_kept(0, BACKEND_OK);
}

static inline void idle(void)
{
	for (int i = 0; i < IDLE_STEPS; i++)
		loop_step(loop, 200000);
}

static inline void await_kept(unsigned count)
{
	for (int i = 0; i < STEPS_MAX && kept_count != count; i++)
		loop_step(loop, 1000000);
	assert_int_equal(kept_count, count);
}

static inline int slow_begin(void **state)
{
	struct target_namespace_settings settings = {.nsid = 2, .backend = &slow};
	struct target_namespace_settings settings_too = {.nsid = 3, .backend = &slow_too};
	struct target_namespace *slow_ns;

	setup(state);
	kept_count = 0;
	slow = (struct backend){.kind = &slow_kind, .size_bytes = DISK_BYTES, .block_bytes = 512};
	slow_too = slow;
	assert_int_equal(target_namespace_add(subsystem, &settings, &slow_ns), 0);
	assert_int_equal(target_namespace_add(subsystem, &settings_too, &slow_ns), 0);
	assert_int_equal(target_subsystem_allow(subsystem, OTHER_NQN), 0);
	return 0;
}

static inline int slow_end(void **state)
{
	target_disconnect_all(target);
	idle();
	while (kept_count)
		let_go();
	return teardown(state);
}

static inline void write_to_namespace(struct client *client, uint32_t nsid, uint64_t slba)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, slba, 1, 512);

	sqe.nsid = nsid;
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	client_capsule(client, &sqe, data, 512);
}

static inline void write_to(struct client *client, uint64_t slba)
{
	write_to_namespace(client, 2, slba);
}

static inline uint32_t csts_of(struct client *client)
{
	struct nvme_property_access access = {.offset = NVME_CSTS};
	struct nvme_sqe sqe;

	nvme_property_get_encode(&access, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 0);
	return (uint32_t)client_command(client, &sqe, NULL, 0).result;
}

static inline uint16_t cc_set(struct client *client, uint32_t value)
{
	struct nvme_property_access access = {.offset = NVME_CC, .value = value};
	struct nvme_sqe sqe;

	nvme_property_set_encode(&access, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 0);
	return client_command(client, &sqe, NULL, 0).status;
}

static inline void open_host(struct client *admin, struct client *io, const char *hostnqn)
{
	struct nvme_connect connect = {.sqsize = 31, .kato_ms = 60000};
	struct nvme_cqe cqe;

	client_initialize(admin, 0);
	cqe = client_connect_as(admin, SUBSYSTEM_NQN, hostnqn, connect, NVME_CNTLID_DYNAMIC);
	assert_int_equal(cqe.status, NVME_SUCCESS);
	client_property(admin, NVME_CC_DEFAULT | NVME_CC_EN);
	connect = (struct nvme_connect){.qid = 1, .sqsize = 31};
	client_initialize(io, 0);
	cqe = client_connect_as(io, SUBSYSTEM_NQN, hostnqn, connect, (uint16_t)cqe.result);
	assert_int_equal(cqe.status, NVME_SUCCESS);
}

static inline void close_both(struct client *admin, struct client *io)
{
	close(io->fd);
	close(admin->fd);
}

#endif
