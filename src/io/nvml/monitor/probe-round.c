/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/monitor/probe-round.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void probe_round_fini(struct probe_round *round)
{
	round->last = inventory_free(round->last);
	round->next = inventory_free(round->next);
	round->active = false;
}

void probe_round_abandon(struct probe_round *round)
{
	round->next = inventory_free(round->next);
	round->active = false;
}

/*
 * Whether the links of GPU @a to all others are known. The next probe then need not read them. The worker reads all
 * pairs in one probe, but NVML may fail for one of them. A GPU without a UUID is not probed yet.
 */
static bool links_known(const struct inventory *inv, uint32_t a, bool p2p)
{
	for (uint32_t b = 0; b < inv->n; b++) {
		struct gpu_link k = inventory_link(inv, a, b);

		if (b != a && inv->gpus[b].uuid[0] &&
			!(p2p ? k.p2p != 0 : k.level != GPU_LEVEL_UNKNOWN))
			return false;
	}
	return true;
}

void probe_round_start(struct probe_round *round, uint64_t now_ns, struct worker_probe *ret)
{
	probe_round_abandon(round);
	*ret = (struct worker_probe){ .seq = ++round->seq, .p2p = round->p2p };
	worker_head(&ret->head, WORKER_PROBE);
	for (uint32_t i = 0; i < GPU_NODE_MAX; i++) {
		struct probe_round_mark *m = &round->marks[i];

		if (m->stuck && now_ns >= m->retry_at_ns)
			m->stuck = false;
		m->skipped = m->stuck;
		if (m->skipped)
			ret->skip[ret->n_skip++] = (uint16_t)i;
	}
	for (uint32_t i = 0; round->last && round->last->links && i < round->last->n; i++) {
		if (round->last->gpus[i].uuid[0] && links_known(round->last, i, round->p2p))
			ret->known[ret->n_known++] =
				worker_uuid_hash(round->last->gpus[i].uuid);
	}
	round->active = true;
	round->n_received = 0;
	memset(round->received, 0, sizeof round->received);
	memset(round->received_mig, 0, sizeof round->received_mig);
	memset(round->row, 0, sizeof round->row);
}

static int set_probe_round_error(struct error *err, const char *what)
{
	return error_set(err, ERR_INVALID, "the NVML worker sent %s", what);
}

static int feed_begin(struct probe_round *round, const struct worker_begin *b,
	struct error *err)
{
	if (round->next)
		return set_probe_round_error(err, "a second beginning");
	if (inventory_new(&round->next, b->n, err) < 0)
		return -1;
	static_assert(sizeof round->next->driver_version == sizeof b->driver_version &&
			      sizeof round->next->nvml_version == sizeof b->nvml_version,
		"texts are checked for their end");
	memcpy(round->next->driver_version, b->driver_version, sizeof b->driver_version);
	memcpy(round->next->nvml_version, b->nvml_version, sizeof b->nvml_version);
	round->next->cuda_version = b->cuda_version;
	return 0;
}

static int feed_gpu(struct probe_round *round, const struct gpu *g, struct error *err)
{
	if (!round->next || g->index >= round->next->n)
		return set_probe_round_error(err, "a GPU that it did not announce");
	if (round->received[g->index] || round->marks[g->index].skipped)
		return set_probe_round_error(err,
			"a GPU twice, or one that it was told to leave alone");
	round->next->gpus[g->index] = *g;
	round->received[g->index] = true;
	round->n_received++;
	return 0;
}

static int feed_mig(struct probe_round *round, const struct worker_mig *m, struct error *err)
{
	if (!round->next || m->gpu >= round->next->n || !round->received[m->gpu] ||
		round->received_mig[m->gpu] || !round->next->gpus[m->gpu].mig_enabled)
		return set_probe_round_error(err, "MIG devices of a GPU that has none to come");
	round->received_mig[m->gpu] = true;
	return inventory_add_mig(round->next, m->gpu, m->mig, m->n, err);
}

