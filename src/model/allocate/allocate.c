/* SPDX-License-Identifier: Apache-2.0 */
#include "model/allocate/allocate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/buf.h"

#define MOUNT_ROOT    "/var/run/nvidia-container-devices"
#define TEXT_MAX      (8 * 1024 * 1024) /* of NVIDIA_VISIBLE_DEVICES: room for any list of IDs */
#define NODES_MAX     3                 /* of one MIG device: its GPU, GI and CI */
#define NODE_PATH_MAX 48                /* longest path of such a node */

/* Copies both texts. A variable that @a has already gets the new value. */
static int add_env(struct allocation *a, const char *name, const char *value, struct error *err)
{
	struct alloc_env *e = NULL;

	for (size_t i = 0; i < a->n_envs && !e; i++)
		if (strcmp(a->envs[i].name, name) == 0)
			e = &a->envs[i];
	if (!e) {
		e = &a->envs[a->n_envs++]; /* the caller has reserved the room */
		*e = (struct alloc_env){ .name = strdup(name) };
	}
	free(e->value);
	e->value = strdup(value);
	return e->name && e->value ? 0 : error_nomem(err);
}

static int add_null_mount(struct allocation *a, const char *name, struct error *err)
{
	struct alloc_mount *m = &a->mounts[a->n_mounts++];

	m->host_path = strdup("/dev/null");
	if (asprintf(&m->container_path, "%s/%s", MOUNT_ROOT, name) < 0)
		m->container_path = NULL;
	return m->host_path && m->container_path ? 0 : error_nomem(err);
}

/* As Go's filepath.Join(root, path) for an absolute @path: "//" and "/./" become one slash. */
static char *join_root(const char *root, const char *path)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);

	const char *parts[] = { root, path };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		for (const char *s = parts[i]; *s;) {
			size_t len = strcspn(s, "/");

			if (len && !(len == 1 && s[0] == '.')) {
				if (b.len || root[0] == '/' || !root[0])
					buf_putc(&b, '/');
				buf_add(&b, s, len);
			}
			s += len;
			s += strspn(s, "/");
		}
	}
	return buf_steal(&b);
}

static int add_device_node(struct allocation *a, const char *dev_root, const char *path,
	struct error *err)
{
	struct alloc_device *d = &a->devices[a->n_devices++];

	d->container_path = strdup(path);
	d->host_path = join_root(dev_root, path);
	(void)snprintf(d->permissions, sizeof(d->permissions), "rw");
	return d->container_path && d->host_path ? 0 : error_nomem(err);
}

/* The physical device behind a known ID: a GPU or one of its MIG devices. */
struct physical_device {
	const struct gpu *gpu;
	const struct gpu_mig *mig; /* NULL: the whole GPU */
};

struct alloc_request {
	const struct resource *r;
	const struct inventory *inv;
	const struct config *config;
	const struct alloc_host *host;
	const char *const *ids;
	size_t n_ids;
	/* [n_ids] physical device of each ID; filled by check_allocation_request() */
	struct physical_device *of;
};

static bool find_physical_device(struct physical_device *ret,
	const struct alloc_request *request, const char *id)
{
	const struct offer_device *d = resource_find(request->r, id);

	if (!d || d->gpu >= request->inv->n ||
		(d->mig != OFFER_WHOLE && d->mig >= request->inv->n_mig))
		return false;
	ret->gpu = &request->inv->gpus[d->gpu];
	ret->mig = d->mig == OFFER_WHOLE ? NULL : &request->inv->mig[d->mig];
	return true;
}

/* NVML's index: "0" of a GPU, "0:1" of its MIG device. */
static void index_text(const struct physical_device *p, char *ret, size_t cap)
{
	if (p->mig)
		(void)snprintf(ret, cap, "%" PRIu32 ":%" PRIu32, p->gpu->index, p->mig->index);
	else
		(void)snprintf(ret, cap, "%" PRIu32, p->gpu->index);
}

#define DEVICE_LIST_CDI (DEVICE_LIST_CDI_ANNOTATIONS | DEVICE_LIST_CDI_CRI)

static bool cdi_only(const struct config *config)
{
	return config->device_lists && !(config->device_lists & ~DEVICE_LIST_CDI);
}

