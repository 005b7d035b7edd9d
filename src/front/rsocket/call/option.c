/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options, flags, names.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "base/arith.h"
#include "front/rsocket/rsocket.h"

/* A socket option with an integer value, which a field of struct rs_options holds. */
struct option {
	int level;
	int name;
	size_t offset; /* offset of the field in struct rs_options */
	int min, max; /* a value beyond a limit becomes that limit */
	int id_option; /* the option of the rdma_cm_id to set as well; 0: none */
	bool is_flag; /* any value but 0 becomes 1 */
	bool is_size; /* the size of a buffer; ignored once the buffer exists */
};

/* clang-format off */
#define FIELD(name) offsetof(struct rs_options, name)
#define FLAG .is_flag = true, .max = 1
#define STORED .min = INT_MIN, .max = INT_MAX
#define SIZE(min_) .min = min_, .max = RS_QUEUE_SIZE_MAX
#define BUFFER(min_) .is_size = true, .min = min_, .max = 1 << 28
static const struct option options[] = {
	{SOL_SOCKET, SO_REUSEADDR, FIELD(is_address_reused), FLAG,
		.id_option = RDMA_OPTION_ID_REUSEADDR},
	{SOL_SOCKET, SO_RCVBUF, FIELD(receive_buffer_bytes), BUFFER(4096)},
	{SOL_SOCKET, SO_SNDBUF, FIELD(send_buffer_bytes), BUFFER(2 * RS_SEND_BYTES_MIN)},
	{SOL_SOCKET, SO_KEEPALIVE, FIELD(keepalive), STORED},
	{SOL_SOCKET, SO_OOBINLINE, FIELD(oob_inline), STORED},
	/* This option has no effect, because sends are never delayed */
	{IPPROTO_TCP, TCP_NODELAY, FIELD(no_delay), FLAG},
	{IPPROTO_TCP, TCP_KEEPIDLE, FIELD(keepalive_idle_s), STORED},
	{IPPROTO_TCP, TCP_KEEPINTVL, FIELD(keepalive_interval_s), STORED},
	{IPPROTO_TCP, TCP_KEEPCNT, FIELD(keepalive_count), STORED},
	{IPPROTO_IPV6, IPV6_V6ONLY, FIELD(is_v6_only), FLAG, .id_option = RDMA_OPTION_ID_AFONLY},
	{SOL_RDMA, RDMA_SQSIZE, FIELD(send_queue_size), SIZE(RS_QUEUE_SIZE_MIN)},
	{SOL_RDMA, RDMA_RQSIZE, FIELD(receive_queue_size), SIZE(RS_QUEUE_SIZE_MIN)},
	/* at least the size of an entry of the iomap table, because entries are sent inline */
	{SOL_RDMA, RDMA_INLINE, FIELD(inline_bytes), SIZE(sizeof(struct rs_iomap))},
	{SOL_RDMA, RDMA_IOMAPSIZE, FIELD(iomap_count), .max = RS_IOMAP_COUNT_MAX},
};
#undef FIELD
#undef FLAG
#undef STORED
#undef SIZE
#undef BUFFER
/* clang-format on */

static const struct option *option_find(int level, int name)
{
	for (size_t i = 0; i < ARRAY_COUNT(options); i++)
		if (options[i].level == level && options[i].name == name)
			return &options[i];
	return NULL;
}

static int set_number(struct rs *rs, int level, int name, int value)
{
	const struct option *option = option_find(level, name);
	int number;

	if (level == SOL_RDMA && rs->cq)
		return EINVAL;
	if (!option)
		return level == IPPROTO_TCP && name == TCP_MAXSEG ? 0 : ENOPROTOOPT;
	if (option->is_size && rs->cq)
		return 0;
	number = option->is_flag ? value != 0 : value;
	number = number < option->min ? option->min : number;
	number = number > option->max ? option->max : number;
	if (level == SOL_RDMA && name == RDMA_IOMAPSIZE)
		number = (int)rs_unscale(rs_scale((uint32_t)number));
	memcpy((uint8_t *)&rs->options + option->offset, &number, sizeof(number));
	if (!option->id_option ||
		(option->id_option == RDMA_OPTION_ID_REUSEADDR && rs->state != RS_INIT))
		return 0;
	return rdma_set_option(rs->id, RDMA_OPTION_ID, option->id_option, &value, sizeof(value))
		? errno
		: 0;
}

/*
 * Does the kernel handle this option? A datagram socket passes all options to its UDP socket,
 * except buffer sizes and those of SOL_RDMA.
 */
