/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the device nodes of GPUs, MIG devices and the other CDI classes, and makes the list of CDI devices
 * (search.h).
 */
#include "io/cdi/search/search.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/paths.h"
#include "model/mig/profile.h"

static const char *const control_nodes[] = { "/dev/nvidiactl", "/dev/nvidia-uvm",
	"/dev/nvidia-uvm-tools", "/dev/nvidia-modeset" };

#define DRI     "/dev/dri"
#define BY_PATH DRI "/by-path"

/* Where this process sees device nodes: of a driver container, of the host, its own. */
#define DEV_ROOTS 3

static const char *dev_root(const struct cdi_search_context *s, size_t i)
{
	const char *const roots[DEV_ROOTS] = { s->config->container_driver_root,
		s->config->dev_root, "" };

	return roots[i];
}

/* Returns > 0 if the node exists. */
static int stat_node(struct cdi_search_context *s, const char *node, struct stat *ret)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < DEV_ROOTS; i++) {
		if (search_watch(s, dev_root(s, i), node) < 0)
			return -1;
		if (root_join(path, sizeof(path), dev_root(s, i), node, NULL) == 0 &&
			stat(path, ret) == 0)
			return 1;
	}
	return 0;
}

static int add_node(struct cdi_search_context *s, struct cdi_edits *to, const char *path,
	uint32_t gid)
{
	struct cdi_node *n;

	for (size_t i = 0; i < to->n_nodes; i++)
		if (!strcmp(to->nodes[i].path, path))
			return 0;
	if (to->n_nodes >= CDI_NODES_MAX)
		return error_set(s->err, ERR_LIMIT, "more than %d device nodes like '%s'",
			CDI_NODES_MAX, path);
	if (!ARRAY_EXTEND(&to->nodes, to->n_nodes, 1, CDI_NODES_MAX))
		return error_nomem(s->err);
	n = &to->nodes[to->n_nodes++];
	*n = (struct cdi_node){ .gid = gid, .path = strdup(path) };
	return n->path ? 0 : error_nomem(s->err);
}

/* Adds the entries of @dir that match @pattern. */
static int add_matching_nodes(struct cdi_search_context *s, struct cdi_edits *to,
	const char *dir, const char *pattern)
{
	for (size_t i = 0; i < DEV_ROOTS; i++) {
		CLEANUP(strv_fini) struct strv names = STRV_INIT;
		char path[PATH_MAX];

		if (search_watch(s, dev_root(s, i), dir) < 0 ||
			root_list(&names, dev_root(s, i), dir, pattern, s->err) < 0)
			return -1;
		for (size_t k = 0; k < names.n; k++) {
			(void)snprintf(path, sizeof(path), "%s/%s", dir, names.v[k]);
			if (search_name_plain(names.v[k]) && add_node(s, to, path, 0) < 0)
				return -1;
		}
	}
	return 0;
}

static struct cdi_device *add_cdi_device(struct cdi_search_context *s, enum cdi_class c,
	const char *name)
{
	struct cdi_found *f = s->found;
	struct cdi_device *d;

	if (!ARRAY_EXTEND(&f->devices[c], f->n_devices[c], 1, ARRAY_NO_LIMIT)) {
		(void)error_nomem(s->err);
		return NULL;
	}
	d = &f->devices[c][f->n_devices[c]++];
	*d = (struct cdi_device){ .name = "" };
	(void)snprintf(d->name, sizeof(d->name), "%s", name);
	return d;
}

/* --- GPUs --- */

/* The kernel's form of a PCI address: "00000000:00:1E.0" is 0000:00:1e.0. False: no address. */
static bool kernel_address(char *ret, size_t cap, const char *bus_id)
{
	size_t len;

	if (strlen(bus_id) == 16 && !strncmp(bus_id, "0000", 4))
		bus_id += 4;
	len = strlen(bus_id);
	if (len < 12 || len >= cap || strspn(bus_id, "0123456789abcdefABCDEF:.") != len)
		return false;
	for (size_t i = 0; i <= len; i++)
		ret[i] = (char)tolower((unsigned char)bus_id[i]);
	return true;
}

/* The group of a node that only its group may use: the container's process gets the group. */
static uint32_t get_node_group(const struct stat *st)
{
	return (st->st_mode & 0006) == 0006 ? 0 : (uint32_t)st->st_gid;
}

