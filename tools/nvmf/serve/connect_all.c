/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect-all: connects to all subsystems that a discovery controller offers, and to those offered
 * by the discovery controllers to which it refers, as nvme-cli's connect-all does. The program
 * exports each namespace of these subsystems.
 *
 * A subsystem has one controller for Admin commands, whose events report changed namespaces, and a
 * further controller for each namespace (host/remote/remote.h). If several ports offer a subsystem,
 * the program connects it once, by the first port that answers. A kernel would connect it by all
 * ports, and make one device of these paths.
 *
 * Callbacks only set marks (`has_changed`, `is_unmounted`). The main loop reads the marks, and
 * makes and ends connections. A callback cannot connect, because session_open() itself runs the
 * event loop.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/codec/log_page.h"
#include "nvmf/discovery_conf.h"
#include "nvmf/discovery_log.h"
#include "nvmf/host/controller/sqe.h"
#include "nvmf/serve/flush.h"
#include "nvmf/serve/served.h"

enum {
	/* The limit counts referrals, too: a hostile target could make a chain of them endless. */
	DISCOVERIES_MAX = 32,
	SUBSYSTEMS_MAX = 1024,
	PATH_BYTES = 512,
	CNS_ACTIVE_LIST = 2,
	RETRIES_MAX = 7, /* after 1, 2, 4 ... 64 seconds: two minutes in all */
	LOG_BYTES = 4096,
	ID_OAES = 92,
	OAES_NAMESPACES = 1 << 8,
};

#define RETRY_NS 1000000000ull

struct all;

/* A discovery controller. */
struct discovery {
	struct list node;
	/* The user's options: for this controller, or for the one whose referrals lead to it. */
	const struct nvmf_options *named;
	struct nvmf_options options;
	struct session session;
	bool is_open;
};

struct subsystem {
	struct list node;
	struct all *all;
	unsigned number; /* 0 for nvme0, 1 for nvme1 */
	struct nvmf_options options;
	struct session session;
	struct list exports;
	struct loop_timer retry; /* when to try again to connect the namespaces that failed */
	unsigned retries;
};

struct exported {
	struct list node;
	uint32_t nsid;
	unsigned number;
	struct session session;
	struct served served;
	struct flush flush;
	char nbd[PATH_BYTES];
	char fuse[PATH_BYTES];
	bool is_offered; /* the last list of active namespaces has it */
	bool is_unmounted;
};

struct all {
	struct discovery_conf conf;
	struct loop *loop;
	struct list discoveries;
	struct list subsystems;
	unsigned discoveries_count;
	unsigned subsystems_count;
	unsigned exports_count;
	struct ending ending;
	struct flush_round round;
	bool is_ending;
	int status;
};

static const struct host_transport *transport_of(uint8_t trtype)
{
	static const struct host_transport *const transports[] = {&host_tcp, &host_rdma};

	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++)
		if (transports[i]->trtype == trtype)
			return transports[i];
	return NULL;
}

/*
 * Make the options for the controller of a log entry. Returns false if this program does not have
 * the transport, or the address is too long.
 */
static bool entry_take(const struct discovery *discovery, const struct discovery_entry *entry,
	struct nvmf_options *ret_options)
{
	const struct host_transport *transport = transport_of(entry->trtype);
	struct nvmf_options options = *discovery->named;
	size_t traddr_bytes = strlen(entry->traddr) + 1;
	size_t trsvcid_bytes = strlen(entry->trsvcid) + 1;

	if (!transport || traddr_bytes > sizeof(options.traddr) ||
		trsvcid_bytes > sizeof(options.trsvcid))
		return false;
	options.transport = transport;
	memcpy(options.traddr, entry->traddr, traddr_bytes);
	memcpy(options.trsvcid, entry->trsvcid, trsvcid_bytes);
	memcpy(options.nqn, entry->subnqn, sizeof(options.nqn));
	*ret_options = options;
	return true;
}

