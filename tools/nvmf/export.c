/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export: a remote namespace for programs that know NBD, or as a file (FUSE).
 */
#include "served.h"

struct exporter {
	struct session session;
	struct served served;
	struct ending ending;
};

static void export_unmounted(void *context)
{
	struct exporter *exporter = context;

	loop_stop(exporter->session.loop);
}

/* The kernel writes what it has, and the end of the mount stops the loop. */
static void export_ended(struct ending *ending)
{
	struct exporter *exporter = container_of(ending, struct exporter, ending);

	if (!exporter->served.file || !fuse_file_unmount(exporter->served.file))
		loop_stop(exporter->session.loop);
}

static int export_run(struct exporter *exporter, const struct nvmf_options *options)
{
	const struct served_settings settings = {
		.nbd = options->nbd,
		.fuse = options->fuse,
		.name = options->name,
		.subnqn = options->nqn,
		.is_read_only = options->is_read_only,
		.unmounted = export_unmounted,
		.context = exporter,
	};
	struct loop *loop = exporter->session.loop;
	int status = ending_watch(&exporter->ending, loop, export_ended);

	if (status == 0)
		status = served_open(&exporter->served, &exporter->session, &settings);
	if (status == 0)
		loop_run(loop);
	served_close(&exporter->served);
	ending_unwatch(&exporter->ending, loop);
	return status;
}

int command_export(const struct nvmf_options *options)
{
	struct exporter exporter = {.served = {.file = NULL}};
	int status;

	if (!options->nbd && !options->fuse)
		return complain("export as what? give --nbd SOCKET or --fuse FILE");
	if (session_open(&exporter.session, NULL, options, options->nqn, true))
		return 1;
	status = export_run(&exporter, options);
	session_close(&exporter.session);
	return status;
}
