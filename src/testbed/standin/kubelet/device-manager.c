/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/kubelet/device-manager.h"

#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

struct managed_resource {
	char *name, *endpoint;
	struct managed_device *devices; /* sorted by id */
	size_t n;
	bool connected, prefer, pre_start;
	uint64_t stopped_ns; /* 0: not stopped */
	bool gone;
};

struct device_manager {
	bool align_numa;
	struct managed_resource *resources; /* sorted by name */
	size_t n_resources;
	struct device_grant *grants;
	size_t n_grants, room_grants;
};

static void devices_free(struct managed_device *device, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(device[i].id);
	free(device);
}

static void grant_fini(struct device_grant *g)
{
	free(g->pod_uid);
	free(g->container);
	free(g->resource);
	strv_fini(&g->ids);
	free(g->numa_nodes);
	free(g->response);
}

int device_manager_new(struct device_manager **ret, bool align_numa, struct error *err)
{
	struct device_manager *m = calloc(1, sizeof(*m));

	if (!m)
		return error_nomem(err);
	m->align_numa = align_numa;
	*ret = m;
	return 0;
}

struct device_manager *device_manager_free(struct device_manager *m)
{
	if (!m)
		return NULL;
	for (size_t i = 0; i < m->n_resources; i++) {
		free(m->resources[i].name);
		free(m->resources[i].endpoint);
		devices_free(m->resources[i].devices, m->resources[i].n);
	}
	free(m->resources);
	for (size_t i = 0; i < m->n_grants; i++)
		grant_fini(&m->grants[i]);
	free(m->grants);
	free(m);
	return NULL;
}

static struct managed_resource *find_managed_resource(const struct device_manager *m,
	const char *name)
{
	for (size_t i = 0; i < m->n_resources; i++) {
		if (strcmp(m->resources[i].name, name) == 0)
			return &m->resources[i];
	}
	return NULL;
}

static int by_resource(const void *a, const void *b)
{
	return strcmp(((const struct managed_resource *)a)->name,
		((const struct managed_resource *)b)->name);
}

int device_manager_connect(struct device_manager *m, const char *resource, const char *endpoint,
	bool prefer, bool pre_start, struct error *err)
{
	CLEANUP(freep) char *path = strdup(endpoint);
	struct managed_resource *r = find_managed_resource(m, resource);

	if (!path)
		return error_nomem(err);
	if (!r) {
		char *name;

		if (m->n_resources == DEVICE_MANAGER_RESOURCES_MAX)
			return error_set(err, ERR_LIMIT, "more than %d resources",
				DEVICE_MANAGER_RESOURCES_MAX);
		name = strdup(resource);
		if (!name || !ARRAY_EXTEND(&m->resources, m->n_resources, 1,
				     DEVICE_MANAGER_RESOURCES_MAX)) {
			free(name);
			return error_nomem(err);
		}
		m->resources[m->n_resources++] = (struct managed_resource){ .name = name };
		qsort(m->resources, m->n_resources, sizeof(*m->resources), by_resource);
		r = find_managed_resource(m, resource);
	}
	free(r->endpoint);
	r->endpoint = STEAL_PTR(path);
	r->connected = true;
	r->prefer = prefer;
	r->pre_start = pre_start;
	r->stopped_ns = 0;
	r->gone = false;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct managed_device *)a)->id,
		((const struct managed_device *)b)->id);
}

int device_manager_update(struct device_manager *m, const char *resource,
	const struct managed_device *devices, size_t n, struct error *err)
{
	struct managed_resource *r = find_managed_resource(m, resource);
	struct managed_device *device;
	size_t kept = 0;

	if (!r)
		return error_set(err, ERR_NOT_FOUND, "resource '%s' is not registered",
			resource);
	if (n > DEVICE_MANAGER_DEVICES_MAX)
		return error_set(err, ERR_LIMIT, "%zu devices of '%s', the limit is %d", n,
			resource, DEVICE_MANAGER_DEVICES_MAX);
	device = calloc(n ? n : 1, sizeof(*device));
	if (!device)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		device[i] = devices[i];
		device[i].id = strdup(devices[i].id);
		if (!device[i].id) {
			devices_free(device, n);
			return error_nomem(err);
		}
	}
	qsort(device, n, sizeof(*device), by_id);
	for (size_t i = 0; i < n; i++) { /* the kubelet has sets: an id counts once */
		if (kept > 0 && strcmp(device[kept - 1].id, device[i].id) == 0)
			free(device[i].id);
		else
			device[kept++] = device[i];
	}
	devices_free(r->devices, r->n);
	r->devices = device;
	r->n = kept;
	return 0;
}