static bool is_same_place(const struct nvmf_options *left, const struct nvmf_options *right)
{
	return left->transport == right->transport && !strcmp(left->traddr, right->traddr) &&
		!strcmp(left->trsvcid, right->trsvcid);
}

/* Exports. */

static void export_unmounted(void *context)
{
	struct exported *exported = context;

	exported->is_unmounted = true;
}

static void export_flush(struct all *all, struct exported *exported)
{
	served_stop(&exported->served);
	flush_begin(&exported->flush, &all->round, &exported->session);
}

static int export_close(struct exported *exported)
{
	int status =
		flush_end(&exported->flush, &exported->session, exported->served.settings.subnqn);

	session_close(&exported->session);
	served_close(&exported->served);
	list_remove(&exported->node);
	free(exported);
	return status;
}

static bool path_make(char *path, const char *directory, const struct subsystem *subsystem,
	uint32_t nsid, const char *suffix)
{
	int length = snprintf(path, PATH_BYTES, "%s/nvme%un%" PRIu32 "%s", directory,
		subsystem->number, nsid, suffix);

	return length < PATH_BYTES;
}

/*
 * Connect a namespace and export it. Returns false, after a sentence on standard error, if it could
 * not be connected: the caller tries again later. Other failures print a sentence and return true,
 * because another attempt would fail, too.
 */
static bool export_open(struct subsystem *subsystem, uint32_t nsid)
{
	struct all *all = subsystem->all;
	struct nvmf_options options = subsystem->options;
	struct exported *exported = calloc(1, sizeof(*exported));
	struct served_settings settings = {.number = all->exports_count,
		.name = options.name,
		.subnqn = subsystem->options.nqn,
		.unmounted = export_unmounted,
		.context = exported};
	bool is_connected = true;

	if (!exported) {
		complain("no memory");
		return true;
	}
	exported->nsid = options.nsid = nsid;
	exported->is_offered = true;
	if ((options.nbd && !path_make(exported->nbd, options.nbd, subsystem, nsid, ".nbd")) ||
		(options.fuse && !path_make(exported->fuse, options.fuse, subsystem, nsid, "")))
		complain("the name of the directory is too long");
	else if ((is_connected = session_open(&exported->session, all->loop, &options, options.nqn,
					 true) == 0)) {
		settings.nbd = options.nbd ? exported->nbd : NULL;
		settings.fuse = options.fuse ? exported->fuse : NULL;
		exported->session.reports = false; /* the subsystem's session prints the reports */
		if (served_open(&exported->served, &exported->session, &settings) == 0) {
			all->exports_count++;
			list_append(&subsystem->exports, &exported->node);
			return true;
		}
		session_close(&exported->session);
	}
	free(exported);
	return is_connected;
}

/* Namespaces: begin exports of new ones, end exports of removed ones. */

static struct exported *export_find(const struct subsystem *subsystem, uint32_t nsid)
{
	list_for_each(exported, &subsystem->exports, struct exported, node)
		if (exported->nsid == nsid)
			return exported;
	return NULL;
}

/*
 * End the exports of removed namespaces. If a program still uses the file, the mount stays, and the
 * program's reads and writes fail.
 */
static void exports_drop(struct subsystem *subsystem)
{
	list_for_each_safe(exported, &subsystem->exports, struct exported, node) {
		if (exported->is_offered)
			continue;
		if (!exported->served.file || exported->is_unmounted)
			(void)export_close(exported);
		else
			fuse_file_unmount(exported->served.file);
	}
}

/*
 * Read the log page of changed namespaces. The controller announces the next change only after this
 * page was read.
 */
