/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kubelet/messages/messages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "deviceplugin-v1beta1.pb-c.h"
#include "io/kubelet/messages/codec.h"

/* protobuf-c's strings are not const, though packing only reads them. */
static char *borrow_message_text(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

static char **borrow_list(const struct id_list *l)
{
	return (char **)(uintptr_t)l->v;
}

/* @n messages of @size bytes, and the array of pointers to them that protobuf-c needs. */
static void *message_array(struct arena *a, size_t n, size_t size, void ***ret_pointers)
{
	char *messages = arena_array(a, n, size);
	void **pointers = arena_array(a, n, sizeof(*pointers));
	size_t i;

	*ret_pointers = pointers;
	if (!messages || !pointers)
		return NULL;
	for (i = 0; i < n; i++)
		pointers[i] = messages + i * size;
	return messages;
}

/* Memory for building a message from data that the caller already has in memory. */
static struct arena *build_arena(void)
{
	return arena_new(SIZE_MAX);
}

/* --- registration --- */

int plugin_options_encode(struct buf *b, const struct plugin_options *o, struct error *err)
{
	V1beta1__DevicePluginOptions m = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	m.pre_start_required = o->pre_start_required;
	m.get_preferred_allocation_available = o->preferred_allocation;
	return message_encode(b, "DevicePluginOptions", &m.base, err);
}

static void read_plugin_options(struct plugin_options *ret,
	const V1beta1__DevicePluginOptions *m)
{
	*ret = (struct plugin_options){
		.pre_start_required = m && m->pre_start_required,
		.preferred_allocation = m && m->get_preferred_allocation_available,
	};
}

int plugin_options_decode(struct plugin_options *ret, const uint8_t *data, size_t len,
	struct error *err)
{
	CLEANUP(arena_freep) struct arena *a = NULL;
	ProtobufCMessage *m;

	if (message_decode(&v1beta1__device_plugin_options__descriptor, "DevicePluginOptions",
		    data, len, &m, &a, err) < 0)
		return -1;
	read_plugin_options(ret, (const V1beta1__DevicePluginOptions *)m);
	return 0;
}

int register_request_encode(struct buf *b, const struct register_request *r, struct error *err)
{
	V1beta1__RegisterRequest m;
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	v1beta1__register_request__init(&m); /* the _INIT macro casts const away */
	m.version = borrow_message_text(r->version);
	m.endpoint = borrow_message_text(r->endpoint);
	m.resource_name = borrow_message_text(r->resource_name);
	m.options = &options;
	options.pre_start_required = r->options.pre_start_required;
	options.get_preferred_allocation_available = r->options.preferred_allocation;
	return message_encode(b, "RegisterRequest", &m.base, err);
}

int register_request_decode(struct register_request *ret, const uint8_t *data, size_t len,
	struct error *err)
{
	const V1beta1__RegisterRequest *m;
	ProtobufCMessage *base;
	struct arena *a;

	if (message_decode(&v1beta1__register_request__descriptor, "RegisterRequest", data, len,
		    &base, &a, err) < 0)
		return -1;
	m = (const V1beta1__RegisterRequest *)base;
	*ret = (struct register_request){
		.version = m->version,
		.endpoint = m->endpoint,
		.resource_name = m->resource_name,
		.owner = a,
	};
	read_plugin_options(&ret->options, m->options);
	return 0;
}

void register_request_fini(struct register_request *r)
{
	r->owner = arena_free(r->owner);
}

/* --- devices --- */

int plugin_devices_encode(struct buf *b, const struct plugin_device *v, size_t n,
	struct error *err)
{
	CLEANUP(arena_freep) struct arena *a = build_arena();
	V1beta1__ListAndWatchResponse m = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
	struct device_messages {
		V1beta1__Device device;
		V1beta1__TopologyInfo topology;
		V1beta1__NUMANode node;
		V1beta1__NUMANode *nodes[1];
	} *all = a ? arena_array(a, n, sizeof(*all)) : NULL;
	size_t i;

	m.n_devices = n;
	m.devices = all ? arena_array(a, n, sizeof(*m.devices)) : NULL;
	if (!m.devices)
		return error_nomem(err);
	for (i = 0; i < n; i++) {
		struct device_messages *o = &all[i];

		v1beta1__device__init(&o->device);
		o->device.id = borrow_message_text(v[i].id);
		o->device.health = borrow_message_text(v[i].healthy ? "Healthy" : "Unhealthy");
		m.devices[i] = &o->device;
		if (v[i].numa_node < 0)
			continue;
		v1beta1__topology_info__init(&o->topology);
		v1beta1__numanode__init(&o->node);
		o->node.id = v[i].numa_node;
		o->nodes[0] = &o->node;
		o->topology.n_nodes = 1;
		o->topology.nodes = o->nodes;
		o->device.topology = &o->topology;
	}
	return message_encode(b, "ListAndWatchResponse", &m.base, err);
}

static int32_t get_device_numa_node(const V1beta1__TopologyInfo *t)
{
	if (!t || t->n_nodes == 0 || t->nodes[0]->id < 0 || t->nodes[0]->id > INT32_MAX)
		return -1;
	return (int32_t)t->nodes[0]->id;
}

int plugin_devices_decode(struct plugin_devices *ret, const uint8_t *data, size_t len,
	struct error *err)
{
	CLEANUP(arena_freep) struct arena *a = NULL;
	const V1beta1__ListAndWatchResponse *m;
	struct plugin_device *v;
	ProtobufCMessage *base;
	size_t i;

	if (message_decode(&v1beta1__list_and_watch_response__descriptor,
		    "ListAndWatchResponse", data, len, &base, &a, err) < 0)
		return -1;
	m = (const V1beta1__ListAndWatchResponse *)base;
	if (m->n_devices > MESSAGE_DEVICES_MAX)
		return message_too_many(err, "ListAndWatchResponse", "devices", m->n_devices,
			MESSAGE_DEVICES_MAX);
	v = arena_array(a, m->n_devices, sizeof(*v));
	if (!v)
		return error_nomem(err);
	for (i = 0; i < m->n_devices; i++)
		v[i] = (struct plugin_device){
			.id = m->devices[i]->id,
			.healthy = strcmp(m->devices[i]->health, "Healthy") == 0,
			.numa_node = get_device_numa_node(m->devices[i]->topology),
		};
	*ret = (struct plugin_devices){ .v = v, .n = m->n_devices, .owner = STEAL_PTR(a) };
	return 0;
}

void plugin_devices_fini(struct plugin_devices *d)
{
	d->owner = arena_free(d->owner);
	d->v = NULL;
	d->n = 0;
}

/* --- lists of ids --- */

void id_lists_fini(struct id_lists *l)
{
	l->owner = arena_free(l->owner);
	l->v = NULL;
	l->n = 0;
}

/* Adds @more ids to the count, which has a limit for the whole message. */
static int count_ids(size_t *total, size_t more, const char *what, struct error *err)
{
	*total += more;
	if (*total > MESSAGE_DEVICES_MAX)
		return message_too_many(err, what, "ids", *total, MESSAGE_DEVICES_MAX);
	return 0;
}

static int id_lists_alloc(struct id_lists *ret, struct arena *a, size_t n, const char *what,
	struct error *err)
{
	struct id_list *v;

	if (n > MESSAGE_CONTAINERS_MAX)
		return message_too_many(err, what, "containers", n, MESSAGE_CONTAINERS_MAX);
	v = arena_array(a, n, sizeof(*v));
	if (!v)
		return error_nomem(err);
	*ret = (struct id_lists){ .v = v, .n = n };
	return 0;
}

/*
 * Two messages are lists of lists of ids: a field that repeats a message, which has a field that repeats a
 * string, and nothing else. Each has C types of its own. This code therefore follows protobuf-c's description
 * of the field.
 */
static size_t get_repeated_field(const ProtobufCMessage *m, void *ret_pointer)
{
	const ProtobufCFieldDescriptor *f = m->descriptor->fields;
	size_t n;

	memcpy(&n, (const char *)m + f->quantifier_offset, sizeof(n));
	memcpy(ret_pointer, (const char *)m + f->offset, sizeof(void *));
	return n;
}

static void set_repeated_field(ProtobufCMessage *m, size_t n, const void *pointer)
{
	const ProtobufCFieldDescriptor *f = m->descriptor->fields;

	memcpy((char *)m + f->quantifier_offset, &n, sizeof(n));
	memcpy((char *)m + f->offset, &pointer, sizeof(pointer));
}

static int id_lists_encode(struct buf *b, ProtobufCMessage *m, const struct id_list *containers,
	size_t n, struct error *err)
{
	const ProtobufCMessageDescriptor *type = m->descriptor->fields->descriptor;
	CLEANUP(arena_freep) struct arena *a = build_arena();
	void **pointers;

	if (!a || !message_array(a, n, type->sizeof_message, &pointers))
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		type->message_init(pointers[i]);
		set_repeated_field(pointers[i], containers[i].n, containers[i].v);
	}
	set_repeated_field(m, n, pointers);
	return message_encode(b, m->descriptor->short_name, m, err);
}