/* Whether a container with this device may not request a second device. */
static bool is_limited(const struct resource *r, const char *id)
{
	const struct offer_share *s = resource_share(r, resource_find(r, id));

	return s && s->fail_requests_greater_than_one;
}

static int check_allocation_request(const struct alloc_request *request, struct error *err)
{
	bool limited = false;

	for (size_t i = 0; i < request->n_ids; i++) {
		if (!find_physical_device(&request->of[i], request, request->ids[i]))
			return error_set(err, ERR_INVALID,
				"invalid allocation request for \"%s\": invalid request: unknown "
				"device: %s",
				request->r->name, request->ids[i]);
		limited = limited || is_limited(request->r, request->ids[i]);
	}
	if (limited && request->n_ids > 1)
		return error_set(err, ERR_INVALID,
			"invalid allocation request for \"%s\": invalid request: maximum request "
			"size for shared resources is 1; found %zu",
			request->r->name, request->n_ids);
	if (cdi_only(request->config) && !request->host->cdi.gpu)
		return error_set(err, ERR_UNAVAILABLE,
			"resource \"%s\": no CDI specification is in place for the container "
			"runtime: %s",
			request->r->name,
			request->host->cdi.why ? request->host->cdi.why : "not written yet");
	return 0;
}

/* Lists each physical device once, in the order of the request, in the form that the device ID strategy
 * sets. */
static int list_devices(const struct alloc_request *request, struct strv *ret,
	struct error *err)
{
	for (size_t i = 0; i < request->n_ids; i++) {
		char text[DEVICE_ID_MAX];

		if (request->config->device_id == DEVICE_ID_INDEX)
			index_text(&request->of[i], text, sizeof(text));
		else /* fits: the ID is known, so the offer made it */
			(void)snprintf(text, sizeof(text), "%.*s",
				(int)device_id_physical_len(request->ids[i]), request->ids[i]);
		if (!strv_has(ret, text) && strv_add(ret, text, err) < 0)
			return -1;
	}
	return 0;
}

static int add_options(struct allocation *a, const struct config *config, struct error *err)
{
	if (config->gdrcopy && add_env(a, "NVIDIA_GDRCOPY", "enabled", err) < 0)
		return -1;
	if (config->gds && add_env(a, "NVIDIA_GDS", "enabled", err) < 0)
		return -1;
	if (config->mofed && add_env(a, "NVIDIA_MOFED", "enabled", err) < 0)
		return -1;
	return 0;
}

static int add_envvar(struct allocation *a, const struct alloc_request *request,
	const struct strv *devices, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(TEXT_MAX);

	for (size_t i = 0; i < devices->n; i++) {
		if (i)
			buf_putc(&b, ',');
		buf_puts(&b, devices->v[i]);
	}
	if (!buf_ok(&b))
		return error_nomem(err);
	if (add_env(a, "NVIDIA_VISIBLE_DEVICES", buf_str(&b), err) < 0)
		return -1;
	return request->host->imex_channel0 ? add_env(a, "NVIDIA_IMEX_CHANNELS", "0", err) : 0;
}

static int add_volume_mounts(struct allocation *a, const struct alloc_request *request,
	const struct strv *devices, struct error *err)
{
	if (add_env(a, "NVIDIA_VISIBLE_DEVICES", MOUNT_ROOT, err) < 0)
		return -1;
	a->mounts = calloc(devices->n + 1, sizeof(*a->mounts));
	if (!a->mounts)
		return error_nomem(err);
	for (size_t i = 0; i < devices->n; i++)
		if (add_null_mount(a, devices->v[i], err) < 0)
			return -1;
	return request->host->imex_channel0 ? add_null_mount(a, "imex/0", err) : 0;
}

/* Without the minor numbers the container would start, but would not find the device of that name. */
static int check_minors(const struct alloc_request *request, struct error *err)
{
	for (size_t i = 0; i < request->n_ids; i++) {
		const struct physical_device *p = &request->of[i];

		if (!p->gpu->has_minor)
			return error_set(err, ERR_UNAVAILABLE,
				"resource \"%s\": the device node of '%s' is not known: NVML has no "
				"minor number of it",
				request->r->name, p->gpu->uuid);
		if (p->mig && !p->mig->has_minors)
			return error_set(err, ERR_UNAVAILABLE,
				"resource \"%s\": the capability nodes of '%s' are not known",
				request->r->name, p->mig->uuid);
	}
	return 0;
}

