/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening ports, and registering agents there. */
#include "front/umad/port.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "front/umad/abi.h"
#include "front/umad/device.h"
#include "wire/infiniband/mad.h"

static struct list openings = {&openings, &openings};
static pthread_mutex_t openings_lock = PTHREAD_MUTEX_INITIALIZER;

struct umad_opening *opening_get(int portid)
{
	struct umad_opening *found = NULL;

	pthread_mutex_lock(&openings_lock);
	list_for_each(opening, &openings, struct umad_opening, link)
		if (opening->fd == portid) {
			opening->use_count++;
			found = opening;
			break;
		}
	pthread_mutex_unlock(&openings_lock);
	return found;
}

static void opening_destroy(struct umad_opening *opening)
{
	close(opening->fd);
	fabric_client_close(opening->client);
	pthread_mutex_destroy(&opening->receiving);
	free(opening);
}

void opening_put(struct umad_opening *opening)
{
	bool is_last;

	pthread_mutex_lock(&openings_lock);
	is_last = --opening->use_count == 0;
	pthread_mutex_unlock(&openings_lock);
	if (is_last)
		opening_destroy(opening);
}

static int opening_create(struct fabric_client *client, uint32_t port)
{
	struct umad_opening *opening = calloc(1, sizeof(*opening));
	uint32_t id;
	int fd = opening ? fabric_mads_open(client, port, &id) : -ENOMEM;

	if (fd < 0) {
		free(opening);
		return fd;
	}
	opening->fd = fd;
	opening->id = id;
	opening->use_count = 1;
	opening->client = client;
	pthread_mutex_init(&opening->receiving, NULL);
	pthread_mutex_lock(&openings_lock);
	list_append(&openings, &opening->link);
	pthread_mutex_unlock(&openings_lock);
	return fd;
}

int umad_open_port(const char *ca_name, int portnum)
{
	struct fabric_client *client;
	uint32_t port;
	int rc = device_open(ca_name, portnum, &client, &port);

	if (rc)
		return rc;
	rc = opening_create(client, port);
	if (rc < 0)
		fabric_client_close(client);
	return rc == -ENODEV || rc >= 0 ? rc : -EIO;
}

int umad_close_port(int portid)
{
	struct umad_opening *opening = opening_get(portid);

	if (!opening)
		return -EINVAL;
	pthread_mutex_lock(&openings_lock);
	if (list_is_linked(&opening->link)) {
		list_remove(&opening->link);
		opening->use_count--;
	}
	pthread_mutex_unlock(&openings_lock);
	opening_put(opening);
	return 0;
}

int umad_get_fd(int portid)
{
	return portid;
}

/* --- agents --- */

/* Returns the agent's number or -errno. */
static int agent_add(int portid, struct attach_agent *agent)
{
	struct umad_opening *opening = opening_get(portid);
	int rc;

	if (!opening)
		return -EINVAL;
	agent->qpn = mad_class_is_subnet(agent->management_class) ? SMI_QPN : GSI_QPN;
	rc = fabric_mads_agent_add(opening->client, opening->id, agent);
	opening_put(opening);
	return rc ? rc : (int)agent->id;
}

/* Debian's library reports every refusal of the kernel as EPERM. */
static int agent_register(int portid, struct attach_agent *agent, const long *method_mask)
{
	int rc;

	if (method_mask)
		memcpy(agent->method_mask, method_mask, sizeof(agent->method_mask));
	rc = agent_add(portid, agent);
	return rc < 0 ? -EPERM : rc;
}

int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
	long method_mask[16 / sizeof(long)])
{
	struct attach_agent agent = {.management_class = (uint8_t)mgmt_class,
		.class_version = 1,
		.rmpp_version = rmpp_version,
		.oui = {oui[0], oui[1], oui[2]}};

	if (mgmt_class < MAD_CLASS_VENDOR_OUI_FIRST || mgmt_class > MAD_CLASS_VENDOR_OUI_LAST)
		return -EINVAL;
	return agent_register(portid, &agent, method_mask);
}

/*
 * For a vendor class, register the OUI of the OpenFabrics Alliance, because ibping relies on that.
 */
int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
	long method_mask[16 / sizeof(long)])
{
	struct attach_agent agent = {.management_class = (uint8_t)mgmt_class,
		.class_version = (uint8_t)mgmt_version,
		.rmpp_version = rmpp_version,
		.oui = {0x00, 0x14, 0x05}};

	return agent_register(portid, &agent, method_mask);
}

int umad_register2(int port_fd, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	struct attach_agent agent;
	int rc;

	if (!attr || !agent_id)
		return EINVAL;
	if (attr->flags & ~(uint32_t)UMAD_USER_RMPP) {
		attr->flags = UMAD_USER_RMPP;
		return EINVAL;
	}
	agent = (struct attach_agent){.management_class = attr->mgmt_class,
		.class_version = attr->mgmt_class_version,
		.rmpp_version = attr->flags & UMAD_USER_RMPP ? 0 : attr->rmpp_version,
		.oui = {(uint8_t)(attr->oui >> 16), (uint8_t)(attr->oui >> 8), (uint8_t)attr->oui},
		.method_mask = {attr->method_mask[0], attr->method_mask[1]}};
	rc = agent_add(port_fd, &agent);
	if (rc < 0)
		return -rc;
	*agent_id = (uint32_t)rc;
	return 0;
}

int umad_unregister(int portid, int agentid)
{
	struct umad_opening *opening = opening_get(portid);
	int rc;

	if (!opening)
		return -EINVAL;
	rc = fabric_mads_agent_remove(opening->client, opening->id, (uint32_t)agentid);
	opening_put(opening);
	return rc;
}
