/* SPDX-License-Identifier: Apache-2.0 */
/* What processes use of the GPUs: NVML's lists and figures, samples of utilization, and the account for tests. */
#include "testbed/sim/device/internal.h"

#include "lib/base/time.h"
#include "testbed/sim/derive.h"

#include <stdio.h>
#include <string.h>

/* Time for which a client's kernels ran on a GPU, by the simulated clock. */
static uint64_t usage_busy_ns(const struct device_client *c, uint32_t slot)
{
	uint64_t ns = c->shares[slot].busy_ns;

	for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++)
		if (c->contexts[i].engine && c->contexts[i].slot == slot)
			ns += engine_context_busy_ns(c->contexts[i].engine);
	return ns;
}

/* --- the account for tests --- */

/*
 * What each process used of each GPU by the time it left: the reference for tests of measured figures. One JSON
 * object a line:
 *
 *	pid, name, gpu    the process, by the PID in this process's namespace, and the GPU's index
 *	busyNs            time for which its kernels ran, by the simulated clock
 *	byteSeconds       its memory, summed over real time
 *	peakBytes
 *	gpuBusyNs         time for which the GPU (or the simulated MIG device) ever ran kernels
 */

/* The client's memory has changed. */
static void account_shown(struct device_client *c, uint32_t slot)
{
	struct share *s = &c->shares[slot];
	uint64_t now_ns = time_mono_ns();

	s->byte_s += (double)s->shown_bytes * (double)(now_ns - s->shown_ns) / 1e9;
	s->shown_ns = now_ns;
	s->shown_bytes = s->bytes;
	if (s->bytes > s->peak_bytes)
		s->peak_bytes = s->bytes;
}

/* The client leaves the GPU's list. */
static void account_end(struct device_client *c, uint32_t slot)
{
	struct share *s = &c->shares[slot];
	char name[COMM_MAX + 1];
	size_t i;

	account_shown(c, slot);
	for (i = 0; c->name[i]; i++)
		name[i] = c->name[i] >= ' ' && c->name[i] != '"' && c->name[i] != '\\'
				  ? c->name[i]
				  : '?';
	name[i] = '\0';
	if (c->device->account_fd >= 0)
		(void)dprintf(c->device->account_fd,
			"{\"pid\":%u,\"name\":\"%s\",\"gpu\":%u,\"busyNs\":%llu,"
			"\"byteSeconds\":%.0f,\"peakBytes\":%llu,\"gpuBusyNs\":%llu}\n",
			c->pid, name, slot,
			(unsigned long long)(usage_busy_ns(c, slot) - s->reported_busy_ns),
			s->byte_s, (unsigned long long)s->peak_bytes,
			(unsigned long long)engine_gpu_counters(c->device->engine,
				instance_index(c, slot))
				.busy_ns);
	/* The client may come back to the GPU. */
	s->reported_busy_ns = usage_busy_ns(c, slot);
	s->byte_s = 0;
	s->peak_bytes = 0;
}

/* --- samples of utilization --- */

/*
 * The driver has no samples of MPS clients. Their server has samples for all of them: the time in which any of
 * them ran (measured on an H100). The simulator takes the sum of their times, at most the interval.
 */
static uint64_t own_busy_ns(const struct device_client *c, uint32_t slot)
{
	const struct simulated_gpus *gpus = c->device;
	uint64_t ns = usage_busy_ns(c, slot) + c->shares[slot].served_ns;

	for (const struct device_client *o = gpus->clients; o; o = o->next)
		for (uint32_t i = 0; i < SIM_DEVICE_CONTEXTS_MAX; i++) {
			const struct device_context *context = &o->contexts[i];

			if (context->engine && context->slot == slot && context->server &&
				context->server->client == c)
				ns += engine_context_busy_ns(context->engine);
		}
	return ns;
}

/*
 * Adds the sample of @c since the last one: an interval of @real_us of the real and @sim_ns of the simulated
 * clock.
 */
static void add_part(struct device_slot *s, struct device_client *c, uint32_t slot,
	uint64_t sim_ns, uint64_t real_us, uint64_t at_us)
{
	struct share *own = &c->shares[slot];
	uint64_t busy, ns;

	if (own->mps || !sim_ns)
		return;
	busy = own_busy_ns(c, slot);
	ns = busy - own->sampled_busy_ns;
	own->sampled_busy_ns = busy;
	ns = ns < sim_ns ? ns : sim_ns;
	sim_load_add(&s->load, c->pid, (uint64_t)((unsigned __int128)ns * real_us / sim_ns),
		at_us);
}

