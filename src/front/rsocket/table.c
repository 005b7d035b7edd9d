/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table from descriptors to sockets: an array that grows up to the highest descriptor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "front/rsocket/rsocket.h"

struct rs *rs_alloc(
	const struct rs_kind *kind, int family, const struct rs_options *options)
{
	struct rs *rs = calloc(1, sizeof(*rs));

	if (!rs) {
		rs_no_memory();
		return NULL;
	}
	pthread_mutex_init(&rs->lock, NULL);
	pthread_cond_init(&rs->changed, NULL);
	rs->kind = kind;
	rs->fd = -1;
	rs->family = family;
	rs->options = *options;
	rs->can_read = true;
	rs->can_write = true;
	rs->users = 1;
	return rs;
}

void rs_free(struct rs *rs)
{
	rs->kind->close(rs);
	pthread_mutex_destroy(&rs->lock);
	pthread_cond_destroy(&rs->changed);
	free(rs);
}

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rs **rs_table;
static int table_size;

static int table_grow(int fd)
{
	int size = fd < 64 ? 128 : fd * 2;
	struct rs **larger = realloc(rs_table, (size_t)size * sizeof(struct rs *));

	if (!larger)
		return rs_no_memory();
	memset(larger + table_size, 0, (size_t)(size - table_size) * sizeof(struct rs *));
	rs_table = larger;
	table_size = size;
	return 0;
}

int rs_table_add(struct rs *rs)
{
	int error = 0;

	pthread_mutex_lock(&table_lock);
	if (rs->fd >= table_size)
		error = table_grow(rs->fd);
	if (!error)
		rs_table[rs->fd] = rs;
	pthread_mutex_unlock(&table_lock);
	return error;
}

void rs_table_remove(struct rs *rs)
{
	pthread_mutex_lock(&table_lock);
	if (rs->fd >= 0 && rs->fd < table_size && rs_table[rs->fd] == rs)
		rs_table[rs->fd] = NULL;
	pthread_mutex_unlock(&table_lock);
}

struct rs *rs_find(int fd)
{
	struct rs *rs = NULL;

	pthread_mutex_lock(&table_lock);
	if (fd >= 0 && fd < table_size)
		rs = rs_table[fd];
	if (rs)
		__atomic_add_fetch(&rs->users, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&table_lock);
	return rs;
}

struct rs *rs_get(int fd)
{
	struct rs *rs = rs_find(fd);

	if (!rs)
		errno = EBADF;
	return rs;
}

void rs_put(struct rs *rs)
{
	if (__atomic_sub_fetch(&rs->users, 1, __ATOMIC_ACQ_REL) == 0)
		rs_free(rs);
}

struct rs *rs_enter(int fd)
{
	struct rs *rs = rs_get(fd);

	if (rs)
		pthread_mutex_lock(&rs->lock);
	return rs;
}

void rs_leave(struct rs *rs)
{
	pthread_mutex_unlock(&rs->lock);
	rs_put(rs);
}
