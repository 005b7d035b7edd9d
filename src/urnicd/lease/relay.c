/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/lease/relay.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/kick.h"
#include "port/socket.h"
#include "port/udp/udp_channel.h"

enum {
	BATCH = 8, /* datagrams; this many of full size fit into half a channel */
	DATAGRAM_BYTES_MAX = 1 << 16,
	QPN_TOP_BYTE = 5,
	EVENTS_PER_TURN = 64,
	CONTROL_BYTES = 128,
};

/* The subject of an epoll event: the kind in the upper half of its data, an index in the lower. */
enum watch { WATCH_STOP, WATCH_MEMBER, WATCH_CHANNEL };

struct channel {
	int ours; /* urnicd's end of the channel; -1: the entry is unused */
	int member;
	uint8_t slot;
	struct agent_address address;
	ino_t inode; /* inode of `ours` */
	uint32_t overflows_seen; /* the member's count of overflows when last read, modulo 2^32 */
};

struct relay {
	pthread_t thread;
	bool is_running;
	int epoll;
	int stop;
	pthread_mutex_t lock;
	/* Number of callers that wait for the lock; the thread yields to them. */
	_Atomic unsigned waiters;
	uint32_t count;
	struct channel channels[RELAY_CHANNELS_MAX];
	_Atomic uint64_t datagrams, strays, lost; /* the relay's counters of agent_counters.def */

	/* The batch, which only the thread uses. */
	struct mmsghdr in[BATCH];
	struct mmsghdr out[BATCH];
	struct iovec in_iov[BATCH];
	struct iovec out_iov[BATCH][2];
	union socket_address from[BATCH];
	struct udp_channel_head heads[BATCH];
	_Alignas(struct cmsghdr) uint8_t control[BATCH][CONTROL_BYTES];
	uint8_t data[BATCH][DATAGRAM_BYTES_MAX];
};

/* --- the table --- */

static void lock_as_caller(struct relay *relay)
{
	atomic_fetch_add(&relay->waiters, 1);
	pthread_mutex_lock(&relay->lock);
	atomic_fetch_sub(&relay->waiters, 1);
}

static void lock_as_thread(struct relay *relay)
{
	while (atomic_load(&relay->waiters) > 0)
		sched_yield();
	pthread_mutex_lock(&relay->lock);
}

/* The caller has locked the table. Returns NULL when there is no such channel. */
static struct channel *channel_find(
	struct relay *relay, const struct agent_address *address, uint8_t slot)
{
	for (uint32_t i = 0; i < RELAY_CHANNELS_MAX; i++) {
		struct channel *channel = &relay->channels[i];

		if (channel->ours >= 0 && channel->slot == slot &&
			agent_address_is_equal(&channel->address, address))
			return channel;
	}
	return NULL;
}

/* The caller has locked the table. Returns NULL when all entries are in use. */
static struct channel *channel_unused(struct relay *relay)
{
	for (uint32_t i = 0; i < RELAY_CHANNELS_MAX; i++)
		if (relay->channels[i].ours < 0)
			return &relay->channels[i];
	return NULL;
}

static int epoll_watch(struct relay *relay, int operation, int fd, uint32_t events, enum watch what,
	const struct channel *channel)
{
	uint64_t index = channel ? (uint64_t)(channel - relay->channels) : 0;
	struct epoll_event event = {.events = events, .data.u64 = (uint64_t)what << 32 | index};

	return epoll_ctl(relay->epoll, operation, fd, &event) ? -errno : 0;
}

/*
 * The caller has locked the table. The fd store has duplicates of both descriptors, so their close
 * alone would not remove them from the epoll set.
 */
static void channel_close(struct relay *relay, struct channel *channel)
{
	epoll_ctl(relay->epoll, EPOLL_CTL_DEL, channel->member, NULL);
	epoll_ctl(relay->epoll, EPOLL_CTL_DEL, channel->ours, NULL);
	close(channel->ours);
	channel->ours = -1;
	relay->count--;
}

/*
 * Have the kernel report what struct udp_channel_head contains. The kernel may refuse some of it.
 */
static void member_prepare(int member, bool is_ipv4)
{
	socket_set(member, SOL_SOCKET, SO_RXQ_OVFL, 1);
	socket_set(member, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
		is_ipv4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, 1);
}

/* How many packets the member has dropped. */
static uint32_t overflows_so_far(int member)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t bytes = sizeof(info);

	getsockopt(member, SOL_SOCKET, SO_MEMINFO, info, &bytes);
	return info[SK_MEMINFO_DROPS];
}

