/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration (IBTA 17.2.8): both ends know a second path, and either end can move to
 * it.
 *
 * Each packet says whether its sender has migrated (BTH, MigReq). When a program rearms an end,
 * that end sends packets without MigReq, and is armed as soon as it receives a packet without
 * MigReq. An armed end migrates to the alternate path when its packets fail or its program requests
 * a migration. Then the end sets MigReq again. When the peer receives a packet with MigReq on the
 * alternate path, the peer migrates, too.
 *
 * A migration exchanges the two paths. So an end still accepts late packets on the old path as the
 * peer's. Also, the program can rearm an end without setting another alternate path; a later
 * migration then leads back.
 */
#include "qp/qp.h"

static bool is_alternate(const struct qp *qp, const struct packet_origin *origin)
{
	return qp->has_alt_path && gid_is_equal(&qp->attr.alt_path.remote, origin->source) &&
		gid_is_equal(&qp->attr.alt_path.local, origin->destination);
}

bool qp_is_address_of_peer(const struct qp *qp, const struct packet_origin *origin)
{
	return (gid_is_equal(&qp->attr.path.remote, origin->source) &&
		       gid_is_equal(&qp->attr.path.local, origin->destination)) ||
		is_alternate(qp, origin);
}

void qp_path_publish(struct qp *qp)
{
	qp->public->local = qp->attr.path.local;
	qp->public->remote = qp->attr.path.remote;
}

void qp_migrate(struct qp *qp)
{
	struct qp_attr *attr = &qp->attr;
	struct qp_path path = attr->path;
	uint32_t timeout = attr->timeout;
	uint32_t pkey_index = attr->pkey_index;

	attr->path = attr->alt_path;
	attr->alt_path = path;
	attr->pkey_index = attr->alt_pkey_index;
	attr->alt_pkey_index = pkey_index;
	attr->timeout = attr->alt_timeout;
	attr->alt_timeout = timeout;
	attr->migration = QP_MIGRATED;
	qp->peer_port = 0;
	qp_path_publish(qp);
	pace_update(qp);
	if (qp->transport->migrated)
		qp->transport->migrated(qp);
	signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_MIGRATED);
}

/*
 * The peer has migrated to a path that this end does not know. Raise the event only once, because
 * any host can send such a packet.
 */
static void migration_refuse(struct qp *qp)
{
	if (qp->attr.migration != QP_ARMED || qp->is_migration_refused)
		return;
	qp->is_migration_refused = true;
	signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_NOT_MIGRATED);
}

bool qp_path_accept(struct qp *qp, const struct packet *packet, const struct packet_origin *origin,
	bool is_primary)
{
	bool is_from_alternate = is_alternate(qp, origin);
	bool has_migrated = packet->bth.is_migrated;

	/*
	 * When both paths have the same addresses, a packet does not show which path it took. Then
	 * only an armed end migrates, not one that is rearming.
	 */
	if (has_migrated && is_from_alternate &&
		(qp->attr.migration == QP_ARMED || (qp->attr.migration == QP_REARM && !is_primary)))
		qp_migrate(qp);
	else if (is_primary && !has_migrated && qp->attr.migration == QP_REARM)
		qp->attr.migration = QP_ARMED;
	else if (has_migrated && !is_primary && !is_from_alternate)
		migration_refuse(qp);
	return is_primary || is_from_alternate;
}
