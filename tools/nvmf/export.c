/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export: a remote namespace for programs that know NBD, or as a file (FUSE).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "exports.h"
#include "fuse_file.h"
#include "nvmf.h"
#include "nvmf/host/nbd_server.h"

/* SIGINT and SIGTERM end the export. */
struct ending {
	struct loop_watch watch;
	struct loop *loop;
	struct fuse_file *file; /* unmounted first, or NULL */
};

static void signal_ready(struct loop_watch *watch, uint32_t events)
{
	struct ending *ending = container_of(watch, struct ending, watch);

	struct signalfd_siginfo info;
	ssize_t got = read(watch->fd, &info, sizeof(info));

	(void)got;
	(void)events;
	/* The kernel writes what it has, and the end of the mount stops the loop. */
	if (!ending->file || !fuse_file_unmount(ending->file))
		loop_stop(ending->loop);
}

static int signals_watch(struct ending *ending, struct loop *loop)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	*ending = (struct ending){.watch.ready = signal_ready, .loop = loop};
	return fd < 0 ? -errno : loop_watch(loop, &ending->watch, fd, EPOLLIN);
}

static int serve_nbd(const struct nvmf_options *options, struct session *session,
	struct nbd_export *export, struct nbd_server **ret_server)
{
	char text[NVMF_TEXT_BYTES];
	int error;
	int fd = nbd_listen(options->nbd, text, sizeof(text));

	if (fd < 0) {
		fprintf(stderr, "%s\n", text);
		return 1;
	}
	*export = (struct nbd_export){.name = options->name,
		.description = options->nqn,
		.device = remote_device(session->remote)};
	error = nbd_server_create(session->loop, export, fd, NULL, NULL, ret_server);
	return error ? complain("cannot serve NBD: %s", strerror(-error)) : 0;
}

static int export_open(const struct nvmf_options *options, struct session *session)
{
	struct fuse_file *file = NULL;
	struct nbd_server *server = NULL;
	struct nbd_export export;
	struct ending ending;
	int status = 0;
	int error = signals_watch(&ending, session->loop);

	if (error)
		return complain("cannot wait for signals: %s", strerror(-error));
	if (options->is_read_only)
		remote_device(session->remote)->is_read_only = true;
	if (options->nbd)
		status = serve_nbd(options, session, &export, &server);
	if (status == 0 && options->fuse)
		status = fuse_file_create(
			session->loop, remote_device(session->remote), options->fuse, &file);
	if (status == 0) {
		exports_add(options, session);
		printf("%s%s%s%s%s\n", options->nbd ? "nbd " : "", options->nbd ? options->nbd : "",
			options->nbd && options->fuse ? " " : "", options->fuse ? "fuse " : "",
			options->fuse ? options->fuse : "");
		fflush(stdout);
		ending.file = file;
		loop_run(session->loop);
		exports_remove();
	}
	fuse_file_destroy(file);
	nbd_server_destroy(server);
	if (server && options->nbd[0] == '/')
		unlink(options->nbd);
	loop_unwatch(session->loop, &ending.watch);
	return status;
}

int command_export(const struct nvmf_options *options)
{
	struct session session;
	int status;

	if (!options->nbd && !options->fuse)
		return complain("export as what? give --nbd SOCKET or --fuse FILE");
	if (session_open(&session, options, options->nqn, true))
		return 1;
	status = export_open(options, &session);
	session_close(&session);
	return status;
}
