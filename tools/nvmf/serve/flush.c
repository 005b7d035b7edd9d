/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/serve/flush.h"

#include <string.h>

#define LIMIT_NS (FLUSH_SECONDS * 1000000000ull)

static void limit_expired(struct loop_timer *timer)
{
	flush_round_stop(container_of(timer, struct flush_round, limit));
}

void flush_round_init(struct flush_round *round, struct loop *loop)
{
	*round = (struct flush_round){.loop = loop};
	loop_timer_init(&round->limit, limit_expired);
}

static void flush_done(struct block_request *request, int error)
{
	struct flush *flush = container_of(request, struct flush, request);

	flush->is_pending = false;
	flush->error = error;
	flush->round->pending--;
}

void flush_begin(struct flush *flush, struct flush_round *round, const struct session *session)
{
	struct block_device *device = remote_device(session->remote);

	if (!device->was_written || !device->has_write_cache)
		return;
	flush->round = round;
	flush->request = (struct block_request){.op = BLOCK_FLUSH, .done = flush_done};
	flush->is_pending = true;
	round->pending++;
	block_submit(device, &flush->request);
}

void flush_round_wait(struct flush_round *round)
{
	round->is_waiting = true;
	loop_timer_set(round->loop, &round->limit, loop_now_ns(round->loop) + LIMIT_NS);
	while (round->pending > 0 && !round->is_stopped)
		loop_step(round->loop, UINT64_MAX);
	loop_timer_cancel(&round->limit);
	round->is_waiting = false;
}

void flush_round_stop(struct flush_round *round)
{
	round->is_stopped = round->is_waiting;
}

int flush_end(const struct flush *flush, const struct session *session, const char *subnqn)
{
	const char *reason = "the target does not answer";

	if (!flush->is_pending && !flush->error)
		return 0;
	if (host_controller_state(session->controller) != HOST_LIVE)
		reason = host_controller_reason(session->controller);
	else if (flush->error)
		reason = strerror(-flush->error);
	return complain("namespace %u of '%s' was not flushed, so its last writes may be lost: %s",
		remote_nsid(session->remote), subnqn, reason);
}
