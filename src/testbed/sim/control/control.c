/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/control/control.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "abi/nvml-api.h"
#include "testbed/sim/catalogue/catalogue.h"
#include "testbed/sim/derive.h"
#include "testbed/sim/fake-root/fake-root.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/node-file/node-file.h"
#include "testbed/sim/location.h"

#define XID_OFF_THE_BUS 79

/* --- open and create --- */

static int find_control_location(struct sim_location *location, const char *node,
	const char *dir, struct error *err)
{
	if (!node && !dir)
		return sim_location_from_env(location, NULL, err);
	return sim_location_resolve(location, node ? node : getenv(SIM_ENV_NODE),
		dir ? dir : getenv(SIM_ENV_DIR), err);
}

static int open_control_location(struct sim_control *c, const struct sim_location *location,
	struct error *err)
{
	int r = sim_location_open(location, sim_node_file_load, &c->state, err);

	if (r == SIM_LOCATION_E_NONE)
		return error_set(err, ERR_NOT_FOUND,
			"no simulated node: set " SIM_ENV_NODE " or " SIM_ENV_DIR
			", or run gpuslice sim create");
	(void)snprintf(c->dir, sizeof(c->dir), "%s", location->dir);
	return r;
}

int sim_control_open(struct sim_control *c, const char *node, const char *dir,
	struct error *err)
{
	struct sim_location location;

	*c = (struct sim_control){ .state = NULL };
	if (find_control_location(&location, node, dir, err) < 0)
		return -1;
	return open_control_location(c, &location, err);
}

void sim_control_close(struct sim_control *c)
{
	c->state = sim_state_close(c->state);
}

/* Replaces a node with a new one. The slots' epochs go on, so that old handles are stale. */
static int recreate_node(struct sim_control *c, const struct sim_location *location,
	struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	CLEANUP(freep) struct sim_node *node = malloc(sizeof(*node));
	uint32_t old_count;

	if (!node)
		return error_nomem(err);
	if (sim_location_build(location, sim_node_file_load, node, err) < 0 ||
		sim_txn_begin(c->state, &txn, err) < 0)
		return -1;
	old_count = txn.node->head.info.slot_count;
	for (uint32_t i = 0; i < old_count; i++) {
		txn.node->gpus[i].mig.gi_count = 0;
		sim_caps_remove(c->dir, txn.node);
		if (txn.node->head.slots[i].present)
			sim_fake_root_remove(c->dir, &txn.node->gpus[i].keys);
		node->head.slots[i].epoch = txn.node->head.slots[i].epoch + 1;
		sim_hang_set(c->state, i, 0, 0, 0);
	}
	if (node->head.info.slot_count < old_count)
		node->head.info.slot_count = old_count;
	if (strcmp(txn.node->head.driver_version, node->head.driver_version) != 0)
		sim_fake_driver_remove(c->dir, txn.node->head.driver_version);
	memcpy(txn.node, node, sizeof(*node));
	if (sim_fake_root_write(c->dir, node, err) < 0)
		return -1;
	return sim_txn_commit_files(&txn, SIM_ALL_SLOTS, err);
}

int sim_control_create(struct sim_control *c, const char *node, const char *dir, bool force,
	uint64_t seed, struct error *err)
{
	struct sim_location location;
	int r;

	*c = (struct sim_control){ .state = NULL };
	if (find_control_location(&location, node, dir, err) < 0)
		return -1;
	location.seed = seed ? seed : location.seed;
	if (!location.node[0])
		return error_set(err, ERR_INVALID, "which node? name a model or a node file");
	(void)snprintf(c->dir, sizeof(c->dir), "%s", location.dir);
	r = sim_state_open(location.dir, &c->state, err);
	if (r < 0)
		return -1;
	if (r == SIM_STATE_E_NONE)
		return open_control_location(c, &location, err);
	if (!force)
		return error_set(err, ERR_EXISTS,
			"'%s' holds a node already (--force makes it anew)", location.dir);
	return recreate_node(c, &location, err);
}

/* --- finding --- */

static bool names_gpu(const struct sim_keys *k, const char *text)
{
	char bus_id[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];

	sim_bus_id(k, bus_id);
	return !strncmp(k->uuid, text, sizeof(k->uuid)) || !strcasecmp(bus_id, text) ||
	       !strcasecmp(bus_id + 4, text);
}

