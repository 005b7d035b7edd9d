/* SPDX-License-Identifier: BSD-2-Clause */
/* The faults of the simulated network of byte streams. */
#include "nvmf_network_internal.h"

/* A stream that is open at both ends. */
static struct stream *stream_choose(struct nvmf_network *network, unsigned host)
{
	struct stream *chosen = NULL;
	unsigned count = 0;

	list_for_each(stream, &network->streams, struct stream, node) {
		if (stream->end[0].state != END_OPEN || stream->end[1].state != END_OPEN ||
			stream->end[0].error || stream->end[1].error)
			continue;
		if (host != NVMF_HOSTS && stream_host(stream) != host)
			continue;
		if (nvmf_below(network->world, ++count) == 0)
			chosen = stream;
	}
	return chosen;
}

bool nvmf_network_reset(struct nvmf_network *network)
{
	struct stream *stream = stream_choose(network, NVMF_HOSTS);

	if (!stream)
		return false;
	pipe_reset(&stream->pipe[0]);
	pipe_reset(&stream->pipe[1]);
	return true;
}

bool nvmf_network_reset_half(struct nvmf_network *network)
{
	struct stream *stream = stream_choose(network, NVMF_HOSTS);

	if (!stream)
		return false;
	end_reset_arrived(&stream->end[nvmf_below(network->world, 2)]);
	network->counts.resets++;
	return true;
}

bool nvmf_network_end_half(struct nvmf_network *network)
{
	struct stream *stream = stream_choose(network, NVMF_HOSTS);

	if (!stream)
		return false;
	pipe_end(&stream->pipe[nvmf_below(network->world, 2)]);
	return true;
}

bool nvmf_network_stall(struct nvmf_network *network, uint64_t stall_ns)
{
	struct stream *stream = stream_choose(network, NVMF_HOSTS);
	uint64_t which = nvmf_between(network->world, 1, 3);

	if (!stream)
		return false;
	for (unsigned i = 0; i < 2; i++)
		if (which & 1u << i)
			stream->pipe[i].stalled_until_ns = network->world->now_ns + stall_ns;
	return true;
}

bool nvmf_network_invert(struct nvmf_network *network, unsigned host)
{
	struct stream *stream = stream_choose(network, host);

	if (!stream)
		return false;
	stream->pipe[nvmf_below(network->world, 2)].bits_to_invert =
		(unsigned)nvmf_between(network->world, 1, 3);
	return true;
}

void nvmf_network_cut(struct nvmf_network *network, unsigned host, uint64_t cut_ns)
{
	network->cut_until_ns[host] = network->world->now_ns + cut_ns;
}

void nvmf_network_starve(struct nvmf_network *network, unsigned count)
{
	network->starved = count;
}

void nvmf_network_crash(struct nvmf_network *network, unsigned machine, bool has_reset)
{
	list_for_each(stream, &network->streams, struct stream, node) {
		for (unsigned i = 0; i < 2; i++) {
			struct end *end = &stream->end[i];

			if (end->machine != machine || end->state == END_GONE)
				continue;
			loop_timer_cancel(&stream->pipe[i].timer);
			if (has_reset && end->state == END_OPEN && !end->error)
				pipe_reset(&stream->pipe[i]);
			else
				stream->pipe[i].written = stream->pipe[i].arrived;
			stream->pipe[i].is_dead = true;
			/* Its program still closes it, and the close sends nothing. */
			if (end->state != END_BACKLOG)
				end->error = ECONNABORTED;
		}
	}
}

void nvmf_network_set_down(struct nvmf_network *network, unsigned machine, bool is_down)
{
	network->machine[machine].is_down = is_down;
}

void nvmf_network_heal(struct nvmf_network *network)
{
	memset(network->cut_until_ns, 0, sizeof(network->cut_until_ns));
	network->starved = 0;
	list_for_each(stream, &network->streams, struct stream, node) {
		for (unsigned i = 0; i < 2; i++) {
			struct pipe *pipe = &stream->pipe[i];

			pipe->stalled_until_ns = 0;
			pipe->bits_to_invert = 0;
			if (list_is_linked(&pipe->timer.node)) {
				loop_timer_cancel(&pipe->timer);
				pipe_schedule(pipe);
			}
		}
	}
}
