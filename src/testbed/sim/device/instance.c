/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MIG devices. CUDA uses at most one compute instance in a process (NVIDIA's MIG user guide, "Device
 * enumeration"). So a client names it once, and the rest of the device still counts by slots.
 */
#include "testbed/sim/device/internal.h"

#include "lib/base/time.h"
#include "testbed/sim/derive.h"
#include "testbed/sim/mig.h"

static uint32_t get_instance_index(const struct instance *in, const struct simulated_gpus *gpus)
{
	return SIM_MAX_GPUS + (uint32_t)(in - gpus->instances);
}

const struct instance *instance_on(const struct device_client *c, uint32_t slot)
{
	return c->instance && c->instance->slot == slot ? c->instance : NULL;
}

uint32_t instance_index(const struct device_client *c, uint32_t slot)
{
	const struct instance *in = instance_on(c, slot);

	return in ? get_instance_index(in, c->device) : slot;
}

/*
 * Reads the node's state of the MIG device. False: the MIG device does not exist, or a newer one has its ids.
 */
static bool read_instance_state(struct simulated_gpus *gpus, struct instance *in)
{
	const struct device_slot *s = &gpus->slots[in->slot];
	const struct sim_mig_profile *p;
	const struct sim_mig_table *t;
	const struct sim_keys *k;
	const struct sim_ci *ci;
	struct sim_gpu g;
	struct sim_gi *gi;
	uint64_t taken;

	if (!s->usable || !s->mig)
		return false;
	sim_state_read_bare(gpus->state, &SIM_PART_GPU_ALL(in->slot, &g), 1);
	t = sim_mig_table(&g.keys);
	gi = t ? sim_gi_find(&g, in->gi) : NULL;
	ci = gi ? sim_ci_find(gi, in->ci) : NULL;
	if (!ci || (in->serial && ci->serial != in->serial))
		return false;
	p = sim_gi_profile(&g, gi);
	k = &g.keys;
	in->serial = ci->serial;
	in->compute_mode = ci->compute_mode;
	in->width = sim_ci_shape(t, p, ci->number).sms;
	in->total = (uint64_t)p->memory_mib << 20;
	taken = ((uint64_t)t->idle_mib << 20) +
		sim_mig_process_bytes(&g, in->gi, SIM_NO_INSTANCE);
	in->room = in->total > taken ? in->total - taken : 0;
	engine_gpu_set(gpus->engine, get_instance_index(in, gpus),
		&(struct engine_gpu_config){ .slice_ns = (uint64_t)k->cuda_slice_us * 1000,
			.switch_ns = (uint64_t)k->cuda_switch_us * 1000,
			.preempt_ns = (uint64_t)k->cuda_preempt_us * 1000,
			.width = in->width,
			.host_mbps = k->cuda_copy_mbps,
			.local_mbps = (uint32_t)((uint64_t)k->cuda_local_mbps * p->size /
						 t->layout->slots) });
	return true;
}

static bool has_something(const struct device_client *c)
{
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (c->shares[slot].listed || c->shares[slot].contexts)
			return true;
	return false;
}

uint32_t instance_use(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a)
{
	struct simulated_gpus *gpus = c->device;
	struct instance *in = NULL;

	(void)a;
	if (c->instance || has_something(c))
		return BAD_VALUE;
	if (request->slot >= SIM_MAX_GPUS || request->id >= SIM_NO_INSTANCE ||
		request->cookie >= SIM_NO_INSTANCE)
		return BAD_DEVICE;
	for (size_t i = 0; i < DEVICE_INSTANCES_MAX; i++) {
		struct instance *at = &gpus->instances[i];

		if (!at->users) {
			in = in ? in : at;
			continue;
		}
		if (at->usable && at->slot == request->slot && at->gi == request->id &&
			at->ci == request->cookie) {
			in = at;
			break;
		}
	}
	if (!in)
		return OS_ERROR;
	if (!in->users) {
		*in = (struct instance){ .slot = request->slot,
			.gi = (uint32_t)request->id,
			.ci = (uint32_t)request->cookie,
			.seen_busy_ns =
				engine_gpu_counters(gpus->engine, get_instance_index(in, gpus))
					.busy_ns };
		in->usable = read_instance_state(gpus, in);
		if (!in->usable)
			return BAD_DEVICE;
	}
	in->users++;
	c->instance = in;
	return OK;
}

/*
 * The compute time of the MIG device since the last call, weighted with its fraction of the GPU's multiprocessors.
 */
static uint64_t measure_instance_busy(struct simulated_gpus *gpus, struct instance *in)
{
	uint64_t busy_ns =
		engine_gpu_counters(gpus->engine, get_instance_index(in, gpus)).busy_ns;
	uint64_t ns = busy_ns - in->seen_busy_ns;
	uint32_t all = gpus->slots[in->slot].sm_count;

	in->seen_busy_ns = busy_ns;
	return ns * in->width / (all ? all : 1);
}

void instance_leave(struct device_client *c)
{
	struct simulated_gpus *gpus = c->device;
	struct instance *in = c->instance;

	if (in && --in->users == 0)
		gpus->slots[in->slot].left_busy_ns += measure_instance_busy(gpus, in);
	c->instance = NULL;
}

/* Fails the contexts of a MIG device that is gone. */
static void fail_instance_contexts(struct simulated_gpus *gpus, const struct instance *in)
{
	for (struct device_client *c = gpus->clients; c; c = c->next)
		for (uint32_t i = 0; c->instance == in && i < SIM_DEVICE_CONTEXTS_MAX; i++)
			if (c->contexts[i].engine)
				engine_context_fail(c->contexts[i].engine, LAUNCH_FAILED);
}

void instance_read(struct simulated_gpus *gpus)
{
	for (size_t i = 0; i < DEVICE_INSTANCES_MAX; i++) {
		struct instance *in = &gpus->instances[i];
		bool was = in->usable;

		if (!in->users)
			continue;
		in->usable = read_instance_state(gpus, in);
		if (was && !in->usable)
			fail_instance_contexts(gpus, in);
	}
}

/*
 * Memory that only a descriptor keeps belongs to no process, and here to no GPU instance either. Memory whose new
 * owner uses another GPU instance counts there.
 */
uint64_t instance_free_bytes(const struct simulated_gpus *gpus, const struct instance *in)
{
	uint64_t used = 0;

	for (const struct device_client *c = gpus->clients; c; c = c->next)
		if (c->instance && c->instance->usable && c->instance->slot == in->slot &&
			c->instance->gi == in->gi)
			used += c->shares[in->slot].bytes;
	return in->room > used ? in->room - used : 0;
}

uint64_t instance_measure(struct simulated_gpus *gpus, uint32_t slot)
{
	uint64_t sum = gpus->slots[slot].left_busy_ns;

	gpus->slots[slot].left_busy_ns = 0;
	for (size_t i = 0; i < DEVICE_INSTANCES_MAX; i++)
		if (gpus->instances[i].users && gpus->instances[i].slot == slot)
			sum += measure_instance_busy(gpus, &gpus->instances[i]);
	return sum;
}