void device_manager_disconnect(struct device_manager *m, const char *resource, uint64_t now_ns)
{
	struct managed_resource *r = find_managed_resource(m, resource);

	if (!r || !r->connected)
		return;
	r->connected = false;
	r->stopped_ns = now_ns ? now_ns : 1;
	for (size_t i = 0; i < r->n; i++)
		r->devices[i].healthy = false;
}

uint64_t device_manager_next_expiry(const struct device_manager *m)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < m->n_resources; i++) {
		const struct managed_resource *r = &m->resources[i];

		if (r->stopped_ns && !r->gone && r->stopped_ns + DEVICE_MANAGER_GRACE_NS < next)
			next = r->stopped_ns + DEVICE_MANAGER_GRACE_NS;
	}
	return next;
}

static void forget_devices(struct managed_resource *r)
{
	devices_free(r->devices, r->n);
	r->devices = NULL;
	r->n = 0;
}

bool device_manager_expire(struct device_manager *m, uint64_t now_ns)
{
	bool any = false;

	for (size_t i = 0; i < m->n_resources; i++) {
		struct managed_resource *r = &m->resources[i];

		if (!r->stopped_ns || r->gone ||
			now_ns < r->stopped_ns + DEVICE_MANAGER_GRACE_NS)
			continue;
		r->gone = true;
		forget_devices(r);
		any = true;
	}
	return any;
}

void device_manager_restart(struct device_manager *m)
{
	for (size_t i = 0; i < m->n_resources; i++) {
		struct managed_resource *r = &m->resources[i];

		/* The resource is known from the checkpoint; it is empty until its plugin registers again. */
		forget_devices(r);
		r->connected = false;
		r->stopped_ns = 0;
		free(r->endpoint);
		r->endpoint = NULL;
	}
}

bool device_manager_count(const struct device_manager *m, const char *resource,
	struct resource_count *ret)
{
	const struct managed_resource *r = find_managed_resource(m, resource);

	*ret = (struct resource_count){ .endpoint = "" };
	if (!r)
		return false;
	ret->connected = r->connected;
	ret->gone = r->gone;
	ret->prefer = r->prefer;
	ret->pre_start = r->pre_start;
	ret->endpoint = r->endpoint ? r->endpoint : "";
	ret->capacity = (uint32_t)r->n;
	for (size_t i = 0; i < r->n; i++)
		ret->allocatable += r->devices[i].healthy;
	for (size_t i = 0; i < m->n_grants; i++) {
		if (strcmp(m->grants[i].resource, resource) == 0 && !m->grants[i].reusable)
			ret->granted += (uint32_t)m->grants[i].ids.n;
	}
	return true;
}

size_t device_manager_n_resources(const struct device_manager *m)
{
	return m->n_resources;
}

const char *device_manager_resource(const struct device_manager *m, size_t i)
{
	return m->resources[i].name;
}

const struct managed_device *device_manager_devices(const struct device_manager *m,
	const char *resource, size_t *ret_n)
{
	const struct managed_resource *r = find_managed_resource(m, resource);

	*ret_n = r ? r->n : 0;
	return r ? r->devices : NULL;
}

size_t device_manager_n_grants(const struct device_manager *m)
{
	return m->n_grants;
}

const struct device_grant *device_manager_grant(const struct device_manager *m, size_t i)
{
	return &m->grants[i];
}

