/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options, flags, names.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>

#include "front/rsocket/rsocket.h"

static uint32_t clamp_int(int value, uint32_t min, uint32_t max)
{
	if (value < 0 || (uint32_t)value < min)
		return min;
	return (uint32_t)value > max ? max : (uint32_t)value;
}

/* --- numbers --- */

static int set_socket(struct rs *rs, int name, int value)
{
	struct rs_options *options = &rs->options;

	switch (name) {
	case SO_REUSEADDR:
		options->is_address_reused = value != 0;
		if (rs->state == RS_INIT &&
			rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &value,
				sizeof(value)))
			return errno;
		return 0;
	case SO_RCVBUF:
		if (!rs->cq)
			options->receive_buffer_bytes = clamp_int(value, 4096, 1u << 28);
		return 0;
	case SO_SNDBUF:
		if (!rs->cq)
			options->send_buffer_bytes =
				clamp_int(value, 2 * RS_SEND_BYTES_MIN, 1u << 28);
		return 0;
	case SO_KEEPALIVE:
		options->keepalive = value;
		return 0;
	case SO_OOBINLINE:
		options->oob_inline = value;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int set_tcp(struct rs *rs, int name, int value)
{
	switch (name) {
	case TCP_NODELAY: /* stored only: sends are never delayed */
		rs->options.no_delay = value != 0;
		return 0;
	case TCP_KEEPIDLE:
		rs->options.keepalive_idle_s = value;
		return 0;
	case TCP_KEEPINTVL:
		rs->options.keepalive_interval_s = value;
		return 0;
	case TCP_KEEPCNT:
		rs->options.keepalive_count = value;
		return 0;
	case TCP_MAXSEG:
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int set_rdma(struct rs *rs, int name, int value)
{
	struct rs_options *options = &rs->options;

	if (rs->cq)
		return EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		options->send_queue_size = clamp_int(value, RS_QUEUE_SIZE_MIN, RS_QUEUE_SIZE_MAX);
		return 0;
	case RDMA_RQSIZE:
		options->receive_queue_size =
			clamp_int(value, RS_QUEUE_SIZE_MIN, RS_QUEUE_SIZE_MAX);
		return 0;
	case RDMA_INLINE: /* at least a table entry, which is sent inline */
		options->inline_bytes =
			clamp_int(value, sizeof(struct rs_iomap), RS_QUEUE_SIZE_MAX);
		return 0;
	case RDMA_IOMAPSIZE:
		options->iomap_count =
			rs_unscale(rs_scale(clamp_int(value, 0, RS_IOMAP_COUNT_MAX)));
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int set_v6(struct rs *rs, int name, int value)
{
	if (name != IPV6_V6ONLY)
		return ENOPROTOOPT;
	rs->options.is_v6_only = value != 0;
	return rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &value, sizeof(value))
		? errno
		: 0;
}

static int set_number(struct rs *rs, int level, int name, int value)
{
	switch (level) {
	case SOL_SOCKET:
		return set_socket(rs, name, value);
	case IPPROTO_TCP:
		return set_tcp(rs, name, value);
	case IPPROTO_IPV6:
		return set_v6(rs, name, value);
	case SOL_RDMA:
		return set_rdma(rs, name, value);
	default:
		return ENOPROTOOPT;
	}
}

/* A datagram socket takes the options of its UDP socket, except those of rsocket. */
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

static int get_socket(struct rs *rs, int name, int *value)
{
	const struct rs_options *options = &rs->options;

	switch (name) {
	case SO_REUSEADDR:
		*value = options->is_address_reused;
		return 0;
	case SO_RCVBUF:
		*value = (int)options->receive_buffer_bytes;
		return 0;
	case SO_SNDBUF:
		*value = (int)options->send_buffer_bytes;
		return 0;
	case SO_KEEPALIVE:
		*value = options->keepalive;
		return 0;
	case SO_OOBINLINE:
		*value = options->oob_inline;
		return 0;
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

/* The payload of one packet, from the path MTU once that is known. */
static int segment_bytes(const struct rs *rs)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!rs->id->qp || ibv_query_qp(rs->id->qp, &attr, IBV_QP_PATH_MTU, &init))
		return 1024;
	return 128 << attr.path_mtu;
}

static int get_tcp(struct rs *rs, int name, int *value)
{
	switch (name) {
	case TCP_NODELAY:
		*value = rs->options.no_delay;
		return 0;
	case TCP_KEEPIDLE:
		*value = rs->options.keepalive_idle_s;
		return 0;
	case TCP_KEEPINTVL:
		*value = rs->options.keepalive_interval_s;
		return 0;
	case TCP_KEEPCNT:
		*value = rs->options.keepalive_count;
		return 0;
	case TCP_MAXSEG:
		*value = segment_bytes(rs);
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int get_rdma(struct rs *rs, int name, int *value)
{
	switch (name) {
	case RDMA_SQSIZE:
		*value = (int)rs->options.send_queue_size;
		return 0;
	case RDMA_RQSIZE:
		*value = (int)rs->options.receive_queue_size;
		return 0;
	case RDMA_INLINE:
		*value = (int)rs->options.inline_bytes;
		return 0;
	case RDMA_IOMAPSIZE:
		*value = (int)rs->options.iomap_count;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int get_number(struct rs *rs, int level, int name, int *value)
{
	switch (level) {
	case SOL_SOCKET:
		return get_socket(rs, name, value);
	case IPPROTO_TCP:
		return get_tcp(rs, name, value);
	case IPPROTO_IPV6:
		*value = rs->options.is_v6_only;
		return name == IPV6_V6ONLY ? 0 : ENOPROTOOPT;
	case SOL_RDMA:
		return get_rdma(rs, name, value);
	default:
		return ENOPROTOOPT;
	}
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

static int name_copy(const struct sockaddr *from, struct sockaddr *to, socklen_t *bytes)
{
	socklen_t full = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						     : sizeof(struct sockaddr_in);

	memcpy(to, from, *bytes < full ? *bytes : full);
	*bytes = full;
	return 0;
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rs *rs = rs_enter(socket);
	int result;

	if (!rs)
		return -1;
	if (rs->datagram)
		result = getpeername(rs->fd, addr, addrlen);
	else if (rs->state < RS_ACCEPTING)
		result = rs_result(ENOTCONN);
	else
		result = name_copy(rdma_get_peer_addr(rs->id), addr, addrlen);
	rs_leave(rs);
	return result;
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rs *rs = rs_enter(socket);
	int result;

	if (!rs)
		return -1;
	if (rs->datagram)
		result = getsockname(rs->fd, addr, addrlen);
	else
		result = name_copy(rdma_get_local_addr(rs->id), addr, addrlen);
	rs_leave(rs);
	return result;
}