int sim_control_find(const struct sim_control *c, const char *gpu, uint32_t *ret,
	struct error *err)
{
	struct sim_node_head head;
	struct sim_gpu g;
	uint32_t index;

	sim_state_read(c->state, &SIM_PART_HEAD(&head), 1);
	if (parse_u32(gpu, &index)) {
		if (sim_node_slot_of_index(&head, index, ret))
			return 0;
		return error_set(err, ERR_NOT_FOUND, "no GPU %u, the node has %u", index,
			sim_node_count(&head));
	}
	for (uint32_t slot = 0; slot < head.info.slot_count && slot < SIM_MAX_GPUS; slot++) {
		if (!head.slots[slot].present)
			continue;
		sim_state_read(c->state, &SIM_PART_GPU(slot, &g), 1);
		if (names_gpu(&g.keys, gpu)) {
			*ret = slot;
			return 0;
		}
	}
	return error_set(err, ERR_NOT_FOUND,
		"no GPU '%.60s': expected an index, UUID or PCI bus id", gpu);
}

static bool has_mig_instance(struct sim_gpu *g, uint32_t gi, uint32_t ci)
{
	struct sim_gi *in = sim_gi_find(g, gi);

	return in && sim_ci_find(in, ci);
}

/* The MIG device of @g with this UUID, in today's form or that of old drivers. */
static bool names_device(const struct sim_gpu *g, const char *text, uint32_t *ret_gi,
	uint32_t *ret_ci)
{
	char uuid[SIM_MIG_UUID_MAX], old[96];

	for (uint32_t i = 0; i < g->mig.gi_count; i++)
		for (uint32_t k = 0; k < g->mig.gis[i].ci_count; k++) {
			*ret_gi = g->mig.gis[i].id;
			*ret_ci = g->mig.gis[i].cis[k].id;
			sim_mig_uuid(&g->keys, *ret_gi, *ret_ci, uuid);
			(void)snprintf(old, sizeof(old), "MIG-%.*s/%u/%u",
				(int)sizeof(g->keys.uuid), g->keys.uuid, *ret_gi, *ret_ci);
			if (!strcmp(text, uuid) || !strcmp(text, old))
				return true;
		}
	return false;
}

/* "0:9:0": three numbers; no PCI bus id has this form. */
static bool read_triple(const char *text, uint32_t ret[3])
{
	char copy[64], *save = NULL, *word;
	int n = 0;

	if (strlen(text) >= sizeof(copy))
		return false;
	(void)snprintf(copy, sizeof(copy), "%s", text);
	for (word = strtok_r(copy, ":", &save); word; word = strtok_r(NULL, ":", &save))
		if (n == 3 || !parse_u32(word, &ret[n++]))
			return false;
	return n == 3;
}

int sim_control_find_device(const struct sim_control *c, const char *text, uint32_t *slot,
	uint32_t *gi, uint32_t *ci, struct error *err)
{
	struct sim_node_head head;
	struct sim_gpu g;
	uint32_t ids[3];

	sim_state_read(c->state, &SIM_PART_HEAD(&head), 1);
	if (read_triple(text, ids) && sim_node_slot_of_index(&head, ids[0], slot)) {
		sim_state_read(c->state, &SIM_PART_GPU_ALL(*slot, &g), 1);
		*gi = ids[1];
		*ci = ids[2];
		if (has_mig_instance(&g, *gi, *ci))
			return 0;
	} else if (strncmp(text, "MIG-", 4) != 0) {
		*gi = *ci = SIM_NO_INSTANCE;
		return sim_control_find(c, text, slot, err);
	}
	for (*slot = 0; *slot < head.info.slot_count && *slot < SIM_MAX_GPUS; ++*slot) {
		if (!head.slots[*slot].present)
			continue;
		sim_state_read(c->state, &SIM_PART_GPU_ALL(*slot, &g), 1);
		if (names_device(&g, text, gi, ci))
			return 0;
	}
	return error_set(err, ERR_NOT_FOUND, "no MIG device '%.60s'", text);
}

