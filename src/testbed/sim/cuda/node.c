/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/cuda/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/base/parse.h"
#include "testbed/sim/cuda/mps.h"
#include "testbed/sim/fake-root/fake-root.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/node-plugin.h"

/* --- the node --- */

#define DRIVER_VERSION 13000

static struct sim_state *state;

static bool names_uuid(const char *text)
{
	return strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0;
}

/* "GPU-8-4-4-4-12" or "MIG-…" as bytes. */
static void parse_uuid_bytes(const char *text, unsigned char *ret)
{
	size_t n = 0;

	for (const char *c = text + (names_uuid(text) ? 4 : 0); *c && n < 32; c++) {
		unsigned v;

		if (*c >= '0' && *c <= '9')
			v = (unsigned)(*c - '0');
		else if ((*c | 32) >= 'a' && (*c | 32) <= 'f')
			v = (unsigned)((*c | 32) - 'a' + 10);
		else
			continue;
		ret[n / 2] = (unsigned char)((unsigned)ret[n / 2] << 4 | v);
		n++;
	}
}

/* In a container, only GPUs with a device node there are visible. */
static bool is_device_visible(const char *dev, const char *node, uint32_t minor)
{
	char path[SIM_PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s/%s%u", dev, node, minor);
	return !dev[0] || access(path, F_OK) == 0;
}

static struct sim_cuda_device *add_cuda_device(struct sim_cuda_device *table, unsigned *n,
	uint32_t slot, const struct sim_keys *k)
{
	struct sim_cuda_device *d = &table[*n];

	if (*n == MAX_DEVICES)
		return NULL;
	*d = (struct sim_cuda_device){ .slot = slot,
		.keys = *k,
		.gi = SIM_NO_INSTANCE,
		.ci = SIM_NO_INSTANCE };
	memcpy(d->board, k->uuid, sizeof(d->board));
	parse_uuid_bytes(k->uuid, d->uuid);
	(*n)++;
	return d;
}

static void add_cuda_mig_device(struct sim_cuda_device *table, unsigned *n, uint32_t slot,
	const struct sim_gpu *g, const struct sim_gi *gi, const struct sim_ci *ci)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);
	const struct sim_mig_profile *p = sim_gi_profile(g, gi);
	struct sim_cuda_device *d = t ? add_cuda_device(table, n, slot, &g->keys) : NULL;
	char profile[SIM_NAME_MAX], uuid[SIM_MIG_UUID_MAX];

	if (!d)
		return;
	d->gi = gi->id;
	d->ci = ci->id;
	sim_mig_uuid(&g->keys, gi->id, ci->id, uuid);
	parse_uuid_bytes(uuid, d->uuid);
	memcpy(d->keys.uuid, uuid, sizeof(d->keys.uuid));
	sim_mig_name(p, ci->size, profile);
	(void)snprintf(d->keys.name, sizeof(d->keys.name), "%.60s MIG %.30s", g->keys.name,
		profile);
	d->keys.sm_count = sim_ci_shape(t, p, ci->number).sms;
	d->keys.compute_mode = ci->compute_mode;
	d->keys.memory_total = (uint64_t)p->memory_mib << 20;
	d->keys.memory_reserved = 0;
}

/* Adds the MIG devices of a GPU. A GPU in MIG mode is no device itself. */
static void add_instances(struct sim_cuda_device *table, unsigned *n, uint32_t slot,
	const char *dev)
{
	static struct sim_gpu g; /* under the lock */

	sim_state_read(state, &SIM_PART_GPU_MIG(slot, &g), 1);
	for (uint32_t i = 0; i < g.mig.gi_count && i < SIM_MAX_GIS; i++) {
		const struct sim_gi *gi = &g.mig.gis[i];

		for (uint32_t k = 0; k < gi->ci_count && k < SIM_MAX_CIS; k++)
			if (is_device_visible(dev, "nvidia-caps/nvidia-cap",
				    sim_cap_minor(g.keys.minor, gi->id, SIM_NO_INSTANCE)) &&
				is_device_visible(dev, "nvidia-caps/nvidia-cap",
					sim_cap_minor(g.keys.minor, gi->id, gi->cis[k].id)))
				add_cuda_mig_device(table, n, slot, &g, gi, &gi->cis[k]);
	}
}

/* Whether the word is the whole older name of the MIG device. */
static bool is_old_name(const char *word, size_t len, const struct sim_cuda_device *d)
{
	char name[sizeof(d->board) + 32];

	(void)snprintf(name, sizeof(name), "MIG-%s/%u/%u", d->board, d->gi, d->ci);
	return d->gi != SIM_NO_INSTANCE && strlen(name) == len && !strncasecmp(name, word, len);
}

/*
 * The device that one entry of CUDA_VISIBLE_DEVICES names: a number, or the beginning of the UUID of a GPU or MIG
 * device. A GPU in MIG mode stands for its first MIG device.
 */
static bool find_visible(const char *word, size_t len, const struct sim_cuda_device *all,
	unsigned n, unsigned *ret)
{
	char digits[16];
	unsigned found = 0;

	if (len && strspn(word, "0123456789") >= len) {
		if (len >= sizeof(digits))
			return false;
		memcpy(digits, word, len);
		digits[len] = '\0';
		return parse_u32(digits, ret) && *ret < n;
	}
	if (len < 5 || !names_uuid(word))
		return false;
	for (unsigned i = 0; i < n; i++) {
		/* The previous device is of the same GPU. */
		bool more = i && all[i].slot == all[i - 1].slot;

		if (strncasecmp(all[i].keys.uuid, word, len) != 0 &&
			(more || strncasecmp(all[i].board, word, len) != 0) &&
			!is_old_name(word, len, &all[i]))
			continue;
		*ret = i;
		found++;
	}
	return found == 1;
}

