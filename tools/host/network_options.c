/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/network_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "common/command.h"
#include "host/network.h"

int network_mtu_parse(const char *command, const char *text, unsigned *ret_mtu)
{
	if (text_number(text, NETWORK_MTU_MIN, NETWORK_MTU_MAX, ret_mtu))
		return 0;
	complain("%s: the MTU must be a number from %d to %d, not '%s'", command, NETWORK_MTU_MIN,
		NETWORK_MTU_MAX, text);
	return -EINVAL;
}

int network_hosts_parse(const char *command, const char *text, unsigned *ret_hosts)
{
	if (text_number(text, HOSTS_MIN, HOSTS_MAX, ret_hosts))
		return 0;
	complain("%s: the number of hosts must be from %d to %d, not '%s'", command, HOSTS_MIN,
		HOSTS_MAX, text);
	return -EINVAL;
}

void network_identify(const char *network, int host)
{
	char identity[NETWORK_NAME_BYTES_MAX + 8];

	snprintf(identity, sizeof(identity), "%s-%s", network, host_facts(host).name);
	setenv("URNIC_HOST_ID", identity, 0);
}

int network_find_ip(void)
{
	const char *path = getenv("PATH");
	char *longer;
	int result;

	if (asprintf(&longer, "%s:/usr/sbin:/sbin", path ? path : "/usr/bin:/bin") < 0)
		return -ENOMEM;
	result = setenv("PATH", longer, 1) < 0 ? -errno : 0;
	free(longer);
	return result;
}