/* /dev/dri/by-path/pci-ADDRESS-card is a symlink to a node; a hook makes the symlink in the
 * container. */
static int add_by_path_link(struct cdi_search_context *s, struct cdi_edits *to,
	const char *address, const char *kind)
{
	char link[PATH_MAX], path[PATH_MAX], target[NAME_MAX + 1] = "", text[2 * PATH_MAX];
	ssize_t len = -1;

	(void)snprintf(link, sizeof(link), BY_PATH "/pci-%s-%s", address, kind);
	for (size_t i = 0; len < 0 && i < DEV_ROOTS; i++)
		if (root_join(path, sizeof(path), dev_root(s, i), link, NULL) == 0)
			len = readlink(path, target, sizeof(target) - 1);
	if (len <= 3 || strncmp(target, "../", 3) != 0 || !search_name_plain(target + 3))
		return 0;
	(void)snprintf(path, sizeof(path), DRI "/%s", target + 3);
	for (size_t i = 0; i < to->n_nodes; i++) {
		if (strcmp(to->nodes[i].path, path) != 0)
			continue;
		(void)snprintf(text, sizeof(text), "%s::%s", target, link);
		return strv_add(&to->links, text, s->err);
	}
	return 0;
}

static int search_drm(struct cdi_search_context *s, struct cdi_edits *to, const struct gpu *g)
{
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	char address[GPU_BUS_ID_MAX], path[PATH_MAX];
	struct stat st;

	if (!kernel_address(address, sizeof(address), g->bus_id))
		return 0;
	(void)snprintf(path, sizeof(path), "/bus/pci/devices/%s/drm", address);
	if (search_watch(s, s->sysfs, path) < 0 ||
		root_list(&names, s->sysfs, path, "*", s->err) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		const char *n = names.v[i];
		int there;

		(void)snprintf(path, sizeof(path), DRI "/%s", n);
		if ((strncmp(n, "card", 4) != 0 && strncmp(n, "renderD", 7) != 0) ||
			!search_name_plain(n))
			continue;
		there = stat_node(s, path, &st);
		if (there < 0 || (there && add_node(s, to, path, get_node_group(&st)) < 0))
			return -1;
	}
	return add_by_path_link(s, to, address, "card") < 0 ||
			       add_by_path_link(s, to, address, "render") < 0
		       ? -1
		       : 0;
}

static bool has_cdi_device(const struct cdi_found *f, enum cdi_class c, const char *name)
{
	for (size_t i = 0; i < f->n_devices[c]; i++)
		if (!strcmp(f->devices[c][i].name, name))
			return true;
	return false;
}

/* Adds a device of class gpu with the GPU's node. *ret is NULL if the GPU gets none: no minor
 * number, gone, or a name that is invalid or taken. A GPU that is gone has given up its index and
 * its minor number. */
static int add_cdi_gpu(struct cdi_search_context *s, const struct gpu *g, const char *name,
	struct cdi_device **ret)
{
	char path[32];

	*ret = NULL;
	if (!g->has_minor || g->fault == GPU_FAULT_GONE || !cdi_device_name_valid(name) ||
		has_cdi_device(s->found, CDI_GPU, name))
		return 0;
	*ret = add_cdi_device(s, CDI_GPU, name);
	if (!*ret)
		return -1;
	(void)snprintf(path, sizeof(path), "/dev/nvidia%" PRIu32, g->minor);
	return add_node(s, &(*ret)->edits, path, 0);
}

static int search_whole(struct cdi_search_context *s, const struct gpu *g)
{
	struct cdi_device *d;
	char name[CDI_NAME_MAX];

	if (s->config->device_id == DEVICE_ID_INDEX)
		(void)snprintf(name, sizeof(name), "%" PRIu32, g->index);
	else
		(void)snprintf(name, sizeof(name), "%s", g->uuid);
	if (add_cdi_gpu(s, g, name, &d) < 0)
		return -1;
	return d ? search_drm(s, &d->edits, g) : 0;
}

static int add_capability(struct cdi_search_context *s, struct cdi_edits *to, uint32_t minor)
{
	char path[48];

	(void)snprintf(path, sizeof(path), "/dev/nvidia-caps/nvidia-cap%" PRIu32, minor);
	return add_node(s, to, path, 0);
}