const struct device_grant *device_manager_find(const struct device_manager *m,
	const char *pod_uid, const char *container, const char *resource)
{
	for (size_t i = 0; i < m->n_grants; i++) {
		const struct device_grant *g = &m->grants[i];

		if (strcmp(g->pod_uid, pod_uid) == 0 && strcmp(g->container, container) == 0 &&
			strcmp(g->resource, resource) == 0)
			return g;
	}
	return NULL;
}

const struct device_grant *device_manager_find_id(const struct device_manager *m,
	const char *resource, const char *id)
{
	for (size_t i = 0; i < m->n_grants; i++) {
		const struct device_grant *g = &m->grants[i];

		if (strcmp(g->resource, resource) == 0 && strv_has(&g->ids, id))
			return g;
	}
	return NULL;
}

void device_manager_release(struct device_manager *m, const char *pod_uid)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->n_grants; i++) {
		if (strcmp(m->grants[i].pod_uid, pod_uid) == 0)
			grant_fini(&m->grants[i]);
		else
			m->grants[kept++] = m->grants[i];
	}
	m->n_grants = kept;
}

/* --- choosing --- */

void device_choice_fini(struct device_choice *c)
{
	free(c->pod_uid);
	free(c->container);
	free(c->resource);
	strv_fini(&c->chosen);
	strv_fini(&c->pool);
	strv_fini(&c->queried);
	*c = (struct device_choice){ 0 };
}

/* A device during a choice. */
struct device_candidate {
	const struct managed_device *device;
	uint64_t hash;
	bool in_use, reusable, reserved, unaligned;
};

static uint64_t hash_managed_id(const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return h ^ (h >> 29);
}

static struct device_candidate *candidate_of(struct device_candidate *v,
	const struct managed_resource *r, const char *id)
{
	struct managed_device key = { .id = NULL };
	const struct managed_device *d;

	key.id = (char *)(uintptr_t)id;
	d = r->n ? bsearch(&key, r->devices, r->n, sizeof(key), by_id) : NULL;
	return d ? &v[d - r->devices] : NULL;
}

/* The candidates in the order of the devices, marked with their present users. */
static struct device_candidate *candidates_new(const struct device_manager *m,
	const struct managed_resource *r, const char *pod_uid)
{
	struct device_candidate *v = calloc(r->n ? r->n : 1, sizeof(*v));

	if (!v)
		return NULL;
	for (size_t i = 0; i < r->n; i++) {
		v[i].device = &r->devices[i];
		v[i].hash = hash_managed_id(r->devices[i].id);
	}
	for (size_t g = 0; g < m->n_grants; g++) {
		const struct device_grant *grant = &m->grants[g];
		bool own = strcmp(grant->pod_uid, pod_uid) == 0;

		if (strcmp(grant->resource, r->name) != 0)
			continue;
		for (size_t i = 0; i < grant->ids.n; i++) {
			struct device_candidate *c = candidate_of(v, r, grant->ids.v[i]);

			if (!c)
				continue;
			c->in_use = true;
			if (own && grant->reusable)
				c->reusable = true;
			else
				c->reserved = true; /* an app container or sidecar has it */
		}
	}
	return v;
}

static int by_alignment_then_hash(const void *a, const void *b)
{
	const struct device_candidate *x = *(const struct device_candidate *const *)a;
	const struct device_candidate *y = *(const struct device_candidate *const *)b;
	int rx = x->device->numa_node < 0 ? 2 : x->unaligned;
	int ry = y->device->numa_node < 0 ? 2 : y->unaligned;

	if (rx != ry)
		return rx - ry;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return strcmp(x->device->id, y->device->id);
}

/*
 * The topology manager's best-effort hint for one provider: the narrowest set of NUMA nodes with enough devices,
 * the lowest among equals. 0: no hint; so it is if any device is on a node from 16 on.
 */
static uint32_t numa_hint(struct device_candidate *const *v, size_t n, uint32_t size)
{
	uint32_t count[16] = { 0 }, best = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i]->device->numa_node >= 16)
			return 0;
		if (v[i]->device->numa_node >= 0)
			count[v[i]->device->numa_node]++;
	}
	for (uint32_t mask = 1; mask < 1U << 16; mask++) {
		uint32_t sum = 0;

		if (best && __builtin_popcount(mask) >= __builtin_popcount(best))
			continue;
		for (uint32_t node = 0; node < 16; node++)
			sum += mask & (1U << node) ? count[node] : 0;
		if (sum >= size)
			best = mask;
	}
	return best;
}