/* Enter a channel, in place of an earlier one. The table is locked. Returns 0 or -errno. */
static int channel_begin(struct relay *relay, const struct agent_address *address, uint8_t slot,
	int member, int ours)
{
	struct channel *channel = channel_find(relay, address, slot);
	struct stat status;
	int rc;

	if (channel)
		channel_close(relay, channel);
	channel = channel_unused(relay);
	if (!channel)
		return -ENOSPC;
	if (fstat(ours, &status) != 0)
		return -errno;
	member_prepare(member, gid_is_ipv4(&address->gid));
	*channel = (struct channel){.ours = ours,
		.member = member,
		.slot = slot,
		.address = *address,
		.inode = status.st_ino,
		.overflows_seen = overflows_so_far(member)};
	rc = epoll_watch(relay, EPOLL_CTL_ADD, ours, 0, WATCH_CHANNEL, channel);
	if (!rc)
		rc = epoll_watch(relay, EPOLL_CTL_ADD, member, EPOLLIN, WATCH_MEMBER, channel);
	if (rc) {
		epoll_ctl(relay->epoll, EPOLL_CTL_DEL, ours, NULL);
		channel->ours = -1;
		return rc;
	}
	relay->count++;
	return 0;
}

int relay_open(struct relay *relay, const struct agent_address *address, uint8_t slot, int member,
	int *ret_ours, int *ret_theirs)
{
	int fds[2], rc;

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
		return -errno;
	/* The kernel charges queued datagrams to the sender's buffer. */
	rc = socket_set(fds[0], SOL_SOCKET, SO_SNDBUFFORCE, RELAY_BUFFER_BYTES);
	/* The process sends nothing through the channel. */
	shutdown(fds[0], SHUT_RD);
	lock_as_caller(relay);
	if (!rc)
		rc = channel_begin(relay, address, slot, member, fds[0]);
	pthread_mutex_unlock(&relay->lock);
	if (rc) {
		close(fds[0]);
		close(fds[1]);
		return rc;
	}
	*ret_ours = fds[0];
	*ret_theirs = fds[1];
	return 0;
}

int relay_adopt(struct relay *relay, const struct agent_address *address, uint8_t slot, int member,
	int ours)
{
	int rc;

	/*
	 * Send an empty message to learn whether the other end is open. The receiver drops the
	 * message, because it has no head.
	 */
	if (send(ours, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
		return -EPIPE;
	lock_as_caller(relay);
	rc = channel_begin(relay, address, slot, member, ours);
	pthread_mutex_unlock(&relay->lock);
	return rc;
}

uint32_t relay_close_slot(struct relay *relay, uint8_t slot)
{
	uint32_t count = 0;

	lock_as_caller(relay);
	for (uint32_t i = 0; i < RELAY_CHANNELS_MAX; i++) {
		struct channel *channel = &relay->channels[i];

		if (channel->ours < 0 || channel->slot != slot)
			continue;
		channel_close(relay, channel);
		count++;
	}
	pthread_mutex_unlock(&relay->lock);
	return count;
}

uint32_t relay_count(const struct relay *relay)
{
	return relay->count;
}

/* Needs no lock, because only the thread that calls this changes the table. */
uint32_t relay_count_of(const struct relay *relay, const struct agent_slots *slots)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < RELAY_CHANNELS_MAX; i++)
		count += relay->channels[i].ours >= 0 &&
			agent_slots_has(slots, relay->channels[i].slot);
	return count;
}

bool relay_has(struct relay *relay, const struct agent_address *address, uint8_t slot, int fd)
{
	const struct channel *channel;
	struct stat status;
	bool is_there;

	if (fstat(fd, &status) != 0)
		return false;
	lock_as_caller(relay);
	channel = channel_find(relay, address, slot);
	is_there = channel && channel->inode == status.st_ino;
	pthread_mutex_unlock(&relay->lock);
	return is_there;
}

void relay_count_up(struct relay *relay, struct agent_counters *counters)
{
	counters->channels_open = relay->count;
	counters->channel_datagrams = atomic_load(&relay->datagrams);
	counters->channel_strays = atomic_load(&relay->strays);
	counters->channel_lost = atomic_load(&relay->lost);
}

/* --- the thread --- */

/* Are all packets of the datagram for `slot`? Each but the last has `segment_bytes`. */
static bool is_of_slot(const uint8_t *data, size_t bytes, uint32_t segment_bytes, uint8_t slot)
{
	for (size_t at = 0; at + QPN_TOP_BYTE < bytes; at += segment_bytes)
		if (data[at + QPN_TOP_BYTE] != slot)
			return false;
	return true;
}

/* Pass each packet on to the channel of the packet's slot. */
static void pass_one_by_one(struct relay *relay, const struct channel *channel,
	struct udp_channel_head *head, uint8_t *data, size_t bytes)
{
	uint32_t segment_bytes = head->segment_bytes;

	head->segment_bytes = UINT32_MAX;
	for (size_t at = 0; at + QPN_TOP_BYTE < bytes; at += segment_bytes) {
		const struct channel *its_own =
			channel_find(relay, &channel->address, data[at + QPN_TOP_BYTE]);
		struct iovec iov[] = {
			{head, sizeof(*head)}, {data + at, min_u64(segment_bytes, bytes - at)}};
		const struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};

