/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/serve/served.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "nvmf/serve/exports.h"

static int nbd_serve(struct served *served, const struct session *session)
{
	char text[NVMF_TEXT_BYTES];
	int error;
	int fd = nbd_listen(served->settings.nbd, text, sizeof(text));

	if (fd < 0) {
		fprintf(stderr, "%s\n", text);
		return 1;
	}
	served->export = (struct nbd_export){.name = served->settings.name,
		.description = served->settings.subnqn,
		.device = remote_device(session->remote)};
	error = nbd_server_create(session->loop, &served->export, fd, NULL, NULL, &served->server);
	return error ? complain("cannot serve NBD: %s", strerror(-error)) : 0;
}

int served_open(struct served *served, const struct session *session,
	const struct served_settings *settings)
{
	const char *nbd = settings->nbd, *fuse = settings->fuse;

	*served = (struct served){.settings = *settings};
	if ((nbd && nbd_serve(served, session)) ||
		(fuse &&
			fuse_file_create(session->loop, remote_device(session->remote), fuse,
				settings->unmounted, settings->context, &served->file))) {
		served_close(served);
		return 1;
	}
	served->list_fd =
		exports_add(settings->number, nbd ? nbd : fuse, settings->subnqn, session);
	served->is_listed = true;
	printf("%s%s%s%s%s\n", nbd ? "nbd " : "", nbd ? nbd : "", nbd && fuse ? " " : "",
		fuse ? "fuse " : "", fuse ? fuse : "");
	fflush(stdout);
	return 0;
}

void served_stop(struct served *served)
{
	if (served->is_listed)
		exports_remove(served->settings.number, served->list_fd);
	served->is_listed = false;
	if (served->file)
		fuse_file_stop(served->file);
	nbd_server_destroy(served->server);
	if (served->server && strchr(served->settings.nbd, '/'))
		unlink(served->settings.nbd);
	served->server = NULL;
}

void served_close(struct served *served)
{
	served_stop(served);
	fuse_file_destroy(served->file);
	*served = (struct served){.file = NULL};
}

static void signal_ready(struct loop_watch *watch, uint32_t events)
{
	struct ending *ending = container_of(watch, struct ending, watch);
	struct signalfd_siginfo info;
	ssize_t got = read(watch->fd, &info, sizeof(info));

	(void)got;
	(void)events;
	ending->ended(ending);
}

int ending_watch(struct ending *ending, struct loop *loop, void (*ended)(struct ending *ending))
{
	sigset_t set;
	int error;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	*ending = (struct ending){.watch.ready = signal_ready, .ended = ended};
	error = fd < 0 ? -errno : loop_watch(loop, &ending->watch, fd, EPOLLIN);
	return error ? complain("cannot wait for signals: %s", strerror(-error)) : 0;
}

void ending_unwatch(struct ending *ending, struct loop *loop)
{
	int fd = ending->watch.fd;

	if (!ending->watch.events)
		return;
	loop_unwatch(loop, &ending->watch);
	close(fd);
}
