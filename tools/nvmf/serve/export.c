/* SPDX-License-Identifier: BSD-2-Clause */
/* export: serves a remote namespace to NBD clients, as a file (FUSE), or both. */
#include "nvmf/serve/flush.h"
#include "nvmf/serve/served.h"

struct exporter {
	struct session session;
	struct served served;
	struct flush flush;
	struct flush_round round;
	struct ending ending;
};

static void export_unmounted(void *context)
{
	struct exporter *exporter = context;

	loop_stop(exporter->session.loop);
}

/*
 * A signal has come. If there is a file, unmount it first: the kernel writes its dirty pages, then
 * export_unmounted() stops the loop. A second signal also ends the wait for the flush.
 */
static void export_ended(struct ending *ending)
{
	struct exporter *exporter = container_of(ending, struct exporter, ending);

	if (exporter->round.is_waiting)
		flush_round_stop(&exporter->round);
	else if (!exporter->served.file || !fuse_file_unmount(exporter->served.file))
		loop_stop(exporter->session.loop);
}

static int export_flush(struct exporter *exporter, const struct nvmf_options *options)
{
	flush_begin(&exporter->flush, &exporter->round, &exporter->session);
	flush_round_wait(&exporter->round);
	return flush_end(&exporter->flush, &exporter->session, options->nqn);
}

static int export_run(struct exporter *exporter, const struct nvmf_options *options)
{
	const struct served_settings settings = {
		.nbd = options->nbd,
		.fuse = options->fuse,
		.name = options->name,
		.subnqn = options->nqn,
		.unmounted = export_unmounted,
		.context = exporter,
	};
	struct loop *loop = exporter->session.loop;
	int status = ending_watch(&exporter->ending, loop, export_ended);

	flush_round_init(&exporter->round, loop);
	if (status == 0)
		status = served_open(&exporter->served, &exporter->session, &settings);
	if (status == 0)
		loop_run(loop);
	served_stop(&exporter->served);
	status |= export_flush(exporter, options);
	ending_unwatch(&exporter->ending, loop);
	return status;
}

int command_export(const struct nvmf_options *options)
{
	struct exporter exporter = {.flush = {.error = 0}};
	int status;

	if (!options->nbd && !options->fuse)
		return complain("export as what? give --nbd SOCKET or --fuse FILE");
	if (session_open(&exporter.session, NULL, options, options->nqn, true))
		return 1;
	status = export_run(&exporter, options);
	session_close(&exporter.session);
	served_close(&exporter.served);
	return status;
}