static int feed_links(struct probe_round *round, const struct worker_links *k,
	struct error *err)
{
	if (!round->next || !round->next->links || k->n != round->next->n || round->row[k->row])
		return set_probe_round_error(err, "links that do not fit to the GPUs");
	memcpy(&round->next->links[(size_t)k->row * k->n], k->links, k->n * sizeof k->links[0]);
	round->row[k->row] = true;
	return 0;
}

/* Fills the fields of @g that could not be read now from @old. */
static void restore_gpu_fields(struct gpu *g, const struct gpu *old)
{
	if (!g->uuid[0])
		memcpy(g->uuid, old->uuid, sizeof g->uuid);
	if (!g->name[0])
		memcpy(g->name, old->name, sizeof g->name);
	if (!g->bus_id[0])
		memcpy(g->bus_id, old->bus_id, sizeof g->bus_id);
	if (g->numa_node < 0)
		g->numa_node = old->numa_node;
	if (!g->cc_major) {
		g->cc_major = old->cc_major;
		g->cc_minor = old->cc_minor;
	}
	if (!g->memory_total_bytes)
		g->memory_total_bytes = old->memory_total_bytes;
	if (!g->has_minor && old->has_minor) {
		g->minor = old->minor;
		g->has_minor = true;
	}
	if (g->mig_unknown || (!g->mig_capable && old->mig_capable)) {
		g->mig_unknown = old->mig_unknown;
		g->mig_capable = old->mig_capable;
		g->mig_enabled = old->mig_enabled;
		g->mig_pending = old->mig_pending;
	}
	if (!g->pci_class)
		g->pci_class = old->pci_class;
	if (!g->fabric_attached && old->fabric_attached) {
		g->fabric_attached = true;
		memcpy(g->cluster_uuid, old->cluster_uuid, sizeof g->cluster_uuid);
		g->clique_id = old->clique_id;
	}
}

/*
 * Finds the faulty GPU @g in the last inventory: by its UUID if it still reports one; else by its PCI address;
 * else by its index, if the number of GPUs is the same. Never returns a GPU that the new inventory lists
 * elsewhere.
 */
static const struct gpu *find_previous_gpu(const struct inventory *last,
	const struct inventory *next, const struct gpu *g)
{
	const struct gpu *old = NULL;

	if (!last)
		return NULL;
	if (g->uuid[0])
		return inventory_find(last, g->uuid);
	for (uint32_t i = 0; i < last->n && !old && g->bus_id[0]; i++) {
		if (strcmp(last->gpus[i].bus_id, g->bus_id) == 0)
			old = &last->gpus[i];
	}
	for (uint32_t i = 0; i < last->n && !old && last->n == next->n; i++) {
		if (last->gpus[i].index == g->index)
			old = &last->gpus[i];
	}
	if (!old || !old->uuid[0] || inventory_find(next, old->uuid))
		return NULL;
	return old;
}

static void set_gpu_stuck(struct gpu *g, const char *reason)
{
	g->fault = GPU_FAULT_STUCK;
	g->nvml_code = 0;
	(void)snprintf(g->reason, sizeof g->reason, "%s", reason);
}

static void refuse_mig_twins(struct inventory *inv)
{
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		struct gpu_mig *m = &inv->mig[i];

		for (uint32_t k = 0; k < i && m->uuid[0]; k++) {
			if (strcmp(m->uuid, inv->mig[k].uuid) != 0)
				continue;
			(void)snprintf(m->reason, sizeof m->reason,
				"it has the UUID of MIG device %u:%u", inv->mig[k].gpu,
				inv->mig[k].index);
			m->uuid[0] = '\0';
		}
	}
}