/* The device nodes of one physical device, in NVIDIA's order. Returns their number. */
static size_t node_paths(const struct physical_device *p, char ret[NODES_MAX][NODE_PATH_MAX])
{
	(void)snprintf(ret[0], NODE_PATH_MAX, "/dev/nvidia%" PRIu32, p->gpu->minor);
	if (!p->mig)
		return 1;
	(void)snprintf(ret[1], NODE_PATH_MAX, "/dev/nvidia-caps/nvidia-cap%" PRIu32,
		p->mig->gi_minor);
	(void)snprintf(ret[2], NODE_PATH_MAX, "/dev/nvidia-caps/nvidia-cap%" PRIu32,
		p->mig->ci_minor);
	return 3;
}

static int add_specs(struct allocation *a, const struct alloc_request *request,
	struct error *err)
{
	const struct strv *nodes = &request->host->control_nodes;
	const char *root = request->config->dev_root;
	char paths[NODES_MAX][NODE_PATH_MAX];

	if (check_minors(request, err) < 0)
		return -1;
	a->devices = calloc(nodes->n + request->n_ids * NODES_MAX + 1, sizeof(*a->devices));
	if (!a->devices)
		return error_nomem(err);
	for (size_t i = 0; i < nodes->n; i++)
		if (add_device_node(a, root, nodes->v[i], err) < 0)
			return -1;
	for (size_t i = 0; i < request->n_ids; i++) { /* for each replica, as NVIDIA */
		size_t n = node_paths(&request->of[i], paths);

		for (size_t k = 0; k < n; k++)
			if (add_device_node(a, root, paths[k], err) < 0)
				return -1;
	}
	return request->host->imex_channel0
		       ? add_device_node(a, root, "/dev/nvidia-caps-imex-channels/channel0",
				 err)
		       : 0;
}

/* --- CDI --- */

static int add_cdi_name(struct allocation *a, const char *class, const char *device,
	struct error *err)
{
	char name[sizeof(CDI_VENDOR) + DEVICE_ID_MAX + 32];

	(void)snprintf(name, sizeof(name), CDI_VENDOR "/%s=%s", class, device);
	return strv_add(&a->cdi_devices, name, err);
}

