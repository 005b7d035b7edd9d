/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the packet sequence numbers of unreliable connections and of datagrams show: packets that
 * are missing, or come late. UC and UD have no acknowledgements, so the sender does not learn of
 * that, and sends no packet again.
 */
#include "common/packet_story_internal.h"

enum {
	/* A PSN farther away is of another connection, whose queue pair has the same number. */
	NEAR_MAX = 65536,
	/* After so many datagrams in order, a gap is a loss (story_datagram_take()). */
	DATAGRAMS_IN_ORDER_MIN = 16,
};

/*
 * Note the PSN of a packet. Returns how many packets are missing before it; a negative number says
 * how far it comes behind the newest one.
 */
static int32_t number_note(struct story_flow *flow, uint32_t psn)
{
	int32_t ahead = flow->is_numbered ? u24_distance(psn, flow->expected) : 0;

	if (ahead > NEAR_MAX || ahead < -NEAR_MAX)
		ahead = 0;
	else if (ahead < 0)
		return ahead;
	flow->is_numbered = true;
	flow->expected = (psn + 1) & U24_MASK;
	return ahead;
}

static const char *plural_of(int32_t count)
{
	return count == 1 ? "" : "s";
}

void story_unreliable_take(struct story_flow *flow, struct story_entry *entry)
{
	uint32_t expected = flow->expected;
	int32_t ahead = number_note(flow, entry->psn);

	entry->kind = STORY_REQUEST;
	entry->from_qpn = flow->back ? flow->back - 1 : 0;
	if (ahead == 0)
		return;
	entry->kind = STORY_MISSING;
	if (ahead < 0)
		story_say(entry,
			"comes late or for the second time, behind PSN 0x%06x: the receiver drops it",
			(expected - 1) & U24_MASK);
	else
		story_say(entry,
			"%d packet%s before it, from PSN 0x%06x on, %s missing: the receiver drops the "
			"message that is not complete, and its sender is not told",
			ahead, plural_of(ahead), expected, ahead == 1 ? "is" : "are");
	story_reason(entry, REASON_DROPPED_SEQUENCE);
}

/*
 * A queue pair numbers its datagrams to all receivers in one sequence. If it sends to several
 * hosts, the capture of one host has gaps without a loss. So a gap counts as a loss only if the
 * datagrams before it were in order.
 */
void story_datagram_take(struct story_flow *flow, struct story_entry *entry)
{
	bool was_in_order = flow->in_order_count >= DATAGRAMS_IN_ORDER_MIN;
	uint32_t expected = flow->expected;
	int32_t ahead = number_note(flow, entry->psn);

	if (ahead == 0) {
		flow->in_order_count++;
		return;
	}
	if (ahead < 0)
		return;
	flow->in_order_count = 0;
	if (!was_in_order)
		return;
	entry->kind = STORY_MISSING;
	story_say(entry,
		"%d datagram%s of the same sender before it, from PSN 0x%06x on, %s missing: lost, or "
		"sent to another host; nobody is told",
		ahead, plural_of(ahead), expected, ahead == 1 ? "is" : "are");
}
