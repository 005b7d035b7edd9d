/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing devices.
 *
 * The command descriptor of an adapter's context belongs to a kernel driver; here it is a memfd. A
 * program can duplicate the descriptor and pass it to ibv_import_device(), which finds the context
 * by the identity of the file. A process that imports the descriptor of another process gets a
 * context of its own device on the same interface. Through this context it can import objects of
 * the first process. The memfd says where those objects are (peer/nic_import.h).
 *
 * One lock (`context_lock`) guards the list of open contexts. With it locked, a thread takes only
 * the lock of an event queue.
 */
#include "front/verbs/context.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "front/verbs/async.h"
#include "front/verbs/device_ib.h"
#include "front/verbs/fork.h"
#include "front/verbs/object.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"
#include "netdev/netdev_watch.h"
#include "os/log.h"
#include "peer/nic_import.h"

#define COMMAND_FILE "urnic-context"

/* Number of interrupt vectors. They have no effect, but programs use one per thread. */
#define COMP_VECTOR_COUNT 64

pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list open_contexts = {&open_contexts, &open_contexts};

void contexts_post_port(const struct device *device, uint32_t events, uint32_t port)
{
	pthread_mutex_lock(&context_lock);
	list_for_each(context, &open_contexts, struct context, node) {
		if (context->device != device)
			continue;
		for (int i = 0; i < CONTEXT_EVENT_COUNT; i++) {
			if (events & 1u << i)
				async_event_post(context, &context->events[port - 1][i]);
		}
	}
	pthread_mutex_unlock(&context_lock);
}

void contexts_post(const struct device *device, uint32_t events)
{
	contexts_post_port(device, events, DEVICE_PORT);
}

static void interfaces_changed(void)
{
	device_refresh();
}

static void events_prepare(struct context *context)
{
	static const struct {
		enum ibv_event_type type;
		bool is_of_port;
	} of[CONTEXT_EVENT_COUNT] = {
#define CONTEXT_EVENT(name, type, is_of_port) [CONTEXT_EVENT_##name] = {type, is_of_port},
#include "front/verbs/context_event.def"
#undef CONTEXT_EVENT
	};

	for (int port = 1; port <= DEVICE_IB_PORTS_MAX; port++) {
		struct async_event *events = context->events[port - 1];

		for (int i = 0; i < CONTEXT_EVENT_COUNT; i++) {
			async_event_init(&events[i], of[i].type, NULL);
			events[i].verbs.element.port_num = of[i].is_of_port ? port : 0;
		}
	}
}

/*
 * Fill the table of operations. Operations that this NIC does not have stay NULL. So do operations
 * that an iWARP device does not have.
 */
static void ops_fill(struct verbs_context *context, bool is_iwarp)
{
#define OP(slot, function) context->slot = function;
#define ROCE_OP(slot, function) \
	if (!is_iwarp)          \
		context->slot = function;
#include "front/verbs/op.def"
}

/* Contents of the memfd behind a command descriptor. */
struct command {
	char magic[16];
	struct nic_locator owner;
	uint64_t opening;
	uint64_t netns_cookie;
	uint32_t ifindex;
	uint32_t transport; /* enum device_transport */
};

static const char command_magic[16] = COMMAND_FILE;

/* On success, the context owns `cmd_fd`. NULL with errno on failure. */
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
	if (device_is_ib(device))
		device_ib_watch();
	else
		context->watch = netdev_watch_start(interfaces_changed);
	ops_fill(&context->verbs, device_is_iwarp(device));
	strict_ops_change(&context->verbs);
	context->verbs.sz = sizeof(context->verbs);
	verbs = &context->verbs.context;
	verbs->device = &device->verbs;
	verbs->cmd_fd = cmd_fd;
	verbs->async_fd = context->async.fd;
	verbs->num_comp_vectors = COMP_VECTOR_COUNT;
	verbs->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&verbs->mutex, NULL);
	pthread_mutex_lock(&context_lock);
	list_append(&open_contexts, &context->node);
	pthread_mutex_unlock(&context_lock);
	return context;
}

static _Atomic uint64_t opening_count;

/*
 * Make a command descriptor: the memfd for ibv_context.cmd_fd, by which ibv_import_device() of
 * another process finds this NIC. Returns the descriptor, or -1 with errno.
 */