		if (its_own != channel)
			relay->strays++;
		if (!its_own || sendmsg(its_own->ours, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			relay->lost++;
		head->overflows = 0;
	}
}

/* Is there room for a batch? EPOLLOUT reports a channel that is three quarters empty. */
static bool has_room(const struct channel *channel)
{
	int queued_bytes;

	return ioctl(channel->ours, SIOCOUTQ, &queued_bytes) != 0 ||
		queued_bytes < RELAY_BUFFER_BYTES;
}

/* Pass a batch of the member's datagrams on. The caller has locked the table. */
static void pass_batch(struct relay *relay, struct channel *channel)
{
	int count, sent;
	unsigned whole = 0;

	for (unsigned i = 0; i < BATCH; i++) {
		relay->in[i].msg_hdr = (struct msghdr){
			.msg_name = &relay->from[i],
			.msg_namelen = sizeof(relay->from[i]),
			.msg_iov = &relay->in_iov[i],
			.msg_iovlen = 1,
			.msg_control = relay->control[i],
			.msg_controllen = CONTROL_BYTES,
		};
	}
	count = recvmmsg(channel->member, relay->in, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < count; i++) {
		size_t bytes = relay->in[i].msg_len;

		udp_channel_head_read(
			&relay->heads[i], &relay->in[i].msg_hdr, &channel->overflows_seen);
		if (relay->heads[i].segment_bytes == 0)
			continue;
		if (!is_of_slot(
			    relay->data[i], bytes, relay->heads[i].segment_bytes, channel->slot)) {
			pass_one_by_one(relay, channel, &relay->heads[i], relay->data[i], bytes);
			continue;
		}
		relay->out_iov[whole][0] =
			(struct iovec){&relay->heads[i], sizeof(relay->heads[i])};
		relay->out_iov[whole][1] = (struct iovec){relay->data[i], bytes};
		relay->out[whole].msg_hdr =
			(struct msghdr){.msg_iov = relay->out_iov[whole], .msg_iovlen = 2};
		whole++;
	}
	if (whole == 0)
		return;
	sent = sendmmsg(channel->ours, relay->out, whole, MSG_DONTWAIT | MSG_NOSIGNAL);
	sent = sent < 0 ? 0 : sent;
	relay->datagrams += (unsigned)sent;
	relay->lost += whole - (unsigned)sent;
}

/*
 * Pass a batch on if the channel has room; else wait for room. The caller has locked the table. A
 * stale event, which was for the entry's former channel, finds nothing to read.
 */
static void member_ready(struct relay *relay, struct channel *channel)
{
	if (channel->ours < 0)
		return;
	if (has_room(channel)) {
		pass_batch(relay, channel);
		return;
	}
	epoll_watch(relay, EPOLL_CTL_MOD, channel->member, 0, WATCH_MEMBER, channel);
	epoll_watch(relay, EPOLL_CTL_MOD, channel->ours, EPOLLOUT | EPOLLONESHOT, WATCH_CHANNEL,
		channel);
}

static void *thread_main(void *context)
{
	struct relay *relay = context;
	struct epoll_event events[EVENTS_PER_TURN];

	for (;;) {
		int count = epoll_wait(relay->epoll, events, EVENTS_PER_TURN, -1);

		for (int i = 0; i < count; i++) {
			struct channel *channel = &relay->channels[(uint32_t)events[i].data.u64];
			enum watch what = (enum watch)(events[i].data.u64 >> 32);

			if (what == WATCH_STOP)
				return NULL;
			lock_as_thread(relay);
			if (what == WATCH_MEMBER)
				member_ready(relay, channel);
			else if (channel->ours >= 0)
				epoll_watch(relay, EPOLL_CTL_MOD, channel->member, EPOLLIN,
					WATCH_MEMBER, channel);
			pthread_mutex_unlock(&relay->lock);
		}
	}
}

int relay_create(struct relay **ret_relay)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	int rc;

	if (!relay)
		return -ENOMEM;
	pthread_mutex_init(&relay->lock, NULL);
	for (uint32_t i = 0; i < RELAY_CHANNELS_MAX; i++)
		relay->channels[i].ours = -1;
	for (unsigned i = 0; i < BATCH; i++)
		relay->in_iov[i] = (struct iovec){relay->data[i], DATAGRAM_BYTES_MAX};
	relay->stop = kick_create("no relay of packets");
	relay->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (relay->stop < 0 || relay->epoll < 0) {
		rc = relay->stop < 0 ? relay->stop : -errno;
		goto fail_destroy;
	}
	rc = epoll_watch(relay, EPOLL_CTL_ADD, relay->stop, EPOLLIN, WATCH_STOP, NULL);
	if (!rc)
		rc = -pthread_create(&relay->thread, NULL, thread_main, relay);
	if (rc)
		goto fail_destroy;
	relay->is_running = true;
	*ret_relay = relay;
	return 0;
fail_destroy:
	relay_destroy(relay);
	return rc;
}

void relay_destroy(struct relay *relay)
{
	if (!relay)
		return;
	if (relay->is_running) {
		kick_raise(relay->stop);
		pthread_join(relay->thread, NULL);
	}
	for (uint32_t i = 0; i < RELAY_CHANNELS_MAX; i++)
		if (relay->channels[i].ours >= 0)
			channel_close(relay, &relay->channels[i]);
	if (relay->stop >= 0)
		close(relay->stop);
	if (relay->epoll >= 0)
		close(relay->epoll);
	pthread_mutex_destroy(&relay->lock);
	free(relay);
}