/*
 * CUDA uses at most one MIG device, the first one, and no other GPU with it (NVIDIA's MIG user guide, "Device
 * enumeration").
 */
static void one_instance(void)
{
	for (unsigned i = 0; i < sim_cuda.device_count; i++) {
		if (sim_cuda.devices[i].gi == SIM_NO_INSTANCE)
			continue;
		sim_cuda.devices[0] = sim_cuda.devices[i];
		sim_cuda.device_count = 1;
	}
}

/*
 * As the driver: takes the entries before the first one that names no device. If the list names a device twice,
 * there is none.
 */
static void choose_visible(const char *list, const struct sim_cuda_device *all, unsigned n)
{
	bool taken[MAX_DEVICES] = { 0 };
	unsigned at;

	sim_cuda.device_count = 0;
	for (const char *word = list; *word;
		word += strcspn(word, ",") + (strchr(word, ',') != NULL)) {
		size_t len;

		word += strspn(word, " ");
		len = strcspn(word, ", ");
		if (!find_visible(word, len, all, n, &at))
			return;
		if (taken[at]) {
			sim_cuda.device_count = 0;
			return;
		}
		taken[at] = true;
		sim_cuda.devices[sim_cuda.device_count++] = all[at];
	}
}

static CUresult read_node_devices(const char *dev)
{
	static struct sim_cuda_device all[MAX_DEVICES]; /* under the lock */
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct sim_node_head head;
	unsigned n = 0;

	sim_state_read(state, &SIM_PART_HEAD(&head), 1);
	sim_cuda.driver_version = (int)head.info.cuda_version;
	if (head.info.driver == SIM_DRIVER_MISMATCH)
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	if (head.info.driver != SIM_DRIVER_LOADED)
		return CUDA_ERROR_NO_DEVICE;
	for (uint32_t i = 0; i < head.info.slot_count && i < SIM_MAX_GPUS; i++) {
		struct sim_gpu g;

		if (!head.slots[i].present || head.slots[i].lost)
			continue;
		sim_state_read(state, &SIM_PART_GPU(i, &g), 1);
		if (!is_device_visible(dev, "nvidia", g.keys.minor))
			continue;
		if (g.mig.enabled)
			add_instances(all, &n, i, dev);
		else
			(void)add_cuda_device(all, &n, i, &g.keys);
	}
	mps_filter(all, &n);
	if (visible) {
		choose_visible(visible, all, n);
	} else {
		memcpy(sim_cuda.devices, all, sizeof(all));
		sim_cuda.device_count = n;
	}
	one_instance();
	return sim_cuda.device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult node_open(void)
{
	struct error err = ERROR_INIT;
	struct sim_location location;
	CUresult r;

	sim_cuda.driver_version = DRIVER_VERSION;
	if (sim_location_from_env(&location, NULL, &err) < 0)
		return CUDA_ERROR_NO_DEVICE;
	if (!state && sim_location_open(&location, sim_node_plugin_load, &state, &err) != 0) {
		state = NULL;
		return CUDA_ERROR_NO_DEVICE;
	}
	r = mps_connect();
	return r ? r : read_node_devices(location.dev);
}

/* --- the device daemon --- */

static struct sim_device client = SIM_DEVICE_INIT;
static bool connected;

/* A process with a MIG device has no other device. */
static CUresult request_sim_instance(void)
{
	const struct sim_cuda_device *d = &sim_cuda.devices[0];
	struct sim_device_request request = { .op = SIM_DEVICE_INSTANCE,
		.slot = d->slot,
		.id = d->gi,
		.cookie = d->ci };
	struct sim_device_reply r;

	return !sim_cuda.device_count || d->gi == SIM_NO_INSTANCE
		       ? CUDA_SUCCESS
		       : sim_device_call(&client, &request, &r, -1, NULL);
}

/* The directory of the node's state; only after node_open(). */
static const char *node_dir(void)
{
	return sim_state_dir(state);
}

/* Connects, unless there is a connection. */
static CUresult gpu_connect(void)
{
	struct error err = ERROR_INIT;
	CUresult r;

	if (connected)
		return CUDA_SUCCESS;
	if (sim_device_connect(&client, node_dir(), (const void *)gpu_connect, &err) < 0)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	r = request_sim_instance();
	if (r)
		sim_device_close(&client);
	connected = !r;
	return r;
}

struct sim_device *gpu_client(void)
{
	return &client;
}

struct sim_device_page *gpu_daemon_page(void)
{
	return client.page;
}

void gpu_forget(void)
{
	if (connected)
		sim_device_forget(&client);
}

CUresult gpu_call(struct sim_device_request request, struct sim_device_reply *r, int send_fd,
	int *recv_fd)
{
	struct sim_device_reply own;
	CUresult err = gpu_connect();

	if (recv_fd)
		*recv_fd = -1;
	return err ? err : sim_device_call(&client, &request, r ? r : &own, send_fd, recv_fd);
}

CUresult gpu_info(const struct sim_cuda_device *d, uint64_t *free_bytes, uint64_t *total)
{
	struct sim_device_reply r;
	CUresult err = gpu_call(
		(struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO, .slot = d->slot }, &r,
		-1, NULL);

	if (err)
		return err;
	*free_bytes = r.bytes;
	*total = r.total;
	return CUDA_SUCCESS;
}
