/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/parse.h"
#include "sim/cuda/mps.h"
#include "sim/node-plugin.h"

#define DRIVER_VERSION 13000

static struct sim_state *state;

const char *node_dir(void)
{
	return sim_state_dir(state);
}

/* "GPU-8-4-4-4-12" as bytes. */
static void read_uuid(const char *text, unsigned char *ret)
{
	size_t n = 0;

	for (const char *c = text + (strncmp(text, "GPU-", 4) ? 0 : 4); *c && n < 32; c++) {
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

/* In a container: only GPUs whose device node is there. */
static bool is_seen(const char *dev, const struct sim_keys *k)
{
	char path[SIM_PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/nvidia%u", dev, k->minor);
	return !dev[0] || access(path, F_OK) == 0;
}

static void add_device(struct device *table, unsigned *n, uint32_t slot,
	const struct sim_keys *k)
{
	if (*n == MAX_DEVICES)
		return;
	table[*n] = (struct device){ .slot = slot, .keys = *k };
	read_uuid(k->uuid, table[*n].uuid);
	(*n)++;
}

/* The device that one entry of CUDA_VISIBLE_DEVICES names: a number or the beginning of a UUID. */
static bool find_visible(const char *word, size_t len, const struct device *all, unsigned n,
	unsigned *ret)
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
	if (len < 5 || strncmp(word, "GPU-", 4) != 0)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!strncasecmp(all[i].keys.uuid, word, len)) {
			*ret = i;
			found++;
		}
	return found == 1;
}

/* As the driver does: up to the first entry that names nothing; one that is there twice: none. */
static void choose_visible(const char *list, const struct device *all, unsigned n)
{
	bool taken[MAX_DEVICES] = { 0 };
	unsigned at;

	lib.device_count = 0;
	for (const char *word = list; *word;
		word += strcspn(word, ",") + (strchr(word, ',') != NULL)) {
		size_t len;

		word += strspn(word, " ");
		len = strcspn(word, ", ");
		if (!find_visible(word, len, all, n, &at))
			return;
		if (taken[at]) {
			lib.device_count = 0;
			return;
		}
		taken[at] = true;
		lib.devices[lib.device_count++] = all[at];
	}
}

static CUresult read_devices(const char *dev)
{
	static struct device all[MAX_DEVICES]; /* under the lock */
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct sim_node_head head;
	unsigned n = 0;

	sim_state_read(state, &SIM_PART_HEAD(&head), 1);
	lib.driver_version = (int)head.info.cuda_version;
	if (head.info.driver == SIM_DRIVER_MISMATCH)
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	if (head.info.driver != SIM_DRIVER_LOADED)
		return CUDA_ERROR_NO_DEVICE;
	for (uint32_t i = 0; i < head.info.slot_count && i < SIM_MAX_GPUS; i++) {
		struct sim_gpu g;

		if (!head.slots[i].present || head.slots[i].lost)
			continue;
		sim_state_read(state, &SIM_PART_GPU(i, &g), 1);
		if (is_seen(dev, &g.keys))
			add_device(all, &n, i, &g.keys);
	}
	mps_filter(all, &n);
	if (visible) {
		choose_visible(visible, all, n);
	} else {
		memcpy(lib.devices, all, sizeof(all));
		lib.device_count = n;
	}
	return lib.device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult node_open(void)
{
	struct error err = ERROR_INIT;
	struct sim_place place;
	CUresult r;

	lib.driver_version = DRIVER_VERSION;
	if (sim_place_from_env(&place, NULL, &err) < 0)
		return CUDA_ERROR_NO_DEVICE;
	if (!state && sim_place_open(&place, sim_node_plugin_load, &state, &err) != 0) {
		state = NULL;
		return CUDA_ERROR_NO_DEVICE;
	}
	r = mps_connect();
	return r ? r : read_devices(place.dev);
}