static int choose_candidate(struct device_choice *c, struct device_candidate *v,
	struct error *err)
{
	return strv_add(&c->chosen, v->device->id, err);
}

/* Sorts the free devices into .chosen and .pool. */
static int sort_free_devices(const struct device_manager *m, struct device_choice *c,
	struct device_candidate **free_, size_t n_free, struct error *err)
{
	uint32_t hint = m->align_numa ? numa_hint(free_, n_free, c->size) : 0;
	size_t aligned = 0, first = 0, last = n_free;
	uint32_t needed = c->size - (uint32_t)c->chosen.n;

	for (size_t i = 0; i < n_free; i++) {
		int32_t node = free_[i]->device->numa_node;

		free_[i]->unaligned = hint && node >= 0 && !(hint & (1U << node));
		aligned += hint && node >= 0 && !free_[i]->unaligned;
	}
	qsort(free_, n_free, sizeof(*free_), by_alignment_then_hash);
	if (needed < aligned) {
		last = aligned; /* only aligned devices are candidates */
	} else {
		for (; first < aligned; first++) { /* all aligned devices are chosen */
			if (choose_candidate(c, free_[first], err) < 0)
				return -1;
		}
		if (c->chosen.n == c->size)
			return 0;
	}
	for (size_t i = first; i < last; i++) {
		if (strv_add(&c->pool, free_[i]->device->id, err) < 0)
			return -1;
	}
	return 0;
}

static int fill_choice(struct device_manager *m, const struct managed_resource *r,
	struct device_choice *c, struct error *err)
{
	CLEANUP(freep) struct device_candidate *v = candidates_new(m, r, c->pod_uid);
	CLEANUP(freep)
	struct device_candidate **order = calloc(r->n ? r->n : 1, sizeof(*order));
	size_t n = 0, n_free;

	if (!v || !order)
		return error_nomem(err);
	/* First the devices of finished init containers. */
	for (size_t i = 0; i < r->n; i++) {
		if (v[i].reusable && !v[i].reserved)
			order[n++] = &v[i];
	}
	qsort(order, n, sizeof(*order), by_alignment_then_hash);
	for (size_t i = 0; i < n && c->chosen.n < c->size; i++) {
		if (choose_candidate(c, order[i], err) < 0)
			return -1;
	}
	if (c->chosen.n == c->size)
		return 0;
	n_free = 0;
	for (size_t i = 0; i < r->n; i++) {
		if (v[i].device->healthy && !v[i].in_use)
			order[n_free++] = &v[i];
	}
	if (n_free < c->size - c->chosen.n)
		return error_set(err, ERR_LIMIT,
			"requested number of devices unavailable for %s. Requested: %zu, Available: %zu",
			r->name, (size_t)c->size - c->chosen.n, n_free);
	if (sort_free_devices(m, c, order, n_free, err) < 0)
		return -1;
	if (c->chosen.n == c->size)
		return 0;
	if (!r->prefer)
		return device_manager_choose(m, c, NULL, 0, err);
	for (size_t i = 0; i < c->chosen.n + c->pool.n; i++) {
		const char *id = i < c->chosen.n ? c->chosen.v[i] : c->pool.v[i - c->chosen.n];

		if (strv_add(&c->queried, id, err) < 0)
			return -1;
	}
	return DEVICE_CHOICE_QUERY_PLUGIN;
}