/* Two GPUs with one UUID cannot be told apart: the second one becomes faulty. */
static void refuse_twins(struct inventory *inv)
{
	for (uint32_t i = 0; i < inv->n; i++) {
		struct gpu *g = &inv->gpus[i];

		for (uint32_t k = 0; k < i && g->uuid[0]; k++) {
			if (strcmp(g->uuid, inv->gpus[k].uuid) != 0)
				continue;
			g->fault = GPU_FAULT_FIELD;
			(void)snprintf(g->reason, sizeof g->reason,
				"it has the UUID of the GPU with index %u", inv->gpus[k].index);
			g->uuid[0] = '\0';
		}
	}
}

static int find_gpu_position(const struct inventory *inv, const char *uuid)
{
	const struct gpu *g = uuid[0] ? inventory_find(inv, uuid) : NULL;

	return g ? (int)(g - inv->gpus) : -1;
}

/* Copies the links of pairs that this probe did not read but an earlier one did. */
static void copy_known_links(struct inventory *next, const struct inventory *last)
{
	int old[GPU_NODE_MAX];

	if (!last || !last->links || !next->links)
		return;
	for (uint32_t i = 0; i < next->n; i++)
		old[i] = find_gpu_position(last, next->gpus[i].uuid);
	for (uint32_t a = 0; a < next->n; a++) {
		for (uint32_t b = 0; b < next->n; b++) {
			struct gpu_link *k = &next->links[(size_t)a * next->n + b], was;

			if (a == b || old[a] < 0 || old[b] < 0)
				continue;
			was = inventory_link(last, (uint32_t)old[a], (uint32_t)old[b]);
			if (k->level == GPU_LEVEL_UNKNOWN) {
				k->level = was.level;
				k->nvlinks = was.nvlinks;
			}
			if (!k->p2p)
				k->p2p = was.p2p;
		}
	}
}

/*
 * Puts the MIG devices in order: those received now, and the last ones of GPUs in MIG mode without a new list.
 * @old[i]: the position of GPU i in the last inventory; -1: not known, or GPU i is healthy.
 */
static int sort_migs(struct probe_round *round, const int *old, struct error *err)
{
	struct inventory *next = round->next;
	struct inventory came = { .n_mig = next->n_mig, .mig = next->mig };
	struct gpu_mig rows[GPU_MIG_MAX];
	int r = 0;

	next->n_mig = 0;
	next->mig = NULL;
	for (uint32_t i = 0; i < next->n && r == 0; i++) {
		uint32_t n = 0;

		if (round->received_mig[i])
			n = inventory_mig_of(&came, i, rows);
		else if (old[i] >= 0 && next->gpus[i].mig_enabled)
			n = inventory_mig_of(round->last, (uint32_t)old[i], rows);
		r = inventory_add_mig(next, i, rows, n, err);
	}
	free(came.mig);
	return r;
}

static int feed_end(struct probe_round *round, struct error *err)
{
	struct inventory *next = round->next;
	int was[GPU_NODE_MAX];
	uint32_t skipped = 0;

	if (!next)
		return set_probe_round_error(err, "an end without a beginning");
	for (uint32_t i = 0; i < next->n; i++)
		skipped += round->marks[i].skipped;
	if (round->n_received + skipped != next->n)
		return set_probe_round_error(err, "fewer GPUs than it announced");
	for (uint32_t i = 0; i < next->n; i++)
		if (next->gpus[i].fault == GPU_OK && next->gpus[i].mig_enabled &&
			round->received[i] && !round->received_mig[i])
			return set_probe_round_error(err,
				"a GPU in MIG mode without the list of its devices");
	refuse_twins(next);
	for (size_t i = 0; i < ARRAY_LEN(was); i++)
		was[i] = -1;
	for (uint32_t i = 0; i < next->n; i++) {
		struct gpu *g = &next->gpus[i];
		const struct gpu *old;

		if (round->marks[i].skipped) {
			*g = (struct gpu){ .index = i, .numa_node = -1 };
			set_gpu_stuck(g, round->marks[i].reason);
		}
		old = g->fault == GPU_OK ? NULL : find_previous_gpu(round->last, next, g);
		if (old) {
			was[i] = (int)(old - round->last->gpus);
			restore_gpu_fields(g, old);
		}
	}
	if (sort_migs(round, was, err) < 0)
		return -1;
	refuse_mig_twins(next);
	copy_known_links(next, round->last);
	for (uint32_t i = 0; i < GPU_NODE_MAX; i++) {
		struct probe_round_mark *m = &round->marks[i];

		m->crashes = 0;
		if (m->stuck && m->n == 0)
			m->n = next->n;
		if (m->stuck && m->n != next->n)
			m->retry_at_ns = 0;
	}
	inventory_free(round->last);
	round->last = STEAL_PTR(round->next);
	round->active = false;
	return 1;
}

