/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion control, as URNIC_CC sets it. */
#include "congestion/cc_params.h"
#include "nic/nic_internal.h"
#include "os/log.h"
#include "os/setting.h"

void nic_congestion_start(void)
{
	const char *text = setting_text("URNIC_CC");
	char why[CC_WHY_BYTES];

	cc_params_init(&nic.cc, CC_DCQCN, CC_PRESET_SIGCOMM15);
	if (text && !cc_params_parse(&nic.cc, text, why))
		log_write(LOG_ERROR, "URNIC_CC: %s; using dcqcn", why);
	nic.public->cc = nic.cc;
}

const struct cc_params *nic_congestion(void)
{
	return nic.cc.algorithm == CC_OFF ? NULL : &nic.cc;
}