static int changes_read(struct subsystem *subsystem)
{
	static uint8_t page[LOG_BYTES];
	struct host_request request = {.is_repeatable = true};
	const uint8_t *identity = host_controller_identity(subsystem->session.controller);

	if (!(le32_get(identity + ID_OAES) & OAES_NAMESPACES))
		return 0;
	host_sqe_init(&request.command, NVME_ADMIN_GET_LOG_PAGE, UINT32_MAX);
	host_sqe_dword(&request.command, 10, LOG_CHANGED_NAMESPACES | (sizeof(page) / 4 - 1) << 16);
	host_sqe_data(&request.command, HOST_FROM_CONTROLLER, page, sizeof(page));
	return session_admin(&subsystem->session, &request, "Reading the changed namespaces");
}

static void retry_expired(struct loop_timer *timer)
{
	container_of(timer, struct subsystem, retry)->session.has_changed = true;
}

static void retry_set(struct subsystem *subsystem, bool is_complete)
{
	struct loop *loop = subsystem->all->loop;

	loop_timer_cancel(&subsystem->retry);
	if (is_complete)
		subsystem->retries = 0;
	else if (subsystem->retries < RETRIES_MAX)
		loop_timer_set(loop, &subsystem->retry,
			loop_now_ns(loop) + (RETRY_NS << subsystem->retries++));
}

static void namespaces_refresh(struct subsystem *subsystem)
{
	static uint8_t list[HOST_IDENTIFY_BYTES];
	struct host_request request = {.is_repeatable = true};
	bool is_complete = true;

	subsystem->session.has_changed = false;
	if (changes_read(subsystem))
		return;
	host_sqe_init(&request.command, NVME_ADMIN_IDENTIFY, 0);
	host_sqe_dword(&request.command, 10, CNS_ACTIVE_LIST);
	host_sqe_data(&request.command, HOST_FROM_CONTROLLER, list, sizeof(list));
	if (session_admin(&subsystem->session, &request, "Listing the namespaces"))
		return;
	list_for_each(exported, &subsystem->exports, struct exported, node)
		exported->is_offered = false;
	for (size_t i = 0; i < sizeof(list) / 4 && le32_get(list + 4 * i); i++) {
		uint32_t nsid = le32_get(list + 4 * i);
		struct exported *exported = export_find(subsystem, nsid);

		if (exported)
			exported->is_offered = true;
		else if (!subsystem->all->is_ending)
			is_complete &= export_open(subsystem, nsid);
	}
	exports_drop(subsystem);
	retry_set(subsystem, is_complete);
}

/* Subsystems. */

static bool is_connected(const struct all *all, const char *nqn)
{
	list_for_each(subsystem, &all->subsystems, struct subsystem, node)
		if (!strcmp(subsystem->options.nqn, nqn))
			return true;
	return false;
}

static void subsystem_open(struct all *all, const struct nvmf_options *options)
{
	struct subsystem *subsystem;

	if (is_connected(all, options->nqn) || all->subsystems_count == SUBSYSTEMS_MAX)
		return;
	subsystem = calloc(1, sizeof(*subsystem));
	if (!subsystem) {
		complain("no memory");
		return;
	}
	subsystem->all = all;
	subsystem->number = all->subsystems_count;
	subsystem->options = *options;
	list_init(&subsystem->exports);
	loop_timer_init(&subsystem->retry, retry_expired);
	if (session_open(&subsystem->session, all->loop, options, options->nqn, false)) {
		complain("'%s' is not connected by %s at %s port %s", options->nqn,
			options->transport->name, options->traddr, options->trsvcid);
		free(subsystem);
		return;
	}
	snprintf(subsystem->session.label, sizeof(subsystem->session.label),
		"nvme%u: ", subsystem->number);
	all->subsystems_count++;
	list_append(&all->subsystems, &subsystem->node);
	namespaces_refresh(subsystem);
}

static void subsystem_close(struct subsystem *subsystem)
{
	list_for_each_safe(exported, &subsystem->exports, struct exported, node)
		subsystem->all->status |= export_close(exported);
	loop_timer_cancel(&subsystem->retry);
	session_close(&subsystem->session);
	list_remove(&subsystem->node);
	free(subsystem);
}

/* Discovery controllers. */

static void discovery_add(
	struct all *all, const struct nvmf_options *named, struct nvmf_options options)
{
	struct discovery *discovery;

