/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chooses which interfaces become devices, and the transports, the order and the names of these
 * devices.
 *
 * Three environment variables decide (docs/environment.md): URNIC_INTERFACES lists patterns,
 * URNIC_TRANSPORTS lists transports, and URNIC_DEVICE_NAME lists names. Commas separate the items
 * of each list; blanks around an item do not count. The functions get the values as arguments, and
 * read nothing else.
 */
#ifndef URNIC_FRONT_VERBS_SELECT_H
#define URNIC_FRONT_VERBS_SELECT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The place of an interface among the devices.
 *
 * `patterns`  The value of URNIC_INTERFACES: shell patterns like "eth*,lo". NULL or empty matches
 *             every interface.
 *
 * Returns the number of the first matching pattern, from 0; -1 if the interface is not wanted. The
 * caller keeps interfaces of the same place in the order in which it found them.
 */
int select_place(const char *patterns, const char *ifname);

/*
 * Does the environment name this interface?
 *
 * `patterns`  The value of URNIC_INTERFACES. A pattern that matches every name ("*") does not
 *             count.
 * `names`     The value of URNIC_DEVICE_NAME: an item "ifname=name" counts.
 *
 * Either may be NULL.
 */
bool select_is_named(const char *patterns, const char *names, const char *ifname);

/*
 * The name of the device on an interface.
 *
 * `names`    The value of URNIC_DEVICE_NAME, or NULL. An item "ifname=name" names the device on
 *            that interface. An item "name" names the next device that no other item names.
 * `unnamed`  The number of devices before this one that have no "ifname=name" item. Incremented if
 *            this device has none.
 * `name`     Set to the item's name, or to `prefix`, "_" and the interface's name.
 * `size`     The size of `name` in bytes, with the terminator; at least 32.
 *
 * Returns false when the item's name is illegal; *name is then the default. Legal names have ASCII
 * letters, digits and "_-.:", and fit `size`. They do not begin with a dot, because programs make
 * paths of them.
 */
bool select_name(const char *names, const char *prefix, const char *ifname, unsigned int *unnamed,
	char *name, size_t size);

/*
 * The place of a transport in URNIC_TRANSPORTS; -1: not in the list.
 *
 * `list`  The value of URNIC_TRANSPORTS. NULL or empty means "roce".
 */
int select_transport_place(const char *list, const char *transport);

int select_count(const char *list);

#endif