/* Begins a transaction on one GPU, and settles its counters. */
static int begin_gpu_txn(struct sim_control *c, uint32_t slot, struct sim_txn *txn,
	struct sim_gpu **ret, struct error *err)
{
	if (sim_txn_begin(c->state, txn, err) < 0)
		return -1;
	if (slot >= SIM_MAX_GPUS || !txn->node->head.slots[slot].present) {
		sim_txn_end(txn);
		return error_set(err, ERR_NOT_FOUND, "the GPU is gone");
	}
	*ret = &txn->node->gpus[slot];
	sim_settle(*ret, time_wall_ns());
	return 0;
}

static void post_on(struct sim_txn *txn, uint32_t slot, uint32_t gi, uint32_t ci, uint64_t type,
	uint64_t data)
{
	sim_txn_post(txn, (struct sim_event){ .type = type,
				  .data = data,
				  .slot = slot,
				  .epoch = txn->node->head.slots[slot].epoch,
				  .gi = gi,
				  .ci = ci });
}

static void post_gpu_event(struct sim_txn *txn, uint32_t slot, uint64_t type, uint64_t data)
{
	post_on(txn, slot, SIM_NO_INSTANCE, SIM_NO_INSTANCE, type, data);
}

/* --- faults --- */

int sim_control_xid(struct sim_control *c, uint32_t slot, uint32_t gi, uint32_t ci,
	uint64_t xid, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu *g = NULL;

	if (begin_gpu_txn(c, slot, &txn, &g, err) < 0)
		return -1;
	post_on(&txn, slot, gi, ci, NVML_EVENT_XID_CRITICAL, xid);
	sim_txn_commit(&txn);
	return 0;
}

int sim_control_lose(struct sim_control *c, uint32_t slot, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu *g = NULL;

	if (begin_gpu_txn(c, slot, &txn, &g, err) < 0)
		return -1;
	txn.node->head.slots[slot].lost = 1;
	post_gpu_event(&txn, slot, NVML_EVENT_XID_CRITICAL, XID_OFF_THE_BUS);
	post_gpu_event(&txn, slot, SIM_EVENT_LOST, 0);
	sim_txn_commit(&txn);
	return 0;
}

int sim_control_restore(struct sim_control *c, uint32_t slot, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu *g = NULL;

	if (begin_gpu_txn(c, slot, &txn, &g, err) < 0)
		return -1;
	txn.node->head.slots[slot].lost = 0;
	sim_txn_commit(&txn);
	return 0;
}

int sim_control_fail(struct sim_control *c, uint32_t slot, enum sim_group group, uint32_t code,
	struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu *g = NULL;

	if (begin_gpu_txn(c, slot, &txn, &g, err) < 0)
		return -1;
	g->fail[group] = (uint16_t)code;
	sim_txn_commit(&txn);
	return 0;
}

int sim_control_set(struct sim_control *c, uint32_t slot, const char *key, const char *value,
	struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	const struct sim_key *k = sim_key_find(key);
	struct sim_gpu *g = NULL;

	if (!k)
		return error_set(err, ERR_INVALID,
			"unknown key '%.60s' (gpuslice sim list keys)", key);
	if (begin_gpu_txn(c, slot, &txn, &g, err) < 0)
		return -1;
	if (sim_key_set(&g->keys, k, value, err) < 0)
		return error_prefix(err, "%s", k->name);
	sim_txn_commit(&txn);
	return 0;
}

static void forget_cuda_faults(struct sim_control *c, uint32_t slot)
{
	for (int i = 0; i < SIM_CUDA_FAULTS; i++)
		sim_cuda_fault_set(c->state, slot, (enum sim_cuda_fault)i, 1, 0, 0);
}

int sim_control_reset(struct sim_control *c, uint32_t slot, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu *g = NULL;

	if (begin_gpu_txn(c, slot, &txn, &g, err) < 0)
		return -1;
	g->keys = g->born;
	memcpy(g->fail, g->born_fail, sizeof(g->fail));
	sim_mig_reset(g);
	txn.node->head.slots[slot].lost = 0;
	sim_hang_set(c->state, slot, 0, 0, 0);
	forget_cuda_faults(c, slot);
	return sim_txn_commit_files(&txn, slot, err);
}