static int command_make(const struct device *device, uint64_t opening)
{
	struct command command = {
		.opening = opening,
		.netns_cookie = device->netns_cookie,
		.ifindex = device->ifindex,
		.transport = device->transport,
	};
	int fd = memfd_create(COMMAND_FILE, MFD_CLOEXEC), error;

	if (fd < 0) {
		log_refusal("no device can be opened", "memfd_create");
		return -1;
	}
	memcpy(command.magic, command_magic, sizeof(command_magic));
	nic_locate(&command.owner);
	if (pwrite(fd, &command, sizeof(command), 0) == sizeof(command))
		return fd;
	error = log_refusal("no device can be opened", "pwrite64");
	close(fd);
	errno = -error;
	return -1;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct device *front = device_lookup(device);
	struct context *context;
	uint64_t opening;
	int cmd_fd;

	if (!front || device_is_gone(front))
		return result_null("ibv_open_device", result_cause(REASON_DEVICE_GONE));
	opening = ++opening_count;
	cmd_fd = command_make(front, opening);
	if (cmd_fd < 0)
		return result_null("ibv_open_device", errno);
	context = context_create(front, opening, cmd_fd);
	if (!context) {
		int error = errno;

		close(cmd_fd);
		return result_null("ibv_open_device", error);
	}
	return &context->verbs.context;
}

/* The open context whose command descriptor is this file, or NULL. context_lock is locked. */
static const struct context *file_lookup(const struct stat *file)
{
	list_for_each(context, &open_contexts, struct context, node) {
		struct stat own;

		if (fstat(context->verbs.context.cmd_fd, &own) == 0 && own.st_dev == file->st_dev &&
			own.st_ino == file->st_ino)
			return context;
	}
	return NULL;
}

struct identity {
	struct device *device; /* NULL: none */
	uint64_t opening;
	struct nic_locator owner;
	uint64_t owner_opening;
};

/* Get the identity of the context of this process whose command descriptor is this file. */
static struct identity identity_here(const struct stat *file)
{
	struct identity identity = {.device = NULL};
	const struct context *context;

	pthread_mutex_lock(&context_lock);
	context = file_lookup(file);
	if (context)
		identity = (struct identity){
			context->device, context->opening, context->owner, context->owner_opening};
	pthread_mutex_unlock(&context_lock);
	return identity;
}

/*
 * This process's device on the interface that `command` names. NULL: this process has no such
 * device, or the interface is in another network namespace.
 */
static struct device *device_again(const struct command *command)
{
	struct device *devices[DEVICE_COUNT_MAX];
	uint32_t count;

	if (device_refresh())
		return NULL;
	count = device_list(devices);
	for (uint32_t i = 0; i < count; i++)
		if (devices[i]->netns_cookie == command->netns_cookie &&
			devices[i]->ifindex == command->ifindex &&
			devices[i]->transport == (enum device_transport)command->transport)
			return devices[i];
	return NULL;
}

/* Get the identity of the context of another process whose command descriptor is this file. */
static int identity_elsewhere(int cmd_fd, const struct stat *file, struct identity *ret_identity)
{
	struct command command;
	struct device *device;
	int error;

	if (pread(cmd_fd, &command, sizeof(command), 0) != sizeof(command) ||
		memcmp(command.magic, command_magic, sizeof(command_magic)) != 0)
		return result_cause(REASON_IMPORT_FILE);
	if (file->st_uid != geteuid())
		return result_cause(REASON_IMPORT_USER);
	device = device_again(&command);
	if (!device)
		return result_cause(REASON_IMPORT_DEVICE);
	if (device_is_iwarp(device))
		return result_cause(REASON_NOT_ON_IWARP);
	error = result_of_import(-nic_import_look(&command.owner));
	if (error)
		return error;
	*ret_identity = (struct identity){device, ++opening_count, command.owner, command.opening};
	return 0;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct identity identity;
	struct context *context;
	struct stat file;
	int error = strict_refuse_lack(STRICT_HAS_IMPORT);

	if (error)
		return result_null("ibv_import_device", error);
	if (fstat(cmd_fd, &file))
		return result_null("ibv_import_device", result_cause(REASON_IMPORT_CLOSED));
	identity = identity_here(&file);
	if (!identity.device)
		error = identity_elsewhere(cmd_fd, &file, &identity);
	if (error) {
		if (error != EINVAL)
			log_write(LOG_ERROR,
				"a device that another process has opened cannot be imported: %s",
				strerror(error));
		return result_null("ibv_import_device", error);
	}
	context = context_create(identity.device, identity.opening, cmd_fd);
	if (!context)
		return result_null("ibv_import_device", errno);
	context->owner = identity.owner;
	context->owner_opening = identity.owner_opening;
	return &context->verbs.context;
}

/* Take the context out of the list. NULL: the context is not open. */
static struct context *context_take(const struct ibv_context *verbs)
{
	struct context *taken = NULL;

	pthread_mutex_lock(&context_lock);
	list_for_each(context, &open_contexts, struct context, node)
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
		return result_of("ibv_close_device", result_cause(REASON_CONTEXT_CLOSED));
	if (!device_is_ib(front->device))
		netdev_watch_stop(front->watch);
	objects_release(front);
	/* Keep this context, because objects of importing contexts are built on its objects. */
	if (object_context_is_used(front))
		return 0;
	close(context->cmd_fd);
	event_queue_done(&front->async);
	pthread_mutex_destroy(&context->mutex);
	free(front);
	return 0;
}