int probe_round_feed(struct probe_round *round, const union worker_msg *m, struct error *err)
{
	if (!round->active)
		return set_probe_round_error(err, "an answer that nobody asked for");
	switch ((enum worker_type)m->head.type) {
	case WORKER_BEGIN:
		return m->begin.seq == round->seq ? feed_begin(round, &m->begin, err)
						  : set_probe_round_error(err, "an old answer");
	case WORKER_GPU:
		return m->gpu.seq == round->seq ? feed_gpu(round, &m->gpu.gpu, err)
						: set_probe_round_error(err, "an old answer");
	case WORKER_MIG:
		return m->mig.seq == round->seq ? feed_mig(round, &m->mig, err)
						: set_probe_round_error(err, "an old answer");
	case WORKER_LINKS:
		return m->links.seq == round->seq ? feed_links(round, &m->links, err)
						  : set_probe_round_error(err, "an old answer");
	case WORKER_END:
		return m->end.seq == round->seq ? feed_end(round, err)
						: set_probe_round_error(err, "an old answer");
	case WORKER_PROBE:
	case WORKER_READ:
	case WORKER_PROCESSES:
	case WORKER_READ_END:
	case WORKER_SAMPLE:
	case WORKER_DEVICE:
	case WORKER_VALUES:
	case WORKER_TEXTS:
	case WORKER_USERS:
	case WORKER_SAMPLE_END:
	case WORKER_XID:
	case WORKER_PROBE_HINT:
	case WORKER_ERROR:
	case WORKER_REINIT:
	case WORKER_TYPE_COUNT_:
	default:
		return set_probe_round_error(err, "a message out of place");
	}
}

void probe_round_mark_stuck(struct probe_round *round, uint32_t index, uint64_t retry_at_ns,
	const char *reason)
{
	struct probe_round_mark *m;

	if (index >= GPU_NODE_MAX)
		return;
	m = &round->marks[index];
	m->stuck = true;
	m->crashes = 0;
	m->n = round->next ? round->next->n : round->last ? round->last->n : 0;
	m->retry_at_ns = retry_at_ns;
	(void)snprintf(m->reason, sizeof m->reason, "%s", reason);
	for (uint32_t i = 0; round->last && i < round->last->n; i++) {
		if (round->last->gpus[i].index == index)
			set_gpu_stuck(&round->last->gpus[i], reason);
	}
}

void probe_round_unskip_all(struct probe_round *round)
{
	for (uint32_t i = 0; i < GPU_NODE_MAX; i++)
		round->marks[i].retry_at_ns = 0;
}

uint64_t probe_round_retry_at(const struct probe_round *round)
{
	uint64_t at = UINT64_MAX;

	for (uint32_t i = 0; i < GPU_NODE_MAX; i++) {
		if (round->marks[i].stuck && round->marks[i].retry_at_ns < at)
			at = round->marks[i].retry_at_ns;
	}
	return at;
}

bool probe_round_needs_session(const struct probe_round *round)
{
	for (uint32_t i = 0; round->last && i < round->last->n; i++) {
		if (round->last->gpus[i].fault == GPU_FAULT_LOST ||
			round->last->gpus[i].fault == GPU_FAULT_RESET)
			return true;
	}
	return false;
}