/* Samples an interval of @sim_ns of the simulated and @real_ns of the real clock. */
static void load_measure(struct simulated_gpus *gpus, uint64_t sim_ns, uint64_t real_ns,
	uint64_t mono_ns)
{
	uint64_t at_us = time_wall_ns() / 1000;

	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
		struct device_slot *s = &gpus->slots[slot];
		uint64_t busy, part;

		if (!s->usable)
			continue;
		busy = engine_gpu_counters(gpus->engine, slot).busy_ns;
		part = (busy - s->seen_busy_ns + instance_measure(gpus, slot)) * 1000000 /
		       sim_ns;
		part = part > 1000000 ? 1000000 : part;
		s->seen_busy_ns = busy;
		s->load.busy_ns += real_ns * part / 1000000;
		s->load.rate = (uint32_t)part;
		s->load.at_ns = mono_ns;
		sim_load_tick(&s->load, at_us, real_ns / 1000);
		for (struct device_client *c = gpus->clients; c; c = c->next)
			if (c->shares[slot].listed)
				add_part(s, c, slot, sim_ns, real_ns / 1000, at_us);
		sim_load_write(gpus->state, slot, &s->load);
	}
}

/* Removes a client from a GPU's samples. */
static void load_remove_client(struct device_client *c, uint32_t slot)
{
	struct device_slot *s = &c->device->slots[slot];

	sim_load_forget(&s->load, c->pid);
	sim_load_write(c->device->state, slot, &s->load);
}

/* --- processes and their memory --- */

void usage_show(struct simulated_gpus *gpus, uint32_t slot)
{
	struct sim_usage rows[SIM_MAX_PROCESSES];
	size_t n = 0, i;

	for (struct device_client *c = gpus->clients; c; c = c->next) {
		account_shown(c, slot);
		if (!c->shares[slot].listed)
			continue;
		for (i = 0; i < n && rows[i].pid != c->pid; i++)
			;
		if (i == SIM_MAX_PROCESSES)
			continue;
		if (i == n)
			rows[n++] = (struct sim_usage){ .pid = c->pid };
		rows[i].bytes += c->shares[slot].bytes;
	}
	sim_usage_write(gpus->state, slot, rows, n, gpus->slots[slot].used);
}

bool usage_remove_row(struct sim_gpu *g, uint32_t pid)
{
	bool found = false;

	for (uint32_t i = g->process_count; i-- > 0;) {
		struct sim_process *p = &g->processes[i];

		if (p->pid != pid || p->kind == SIM_PROCESS_GRAPHICS)
			continue;
		memmove(p, p + 1, (g->process_count - i - 1) * sizeof(*p));
		g->process_count--;
		memset(&g->processes[g->process_count], 0, sizeof(*p));
		found = true;
	}
	return found;
}

static void add_gpu_process_row(struct sim_gpu *g, const struct device_client *c,
	enum sim_process_kind kind, const struct instance *in)
{
	struct sim_process *p = &g->processes[g->process_count++];

	*p = (struct sim_process){ .pid = c->pid,
		.kind = kind,
		.gi = in ? in->gi : SIM_NO_INSTANCE,
		.ci = in ? in->ci : SIM_NO_INSTANCE,
		.started_us = time_wall_ns() / 1000 };
	(void)snprintf(p->name, sizeof(p->name), "%s", c->name);
}

/* Whether another connection of the same process has something on the GPU. */
static bool listed_by_another(const struct device_client *c, uint32_t slot)
{
	for (const struct device_client *o = c->device->clients; o; o = o->next)
		if (o != c && o->pid == c->pid && o->shares[slot].listed)
			return true;
	return false;
}

/* Adds the process's row to NVML's list; usage_show() writes its bytes. */
bool usage_list(struct device_client *c, uint32_t slot)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct simulated_gpus *gpus = c->device;
	struct sim_gpu *g;

	if (c->shares[slot].listed)
		return true;
	if (!listed_by_another(c, slot)) {
		if (sim_txn_begin(gpus->state, &txn, NULL) < 0)
			return false;
		g = &txn.node->gpus[slot];
		if (g->process_count + c->shares[slot].mps >= SIM_MAX_PROCESSES)
			return false;
		sim_settle(g, time_wall_ns());
		(void)usage_remove_row(g, c->pid);
		add_gpu_process_row(g, c, SIM_PROCESS_COMPUTE, instance_on(c, slot));
		/* The driver lists an MPS client twice, with the same memory. */
		if (c->shares[slot].mps)
			add_gpu_process_row(g, c, SIM_PROCESS_MPS, NULL);
		sim_gpu_sum_processes(g);
		sim_txn_commit(&txn);
	}
	c->shares[slot].listed = true;
	return true;
}