static int id_lists_decode(struct id_lists *ret, const ProtobufCMessageDescriptor *type,
	const uint8_t *data, size_t len, struct error *err)
{
	CLEANUP(arena_freep) struct arena *a = NULL;
	const char *what = type->short_name;
	ProtobufCMessage *base, **containers;
	struct id_lists l = { .n = 0 };
	size_t n, total = 0;

	if (message_decode(type, what, data, len, &base, &a, err) < 0)
		return -1;
	n = get_repeated_field(base, &containers);
	if (id_lists_alloc(&l, a, n, what, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		l.v[i].n = get_repeated_field(containers[i], &l.v[i].v);
		if (count_ids(&total, l.v[i].n, what, err) < 0)
			return -1;
	}
	*ret = l;
	ret->owner = STEAL_PTR(a);
	return 0;
}

int allocate_request_encode(struct buf *b, const struct id_list *containers, size_t n,
	struct error *err)
{
	V1beta1__AllocateRequest m = V1BETA1__ALLOCATE_REQUEST__INIT;

	return id_lists_encode(b, &m.base, containers, n, err);
}

int allocate_request_decode(struct id_lists *ret, const uint8_t *data, size_t len,
	struct error *err)
{
	return id_lists_decode(ret, &v1beta1__allocate_request__descriptor, data, len, err);
}

int pre_start_request_encode(struct buf *b, const struct id_list *ids, struct error *err)
{
	V1beta1__PreStartContainerRequest m = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;

	m.n_devices_ids = ids->n;
	m.devices_ids = borrow_list(ids);
	return message_encode(b, "PreStartContainerRequest", &m.base, err);
}

int prefer_response_encode(struct buf *b, const struct id_list *containers, size_t n,
	struct error *err)
{
	V1beta1__PreferredAllocationResponse m = V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;

	return id_lists_encode(b, &m.base, containers, n, err);
}

int prefer_response_decode(struct id_lists *ret, const uint8_t *data, size_t len,
	struct error *err)
{
	return id_lists_decode(ret, &v1beta1__preferred_allocation_response__descriptor, data,
		len, err);
}

/* --- preferred allocation: the request --- */

int prefer_request_encode(struct buf *b, const struct prefer_request *v, size_t n,
	struct error *err)
{
	static const char what[] = "PreferredAllocationRequest";
	CLEANUP(arena_freep) struct arena *a = build_arena();
	V1beta1__PreferredAllocationRequest m = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *c;
	void **pointers;
	size_t i;

	c = a ? message_array(a, n, sizeof(*c), &pointers) : NULL;
	if (!c)
		return error_nomem(err);
	for (i = 0; i < n; i++) {
		v1beta1__container_preferred_allocation_request__init(&c[i]);
		c[i].n_available_device_ids = v[i].n_available;
		c[i].available_device_ids = (char **)(uintptr_t)v[i].available;
		c[i].n_must_include_device_ids = v[i].n_required;
		c[i].must_include_device_ids = (char **)(uintptr_t)v[i].required;
		if (v[i].size > INT32_MAX)
			return message_too_many(err, what, "devices", v[i].size, INT32_MAX);
		c[i].allocation_size = (int32_t)v[i].size;
	}
	m.n_container_requests = n;
	m.container_requests = (V1beta1__ContainerPreferredAllocationRequest **)pointers;
	return message_encode(b, what, &m.base, err);
}

int prefer_request_decode(struct prefer_requests *ret, const uint8_t *data, size_t len,
	struct error *err)
{
	static const char what[] = "PreferredAllocationRequest";
	CLEANUP(arena_freep) struct arena *a = NULL;
	const V1beta1__PreferredAllocationRequest *m;
	struct prefer_request *v;
	ProtobufCMessage *base;
	size_t i, total = 0;

	if (message_decode(&v1beta1__preferred_allocation_request__descriptor, what, data, len,
		    &base, &a, err) < 0)
		return -1;
	m = (const V1beta1__PreferredAllocationRequest *)base;
	if (m->n_container_requests > MESSAGE_CONTAINERS_MAX)
		return message_too_many(err, what, "containers", m->n_container_requests,
			MESSAGE_CONTAINERS_MAX);
	v = arena_array(a, m->n_container_requests, sizeof(*v));
	if (!v)
		return error_nomem(err);
	for (i = 0; i < m->n_container_requests; i++) {
		const V1beta1__ContainerPreferredAllocationRequest *c =
			m->container_requests[i];

		if (c->allocation_size < 0 ||
			(uint32_t)c->allocation_size > MESSAGE_DEVICES_MAX)
			return error_set(err, ERR_INVALID,
				"%s: allocation size %d is not between 0 and %u", what,
				c->allocation_size, MESSAGE_DEVICES_MAX);
		if (count_ids(&total, c->n_available_device_ids, what, err) < 0 ||
			count_ids(&total, c->n_must_include_device_ids, what, err) < 0)
			return -1;
		v[i] = (struct prefer_request){
			.available = (const char *const *)c->available_device_ids,
			.n_available = c->n_available_device_ids,
			.required = (const char *const *)c->must_include_device_ids,
			.n_required = c->n_must_include_device_ids,
			.size = (size_t)c->allocation_size,
		};
	}
	*ret = (struct prefer_requests){ .v = v,
		.n = m->n_container_requests,
		.owner = STEAL_PTR(a) };
	return 0;
}

void prefer_requests_fini(struct prefer_requests *r)
{
	r->owner = arena_free(r->owner);
	r->v = NULL;
	r->n = 0;
}

/* --- allocation: the response --- */

typedef V1beta1__ContainerAllocateResponse container_response;
typedef V1beta1__ContainerAllocateResponse__EnvsEntry env_entry;
typedef V1beta1__ContainerAllocateResponse__AnnotationsEntry annotation_entry;

static bool write_annotations(container_response *to, const struct allocation *from,
	struct arena *a)
{
	annotation_entry *v;
	void **pointers;

	v = message_array(a, from->n_annotations, sizeof(*v), &pointers);
	if (!v)
		return false;
	for (size_t i = 0; i < from->n_annotations; i++) {
		v1beta1__container_allocate_response__annotations_entry__init(&v[i]);
		v[i].key = borrow_message_text(from->annotations[i].name);
		v[i].value = borrow_message_text(from->annotations[i].value);
	}
	to->n_annotations = from->n_annotations;
	to->annotations = (annotation_entry **)pointers;
	return true;
}

static bool write_cdi_devices(container_response *to, const struct allocation *from,
	struct arena *a)
{
	V1beta1__CDIDevice *v;
	void **pointers;

	v = message_array(a, from->cdi_devices.n, sizeof(*v), &pointers);
	if (!v)
		return false;
	for (size_t i = 0; i < from->cdi_devices.n; i++) {
		v1beta1__cdidevice__init(&v[i]);
		v[i].name = borrow_message_text(from->cdi_devices.v[i]);
	}
	to->n_cdi_devices = from->cdi_devices.n;
	to->cdi_devices = (V1beta1__CDIDevice **)pointers;
	return true;
}

static bool write_allocation(container_response *to, const struct allocation *from,
	struct arena *a)
{
	env_entry *envs;
	V1beta1__Mount *mounts;
	V1beta1__DeviceSpec *devices;
	void **p_envs, **p_mounts, **p_devices;
	size_t i;

	v1beta1__container_allocate_response__init(to);
	envs = message_array(a, from->n_envs, sizeof(*envs), &p_envs);
	mounts = message_array(a, from->n_mounts, sizeof(*mounts), &p_mounts);
	devices = message_array(a, from->n_devices, sizeof(*devices), &p_devices);
	if (!envs || !mounts || !devices)
		return false;
	for (i = 0; i < from->n_envs; i++) {
		v1beta1__container_allocate_response__envs_entry__init(&envs[i]);
		envs[i].key = borrow_message_text(from->envs[i].name);
		envs[i].value = borrow_message_text(from->envs[i].value);
	}
	for (i = 0; i < from->n_mounts; i++) {
		v1beta1__mount__init(&mounts[i]);
		mounts[i].container_path = borrow_message_text(from->mounts[i].container_path);
		mounts[i].host_path = borrow_message_text(from->mounts[i].host_path);
		mounts[i].read_only = from->mounts[i].read_only;
	}
	for (i = 0; i < from->n_devices; i++) {
		v1beta1__device_spec__init(&devices[i]);
		devices[i].container_path =
			borrow_message_text(from->devices[i].container_path);
		devices[i].host_path = borrow_message_text(from->devices[i].host_path);
		devices[i].permissions = borrow_message_text(from->devices[i].permissions);
	}
	to->n_envs = from->n_envs;
	to->envs = (env_entry **)p_envs;
	to->n_mounts = from->n_mounts;
	to->mounts = (V1beta1__Mount **)p_mounts;
	to->n_devices = from->n_devices;
	to->devices = (V1beta1__DeviceSpec **)p_devices;
	return write_annotations(to, from, a) && write_cdi_devices(to, from, a);
}

int allocate_response_encode(struct buf *b, const struct allocation *const *containers,
	size_t n, struct error *err)
{
	CLEANUP(arena_freep) struct arena *a = build_arena();
	V1beta1__AllocateResponse m = V1BETA1__ALLOCATE_RESPONSE__INIT;
	container_response *v;
	void **pointers;
	size_t i;

	v = a ? message_array(a, n, sizeof(*v), &pointers) : NULL;
	if (!v)
		return error_nomem(err);
	for (i = 0; i < n; i++)
		if (!write_allocation(&v[i], containers[i], a))
			return error_nomem(err);
	m.n_container_responses = n;
	m.container_responses = (container_response **)pointers;
	return message_encode(b, "AllocateResponse", &m.base, err);
}

static bool read_cdi(struct allocation *to, const container_response *from, struct arena *a)
{
	to->annotations = arena_array(a, from->n_annotations, sizeof(*to->annotations));
	to->cdi_devices.v = arena_array(a, from->n_cdi_devices, sizeof(*to->cdi_devices.v));
	if (!to->annotations || !to->cdi_devices.v)
		return false;
	to->n_annotations = from->n_annotations;
	to->cdi_devices.n = from->n_cdi_devices;
	for (size_t i = 0; i < from->n_annotations; i++)
		to->annotations[i] = (struct alloc_env){
			.name = from->annotations[i]->key,
			.value = from->annotations[i]->value,
		};
	for (size_t i = 0; i < from->n_cdi_devices; i++)
		to->cdi_devices.v[i] = from->cdi_devices[i]->name;
	return true;
}

static bool read_allocation(struct allocation *to, const container_response *from,
	struct arena *a)
{
	size_t i, len;

	*to = (struct allocation){
		.n_envs = from->n_envs,
		.envs = arena_array(a, from->n_envs, sizeof(*to->envs)),
		.n_mounts = from->n_mounts,
		.mounts = arena_array(a, from->n_mounts, sizeof(*to->mounts)),
		.n_devices = from->n_devices,
		.devices = arena_array(a, from->n_devices, sizeof(*to->devices)),
	};
	if (!to->envs || !to->mounts || !to->devices)
		return false;
	for (i = 0; i < from->n_envs; i++)
		to->envs[i] = (struct alloc_env){
			.name = from->envs[i]->key,
			.value = from->envs[i]->value,
		};
	for (i = 0; i < from->n_mounts; i++)
		to->mounts[i] = (struct alloc_mount){
			.container_path = from->mounts[i]->container_path,
			.host_path = from->mounts[i]->host_path,
			.read_only = from->mounts[i]->read_only,
		};
	for (i = 0; i < from->n_devices; i++) {
		struct alloc_device *d = &to->devices[i];

		d->container_path = from->devices[i]->container_path;
		d->host_path = from->devices[i]->host_path;
		/* Valid permissions are at most r, w and m: a longer text is invalid. */
		len = strlen(from->devices[i]->permissions);
		if (len < sizeof(d->permissions))
			memcpy(d->permissions, from->devices[i]->permissions, len);
	}
	return read_cdi(to, from, a);
}

int allocate_response_decode(struct allocate_response *ret, const uint8_t *data, size_t len,
	struct error *err)
{
	static const char what[] = "AllocateResponse";
	CLEANUP(arena_freep) struct arena *a = NULL;
	const V1beta1__AllocateResponse *m;
	struct allocation *v;
	ProtobufCMessage *base;
	size_t i;

	if (message_decode(&v1beta1__allocate_response__descriptor, what, data, len, &base, &a,
		    err) < 0)
		return -1;
	m = (const V1beta1__AllocateResponse *)base;
	if (m->n_container_responses > MESSAGE_CONTAINERS_MAX)
		return message_too_many(err, what, "containers", m->n_container_responses,
			MESSAGE_CONTAINERS_MAX);
	v = arena_array(a, m->n_container_responses, sizeof(*v));
	if (!v)
		return error_nomem(err);
	for (i = 0; i < m->n_container_responses; i++)
		if (!read_allocation(&v[i], m->container_responses[i], a))
			return error_set(err, ERR_LIMIT, "%s needs too much memory", what);
	*ret = (struct allocate_response){ .v = v,
		.n = m->n_container_responses,
		.owner = STEAL_PTR(a) };
	return 0;
}

void allocate_response_fini(struct allocate_response *r)
{
	r->owner = arena_free(r->owner);
	r->v = NULL;
	r->n = 0;
}