	if (!options.trsvcid[0])
		strcpy(options.trsvcid, "8009");
	list_for_each(other, &all->discoveries, struct discovery, node)
		if (is_same_place(&other->options, &options))
			return;
	if (all->discoveries_count == DISCOVERIES_MAX) {
		complain("there are more than %d discovery controllers, with referrals; the rest "
			 "is left out",
			DISCOVERIES_MAX);
		return;
	}
	discovery = calloc(1, sizeof(*discovery));
	if (!discovery) {
		complain("no memory");
		return;
	}
	discovery->named = named;
	discovery->options = options;
	all->discoveries_count++;
	list_append(&all->discoveries, &discovery->node);
}

static void entries_connect(
	struct all *all, const struct discovery *discovery, const struct discovery_log *log)
{
	const struct nvmf_options *named = discovery->named;
	struct nvmf_options options;

	for (uint64_t i = 0; i < log->count && !all->is_ending; i++) {
		const struct discovery_entry *entry = &log->entries[i];

		if (!entry_take(discovery, entry, &options))
			continue;
		if (entry->subtype == DISCOVERY_REFERRAL)
			discovery_add(all, named, options);
		else if (entry->subtype == DISCOVERY_NVM &&
			(!named->is_matching || !strcmp(options.traddr, named->traddr)))
			subsystem_open(all, &options);
	}
}

/*
 * Read the log page, and connect the subsystems in it that are not connected yet. Returns 0, or 1
 * after a sentence on standard error.
 */
static int discovery_read(struct all *all, struct discovery *discovery)
{
	struct discovery_log log = {.entries = NULL};
	bool is_persistent = discovery->named->is_persistent;
	int status;

	if (!discovery->is_open &&
		discovery_open(&discovery->session, all->loop, &discovery->options, is_persistent))
		return complain("the discovery controller by %s at %s port %s is left out",
			discovery->options.transport->name, discovery->options.traddr,
			discovery->options.trsvcid);
	discovery->is_open = true;
	discovery->session.has_changed = false;
	status = discovery_log_read(&discovery->session, &log);
	if (!is_persistent) {
		session_close(&discovery->session);
		discovery->is_open = false;
	}
	if (status == 0)
		entries_connect(all, discovery, &log);
	free(log.entries);
	return status;
}

static void discovery_close(struct discovery *discovery)
{
	if (discovery->is_open)
		session_close(&discovery->session);
	list_remove(&discovery->node);
	free(discovery);
}

/*
 * Is a mark set that all_step() has not seen? While all_step() connected, callbacks may have set
 * marks of objects that all_step() had passed already.
 */
static bool has_work(const struct all *all)
{
	list_for_each(discovery, &all->discoveries, struct discovery, node)
		if (discovery->is_open && discovery->session.has_changed)
			return true;
	list_for_each(subsystem, &all->subsystems, struct subsystem, node) {
		if (subsystem->session.has_changed)
			return true;
		list_for_each(exported, &subsystem->exports, struct exported, node)
			if (exported->is_unmounted)
				return true;
	}
	return false;
}

/*
 * The file is unmounted: flush the namespace, and end the export. A namespace that was removed
 * cannot be flushed.
 */
static void export_end(struct all *all, struct exported *exported)
{
	if (exported->is_offered) {
		flush_round_init(&all->round, all->loop);
		export_flush(all, exported);
		flush_round_wait(&all->round);
	}
	all->status |= export_close(exported);
}

/* Handle all has_changed and is_unmounted marks. Returns whether no file is mounted any more. */
static bool all_step(struct all *all)
{
	bool is_mounted = false;

	list_for_each(discovery, &all->discoveries, struct discovery, node)
		if (discovery->is_open && discovery->session.has_changed && !all->is_ending)
			discovery_read(all, discovery);
	list_for_each(subsystem, &all->subsystems, struct subsystem, node) {
		if (subsystem->session.has_changed && !all->is_ending)
			namespaces_refresh(subsystem);
		list_for_each_safe(exported, &subsystem->exports, struct exported, node) {
			if (exported->is_unmounted && !all->is_ending)
				export_end(all, exported);
			else
				is_mounted |= exported->served.file && !exported->is_unmounted;
		}
	}
	return !is_mounted;
}

