/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "cm/cm.h"
#include "support/permutation.h"
#include "support/sim_random.h"

#define SECOND_NS 1000000000u

enum {
	CONNS = 6,
	BACKLOG = 3,
	FRAMES = 512,
	ENDS = 2,
	ACTIVE = 0, /* the end that connects */
	PASSIVE = 1,
};

/* The longest that a request can go unanswered, and the longest that the rest can take. */
#define WAIT_BUDGET_NS (400ull * SECOND_NS)

static const uint64_t service_id = 0x01061234;

/* What the seed wants of one connection. */
struct plan {
	uint64_t start_ns;
	uint64_t think_ns[ENDS]; /* before a program answers */
	uint64_t talk_ns; /* connected */
	bool is_enquiry; /* after a service's queue pair (SIDR), not a connection */
	bool is_refused; /* by the passive side */
	bool is_refused_late; /* by the active side, after the REP */
	bool disconnects[ENDS]; /* at least one does */
	bool lets_go[ENDS]; /* instead of disconnecting: cm_release() */
};

/* One side of one connection, as its program sees it. */
struct side {
	struct cm_conn conn;
	struct world *world;
	unsigned end;
	unsigned plan; /* which */
	bool is_used;
	bool is_released;
	bool is_gone; /* CM_EVENT_RELEASED has come */
	bool has_rep, is_established, is_disconnected, has_timewait_exit;
	bool is_timed_out;
	bool is_dreq_unanswered; /* all of our DREQs, or of their answers, were lost */
	uint16_t reject_reason; /* 0: none */
	uint64_t act_ns; /* when the program does what it does next; DEADLINE_NEVER: nothing */
	enum act { ACT_CONNECT, ACT_ANSWER, ACT_HANG_UP, ACT_ANSWER_DREQ, ACT_RELEASE } act;
};

struct frame {
	uint64_t at_ns;
	unsigned to;
	bool is_used;
	uint8_t packet[GSI_PACKET_BYTES];
};

struct world {
	uint64_t seed;
	bool is_traced;
	struct sim_random random;
	uint64_t now_ns;
	uint32_t loss_ppm;
	uint32_t duplicate_ppm;
	uint64_t delay_max_ns;
	struct cm cm[ENDS];
	bool is_dead[ENDS];
	uint64_t death_ns; /* of the end `victim` */
	unsigned victim;
	struct cm_listener listener;
	struct plan plans[CONNS];
	struct side active[CONNS];
	struct side passive[CONNS + BACKLOG + 64];
	uint32_t passive_count;
	struct frame frames[FRAMES];
	uint64_t sent;
};

static struct gid address_of(unsigned end)
{
	const uint8_t ipv4[4] = {10, 0, 0, (uint8_t)(end + 1)};

	return gid_from_ipv4(ipv4);
}

static struct cm_path path_from(unsigned end)
{
	return (struct cm_path){.local = address_of(end), .remote = address_of(1 - end)};
}

static void fail(const struct world *world, const char *what)
{
	fprintf(stderr, "cm: seed %llu fails at %.3f s: %s\n", (unsigned long long)world->seed,
		(double)world->now_ns / 1e9, what);
	abort();
}