static int name_cdi_devices(struct allocation *a, const struct alloc_request *request,
	const struct strv *devices, struct error *err)
{
	const struct alloc_cdi *cdi = &request->host->cdi;
	const struct {
		bool wanted;
		const char *class, *device;
	} others[] = {
		{ request->host->imex_channel0 && cdi->imex_channel, "imex-channel", "0" },
		{ request->config->gdrcopy && cdi->gdrcopy, "gdrcopy", "all" },
		{ request->config->gds && cdi->gds, "gds", "all" },
		{ request->config->mofed && cdi->mofed, "mofed", "all" },
	};

	for (size_t i = 0; i < devices->n; i++)
		if (add_cdi_name(a, "gpu", devices->v[i], err) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (others[i].wanted &&
			add_cdi_name(a, others[i].class, others[i].device, err) < 0)
			return -1;
	return 0;
}

static int annotate_cdi_devices(struct allocation *a, const struct alloc_request *request,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(TEXT_MAX);
	struct alloc_env *e;

	for (size_t i = 0; i < a->cdi_devices.n; i++)
		buf_printf(&b, "%s%s", i ? "," : "", a->cdi_devices.v[i]);
	a->annotations = calloc(1, sizeof(*a->annotations));
	if (!buf_ok(&b) || !a->annotations)
		return error_nomem(err);
	e = &a->annotations[a->n_annotations++];
	if (asprintf(&e->name, "%snvidia-device-plugin_%s",
		    request->config->cdi_annotation_prefix, request->host->cdi.response_id) < 0)
		e->name = NULL;
	e->value = buf_steal(&b);
	return e->name && e->value ? 0 : error_nomem(err);
}

static int add_cdi(struct allocation *a, const struct alloc_request *request,
	const struct strv *devices, struct error *err)
{
	if (!request->host->cdi
			.gpu) /* another strategy serves: see check_allocation_request() */
		return 0;
	if (check_minors(request, err) < 0 || name_cdi_devices(a, request, devices, err) < 0)
		return -1;
	if (a->cdi_devices.n && request->config->device_lists & DEVICE_LIST_CDI_ANNOTATIONS &&
		annotate_cdi_devices(a, request, err) < 0)
		return -1;
	if (!(request->config->device_lists & DEVICE_LIST_CDI_CRI))
		strv_clear(&a->cdi_devices);
	return 0;
}

int allocation_new(struct allocation **ret, const struct resource *r,
	const struct inventory *inv, const struct config *config, const struct alloc_host *host,
	const char *const *ids, size_t n_ids, struct error *err)
{
	CLEANUP(freep) struct physical_device *of = calloc(n_ids + 1, sizeof(*of));
	const struct alloc_request request = { .r = r,
		.inv = inv,
		.config = config,
		.host = host,
		.ids = ids,
		.n_ids = n_ids,
		.of = of };
	CLEANUP(allocation_freep) struct allocation *a = NULL;
	CLEANUP(strv_fini) struct strv devices = STRV_INIT;

	if (!of)
		return error_nomem(err);
	if (check_allocation_request(&request, err) < 0 ||
		list_devices(&request, &devices, err) < 0)
		return -1;
	a = calloc(1, sizeof(*a));
	if (!a)
		return error_nomem(err);
	a->envs = calloc(5, sizeof(*a->envs)); /* three options, devices, IMEX */
	if (!a->envs)
		return error_nomem(err);
	if (config->device_lists & DEVICE_LIST_CDI && add_cdi(a, &request, &devices, err) < 0)
		return -1;
	if (add_options(a, config, err) < 0)
		return -1;
	if (cdi_only(config)) {
		*ret = STEAL_PTR(a);
		return 0;
	}
	if (config->device_lists & DEVICE_LIST_ENVVAR &&
		add_envvar(a, &request, &devices, err) < 0)
		return -1;
	if (config->device_lists & DEVICE_LIST_VOLUME_MOUNTS &&
		add_volume_mounts(a, &request, &devices, err) < 0)
		return -1;
	if (config->pass_device_specs && add_specs(a, &request, err) < 0)
		return -1;
	*ret = STEAL_PTR(a);
	return 0;
}

int allocation_add_env(struct allocation *a, const char *name, const char *value,
	struct error *err)
{
	if (!ARRAY_EXTEND(&a->envs, a->n_envs, 1, ARRAY_NO_LIMIT))
		return error_nomem(err);
	return add_env(a, name, value, err);
}

int allocation_add_mount(struct allocation *a, const char *host_path,
	const char *container_path, bool read_only, struct error *err)
{
	struct alloc_mount *m;

	if (!ARRAY_EXTEND(&a->mounts, a->n_mounts, 1, ARRAY_NO_LIMIT))
		return error_nomem(err);
	m = &a->mounts[a->n_mounts++];
	*m = (struct alloc_mount){ .host_path = strdup(host_path),
		.container_path = strdup(container_path),
		.read_only = read_only };
	return m->host_path && m->container_path ? 0 : error_nomem(err);
}

struct allocation *allocation_free(struct allocation *a)
{
	if (!a)
		return NULL;
	for (size_t i = 0; i < a->n_envs; i++) {
		free(a->envs[i].name);
		free(a->envs[i].value);
	}
	for (size_t i = 0; i < a->n_mounts; i++) {
		free(a->mounts[i].container_path);
		free(a->mounts[i].host_path);
	}
	for (size_t i = 0; i < a->n_devices; i++) {
		free(a->devices[i].container_path);
		free(a->devices[i].host_path);
	}
	for (size_t i = 0; i < a->n_annotations; i++) {
		free(a->annotations[i].name);
		free(a->annotations[i].value);
	}
	strv_fini(&a->cdi_devices);
	free(a->annotations);
	free(a->envs);
	free(a->mounts);
	free(a->devices);
	free(a);
	return NULL;
}