/*
 * A signal has come: unmount all files. A file that fusermount3 does not unmount, as after a second
 * signal, counts as unmounted, so that the loop ends; subsystem_close() then unmounts it by force.
 */
static void all_ended(struct ending *ending)
{
	struct all *all = container_of(ending, struct all, ending);

	/* After a second signal, do not wait for flushes either. */
	if (all->is_ending)
		flush_round_stop(&all->round);
	all->is_ending = true;
	list_for_each(subsystem, &all->subsystems, struct subsystem, node)
		list_for_each(exported, &subsystem->exports, struct exported, node)
			if (exported->served.file && !fuse_file_unmount(exported->served.file))
				exported->is_unmounted = true;
}

static int all_connect(struct all *all)
{
	bool is_any_read = false, is_persistent = false;

	for (size_t i = 0; i < all->conf.count; i++) {
		discovery_add(all, &all->conf.items[i], all->conf.items[i]);
		is_persistent |= all->conf.items[i].is_persistent;
	}
	/* discovery_read() appends referrals to this list during the iteration. */
	for (struct list *node = all->discoveries.next; node != &all->discoveries;
		node = node->next) {
		struct discovery *discovery = container_of(node, struct discovery, node);

		is_any_read |= discovery_read(all, discovery) == 0;
	}
	if (!is_any_read)
		return 1;
	if (all->subsystems_count == 0 && !is_persistent)
		return complain("no subsystem was connected; see what is offered with: "
				"urnic-nvmf discover");
	return 0;
}

static int directory_make(const char *path)
{
	struct stat stat_now;

	if (!path || mkdir(path, 0700) == 0)
		return 0;
	if (stat(path, &stat_now) == 0 && S_ISDIR(stat_now.st_mode))
		return 0;
	return complain("'%s' is to be a directory, but: %s; choose another one", path,
		strerror(errno == EEXIST ? ENOTDIR : errno));
}

static void all_close(struct all *all)
{
	flush_round_init(&all->round, all->loop);
	list_for_each(subsystem, &all->subsystems, struct subsystem, node)
		list_for_each(exported, &subsystem->exports, struct exported, node)
			export_flush(all, exported);
	flush_round_wait(&all->round);
	list_for_each_safe(subsystem, &all->subsystems, struct subsystem, node)
		subsystem_close(subsystem);
	list_for_each_safe(discovery, &all->discoveries, struct discovery, node)
		discovery_close(discovery);
	ending_unwatch(&all->ending, all->loop);
	loop_destroy(all->loop);
	discovery_conf_done(&all->conf);
}

int command_connect_all(const struct nvmf_options *options)
{
	struct all all = {.status = 0};
	int error;
	int status;

	if (!options->nbd && !options->fuse)
		return complain("export as what? give --nbd DIRECTORY or --fuse DIRECTORY");
	if (directory_make(options->nbd) || directory_make(options->fuse) ||
		discovery_conf_read(options, &all.conf))
		return 1;
	list_init(&all.discoveries);
	list_init(&all.subsystems);
	error = loop_create(&all.loop);
	if (error) {
		discovery_conf_done(&all.conf);
		return complain("cannot start: %s", strerror(-error));
	}
	status = ending_watch(&all.ending, all.loop, all_ended);
	if (status == 0)
		status = all_connect(&all);
	if (status == 0) {
		printf("ready\n");
		fflush(stdout);
		while (!all_step(&all) || !all.is_ending)
			loop_step(all.loop, has_work(&all) && !all.is_ending ? 0 : UINT64_MAX);
	}
	all_close(&all);
	return status | all.status;
}
