/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_ROCE_H
#define URNIC_WIRE_ROCE_H

/*
 * The numbers of RoCEv2 below the BTH (IBTA annex A17): packets travel as UDP datagrams that end in
 * the ICRC.
 */

/* Where every RoCEv2 packet goes, whoever sends it. */
#define ROCE_UDP_PORT 4791

/* Where they come from: any port, but this range is reserved for it, to give routers entropy. */
#define ROCE_SOURCE_PORT_MIN 0xc000

#define ROCE_IPV4_BYTES 20
#define ROCE_IPV6_BYTES 40
#define ROCE_UDP_BYTES  8
#define ROCE_ICRC_BYTES 4

#endif
