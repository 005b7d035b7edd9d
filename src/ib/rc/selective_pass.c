/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/rc/selective_pass.h"

static bool is_hole(const struct selective_pass *pass, struct psn psn)
{
	return !selective_map_has(&pass->map, (uint32_t)psn_diff(psn, pass->base));
}

struct psn selective_pass_hole(const struct selective_pass *pass, struct psn from)
{
	while (psn_before(from, pass->end) && !is_hole(pass, from))
		from = psn_add(from, 1);
	return psn_before(from, pass->end) ? from : pass->end;
}

uint32_t selective_pass_run(const struct selective_pass *pass, struct psn hole)
{
	uint32_t count = 1;

	while (psn_before(psn_add(hole, count), pass->end) && is_hole(pass, psn_add(hole, count)))
		count++;
	return count;
}

uint32_t selective_pass_learn(struct selective_pass *pass, const struct selective_map *map,
	struct psn una, struct psn end, struct psn newest, struct psn next, struct psn *ret_from)
{
	bool is_overtaken = pass->is_open && !psn_before(newest, pass->sent);
	uint32_t holes = 0;

	if (!pass->is_open || is_overtaken || psn_before(pass->end, una))
		pass->end = una;
	pass->base = una;
	pass->map = *map;
	*ret_from = pass->end;
	if (!psn_before(pass->end, end))
		return 0;
	for (struct psn psn = pass->end; psn_before(psn, end); psn = psn_add(psn, 1))
		holes += is_hole(pass, psn);
	pass->end = end;
	*ret_from = selective_pass_hole(pass, *ret_from);
	if (!holes)
		return 0;
	pass->is_open = true;
	pass->sent = next;
	return holes;
}