static void reboot_gpu(struct sim_gpu *g, struct sim_slot *slot)
{
	sim_mig_reboot(g);
	g->keys.ecc = g->keys.ecc_pending;
	g->keys.ecc_corrected_volatile = g->keys.ecc_uncorrected_volatile = 0;
	g->keys.remapped_pending = g->keys.retired_pending = g->keys.recovery_action = 0;
	g->energy_mj = g->pcie_kb[0] = g->pcie_kb[1] = 0;
	g->energy_at_ns = time_wall_ns();
	slot->lost = 0;
	slot->epoch++;
}

int sim_control_reboot(struct sim_control *c, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;

	if (sim_txn_begin(c->state, &txn, err) < 0)
		return -1;
	for (uint32_t slot = 0; slot < txn.node->head.info.slot_count; slot++) {
		if (txn.node->head.slots[slot].present)
			reboot_gpu(&txn.node->gpus[slot], &txn.node->head.slots[slot]);
		sim_hang_set(c->state, slot, 0, 0, 0);
	}
	txn.node->head.info.driver = SIM_DRIVER_LOADED;
	return sim_txn_commit_files(&txn, SIM_ALL_SLOTS, err);
}

/* --- hot-plug and driver --- */

int sim_control_add(struct sim_control *c, const char *product, uint32_t *ret,
	struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	const struct sim_product *p;

	if (sim_txn_begin(c->state, &txn, err) < 0)
		return -1;
	if (!product && txn.node->head.info.slot_count == 0)
		return error_set(err, ERR_INVALID,
			"which product? the node has no GPU to go by");
	p = sim_product_find(product ? product : txn.node->gpus[0].keys.product);
	if (!p)
		return error_set(err, ERR_NOT_FOUND,
			"unknown product '%.60s' (gpuslice sim list models)",
			product ? product : txn.node->gpus[0].keys.product);
	if (sim_node_add(txn.node, p, ret, err) < 0 ||
		sim_fake_root_write(c->dir, txn.node, err) < 0)
		return -1;
	sim_hang_set(c->state, *ret, 0, 0, 0);
	sim_txn_commit(&txn);
	return 0;
}

int sim_control_remove(struct sim_control *c, uint32_t slot, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu *g = NULL;

	if (begin_gpu_txn(c, slot, &txn, &g, err) < 0)
		return -1;
	txn.node->head.slots[slot].present = 0;
	post_gpu_event(&txn, slot, SIM_EVENT_LOST, 0);
	sim_caps_remove(c->dir, txn.node);
	sim_fake_root_remove(c->dir, &g->keys);
	sim_hang_set(c->state, slot, 0, 0, 0);
	return sim_txn_commit_files(&txn, slot, err);
}

static const char *const driver_names[] = {
	[SIM_DRIVER_LOADED] = "load",
	[SIM_DRIVER_UNLOADED] = "unload",
	[SIM_DRIVER_MISMATCH] = "mismatch",
	[SIM_DRIVER_NO_PERMISSION] = "no-permission",
};

const char *sim_driver_name(uint32_t driver)
{
	return driver < ARRAY_LEN(driver_names) ? driver_names[driver] : "?";
}

bool sim_driver_find(const char *name, enum sim_driver *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(driver_names); i++)
		if (!strcmp(driver_names[i], name)) {
			*ret = (enum sim_driver)i;
			return true;
		}
	return false;
}

int sim_control_driver(struct sim_control *c, enum sim_driver driver, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;

	if (sim_txn_begin(c->state, &txn, err) < 0)
		return -1;
	txn.node->head.info.driver = driver;
	sim_txn_commit(&txn);
	return 0;
}

/* --- processes --- */

static bool remove_gpu_process(struct sim_gpu *g, uint32_t i)
{
	memmove(&g->processes[i], &g->processes[i + 1],
		(g->process_count - i - 1) * sizeof(g->processes[0]));
	g->process_count--;
	memset(&g->processes[g->process_count], 0, sizeof(g->processes[0]));
	return true;
}

/* Memory that CUDA uses on a GPU; a transaction does not show it. */
struct cuda_usage {
	struct sim_usage rows[SIM_MAX_PROCESSES];
	size_t n;
	uint64_t total;
};