/* The checks of devicesToAllocate() that come before those of single devices. */
static int check_allocatable(const struct managed_resource *r, const char *resource,
	const struct device_grant *held, struct error *err)
{
	size_t healthy = 0;

	if (!r || r->gone)
		return error_set(err, ERR_UNAVAILABLE, "cannot allocate unregistered device %s",
			resource);
	for (size_t i = 0; i < r->n; i++)
		healthy += r->devices[i].healthy;
	if (healthy == 0)
		return error_set(err, ERR_UNAVAILABLE,
			"no healthy devices present; cannot allocate unhealthy devices %s",
			resource);
	for (size_t i = 0; held && i < held->ids.n; i++) {
		struct managed_device key = { .id = held->ids.v[i] };
		const struct managed_device *d =
			bsearch(&key, r->devices, r->n, sizeof(key), by_id);

		if (!d || !d->healthy)
			return error_set(err, ERR_UNAVAILABLE,
				"previously allocated devices are no longer healthy; cannot allocate "
				"unhealthy devices %s",
				resource);
	}
	return 0;
}

int device_manager_begin(struct device_manager *m, const char *pod_uid, const char *container,
	const char *resource, uint32_t size, bool reusable, struct device_choice *ret,
	struct error *err)
{
	const struct device_grant *held = device_manager_find(m, pod_uid, container, resource);
	const struct managed_resource *r = find_managed_resource(m, resource);
	struct device_choice c = { .size = size, .reusable = reusable };
	int rc;

	if (held && held->ids.n != size)
		return error_set(err, ERR_INVALID,
			"pod \"%s\" container \"%s\" changed request for resource \"%s\" from %zu to %u",
			pod_uid, container, resource, held->ids.n, size);
	if (check_allocatable(r, resource, held, err) < 0)
		return -1;
	c.pod_uid = strdup(pod_uid);
	c.container = strdup(container);
	c.resource = strdup(resource);
	if (!c.pod_uid || !c.container || !c.resource)
		rc = error_nomem(err);
	else
		rc = held ? 0 : fill_choice(m, r, &c, err);
	if (rc < 0) {
		device_choice_fini(&c);
		return -1;
	}
	*ret = c;
	return rc;
}

int device_manager_choose(struct device_manager *m, struct device_choice *c,
	const char *const *preferred, size_t n, struct error *err)
{
	(void)m;
	for (size_t i = 0; i < n && c->chosen.n < c->size; i++) {
		if (!strv_has(&c->pool, preferred[i]) || strv_has(&c->chosen, preferred[i]))
			continue;
		if (strv_add(&c->chosen, preferred[i], err) < 0)
			return -1;
	}
	for (size_t i = 0; i < c->pool.n && c->chosen.n < c->size; i++) {
		if (!strv_has(&c->chosen, c->pool.v[i]) &&
			strv_add(&c->chosen, c->pool.v[i], err) < 0)
			return -1;
	}
	if (c->chosen.n < c->size)
		return error_set(err, ERR_INTERNAL,
			"unexpectedly allocated less resources than required. Requested: %u, Got: %zu",
			c->size, c->chosen.n);
	return 0;
}

int device_manager_commit(struct device_manager *m, const struct device_choice *c,
	const uint8_t *response, size_t response_len, struct error *err)
{
	const struct managed_resource *r = find_managed_resource(m, c->resource);
	struct device_grant g = { .reusable = c->reusable };
	bool has_room = ARRAY_GROW(&m->grants, m->n_grants, &m->room_grants, ARRAY_NO_LIMIT);

	g.pod_uid = strdup(c->pod_uid);
	g.container = strdup(c->container);
	g.resource = strdup(c->resource);
	g.numa_nodes = calloc(c->chosen.n ? c->chosen.n : 1, sizeof(*g.numa_nodes));
	g.response = malloc(response_len ? response_len : 1);
	if (!has_room || !g.pod_uid || !g.container || !g.resource || !g.numa_nodes ||
		!g.response || strv_copy(&g.ids, &c->chosen, err) < 0) {
		grant_fini(&g);
		return error_nomem(err);
	}
	if (response_len > 0)
		memcpy(g.response, response, response_len);
	g.response_len = response_len;
	for (size_t i = 0; i < g.ids.n; i++) {
		struct managed_device key = { .id = g.ids.v[i] };
		const struct managed_device *d =
			r && r->n ? bsearch(&key, r->devices, r->n, sizeof(key), by_id) : NULL;

		g.numa_nodes[i] = d ? d->numa_node : -1;
	}
	m->grants[m->n_grants++] = g;
	return 0;
}
