/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that bypass the kernel's UDP. The bypass of an address is the AF_PACKET or AF_XDP socket
 * that carries its packets. This file decides which addresses have a bypass. It also runs the link
 * thread, which looks up the Ethernet addresses of neighbours (struct port_udp_lookup).
 *
 * The link thread starts with the first bypass, and sleeps until a lane needs a lookup. A lane does
 * no lookup itself, because a lookup may take long: another program that configures interfaces may
 * hold the lock of the kernel's neighbour table. The link thread locks one worker at a time, and
 * none during a lookup.
 */
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "netdev/neighbour.h"
#include "nic/nic_internal.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"

/* Do the next lookup of a lane. Returns false if the lane needs no lookup. */
static bool lookup_execute(struct worker *worker)
{
	struct port_udp_lookup lookup;
	uint8_t mac[NEIGHBOUR_MAC_BYTES];
	bool has_lookup, is_known;

	worker_lock(worker);
	has_lookup = port_udp_next_lookup(worker->port, &lookup);
	worker_unlock(worker);
	if (!has_lookup)
		return false;
	is_known = neighbour_mac(&lookup.local, &lookup.remote, lookup.ifindex, mac);
	worker_lock(worker);
	port_udp_lookup_done(worker->port, &lookup, is_known ? mac : NULL);
	worker_unlock(worker);
	return true;
}

static void lookups_execute(struct worker *worker)
{
	while (lookup_execute(worker))
		;
}

static void *thread_main(void *unused)
{
	struct pollfd kick = {.fd = nic.link_kick, .events = POLLIN};

	(void)unused;
	own_thread_wake();
	for (;;) {
		own_thread_poll(&kick, 1, -1);
		kick_clear(kick.fd);
		nic_for_each_worker(lookups_execute);
	}
	return NULL;
}

/* The function for port_udp_on_lookup(): the lane needs a lookup. The worker is locked. */
static void on_lookup(void *unused)
{
	(void)unused;
	kick_raise(nic.link_kick);
}

/* The NIC is locked. Returns 0 or -errno. */
static int thread_start(void)
{
	int error;

	if (nic.has_link_thread)
		return 0;
	nic.link_kick = kick_create("packets cannot bypass UDP sockets");
	if (nic.link_kick < 0)
		return nic.link_kick;
	error = own_thread_start(NULL, "urnic-link", thread_main, NULL);
	if (error)
		close(nic.link_kick);
	else
		nic.has_link_thread = true;
	return error;
}

static const char *why_no_link(int error)
{
	switch (error) {
	case -EPERM:
		return "it takes CAP_NET_RAW";
	case -EACCES:
		return "urnicd --system passes them on";
	case -EOPNOTSUPP:
		return "it takes plain Ethernet, and Linux 6.2";
	case -EUSERS:
		return "as many lanes as may do so already do";
	default:
		return strerror(-error);
	}
}

static const char *why_no_xdp(int error)
{
	switch (error) {
	case -EPERM:
		return "it takes CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF in the first user "
		       "namespace, and CAP_SYS_ADMIN for a second lane";
	case -EACCES:
		return "urnicd --system passes them on";
	case -EOPNOTSUPP:
		return "it takes plain Ethernet, and a kernel with AF_XDP";
	case -EBUSY:
		return "another XDP program is on the interface, or that of another version of "
		       "urnic, whose programs have to end first";
	case -EUSERS:
		return "each receive queue of the interface has a lane already";
	case -ERANGE:
		return "its MTU is too long (3826 at most, with some drivers less)";
	case -ENOEXEC:
		return "the kernel's verifier or a security module refuses the XDP program";
	case -ENOBUFS:
		return "it takes 5 MiB of locked memory per lane (ulimit -l)";
	default:
		return strerror(-error);
	}
}

/*
 * Log why the packets of an interface do not bypass UDP as URNIC_LINK requests. All addresses of an
 * interface share one line.
 */
static void impossible_log(_Atomic uint32_t *logged, uint32_t ifindex, const char *setting,
	const char *way, const char *why)
{
	char name[IF_NAMESIZE] = "?";

	if (atomic_exchange(logged, ifindex) == ifindex)
		return;
	if_indextoname(ifindex, name);
	log_write(LOG_ERROR, "URNIC_LINK is %s, but packets of %s go through %s: %s", setting, name,
		way, why);
}

static void use_log(uint32_t ifindex, bool is_zero_copy)
{
	char name[IF_NAMESIZE] = "?";

	if_indextoname(ifindex, name);
	log_write(LOG_INFO, "packets of %s pass through AF_XDP, %s", name,
		is_zero_copy ? "without copies" : "with a copy by the kernel");
}

/*
 * Use the bypass that URNIC_LINK requests or, if it cannot be used, the other one. Returns 0 or
 * -errno.
 */
static int bypass_use(struct worker *worker, uint32_t index, uint32_t ifindex)
{
	static _Atomic uint32_t logged;
	bool is_generic = nic.link == NIC_LINK_XDP_GENERIC;
	int error, xdp_error;

	if (nic.link != NIC_LINK_XDP && !is_generic)
		return worker_use_link(worker, index, ifindex);
	xdp_error = worker_use_xdp(worker, index, ifindex, is_generic);
	if (xdp_error >= 0) {
		use_log(ifindex, xdp_error > 0);
		return 0;
	}
	error = worker_use_link(worker, index, ifindex);
	impossible_log(&logged, ifindex, is_generic ? "xdp-generic" : "xdp",
		error ? "UDP sockets" : "an AF_PACKET socket", why_no_xdp(xdp_error));
	return error;
}

void nic_link_use(struct worker *worker, uint32_t index, uint32_t ifindex)
{
	static _Atomic uint32_t logged;
	int error;

	if (nic.link == NIC_LINK_OFF)
		return;
	error = bypass_use(worker, index, ifindex);
	if (!error)
		error = thread_start();
	if (!error)
		port_udp_on_lookup(worker->port, on_lookup, NULL);
	if (error && nic.link == NIC_LINK_ON)
		impossible_log(&logged, ifindex, "on", "UDP sockets", why_no_link(error));
}

void nic_link_forget(void)
{
	if (nic.has_link_thread)
		close(nic.link_kick);
}
