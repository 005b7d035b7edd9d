/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One lock (`xrcd_lock`) guards the lists of this file. With it locked, a thread takes only the
 * lock of an event queue.
 */
#include "front/verbs/xrcd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "front/verbs/fork.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"

enum { COMP_MASK_REQUIRED = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };

/* A domain. `openings` counts the struct xrcd_front that refer to it. */
struct xrc_domain {
	struct list node; /* in xrc_domains, if the domain has a file */
	const struct device *device;
	struct xrc_file file; /* zeroed: the domain has no file */
	uint32_t openings;
	struct nic_xrcd *nic;
	struct list targets; /* of struct xrc_target, linked by its `node` */
};

struct xrcd_front {
	struct ibv_xrcd verbs;
	struct object object;
	struct list node; /* in the list of open domains */
	struct xrc_domain *domain;
};

/* A receiving queue pair, and its public queue pairs. */
struct xrc_target {
	struct list node; /* in domain->targets */
	/*
	 * Of struct qp_front, linked by target_node. Not empty while the target is in the domain's
	 * list
	 */
	struct list fronts;
	struct nic_qp *nic;
};

pthread_mutex_t xrcd_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list xrc_domains = {&xrc_domains, &xrc_domains};
static struct list xrcd_openings = {&xrcd_openings, &xrcd_openings};

static struct xrcd_front *front_of(struct object *object)
{
	return container_of(object, struct xrcd_front, object);
}

struct nic_xrcd *nic_xrcd_of(struct object *object)
{
	return front_of(object)->domain->nic;
}

/* --- domains ------------------------------------------------------------------------------ */

/*
 * The domain of this file; NULL: there is none. Domains from before a fork do not count. xrcd_lock
 * is locked.
 */
static struct xrc_domain *domain_find(const struct device *device, const struct stat *file)
{
	list_for_each(domain, &xrc_domains, struct xrc_domain, node)
		if (domain->device == device && domain->file.device == file->st_dev &&
			domain->file.inode == file->st_ino && nic_xrcd_is_alive(domain->nic))
			return domain;
	return NULL;
}

/* Create a domain. `file` is NULL if the domain is not shared. */
static struct xrc_domain *domain_create(const struct device *device, const struct stat *file)
{
	struct xrc_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return NULL;
	if (file)
		domain->file = (struct xrc_file){file->st_dev, file->st_ino};
	if (nic_xrcd_create(&domain->file, device->ifindex, &domain->nic)) {
		free(domain);
		return NULL;
	}
	list_init(&domain->node);
	list_init(&domain->targets);
	domain->device = device;
	return domain;
}

/* Destroy a domain to which no struct xrcd_front refers. */
static void domain_destroy(struct xrc_domain *domain)
{
	nic_xrcd_destroy(domain->nic);
	free(domain);
}

static void domain_unref(struct xrc_domain *domain)
{
	bool is_last;

	pthread_mutex_lock(&xrcd_lock);
	is_last = --domain->openings == 0;
	if (is_last)
		list_remove(&domain->node);
	pthread_mutex_unlock(&xrcd_lock);
	if (is_last)
		domain_destroy(domain);
}

/*
 * Open the domain of a file, or a new domain if there is no file. If this process has the domain
 * open already, *ret_domain becomes that domain. Otherwise it becomes `fresh`, if there is no file,
 * if `oflags` has O_CREAT, or if another process has the domain open. The errors equal the
 * kernel's.
 */
static int domain_ref(const struct stat *file, int oflags, struct xrc_domain *fresh,
	struct xrc_domain **ret_domain)
{
	bool is_any_right = (oflags & (O_CREAT | O_EXCL)) == O_CREAT;
	bool is_elsewhere = file && !is_any_right && nic_xrcd_is_elsewhere(fresh->nic);
	struct xrc_domain *domain;
	int error = 0;

	pthread_mutex_lock(&xrcd_lock);
	domain = file ? domain_find(fresh->device, file) : NULL;
	if ((domain || is_elsewhere) && (oflags & O_EXCL)) {
		error = result_cause(REASON_XRCD_EXCLUSIVE);
	} else if (file && !domain && !is_elsewhere && !(oflags & O_CREAT)) {
		error = result_cause(REASON_XRCD_ABSENT);
	} else {
		if (!domain) {
			domain = fresh;
			if (file)
				list_append(&xrc_domains, &domain->node);
		}
		domain->openings++;
		*ret_domain = domain;
	}
	pthread_mutex_unlock(&xrcd_lock);
	return error;
}

/* --- openings ----------------------------------------------------------------------------- */

/* Find or make the domain. */
static int domain_get(struct ibv_context *context, const struct ibv_xrcd_init_attr *init,
	struct xrc_domain **ret_domain)
{
	const struct stat *key = NULL;
	struct xrc_domain *fresh;
	struct stat file;
	int error;

	if (init->fd != -1) {
		if (fstat(init->fd, &file))
			return result_cause(REASON_XRCD_FILE);
		key = &file;
	}
	fresh = domain_create(context_of(context)->device, key);
	if (!fresh)
		return result_cause(REASON_NO_MEMORY);
	error = domain_ref(key, init->oflags, fresh, ret_domain);
	if (error || *ret_domain != fresh)
		domain_destroy(fresh);
	else if (key)
		nic_xrcd_show(fresh->nic);
	return error;
}

struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *init)
{
	struct xrcd_front *xrcd;
	int error;

	if (strict_lacks("ibv_open_xrcd", STRICT_HAS_XRC))
		return NULL;
	if (init->comp_mask & ~(uint32_t)COMP_MASK_REQUIRED)
		return result_null("ibv_open_xrcd", result_cause(REASON_UNSUPPORTED_BITS));
	if (init->comp_mask != COMP_MASK_REQUIRED)
		return result_null("ibv_open_xrcd", result_cause(REASON_ATTR_MISSING));
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return result_null("ibv_open_xrcd", result_cause(REASON_NO_MEMORY));
	list_init(&xrcd->node);
	xrcd->verbs.context = context;
	error = domain_get(context, init, &xrcd->domain);
	if (!object_publish(&xrcd->object, OBJECT_XRCD, context_of(context), NULL, error))
		return NULL;
	pthread_mutex_lock(&xrcd_lock);
	list_append(&xrcd_openings, &xrcd->node);
	pthread_mutex_unlock(&xrcd_lock);
	return &xrcd->verbs;
}

/*
 * The handle of the opening whose public structure is `verbs`, which may be any pointer. 0: there
 * is none.
 */
static uint32_t handle_of(const struct ibv_xrcd *verbs)
{
	uint32_t handle = 0;

	pthread_mutex_lock(&xrcd_lock);
	list_for_each(xrcd, &xrcd_openings, struct xrcd_front, node)
		if (&xrcd->verbs == verbs)
			handle = xrcd->object.handle;
	pthread_mutex_unlock(&xrcd_lock);
	return handle;
}

struct object *xrcd_ref(const struct ibv_xrcd *xrcd, const struct context *context)
{
	return object_ref(handle_of(xrcd), OBJECT_XRCD, context);
}

void *xrcd_release(struct object *object)
{
	struct xrcd_front *xrcd = front_of(object);

	pthread_mutex_lock(&xrcd_lock);
	list_remove(&xrcd->node);
	pthread_mutex_unlock(&xrcd_lock);
	if (xrcd->domain)
		domain_unref(xrcd->domain);
	return xrcd;
}

int xrcd_close(struct ibv_xrcd *xrcd)
{
	uint32_t handle = handle_of(xrcd);

	return result_of("ibv_close_xrcd",
		handle ? object_destroy(handle, OBJECT_XRCD, xrcd->context)
		       : result_cause(REASON_NO_OBJECT));
}

/* --- receiving queue pairs ---------------------------------------------------------------- */

static void on_event(void *user, uint32_t events)
{
	struct xrc_target *target = user;

	pthread_mutex_lock(&xrcd_lock);
	list_for_each(qp, &target->fronts, struct qp_front, target_node)
		qp_post_events(qp, events);
	pthread_mutex_unlock(&xrcd_lock);
}

/* Make `qp` a public queue pair of the target. xrcd_lock is locked. */
static void target_join(struct xrc_target *target, struct qp_front *qp)
{
	list_append(&target->fronts, &qp->target_node);
	qp->target = target;
	qp->nic = target->nic;
}

/* Allocate a target. NULL: there is no memory. */
static struct xrc_target *target_new(void)
{
	struct xrc_target *target = calloc(1, sizeof(*target));

	if (target)
		list_init(&target->fronts);
	return target;
}

/* The target's struct nic_qp is created: add the target to the domain, with its first `qp`. */
static void target_add(struct xrc_domain *domain, struct xrc_target *target, struct qp_front *qp)
{
	pthread_mutex_lock(&xrcd_lock);
	list_append(&domain->targets, &target->node);
	target_join(target, qp);
	pthread_mutex_unlock(&xrcd_lock);
}

int xrc_target_create(struct qp_front *qp, struct nic_qp_init *init)
{
	struct xrc_domain *domain = front_of(qp->xrcd)->domain;
	struct xrc_target *target = target_new();
	int error;

	if (!target)
		return result_cause(REASON_NO_MEMORY);
	init->xrcd = domain->nic;
	init->on_event = on_event;
	init->user = target;
	error = result_as(-nic_qp_create(init, &target->nic), REASON_FORKED);
	if (error)
		free(target);
	else
		target_add(domain, target, qp);
	return error;
}

/* Join the receiving queue pair `number` that this process has open. False: it has none open. */
static bool target_join_known(struct xrc_domain *domain, struct qp_front *qp, uint32_t number)
{
	bool is_known = false;

	pthread_mutex_lock(&xrcd_lock);
	list_for_each(target, &domain->targets, struct xrc_target, node) {
		if (nic_qp_number(target->nic) == number) {
			target_join(target, qp);
			is_known = true;
			break;
		}
	}
	pthread_mutex_unlock(&xrcd_lock);
	return is_known;
}

int xrc_target_open(struct qp_front *qp, uint32_t number)
{
	struct xrc_domain *domain = front_of(qp->xrcd)->domain;
	struct xrc_target *target;
	int error;

	if (target_join_known(domain, qp, number))
		return 0;
	target = target_new();
	if (!target)
		return result_cause(REASON_NO_MEMORY);
	error = result_as(-nic_target_open(domain->nic, number, on_event, target, &target->nic),
		REASON_XRC_NUMBER);
	if (error)
		free(target);
	else
		target_add(domain, target, qp);
	return error;
}

void xrc_target_close(struct qp_front *qp)
{
	struct xrc_target *target = qp->target;
	bool is_last;

	pthread_mutex_lock(&xrcd_lock);
	list_remove(&qp->target_node);
	is_last = list_is_empty(&target->fronts);
	if (is_last)
		list_remove(&target->node);
	pthread_mutex_unlock(&xrcd_lock);
	if (is_last) {
		nic_qp_destroy(target->nic);
		free(target);
	}
}