static uint64_t cuda_bytes(const struct cuda_usage *cuda, const struct sim_gpu *g, uint32_t gi)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < cuda->n; i++)
		for (uint32_t k = 0; k < g->process_count; k++) {
			if (g->processes[k].pid != cuda->rows[i].pid ||
				g->processes[k].gi != gi)
				continue;
			bytes += cuda->rows[i].bytes;
			break;
		}
	return bytes;
}

/* Free bytes for a process on the GPU or, with MIG on, on the GPU instance; -1: no such instance. */
static int free_bytes(struct sim_gpu *g, const struct sim_process *p,
	const struct cuda_usage *cuda, uint64_t *ret, struct error *err)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);
	struct sim_gi *gi;
	uint64_t total, used;

	*ret = g->keys.memory_total - g->keys.memory_reserved - sim_memory_used_bytes(g);
	*ret -= cuda->total < *ret ? cuda->total : *ret;
	if (!g->mig.enabled || !t)
		return 0;
	gi = p->gi == SIM_NO_INSTANCE ? NULL : sim_gi_find(g, p->gi);
	if (p->gi == SIM_NO_INSTANCE)
		return error_set(err, ERR_INVALID,
			"MIG is on: expected a MIG device of this GPU, by its UUID or as INDEX:GI:CI");
	if (!gi || !sim_ci_find(gi, p->ci))
		return error_set(err, ERR_NOT_FOUND,
			"MIG is on: this GPU has no MIG device with GPU instance %d and compute "
			"instance %d",
			(int)p->gi, (int)p->ci);
	total = (uint64_t)sim_gi_profile(g, gi)->memory_mib << 20;
	used = ((uint64_t)t->idle_mib << 20) +
	       sim_mig_process_bytes(g, gi->id, SIM_NO_INSTANCE) + cuda_bytes(cuda, g, gi->id);
	*ret = used < total ? total - used : 0;
	return 0;
}

int sim_control_process_start(struct sim_control *c, uint32_t slot, const struct sim_process *p,
	struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu *g = NULL;
	struct cuda_usage cuda = { .n = 0 };
	uint64_t room = 0;

	if (begin_gpu_txn(c, slot, &txn, &g, err) < 0)
		return -1;
	cuda.n = sim_usage_read(c->state, slot, cuda.rows, &cuda.total);
	for (uint32_t i = 0; i < g->process_count; i++)
		if (g->processes[i].pid == p->pid && g->processes[i].kind == p->kind &&
			remove_gpu_process(g, i))
			break;
	if (g->process_count == SIM_MAX_PROCESSES)
		return error_set(err, ERR_LIMIT, "a GPU holds at most %d processes",
			SIM_MAX_PROCESSES);
	sim_gpu_sum_processes(g);
	if (free_bytes(g, p, &cuda, &room, err) < 0)
		return -1;
	if (p->memory_bytes > room)
		return error_set(err, ERR_LIMIT,
			"the %s has %llu bytes free, the process wants %llu",
			g->mig.enabled ? "GPU instance" : "GPU", (unsigned long long)room,
			(unsigned long long)p->memory_bytes);
	g->processes[g->process_count] = *p;
	g->processes[g->process_count].started_us = time_wall_ns() / 1000;
	if (!g->mig.enabled)
		g->processes[g->process_count].gi = g->processes[g->process_count].ci =
			SIM_NO_INSTANCE;
	g->process_count++;
	sim_gpu_sum_processes(g);
	sim_txn_commit(&txn);
	return 0;
}

int sim_control_process_stop(struct sim_control *c, uint32_t pid, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	bool found = false;

	if (sim_txn_begin(c->state, &txn, err) < 0)
		return -1;
	for (uint32_t slot = 0; slot < txn.node->head.info.slot_count; slot++) {
		struct sim_gpu *g = &txn.node->gpus[slot];

		sim_settle(g, time_wall_ns());
		for (uint32_t i = g->process_count; i-- > 0;)
			if (g->processes[i].pid == pid)
				found = remove_gpu_process(g, i);
		sim_gpu_sum_processes(g);
	}
	if (!found)
		return error_set(err, ERR_NOT_FOUND, "no process %u on any GPU", pid);
	sim_txn_commit(&txn);
	return 0;
}
