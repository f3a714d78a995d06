/* SPDX-License-Identifier: Apache-2.0 */

/* The node's state, and start and stop. */
#include "testbed/sim/device/internal.h"

#include "lib/base/time.h"
#include "abi/nvml-api.h"
#include "testbed/sim/derive.h"

static void slot_read(struct simulated_gpus *gpus, const struct sim_node_head *head, uint32_t i)
{
	struct device_slot *s = &gpus->slots[i];
	const struct sim_slot *now = &head->slots[i];
	const struct sim_keys *k;
	struct sim_gpu g;
	uint64_t taken;

	s->usable = i < head->info.slot_count && now->present && !now->lost;
	s->epoch = now->epoch;
	if (!s->usable)
		return;
	sim_state_read_bare(gpus->state, &SIM_PART_GPU(i, &g), 1);
	k = &g.keys;
	s->mig = g.mig.enabled;
	s->mps = k->cuda_mps;
	s->compute_mode = k->compute_mode;
	s->total =
		k->memory_total > k->memory_reserved ? k->memory_total - k->memory_reserved : 0;
	taken = sim_memory_used_bytes(&g);
	s->room = s->total > taken ? s->total - taken : 0;
	s->context = k->cuda_context;
	s->free_ns = (uint64_t)k->cuda_free_ms * NS_PER_MS;
	s->sm_count = k->sm_count;
	engine_gpu_set(gpus->engine, i,
		&(struct engine_gpu_config){ .slice_ns = (uint64_t)k->cuda_slice_us * 1000,
			.switch_ns = (uint64_t)k->cuda_switch_us * 1000,
			.preempt_ns = (uint64_t)k->cuda_preempt_us * 1000,
			.width = k->sm_count,
			.host_mbps = k->cuda_copy_mbps,
			.local_mbps = k->cuda_local_mbps });
}

/* Fails the contexts of a GPU that is lost, gone or replaced. */
static void fail_slot_contexts(struct simulated_gpus *gpus, uint32_t slot)
{
	for (struct device_client *c = gpus->clients; c; c = c->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++)
			if (c->contexts[i].engine && c->contexts[i].slot == slot)
				engine_context_fail(c->contexts[i].engine, LAUNCH_FAILED);
}

void node_read(struct simulated_gpus *gpus, bool first)
{
	uint64_t generation = sim_state_generation(gpus->state);
	CLEANUP(freep) struct sim_node_head *head = NULL;

	if (generation == gpus->generation && !first)
		return;
	head = malloc(sizeof(*head));
	if (!head)
		return; /* retried at the next call */
	sim_state_read_bare(gpus->state, &SIM_PART_HEAD(head), 1);
	gpus->generation = generation;
	for (uint32_t i = 0; i < SIM_MAX_GPUS; i++) {
		struct device_slot *s = &gpus->slots[i], old = *s;

		slot_read(gpus, head, i);
		if (!first && old.usable && (!s->usable || s->epoch != old.epoch))
			fail_slot_contexts(gpus, i);
	}
	instance_read(gpus);
}

/* Removes the rows of processes of an earlier daemon that was killed. */
static int clear_left_over(struct simulated_gpus *gpus, struct error *err)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_usage rows[SIM_MAX_PROCESSES];
	bool any = false;
	uint64_t total;

	if (sim_txn_begin(gpus->state, &txn, err) < 0)
		return -1;
	for (uint32_t slot = 0; slot < txn.node->head.info.slot_count; slot++) {
		size_t n = sim_usage_read(gpus->state, slot, rows, &total);

		if (n || total)
			sim_usage_write(gpus->state, slot, NULL, 0, 0);
		for (size_t i = 0; i < n; i++)
			any = usage_remove_row(&txn.node->gpus[slot], rows[i].pid) || any;
		sim_gpu_sum_processes(&txn.node->gpus[slot]);
	}
	if (any)
		sim_txn_commit(&txn);
	return 0;
}

int device_new(struct sim_state *state, struct simulated_gpus **ret, struct error *err)
{
	struct simulated_gpus *gpus = calloc(1, sizeof(*gpus));

	if (!gpus)
		return error_nomem(err);
	gpus->state = state;
	gpus->account_fd = -1;
	gpus->engine = engine_new(SIM_MAX_GPUS + DEVICE_INSTANCES_MAX, &engine_hooks, gpus);
	gpus->memories = memory_table_new(usage_moved, gpus);
	if (!gpus->engine || !gpus->memories) {
		(void)device_free(gpus);
		return error_nomem(err);
	}
	if (clear_left_over(gpus, err) < 0) {
		(void)device_free(gpus);
		return -1;
	}
	node_read(gpus, true);
	*ret = gpus;
	return 0;
}

void device_account(struct simulated_gpus *gpus, int fd)
{
	gpus->account_fd = fd;
}

struct simulated_gpus *device_free(struct simulated_gpus *gpus)
{
	while (gpus->clients) {
		gpus->clients->free_at_ns = 0;
		if (!gpus->clients->gone)
			device_client_gone(gpus->clients, UINT64_MAX);
		else
			device_advance(gpus, UINT64_MAX);
	}
	gpus->memories = memory_table_free(gpus->memories);
	gpus->engine = gpus->engine ? engine_free(gpus->engine) : NULL;
	free(gpus);
	return NULL;
}