/* Only a profile with gfx has the engines for graphics. */
static bool has_graphics(const struct gpu_mig *m)
{
	struct mig_profile p;
	size_t len = 0;

	if (mig_profile_parse(&p, m->profile, NULL) < 0 || p.attributes[0] != '+')
		return false;
	for (const char *at = p.attributes + 1; *at; at += len + (at[len] == ',')) {
		len = strcspn(at, ",");
		if (len == 3 && strncmp(at, "gfx", len) == 0)
			return true;
	}
	return false;
}

/* Adds the GPU's node and the capabilities of the GPU instance and the compute instance. */
static int search_mig(struct cdi_search_context *s, const struct gpu *g,
	const struct gpu_mig *m)
{
	struct cdi_device *d;
	char name[CDI_NAME_MAX];

	if (m->reason[0] || !m->has_minors)
		return 0;
	if (s->config->device_id == DEVICE_ID_INDEX)
		(void)snprintf(name, sizeof(name), "%" PRIu32 ":%" PRIu32, g->index, m->index);
	else
		(void)snprintf(name, sizeof(name), "%s", m->uuid);
	if (add_cdi_gpu(s, g, name, &d) < 0)
		return -1;
	if (!d)
		return 0;
	if (add_capability(s, &d->edits, m->gi_minor) < 0 ||
		add_capability(s, &d->edits, m->ci_minor) < 0)
		return -1;
	return has_graphics(m) ? search_drm(s, &d->edits, g) : 0;
}

/* Containers use a GPU in MIG mode through its MIG devices only. */
static int search_gpu(struct cdi_search_context *s, uint32_t position)
{
	const struct gpu *g = &s->inv->gpus[position];

	if (!g->mig_enabled)
		return search_whole(s, g);
	for (uint32_t i = 0; i < s->inv->n_mig; i++) {
		if (s->inv->mig[i].gpu == position && search_mig(s, g, &s->inv->mig[i]) < 0)
			return -1;
	}
	return 0;
}

/* --- the other classes --- */

static int search_others(struct cdi_search_context *s)
{
	const struct {
		enum cdi_class class_;
		bool wanted;
		const char *name, *dir, *patterns[2], *files[2];
	} rows[] = {
		{ CDI_IMEX_CHANNEL, s->config->imex_channel0, "0",
			"/dev/nvidia-caps-imex-channels", { "channel0" }, { NULL } },
		{ CDI_GDRCOPY, s->config->gdrcopy, "all", "/dev", { "gdrdrv" }, { NULL } },
		{ CDI_GDS, s->config->gds, "all", "/dev", { "nvidia-fs*" },
			{ "/run/udev", "/etc/cufile.json" } },
		{ CDI_MOFED, s->config->mofed, "all", "/dev/infiniband",
			{ "uverbs*", "rdma_cm" }, { NULL } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cdi_device *d;

		if (!rows[i].wanted)
			continue;
		d = add_cdi_device(s, rows[i].class_, rows[i].name);
		if (!d)
			return -1;
		for (size_t k = 0; k < ARRAY_LEN(rows[i].patterns) && rows[i].patterns[k]; k++)
			if (add_matching_nodes(s, &d->edits, rows[i].dir, rows[i].patterns[k]) <
				0)
				return -1;
		if (d->edits.n_nodes == 0) { /* no such hardware: no device */
			s->found->n_devices[rows[i].class_] = 0;
			continue;
		}
		if ((rows[i].files[0] &&
			    search_add_file(s, &d->edits, CDI_SOCKET, rows[i].files[0]) < 0) ||
			(rows[i].files[1] &&
				search_add_file(s, &d->edits, CDI_FILE, rows[i].files[1]) < 0))
			return -1;
	}
	return 0;
}

int search_nodes(struct cdi_search_context *s)
{
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(control_nodes); i++) {
		int there = stat_node(s, control_nodes[i], &st);

		if (there < 0 ||
			(there && add_node(s, &s->found->common, control_nodes[i], 0) < 0))
			return -1;
	}
	for (uint32_t i = 0; i < s->inv->n; i++)
		if (search_gpu(s, i) < 0)
			return -1;
	return search_others(s);
}
