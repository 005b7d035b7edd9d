/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing.
 *
 * The command descriptor that an adapter's kernel driver would listen on is an empty memory file here. It can be duplicated and
 * handed to ibv_import_device(), which knows its context again by the file's identity. Another process has an adapter of its own,
 * which knows nothing of this one's objects; it is told so.
 *
 * One lock (`context_lock`) guards the list of open contexts. Only events are posted while it is held.
 */
#include "front/verbs/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "front/verbs/ah.h"
#include "front/verbs/async.h"
#include "front/verbs/channel.h"
#include "front/verbs/counters.h"
#include "front/verbs/cq.h"
#include "front/verbs/dm.h"
#include "front/verbs/domain.h"
#include "front/verbs/flow.h"
#include "front/verbs/fork.h"
#include "front/verbs/mr.h"
#include "front/verbs/mw.h"
#include "front/verbs/ops.h"
#include "front/verbs/pd.h"
#include "front/verbs/qp.h"
#include "front/verbs/srq.h"
#include "front/verbs/wq.h"
#include "front/verbs/xrcd.h"
#include "runtime/log.h"
#include "runtime/netdev_watch.h"

/* What the files behind command descriptors are called. */
#define COMMAND_FILE "urnic-context"

/* Interrupt vectors to choose from for completion events: all the same here, but programs ask for one each per thread. */
#define COMP_VECTOR_COUNT 64

pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list contexts = {&contexts, &contexts};

void contexts_tell(const struct device *device, uint32_t news)
{
	pthread_mutex_lock(&context_lock);
	list_for_each(context, &contexts, struct context, node) {
		if (context->device != device)
			continue;
		for (int i = 0; i < CONTEXT_EVENT_COUNT; i++)
			if (news & 1u << i)
				async_event_post(context, &context->events[i]);
	}
	pthread_mutex_unlock(&context_lock);
}

static void interfaces_changed(void)
{
	device_refresh();
}

static void events_prepare(struct context *context)
{
	static const struct {
		enum ibv_event_type type;
		int port;
	} of[CONTEXT_EVENT_COUNT] = {
#define CONTEXT_EVENT(name, type, port) [CONTEXT_EVENT_##name] = {type, port},
#include "front/verbs/context_event.def"
#undef CONTEXT_EVENT
	};

	for (int i = 0; i < CONTEXT_EVENT_COUNT; i++)
		async_event_init_port(&context->events[i], of[i].type, of[i].port);
}

/* `cmd_fd` becomes the context's. NULL with errno on failure, when `cmd_fd` is still the caller's. */
static struct context *context_create(struct device *device, uint64_t opening, int cmd_fd)
{
	struct context *context = calloc(1, sizeof(*context));
	struct ibv_context *verbs;
	int error;

	if (!context)
		return NULL;
	fork_watch();
	error = event_queue_init(&context->async);
	if (error) {
		free(context);
		errno = -error;
		return NULL;
	}
	context->device = device;
	context->opening = opening;
	events_prepare(context);
	context->watch = netdev_watch_start(interfaces_changed);
	ops_fill(&context->verbs, device_is_iwarp(device));
	context->verbs.sz = sizeof(context->verbs);
	verbs = &context->verbs.context;
	verbs->device = &device->verbs;
	verbs->cmd_fd = cmd_fd;
	verbs->async_fd = context->async.fd;
	verbs->num_comp_vectors = COMP_VECTOR_COUNT;
	verbs->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&verbs->mutex, NULL);
	pthread_mutex_lock(&context_lock);
	list_append(&contexts, &context->node);
	pthread_mutex_unlock(&context_lock);
	return context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static _Atomic uint64_t opening_count;
	struct device *front = device_lookup(device);
	struct context *context;
	int cmd_fd;

	if (!front || device_is_gone(front)) {
		errno = ENODEV;
		return NULL;
	}
	cmd_fd = memfd_create(COMMAND_FILE, MFD_CLOEXEC);
	if (cmd_fd < 0)
		return NULL;
	context = context_create(front, ++opening_count, cmd_fd);
	if (!context) {
		int error = errno;

		close(cmd_fd);
		errno = error;
		return NULL;
	}
	return &context->verbs.context;
}