/* Removes the process from the lists of GPUs on which it has nothing. The sums no longer include its bytes. */
void usage_unlist(struct device_client *c)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct simulated_gpus *gpus = c->device;
	bool begun = false;

	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
		struct share *s = &c->shares[slot];

		if (!s->listed || s->bytes || s->contexts)
			continue;
		load_remove_client(c, slot);
		account_end(c, slot);
		s->listed = false;
		if (listed_by_another(c, slot))
			continue;
		if (!begun && sim_txn_begin(gpus->state, &txn, NULL) < 0)
			return;
		begun = true;
		sim_settle(&txn.node->gpus[slot], time_wall_ns());
		(void)usage_remove_row(&txn.node->gpus[slot], c->pid);
		sim_gpu_sum_processes(&txn.node->gpus[slot]);
	}
	if (!begun)
		return;
	sim_txn_commit(&txn);
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++)
		if (gpus->slots[slot].usable)
			usage_show(gpus, slot);
}

static uint64_t usage_free_bytes(const struct device_slot *s)
{
	return s->room > s->used ? s->room - s->used : 0;
}

uint64_t usage_get_free(const struct device_client *c, uint32_t slot)
{
	const struct instance *in = instance_on(c, slot);
	uint64_t room = in ? instance_free_bytes(c->device, in)
			   : usage_free_bytes(&c->device->slots[slot]);
	const struct share *s = &c->shares[slot];
	uint64_t own = s->limit > s->bytes ? s->limit - s->bytes : 0;

	return s->limit && own < room ? own : room;
}

/* Changes the sums only; usage_show() follows. */
void usage_moved(void *arg, const struct memory_facts *m, struct memory_holder *from,
	struct memory_holder *to, bool lives)
{
	struct simulated_gpus *gpus = arg;

	if (m->flags & SIM_DEVICE_MEM_MANAGED)
		return;
	if (from)
		((struct device_client *)(void *)((char *)from -
						  offsetof(struct device_client, holder)))
			->shares[m->slot]
			.bytes -= m->bytes;
	if (to)
		((struct device_client *)(void *)((char *)to -
						  offsetof(struct device_client, holder)))
			->shares[m->slot]
			.bytes += m->bytes;
	if (!lives)
		gpus->slots[m->slot].used -= m->bytes;
}

/* Memory may have a new owner that NVML does not list yet. */
void usage_show_again(struct simulated_gpus *gpus, uint32_t slot)
{
	for (struct device_client *c = gpus->clients; c; c = c->next)
		if (c->shares[slot].bytes && !c->shares[slot].listed)
			(void)usage_list(c, slot);
	usage_show(gpus, slot);
}

/* Load. */

#define MEASURE_NS (250 * NS_PER_MS)

/* The percentage of the interval for which each process computed. True: one has changed. */
static bool measure_clients(struct simulated_gpus *gpus, uint64_t interval_ns)
{
	bool changed = false;

	for (struct device_client *c = gpus->clients; c; c = c->next)
		for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
			struct share *s = &c->shares[slot];
			uint64_t busy, percent;

			if (!s->listed)
				continue;
			busy = usage_busy_ns(c, slot);
			percent = (busy - s->seen_busy_ns) * 100 / interval_ns;
			s->seen_busy_ns = busy;
			percent = percent > 100 ? 100 : percent;
			changed = changed || percent != s->percent;
			s->percent = (uint32_t)percent;
		}
	return changed;
}

static void show_load(struct sim_gpu *g, const struct simulated_gpus *gpus, uint32_t slot)
{
	sim_settle(g, time_wall_ns());
	for (const struct device_client *c = gpus->clients; c; c = c->next)
		for (uint32_t i = 0; c->shares[slot].listed && i < g->process_count; i++) {
			struct sim_process *p = &g->processes[i];

			if (p->pid != c->pid || p->kind != SIM_PROCESS_COMPUTE)
				continue;
			p->sm_percent = c->shares[slot].percent;
			p->mem_percent = p->sm_percent / 2;
		}
	sim_gpu_sum_processes(g);
}

void device_add_lateness(struct simulated_gpus *gpus, uint64_t ns)
{
	gpus->late_ns += ns;
}

void usage_measure(struct simulated_gpus *gpus, uint64_t now_ns)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	uint64_t mono_ns = time_mono_ns(), interval_ns = now_ns - gpus->measured_ns;

	/* A fixed interval of real time, for human readers, at any speed of the simulated clock. */
	if (now_ns == UINT64_MAX || now_ns <= gpus->measured_ns ||
		mono_ns - gpus->measured_mono_ns < MEASURE_NS)
		return;
	load_measure(gpus, interval_ns, mono_ns - gpus->measured_mono_ns, mono_ns);
	gpus->measured_ns = now_ns;
	gpus->measured_mono_ns = mono_ns;
	if ((!measure_clients(gpus, interval_ns) && !gpus->late_ns) ||
		sim_txn_begin(gpus->state, &txn, NULL) < 0)
		return;
	for (uint32_t slot = 0; slot < txn.node->head.info.slot_count; slot++)
		if (gpus->slots[slot].usable) {
			show_load(&txn.node->gpus[slot], gpus, slot);
			txn.node->gpus[slot].keys.violation_base_ns += gpus->late_ns;
		}
	gpus->late_ns = 0;
	sim_txn_commit(&txn);
}