#define DEMAND(world, condition)                   \
	do {                                       \
		if (!(condition))                  \
			fail((world), #condition); \
	} while (0)

static bool has_victim(const struct world *world)
{
	return world->death_ns != DEADLINE_NEVER;
}

/* --- the wire --- */

static void wire_put(struct world *world, unsigned to, const uint8_t packet[GSI_PACKET_BYTES])
{
	if (sim_random_chance(&world->random, world->loss_ppm))
		return;
	for (unsigned i = 0; i < FRAMES; i++) {
		struct frame *frame = &world->frames[i];

		if (frame->is_used)
			continue;
		frame->is_used = true;
		frame->to = to;
		frame->at_ns = world->now_ns + 1000 +
			sim_random_below(&world->random, world->delay_max_ns);
		memcpy(frame->packet, packet, GSI_PACKET_BYTES);
		break;
	}
	if (sim_random_chance(&world->random, world->duplicate_ppm))
		wire_put(world, to, packet);
}

static void side_plan(struct side *side, enum act act, uint64_t delay_ns)
{
	side->act = act;
	side->act_ns = side->world->now_ns + delay_ns;
}

/* --- what the programs do about events --- */

static struct side *spare_create(struct world *world)
{
	struct side *side = &world->passive[world->passive_count++];

	DEMAND(world, world->passive_count <= ARRAY_COUNT(world->passive));
	side->world = world;
	side->end = PASSIVE;
	side->act_ns = DEADLINE_NEVER;
	DEMAND(world, cm_conn_create(&world->cm[PASSIVE], &side->conn, side) == 0);
	cm_listener_add(&world->listener, &side->conn);
	return side;
}

/* The private data says which plan a request belongs to. */
static void on_request(struct side *side, const struct cm_event *event)
{
	bool is_enquiry = event->kind == CM_EVENT_SIDR_REQ;
	struct world *world = side->world;

	DEMAND(world, event->listener == &world->listener && !side->is_used);
	side->is_used = true;
	side->plan = is_enquiry ? event->message.sidr_req.private_data[0]
				: event->message.req.private_data[0];
	DEMAND(world, side->plan < CONNS && world->plans[side->plan].is_enquiry == is_enquiry);
	spare_create(world);
	side_plan(side, ACT_ANSWER, world->plans[side->plan].think_ns[PASSIVE]);
}

static void on_established(struct side *side)
{
	const struct plan *plan = &side->world->plans[side->plan];

	DEMAND(side->world, !side->is_established);
	side->is_established = true;
	if (plan->lets_go[side->end])
		side_plan(side, ACT_RELEASE, plan->talk_ns);
	else if (plan->disconnects[side->end])
		side_plan(side, ACT_HANG_UP, plan->talk_ns);
}

static void on_over(struct side *side)
{
	DEMAND(side->world, !side->is_disconnected);
	side->is_disconnected = true;
	side->act_ns = DEADLINE_NEVER;
}

static void on_event(struct world *world, const struct cm_event *event)
{
	struct side *side = event->conn->user;
	const struct plan *plan = &world->plans[side->plan];

	DEMAND(world, !side->is_gone);
	DEMAND(world, !side->is_released || event->kind == CM_EVENT_RELEASED);
	switch (event->kind) {
	case CM_EVENT_REQ:
	case CM_EVENT_SIDR_REQ:
		on_request(side, event);
		break;
	case CM_EVENT_SIDR_REP:
		DEMAND(world, !side->has_rep && plan->is_enquiry);
		DEMAND(world,
			(event->message.sidr_rep.status == CM_SIDR_REJECTED) == plan->is_refused);
		side->has_rep = true;
		break;
	case CM_EVENT_REP:
		DEMAND(world, !side->has_rep);
		side->has_rep = true;
		side_plan(side, ACT_ANSWER, plan->think_ns[ACTIVE]);
		break;
	case CM_EVENT_ESTABLISHED:
		on_established(side);
		break;
	case CM_EVENT_REJ:
		DEMAND(world, side->reject_reason == 0);
		side->reject_reason = event->message.rej.reason;
		side->act_ns = DEADLINE_NEVER;
		break;
	case CM_EVENT_DREQ:
		on_over(side);
		side_plan(side, ACT_ANSWER_DREQ, plan->think_ns[side->end]);
		break;
	case CM_EVENT_DREP:
	case CM_EVENT_DREQ_TIMEOUT:
		side->is_dreq_unanswered = event->kind == CM_EVENT_DREQ_TIMEOUT;
		on_over(side);
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		DEMAND(world, !side->has_timewait_exit);
		side->has_timewait_exit = true;
		break;
	case CM_EVENT_REQ_TIMEOUT:
	case CM_EVENT_REP_TIMEOUT:
		side->is_timed_out = true;
		side->act_ns = DEADLINE_NEVER;
		break;
	case CM_EVENT_RELEASED:
		DEMAND(world, side->is_released);
		side->is_gone = true;
		break;
	case CM_EVENT_UNREACHABLE:
		fail(world, "an event that nobody asked for");
	}
}

static bool is_visited[CM_STATE_COUNT];

static const char *const state_names[] = {
#define CM_STATE(NAME, rejects, timeout, last, sentence) [CM_STATE_##NAME] = #NAME,
#include "cm/cm_state.def"
#undef CM_STATE
};

static const char *const attribute_names[] = {
#define CM_MESSAGE(NAME, name, attribute) [attribute] = #NAME,
#include "wire/cm/cm_message.def"
};

void cm_history_check_states(void)
{
	for (unsigned state = 0; state < CM_STATE_COUNT; state++) {
		if (is_visited[state])
			continue;
		fprintf(stderr, "cm: no connection was ever in %s\n", state_names[state]);
		abort();
	}
}

static void states_note(const struct world *world)
{
	for (unsigned i = 0; i < CONNS; i++)
		is_visited[world->active[i].conn.state] = true;
	for (uint32_t i = 0; i < world->passive_count; i++)
		is_visited[world->passive[i].conn.state] = true;
}

static void settle(struct world *world, unsigned end)
{
	struct cm *cm = &world->cm[end];
	uint8_t packet[GSI_PACKET_BYTES];
	struct cm_event event;
	struct cm_path path;

	while (cm_next_packet(cm, &path, packet)) {
		struct gid remote = address_of(1 - end);
		struct cm_message message;

		world->sent++;
		DEMAND(world, gid_is_equal(&path.remote, &remote));
		if (world->is_traced && cm_message_decode(&message, packet + 20))
			printf("%9.4f %s %-5s of %08x\n", (double)world->now_ns / 1e9,
				end == ACTIVE ? "->" : "<-", attribute_names[message.attribute],
				message.req.local_comm_id);
		if (!world->is_dead[end])
			wire_put(world, 1 - end, packet);
	}
	while (cm_next_event(cm, &event))
		on_event(world, &event);
	states_note(world);
	cm_check(cm);
}

/* --- what the programs do of their own accord --- */

static void act_answer(struct side *side)
{
	struct world *world = side->world;
	const struct plan *plan = &world->plans[side->plan];
	struct cm *cm = &world->cm[side->end];
	const struct cm_rej rej = {.reason = CM_REJECT_CONSUMER};
	const struct cm_rep rep = {.local_qpn = 0x200 + side->plan};
	const struct cm_sidr_rep found = {
		.status = plan->is_refused ? CM_SIDR_REJECTED : CM_SIDR_SUCCESS};
	bool is_refused = side->end == PASSIVE ? plan->is_refused : plan->is_refused_late;
	int rc;

	if (plan->is_enquiry)
		rc = cm_sidr_answer(cm, &side->conn, &found, world->now_ns);
	else if (is_refused)
		rc = cm_reject(cm, &side->conn, &rej, world->now_ns);
	else if (side->end == PASSIVE)
		rc = cm_accept(cm, &side->conn, &rep, world->now_ns);
	else
		rc = cm_ready(cm, &side->conn, world->now_ns);
	/* The peer may have let go meanwhile, which the program has heard. */
	DEMAND(world, rc == 0);
	if (side->end == ACTIVE && !is_refused)
		on_established(side);
}

static void side_release(struct side *side)
{
	side->is_released = true;
	side->act_ns = DEADLINE_NEVER;
	cm_release(&side->world->cm[side->end], &side->conn, side->world->now_ns);
}

static void side_act(struct side *side)
{
	struct world *world = side->world;
	struct cm *cm = &world->cm[side->end];
	struct cm_path path = path_from(side->end);
	struct cm_req req = {.service_id = service_id,
		.local_qpn = 0x100 + side->plan,
		.private_data = {(uint8_t)side->plan}};
	struct cm_sidr_req enquiry = {
		.service_id = service_id, .private_data = {(uint8_t)side->plan}};
	int rc;

	side->act_ns = DEADLINE_NEVER;
	switch (side->act) {
	case ACT_CONNECT:
		rc = world->plans[side->plan].is_enquiry
			? cm_sidr_request(cm, &side->conn, &path, &enquiry, world->now_ns)
			: cm_connect(cm, &side->conn, &path, &req, world->now_ns);
		DEMAND(world, rc == 0);
		break;
	case ACT_ANSWER:
		act_answer(side);
		break;
	case ACT_HANG_UP:
	case ACT_ANSWER_DREQ:
		DEMAND(world, cm_disconnect(cm, &side->conn, world->now_ns) == 0);
		break;
	case ACT_RELEASE:
		side_release(side);
		break;
	}
	settle(world, side->end);
}

/* --- the history --- */

static void world_begin(struct world *world, uint64_t seed)
{
	struct sim_random *random = &world->random;
	static const uint32_t losses_ppm[] = {0, 20000, 200000};

	memset(world, 0, sizeof(*world));
	world->seed = seed;
	random->state = seed * 0x9e3779b97f4a7c15u + 1;
	world->now_ns = SECOND_NS;
	world->loss_ppm = losses_ppm[seed % 3];
	world->duplicate_ppm = seed % 3 ? 50000 : 0;
	world->delay_max_ns = sim_random_chance(random, 300000) ? SECOND_NS : 1000000;
	world->victim = (unsigned)sim_random_below(random, ENDS);
	world->death_ns = seed / 3 % 3 == 2
		? SECOND_NS + sim_random_below(random, 12ull * SECOND_NS)
		: DEADLINE_NEVER;
	for (unsigned end = 0; end < ENDS; end++)
		cm_init(&world->cm[end], (uint8_t)(end + 1), end + 1, test_permutation(seed),
			sim_random_next(random));
	world->listener = (struct cm_listener){.service_id = service_id};
	cm_listen(&world->cm[PASSIVE], &world->listener);
	for (unsigned i = 0; i < BACKLOG; i++)
		spare_create(world);
	for (unsigned i = 0; i < CONNS; i++) {
		struct plan *plan = &world->plans[i];
		struct side *side = &world->active[i];

		plan->start_ns = sim_random_below(random, 2ull * SECOND_NS);
		for (unsigned end = 0; end < ENDS; end++) {
			plan->think_ns[end] = sim_random_below(random,
				sim_random_chance(random, 200000) ? 20ull * SECOND_NS : 1000000);
			plan->lets_go[end] = sim_random_chance(random, 150000);
			plan->disconnects[end] = sim_random_chance(random, 500000);
		}
		if (!plan->disconnects[ACTIVE] && !plan->disconnects[PASSIVE])
			plan->disconnects[ACTIVE] = true;
		plan->talk_ns = sim_random_below(random, 3ull * SECOND_NS);
		plan->is_refused = sim_random_chance(random, 200000);
		plan->is_refused_late = sim_random_chance(random, 100000);
		plan->is_enquiry = sim_random_chance(random, 150000);
		side->world = world;
		side->end = ACTIVE;
		side->plan = i;
		side->is_used = true;
		DEMAND(world, cm_conn_create(&world->cm[ACTIVE], &side->conn, side) == 0);
		side_plan(side, ACT_CONNECT, plan->start_ns);
	}
}

static struct side *side_at(struct world *world, uint32_t index)
{
	return index < CONNS ? &world->active[index] : &world->passive[index - CONNS];
}

static uint32_t side_count(const struct world *world)
{
	return CONNS + world->passive_count;
}

static uint64_t next_ns(struct world *world)
{
	uint64_t at_ns = DEADLINE_NEVER;

	for (uint32_t i = 0; i < side_count(world); i++)
		if (!world->is_dead[side_at(world, i)->end])
			at_ns = min_u64(at_ns, side_at(world, i)->act_ns);
	for (unsigned i = 0; i < FRAMES; i++)
		if (world->frames[i].is_used)
			at_ns = min_u64(at_ns, world->frames[i].at_ns);
	for (unsigned end = 0; end < ENDS; end++)
		if (!world->is_dead[end])
			at_ns = min_u64(at_ns, cm_deadline_ns(&world->cm[end]));
	if (!world->is_dead[world->victim])
		at_ns = min_u64(at_ns, world->death_ns);
	return at_ns;
}

static void step(struct world *world)
{
	if (world->now_ns >= world->death_ns)
		world->is_dead[world->victim] = true;
	for (unsigned i = 0; i < FRAMES; i++) {
		struct frame *frame = &world->frames[i];
		struct cm_path path = path_from(frame->to);

		if (!frame->is_used || frame->at_ns > world->now_ns)
			continue;
		frame->is_used = false;
		if (world->is_dead[frame->to])
			continue;
		DEMAND(world, gsi_packet_mad(frame->packet, GSI_PACKET_BYTES) != NULL);
		cm_receive(&world->cm[frame->to], &path,
			frame->packet + GSI_PACKET_BYTES - MAD_BYTES, world->now_ns);
		settle(world, frame->to);
	}
	for (unsigned end = 0; end < ENDS; end++)
		while (!world->is_dead[end] && cm_expire(&world->cm[end], world->now_ns))
			settle(world, end);
	for (uint32_t i = 0; i < side_count(world); i++) {
		struct side *side = side_at(world, i);

		if (!world->is_dead[side->end] && side->act_ns <= world->now_ns)
			side_act(side);
	}
}

static void run_until_silence(struct world *world)
{
	uint64_t at_ns;

	while ((at_ns = next_ns(world)) != DEADLINE_NEVER) {
		DEMAND(world, at_ns < WAIT_BUDGET_NS + 2 * SECOND_NS);
		if (at_ns > world->now_ns)
			world->now_ns = at_ns;
		step(world);
	}
}

/* The passive side that a plan led to, or NULL. */
static struct side *passive_of(struct world *world, unsigned plan)
{
	for (uint32_t i = 0; i < world->passive_count; i++)
		if (world->passive[i].is_used && world->passive[i].plan == plan)
			return &world->passive[i];
	return NULL;
}

static bool has_ended(const struct side *side)
{
	return side->is_released || (side->is_disconnected && side->has_timewait_exit);
}

/* Both alive: what was planned has happened. */
static void check_outcome(struct world *world, unsigned index)
{
	const struct plan *plan = &world->plans[index];
	const struct side *active = &world->active[index];
	const struct side *passive = passive_of(world, index);

	if (plan->is_enquiry) {
		DEMAND(world, active->has_rep || (active->is_timed_out && world->loss_ppm > 0));
		return;
	}
	if (plan->is_refused) {
		/* Each REJ that is lost costs one more REQ, and a program that takes its time. */
		DEMAND(world,
			active->reject_reason == CM_REJECT_CONSUMER ||
				(active->is_timed_out && world->loss_ppm > 0));
		DEMAND(world, !active->has_rep);
		return;
	}
	DEMAND(world, !active->is_timed_out);
	DEMAND(world, passive != NULL && active->has_rep);
	if (plan->is_refused_late) {
		DEMAND(world, passive->reject_reason != 0 || passive->is_timed_out);
		DEMAND(world, !passive->is_established);
		return;
	}
	DEMAND(world, active->is_established && active->reject_reason == 0);
	DEMAND(world, passive->is_established || passive->is_disconnected);
	DEMAND(world, has_ended(active) || (passive->is_dreq_unanswered && world->loss_ppm > 0));
	DEMAND(world, has_ended(passive) || (active->is_dreq_unanswered && world->loss_ppm > 0));
}

/* The other end has died: each program that lives has heard how each of its connections ended. */
static void check_survivor(struct world *world, const struct side *side)
{
	bool has_heard = side->is_released || side->is_timed_out || side->reject_reason != 0 ||
		side->is_disconnected;
	const struct plan *plan = &world->plans[side->plan];

	if (plan->is_enquiry) {
		DEMAND(world, side->end == PASSIVE || side->has_rep || side->is_timed_out);
		return;
	}
	/*
	 * A connection without a plan to disconnect sends nothing and stays established; only its
	 * queue pair could notice the peer's end.
	 */
	if (side->is_established && !plan->disconnects[side->end] && !plan->lets_go[side->end])
		return;
	if (side->end == PASSIVE && plan->is_refused)
		return;
	if (side->end == ACTIVE && plan->is_refused_late && side->has_rep)
		return;
	DEMAND(world, has_heard);
}

static void clean_up(struct world *world)
{
	struct cm_conn *spare;

	while ((spare = cm_listener_take(&world->listener)))
		side_release(spare->user);
	cm_unlisten(&world->listener);
	for (uint32_t i = 0; i < side_count(world); i++) {
		struct side *side = side_at(world, i);

		if (!side->is_released)
			side_release(side);
		world->cm[side->end].outbox_count = 0;
		settle(world, side->end);
	}
	world->is_dead[ACTIVE] = world->is_dead[PASSIVE] = false;
	world->death_ns = DEADLINE_NEVER;
	run_until_silence(world);
	for (uint32_t i = 0; i < side_count(world); i++)
		DEMAND(world, side_at(world, i)->is_gone);
	for (unsigned end = 0; end < ENDS; end++)
		cm_done(&world->cm[end]);
}

uint64_t cm_history_run(uint64_t seed, bool is_traced)
{
	static struct world world;

	world_begin(&world, seed);
	world.is_traced = is_traced;
	run_until_silence(&world);
	for (unsigned i = 0; i < CONNS && !has_victim(&world); i++)
		check_outcome(&world, i);
	for (uint32_t i = 0; i < side_count(&world); i++)
		if (has_victim(&world) && side_at(&world, i)->is_used &&
			!world.is_dead[side_at(&world, i)->end])
			check_survivor(&world, side_at(&world, i));
	clean_up(&world);
	return world.sent;
}
