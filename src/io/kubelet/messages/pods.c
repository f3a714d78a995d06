/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the PodResources API, encoded and decoded: the list of pods and the allocatable devices
 * (messages.h).
 */
#include "io/kubelet/messages/messages.h"

#include <stdint.h>
#include <string.h>

#include "io/kubelet/messages/codec.h"
#include "podresources-v1.pb-c.h"

static char *borrow_pod_text(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

static bool is_same_pod_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool is_same_pod(const struct pod_entry *a, const struct pod_entry *b)
{
	return is_same_pod_text(a->namespace_, b->namespace_) &&
	       is_same_pod_text(a->pod, b->pod);
}

static bool is_same_container(const struct pod_entry *a, const struct pod_entry *b)
{
	return is_same_pod(a, b) && is_same_pod_text(a->container, b->container);
}

static bool same_group(const struct pod_entry *a, const struct pod_entry *b)
{
	return is_same_container(a, b) && is_same_pod_text(a->resource, b->resource) &&
	       a->numa_node == b->numa_node && !a->dynamic && !b->dynamic;
}

/* How many of the @n entries from @v on are equal to the first. */
static size_t run_of(const struct pod_entry *v, size_t n,
	bool (*equal)(const struct pod_entry *, const struct pod_entry *))
{
	size_t i = 1;

	while (i < n && equal(&v[0], &v[i]))
		i++;
	return i;
}

/* One ContainerDevices for the @n entries, all of one resource and NUMA node. */
static V1__ContainerDevices *write_devices(const struct pod_entry *v, size_t n, struct arena *a)
{
	struct pod_device_messages {
		V1__ContainerDevices devices;
		V1__TopologyInfo topology;
		V1__NUMANode node;
		V1__NUMANode *nodes[1];
	} *o = arena_alloc(a, sizeof(*o));
	char **ids = arena_array(a, n, sizeof(*ids));
	size_t i;

	if (!o || !ids)
		return NULL;
	for (i = 0; i < n; i++)
		ids[i] = borrow_pod_text(v[i].id);
	v1__container_devices__init(&o->devices);
	o->devices.resource_name = borrow_pod_text(v->resource);
	o->devices.n_device_ids = n;
	o->devices.device_ids = ids;
	if (v->numa_node >= 0) {
		v1__topology_info__init(&o->topology);
		v1__numanode__init(&o->node);
		o->node.id = v->numa_node;
		o->nodes[0] = &o->node;
		o->topology.n_nodes = 1;
		o->topology.nodes = o->nodes;
		o->devices.topology = &o->topology;
	}
	return &o->devices;
}

/* Writes one claim for each device. */
static V1__DynamicResource *write_dynamic(const struct pod_entry *e, struct arena *a)
{
	struct pod_claim_messages {
		V1__DynamicResource dynamic;
		V1__ClaimResource resource;
		V1__ClaimResource *resources[1];
	} *o = arena_alloc(a, sizeof(*o));

	if (!o)
		return NULL;
	v1__dynamic_resource__init(&o->dynamic);
	v1__claim_resource__init(&o->resource);
	o->resource.driver_name = borrow_pod_text(e->resource);
	o->resource.device_name = borrow_pod_text(e->id);
	o->resources[0] = &o->resource;
	o->dynamic.n_claim_resources = 1;
	o->dynamic.claim_resources = o->resources;
	return &o->dynamic;
}

static V1__ContainerResources *write_container_resources(const struct pod_entry *v, size_t n,
	struct arena *a)
{
	V1__ContainerResources *c = arena_alloc(a, sizeof(*c));
	size_t i, len;

	if (!c)
		return NULL;
	v1__container_resources__init(c);
	c->name = borrow_pod_text(v->container);
	c->devices = arena_array(a, n, sizeof(*c->devices));
	c->dynamic_resources = arena_array(a, n, sizeof(*c->dynamic_resources));
	if (!c->devices || !c->dynamic_resources)
		return NULL;
	for (i = 0; i < n; i += len) {
		len = v[i].id ? run_of(v + i, n - i, same_group) : 1;
		if (!v[i].id)
			continue;
		if (v[i].dynamic) {
			c->dynamic_resources[c->n_dynamic_resources] = write_dynamic(&v[i], a);
			if (!c->dynamic_resources[c->n_dynamic_resources++])
				return NULL;
			continue;
		}
		c->devices[c->n_devices] = write_devices(v + i, len, a);
		if (!c->devices[c->n_devices++])
			return NULL;
	}
	return c;
}

/* How many of the @n entries from @v on fit into one message of their container in this order: devices come
 * before claims in it. A container that was listed twice may thus become two messages again. */
static size_t container_run(const struct pod_entry *v, size_t n)
{
	size_t i, len = run_of(v, n, is_same_container);

	for (i = 1; i < len; i++)
		if (v[i - 1].dynamic && !v[i].dynamic)
			return i;
	return len;
}

static V1__PodResources *write_pod_resources(const struct pod_entry *v, size_t n,
	struct arena *a)
{
	V1__PodResources *p = arena_alloc(a, sizeof(*p));
	size_t i, len;

	if (!p)
		return NULL;
	v1__pod_resources__init(p);
	p->name = borrow_pod_text(v->pod);
	p->namespace_ = borrow_pod_text(v->namespace_);
	p->containers = arena_array(a, n, sizeof(*p->containers));
	if (!p->containers)
		return NULL;
	for (i = 0; i < n; i += len) {
		len = container_run(v + i, n - i);
		p->containers[p->n_containers] = write_container_resources(v + i, len, a);
		if (!p->containers[p->n_containers++])
			return NULL;
	}
	return p;
}

int pod_list_encode(struct buf *b, const struct pod_entry *v, size_t n, struct error *err)
{
	CLEANUP(arena_freep) struct arena *a = arena_new(SIZE_MAX);
	V1__ListPodResourcesResponse m = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
	size_t i, len;

	m.pod_resources = a ? arena_array(a, n, sizeof(*m.pod_resources)) : NULL;
	if (!m.pod_resources)
		return error_nomem(err);
	for (i = 0; i < n; i += len) {
		len = run_of(v + i, n - i, is_same_pod);
		m.pod_resources[m.n_pod_resources] = write_pod_resources(v + i, len, a);
		if (!m.pod_resources[m.n_pod_resources++])
			return error_nomem(err);
	}
	return message_encode(b, "ListPodResourcesResponse", &m.base, err);
}

int pod_allocatable_encode(struct buf *b, const struct pod_entry *v, size_t n,
	struct error *err)
{
	CLEANUP(arena_freep) struct arena *a = arena_new(SIZE_MAX);
	V1__AllocatableResourcesResponse m = V1__ALLOCATABLE_RESOURCES_RESPONSE__INIT;
	size_t i;

	m.devices = a ? arena_array(a, n, sizeof(*m.devices)) : NULL;
	if (!m.devices)
		return error_nomem(err);
	for (i = 0; i < n; i++) {
		m.devices[i] = write_devices(&v[i], 1, a);
		if (!m.devices[i])
			return error_nomem(err);
	}
	m.n_devices = n;
	return message_encode(b, "AllocatableResourcesResponse", &m.base, err);
}

/* --- decoding --- */

static int32_t get_pod_numa_node(const V1__TopologyInfo *t)
{
	if (!t || t->n_nodes == 0 || t->nodes[0]->id < 0 || t->nodes[0]->id > INT32_MAX)
		return -1;
	return (int32_t)t->nodes[0]->id;
}

/* The first pass has no array and only counts. */
struct pod_entry_sink {
	struct pod_entry *v; /* NULL while counting */
	size_t n;
};

static void read_container_devices(struct pod_entry_sink *to, const struct pod_entry *base,
	V1__ContainerDevices *const *v, size_t n)
{
	size_t i, j;

	for (i = 0; i < n; i++) {
		for (j = 0; to->v && j < v[i]->n_device_ids; j++) {
			struct pod_entry *e = &to->v[to->n + j];

			*e = *base;
			e->resource = v[i]->resource_name;
			e->id = v[i]->device_ids[j];
			e->numa_node = get_pod_numa_node(v[i]->topology);
		}
		to->n += v[i]->n_device_ids;
	}
}

/* The UUID of a GPU or MIG device that names one of the CDI devices, else the driver's name. */
static const char *dynamic_id(const V1__ClaimResource *r)
{
	for (size_t i = 0; i < r->n_cdi_devices; i++) {
		const char *name = strchr(r->cdi_devices[i]->name, '=');

		if (name && (!strncmp(name + 1, "GPU-", 4) || !strncmp(name + 1, "MIG-", 4)))
			return name + 1;
	}
	return r->device_name;
}

static void read_dynamic_resources(struct pod_entry_sink *to, const struct pod_entry *base,
	V1__DynamicResource *const *v, size_t n)
{
	size_t i, j;

	for (i = 0; i < n; i++) {
		for (j = 0; to->v && j < v[i]->n_claim_resources; j++) {
			struct pod_entry *e = &to->v[to->n + j];

			*e = *base;
			e->resource = v[i]->claim_resources[j]->driver_name;
			e->id = dynamic_id(v[i]->claim_resources[j]);
			e->numa_node = -1;
			e->dynamic = true;
		}
		to->n += v[i]->n_claim_resources;
	}
}

static void read_pod_list(struct pod_entry_sink *to, const V1__ListPodResourcesResponse *m)
{
	size_t i, j;

	for (i = 0; i < m->n_pod_resources; i++) {
		const V1__PodResources *p = m->pod_resources[i];

		for (j = 0; j < p->n_containers; j++) {
			const V1__ContainerResources *c = p->containers[j];
			const struct pod_entry base = {
				.namespace_ = p->namespace_,
				.pod = p->name,
				.container = c->name,
			};

			read_container_devices(to, &base, c->devices, c->n_devices);
			read_dynamic_resources(to, &base, c->dynamic_resources,
				c->n_dynamic_resources);
		}
	}
}

static int check_count(const char *what, const struct pod_entry_sink *s, struct arena *a,
	struct pod_entry **ret, struct error *err)
{
	if (s->n > MESSAGE_DEVICES_MAX)
		return message_too_many(err, what, "devices", s->n, MESSAGE_DEVICES_MAX);
	*ret = arena_array(a, s->n, sizeof(**ret));
	return *ret ? 0 : error_set(err, ERR_LIMIT, "%s needs too much memory", what);
}

int pod_list_decode(struct pod_entries *ret, const uint8_t *data, size_t len, struct error *err)
{
	static const char what[] = "ListPodResourcesResponse";
	CLEANUP(arena_freep) struct arena *a = NULL;
	const V1__ListPodResourcesResponse *m;
	struct pod_entry_sink count = { 0 }, fill = { 0 };
	ProtobufCMessage *base;

	if (message_decode(&v1__list_pod_resources_response__descriptor, what, data, len, &base,
		    &a, err) < 0)
		return -1;
	m = (const V1__ListPodResourcesResponse *)base;
	read_pod_list(&count, m);
	if (check_count(what, &count, a, &fill.v, err) < 0)
		return -1;
	read_pod_list(&fill, m);
	*ret = (struct pod_entries){ .v = fill.v, .n = fill.n, .owner = STEAL_PTR(a) };
	return 0;
}

int pod_allocatable_decode(struct pod_entries *ret, const uint8_t *data, size_t len,
	struct error *err)
{
	static const char what[] = "AllocatableResourcesResponse";
	static const struct pod_entry none = { .namespace_ = "", .pod = "", .container = "" };
	CLEANUP(arena_freep) struct arena *a = NULL;
	const V1__AllocatableResourcesResponse *m;
	struct pod_entry_sink count = { 0 }, fill = { 0 };
	ProtobufCMessage *base;

	if (message_decode(&v1__allocatable_resources_response__descriptor, what, data, len,
		    &base, &a, err) < 0)
		return -1;
	m = (const V1__AllocatableResourcesResponse *)base;
	read_container_devices(&count, &none, m->devices, m->n_devices);
	if (check_count(what, &count, a, &fill.v, err) < 0)
		return -1;
	read_container_devices(&fill, &none, m->devices, m->n_devices);
	*ret = (struct pod_entries){ .v = fill.v, .n = fill.n, .owner = STEAL_PTR(a) };
	return 0;
}

void pod_entries_fini(struct pod_entries *e)
{
	e->owner = arena_free(e->owner);
	e->v = NULL;
	e->n = 0;
}