/* Finds the context whose command descriptor is the same file. */
static bool file_lookup(const struct stat *file, struct device **ret_device, uint64_t *ret_opening)
{
	bool is_found = false;

	pthread_mutex_lock(&context_lock);
	list_for_each(context, &contexts, struct context, node) {
		struct stat own;

		if (fstat(context->verbs.context.cmd_fd, &own) == 0 && own.st_dev == file->st_dev &&
			own.st_ino == file->st_ino) {
			*ret_device = context->device;
			*ret_opening = context->opening;
			is_found = true;
			break;
		}
	}
	pthread_mutex_unlock(&context_lock);
	return is_found;
}

/* Is this a context's command descriptor, of whatever process? */
static bool is_command_file(int fd)
{
	static const char expected[] = "/memfd:" COMMAND_FILE " ";
	char path[32], target[sizeof(expected)];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, target, sizeof(target)) >= (ssize_t)sizeof(expected) - 1 &&
		!memcmp(target, expected, sizeof(expected) - 1);
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct context *context;
	struct device *device;
	uint64_t opening;
	struct stat file;

	if (fstat(cmd_fd, &file))
		return NULL;
	if (!file_lookup(&file, &device, &opening)) {
		errno = EINVAL;
		if (is_command_file(cmd_fd)) {
			log_write(LOG_ERROR,
				"a device that another process has opened cannot be imported: "
				"each process is an adapter of its own");
			errno = EOPNOTSUPP;
		}
		return NULL;
	}
	context = context_create(device, opening, cmd_fd);
	return context ? &context->verbs.context : NULL;
}

/*
 * Programs close devices with queues and regions still there, and a kernel driver then destroys these. So they go, users before what
 * they use; only their structures stay, because the program has pointers to them.
 */
static void objects_release(struct context *context)
{
	static const struct {
		enum object_kind kind;
		void (*release)(struct object *object);
	} steps[] = {
		{OBJECT_FLOW, flow_release},
		{OBJECT_COUNTERS, counters_release},
		{OBJECT_QP, qp_release},
		{OBJECT_WQ_TABLE, wq_table_release},
		{OBJECT_WQ, wq_release},
		{OBJECT_SRQ, srq_release},
		{OBJECT_XRCD, xrcd_release},
		{OBJECT_AH, ah_release},
		{OBJECT_CQ, cq_release},
		{OBJECT_MW, mw_release_front},
		{OBJECT_MR, mr_release},
		{OBJECT_DM, dm_release},
		{OBJECT_PARENT_DOMAIN, parent_domain_release},
		{OBJECT_TD, td_release},
		{OBJECT_PD, pd_release},
		{OBJECT_CHANNEL, channel_release},
	};
	struct object *object;

	for (size_t i = 0; i < ARRAY_COUNT(steps); i++)
		while ((object = object_remove_one(context, steps[i].kind)))
			steps[i].release(object);
}

/* Takes the context out of the list. NULL when it is not open. */
static struct context *context_take(const struct ibv_context *verbs)
{
	struct context *taken = NULL;

	pthread_mutex_lock(&context_lock);
	list_for_each(context, &contexts, struct context, node)
		if (&context->verbs.context == verbs) {
			list_remove(&context->node);
			taken = context;
			break;
		}
	pthread_mutex_unlock(&context_lock);
	return taken;
}

int ibv_close_device(struct ibv_context *context)
{
	struct context *front = context_take(context);

	if (!front)
		return EINVAL;
	netdev_watch_stop(front->watch);
	objects_release(front);
	/* What an object of an importing context is built on lives on, and with it this context. */
	if (object_context_is_used(front))
		return 0;
	close(context->cmd_fd);
	event_queue_done(&front->async);
	pthread_mutex_destroy(&context->mutex);
	free(front);
	return 0;
}