static bool is_kernels(const struct rs *rs, int level, int name)
{
	return rs->datagram && level != SOL_RDMA &&
		(level != SOL_SOCKET || (name != SO_SNDBUF && name != SO_RCVBUF));
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct rs *rs = rs_enter(socket);
	int error, value = 0;

	if (!rs)
		return -1;
	if (is_kernels(rs, level, optname)) {
		error = setsockopt(rs->fd, level, optname, optval, optlen) ? errno : 0;
	} else if (level == SOL_SOCKET && optname == SO_LINGER && optlen >= sizeof(struct linger)) {
		memcpy(&rs->options.linger, optval, sizeof(struct linger));
		error = 0;
	} else if (optlen < sizeof(value)) {
		error = EINVAL;
	} else {
		memcpy(&value, optval, sizeof(value));
		error = set_number(rs, level, optname, value);
	}
	rs_leave(rs);
	return rs_result(error);
}

/* The payload bytes of one packet: the path MTU, or 1024 while the path MTU is unknown. */
static int segment_bytes(const struct rs *rs)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!rs->id->qp || ibv_query_qp(rs->id->qp, &attr, IBV_QP_PATH_MTU, &init))
		return 1024;
	return 128 << attr.path_mtu;
}

/* Options that report the state of the socket. */
static int get_state(struct rs *rs, int level, int name, int *value)
{
	if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
		*value = segment_bytes(rs);
		return 0;
	}
	if (level != SOL_SOCKET)
		return ENOPROTOOPT;
	switch (name) {
	case SO_TYPE:
		*value = SOCK_STREAM;
		return 0;
	case SO_DOMAIN:
		*value = rs->family;
		return 0;
	case SO_PROTOCOL:
		*value = IPPROTO_TCP;
		return 0;
	case SO_ACCEPTCONN:
		*value = rs->state == RS_LISTENING;
		return 0;
	case SO_ERROR:
		*value = rs->error;
		rs->error = 0;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int get_number(struct rs *rs, int level, int name, int *value)
{
	const struct option *option = option_find(level, name);

	if (!option)
		return get_state(rs, level, name, value);
	memcpy(value, (const uint8_t *)&rs->options + option->offset, sizeof(*value));
	return 0;
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct rs *rs = rs_enter(socket);
	int error, value = 0;

	if (!rs)
		return -1;
	if (is_kernels(rs, level, optname)) {
		error = getsockopt(rs->fd, level, optname, optval, optlen) ? errno : 0;
		goto out;
	}
	rs_advance(rs);
	if (level == SOL_SOCKET && optname == SO_LINGER && *optlen >= sizeof(struct linger)) {
		memcpy(optval, &rs->options.linger, sizeof(struct linger));
		*optlen = sizeof(struct linger);
		error = 0;
	} else if (*optlen < sizeof(value)) {
		error = EINVAL;
	} else {
		error = get_number(rs, level, optname, &value);
		if (!error) {
			memcpy(optval, &value, sizeof(value));
			*optlen = sizeof(value);
		}
	}
out:
	rs_leave(rs);
	return rs_result(error);
}

int rfcntl(int socket, int cmd, ...)
{
	struct rs *rs = rs_get(socket);
	int result = 0;
	va_list arguments;
	int argument;

	if (!rs)
		return -1;
	va_start(arguments, cmd);
	argument = va_arg(arguments, int);
	va_end(arguments);
	pthread_mutex_lock(&rs->lock);
	switch (cmd) {
	case F_GETFL:
		result = O_RDWR | (rs->is_nonblocking ? O_NONBLOCK : 0);
		break;
	case F_SETFL:
		rs->is_nonblocking = (argument & O_NONBLOCK) != 0;
		break;
	case F_GETFD:
	case F_SETFD:
		result = fcntl(rs->fd, cmd, argument);
		break;
	default:
		result = rs_result(ENOTSUP);
	}
	rs_leave(rs);
	return result;
}

/* --- names --- */

static void name_copy(const struct sockaddr *from, struct sockaddr *to, socklen_t *bytes)
{
	socklen_t full = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						     : sizeof(struct sockaddr_in);

	memcpy(to, from, *bytes < full ? *bytes : full);
	*bytes = full;
}

static int name_get(int socket, bool is_peers, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rs *rs = rs_enter(socket);
	int result = 0;

	if (!rs)
		return -1;
	if (rs->datagram)
		result = (is_peers ? getpeername : getsockname)(rs->fd, addr, addrlen);
	else if (!is_peers)
		name_copy(rdma_get_local_addr(rs->id), addr, addrlen);
	else if (rs->state < RS_ACCEPTING)
		result = rs_result(ENOTCONN);
	else
		name_copy(rdma_get_peer_addr(rs->id), addr, addrlen);
	rs_leave(rs);
	return result;
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return name_get(socket, true, addr, addrlen);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return name_get(socket, false, addr, addrlen);
}
