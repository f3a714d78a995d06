/* SPDX-License-Identifier: Apache-2.0 */
#include "model/node/node.h"

#include "model/node/internal.h"

#include <stdio.h>
#include <string.h>

void node_init(struct node *n)
{
	*n = (struct node){ 0 };
}

void node_fini(struct node *n)
{
	n->inv = inventory_free(n->inv);
	free(n->gpus);
	free(n->migs);
	free(n->persisted);
	n->gpus = NULL;
	n->migs = NULL;
	n->persisted = NULL;
}

static uint32_t count_known_gpus(const struct node *n)
{
	return n->inv ? n->inv->n : 0;
}

static uint32_t find_uuid(const struct node *n, const char *uuid)
{
	for (uint32_t i = 0; uuid[0] && i < count_known_gpus(n); i++)
		if (strcmp(n->gpus[i].gpu.uuid, uuid) == 0)
			return i;
	return NODE_NONE;
}

/* Finds a GPU without a readable UUID (typical of lost GPUs) by its bus address, else by its NVML index.
 * Only known GPUs that no other GPU claims are candidates. */
static uint32_t find_nameless(const struct node *n, const struct gpu *seen,
	const uint32_t *claims)
{
	uint32_t by_index = NODE_NONE;

	for (uint32_t i = 0; i < count_known_gpus(n); i++) {
		const struct gpu *g = &n->gpus[i].gpu;

		if (claims[i] != NODE_NONE)
			continue;
		if (seen->bus_id[0] && strcmp(g->bus_id, seen->bus_id) == 0)
			return i;
		if (g->index != seen->index || (seen->bus_id[0] && g->bus_id[0]))
			continue;
		if (by_index == NODE_NONE || n->gpus[i].present)
			by_index = i;
	}
	return by_index;
}

/* claims[i]: the seen GPU that matches the known GPU i. claimed[k]: the known GPU that matches the seen GPU
 * k. */
static void match_seen_gpus(const struct node *n, const struct inventory *seen,
	uint32_t *claims, uint32_t *claimed)
{
	for (uint32_t i = 0; i < count_known_gpus(n); i++)
		claims[i] = NODE_NONE;
	for (uint32_t k = 0; k < seen->n; k++) {
		const char *uuid = seen->gpus[k].uuid;

		/* Two GPUs with one UUID each keep their own entry. */
		claimed[k] = NODE_NONE;
		for (uint32_t i = 0;
			uuid[0] && i < count_known_gpus(n) && claimed[k] == NODE_NONE; i++)
			if (claims[i] == NODE_NONE && strcmp(n->gpus[i].gpu.uuid, uuid) == 0)
				claimed[k] = i;
		if (claimed[k] != NODE_NONE)
			claims[claimed[k]] = k;
	}
	for (uint32_t k = 0; k < seen->n; k++) {
		if (seen->gpus[k].uuid[0])
			continue;
		claimed[k] = find_nameless(n, &seen->gpus[k], claims);
		if (claimed[k] != NODE_NONE)
			claims[claimed[k]] = k;
	}
}

/* Whether the end of this fault means a reset or another driver. */
static bool is_reset_after(enum gpu_fault fault)
{
	return fault == GPU_FAULT_LOST || fault == GPU_FAULT_RESET || fault == GPU_FAULT_GONE;
}

/*
 * A signal was raised and is unreadable now: the call fails, the GPU is lost, or the driver does not know
 * row remapping of a GPU with MIG instances. The signal stays raised until a probe reads it as clear. After
 * a reset only a failing call keeps the signal: a driver without the signal at that time will not have it
 * later.
 */
static void preserve_raised_signals(struct gpu *g, const struct gpu *was)
{
	bool reset = g->fault == GPU_OK && is_reset_after(was->fault);
	uint32_t kept = reset ? g->signals_failed : UINT32_MAX;

	for (int i = 0; i < GPU_SIGNAL_STORED_; i++) {
		uint32_t bit = UINT32_C(1) << i;

		if (kept & bit & was->signals_known & ~g->signals_known && was->signals[i] > 0)
			gpu_signal_set(g, (enum gpu_signal)i, was->signals[i]);
	}
	if (g->recovery == GPU_RECOVERY_UNKNOWN && was->recovery != GPU_RECOVERY_NONE &&
		kept & UINT32_C(1) << GPU_SIGNAL_STORED_)
		g->recovery = was->recovery;
}

/* Merges one probe into a known GPU. A faulty GPU keeps its earlier data, so that an unreadable name or
 * minor number does not move the GPU to another resource. Signals come from this probe only. */
static void merge_seen_gpu(struct gpu *g, const struct gpu *seen, bool is_new)
{
	const struct gpu was = *g;

	if (is_new) {
		*g = *seen;
		return;
	}
	*g = seen->fault == GPU_OK ? *seen : was;
	g->index = seen->index;
	g->recovery = seen->recovery;
	g->signals_known = seen->signals_known;
	g->signals_failed = seen->signals_failed;
	memcpy(g->signals, seen->signals, sizeof(g->signals));
	g->fault = seen->fault;
	g->nvml_code = seen->nvml_code;
	memcpy(g->reason, seen->reason, sizeof(g->reason));
	preserve_raised_signals(g, &was);
}

void node_set_gpu_fault(struct gpu *g, enum gpu_fault fault, const char *reason)
{
	g->fault = fault;
	g->nvml_code = 0;
	(void)snprintf(g->reason, sizeof(g->reason), "%.*s", GPU_REASON_MAX - 1, reason);
}

/* Marks a GPU that was not probed. Of its signals, only the raised ones stay known. */
static void set_unseen(struct gpu *g, enum gpu_fault fault, const char *reason)
{
	const struct gpu was = *g;

	node_set_gpu_fault(g, fault, reason);
	g->signals_known = 0;
	g->recovery = GPU_RECOVERY_UNKNOWN;
	preserve_raised_signals(g, &was);
}

/* Whether offered or displayed data changed. Ignores memory in use, which changes all the time. */
static bool gpu_changed(const struct gpu *a, const struct gpu *b)
{
	return a->index != b->index || a->minor != b->minor || a->has_minor != b->has_minor ||
	       strcmp(a->uuid, b->uuid) != 0 || strcmp(a->name, b->name) != 0 ||
	       strcmp(a->bus_id, b->bus_id) != 0 || a->numa_node != b->numa_node ||
	       a->cc_major != b->cc_major || a->cc_minor != b->cc_minor ||
	       a->memory_total_bytes != b->memory_total_bytes ||
	       a->memory_usable_bytes != b->memory_usable_bytes ||
	       a->mig_unknown != b->mig_unknown || a->mig_capable != b->mig_capable ||
	       a->mig_enabled != b->mig_enabled || a->xid_events != b->xid_events ||
	       a->fault != b->fault || a->pci_class != b->pci_class ||
	       a->fabric_attached != b->fabric_attached ||
	       strcmp(a->cluster_uuid, b->cluster_uuid) != 0 || a->clique_id != b->clique_id;
}

const struct node_persisted *node_find_persisted(const struct node *n, const char *uuid,
	const char *profile)
{
	for (uint32_t i = 0; i < n->n_persisted; i++)
		if (strcmp(n->persisted[i].uuid, uuid) == 0 &&
			strcmp(n->persisted[i].profile, profile) == 0)
			return &n->persisted[i];
	return NULL;
}

void node_start_health(struct health *h, const struct health_policy *p,
	const struct node_persisted *persisted, uint64_t now_ns)
{
	health_init(h, now_ns);
	if (persisted)
		health_restore(h, p, &persisted->health, now_ns);
}

static bool apply_seen_gpu(struct node_entry *pl, const struct node *n,
	const struct health_policy *p, const struct gpu *seen, uint64_t now_ns)
{
	bool is_new = pl->old == NODE_NONE;
	struct gpu before = pl->gpu.gpu;
	bool changed;

	merge_seen_gpu(&pl->gpu.gpu, seen, is_new);
	if (is_new) {
		const struct node_persisted *persisted = node_find_persisted(n, seen->uuid, "");

		node_start_health(&pl->gpu.health, p, persisted, now_ns);
		if (persisted)
			preserve_raised_signals(&pl->gpu.gpu, &persisted->raised);
	}
	changed = health_probe(&pl->gpu.health, p, &pl->gpu.gpu, now_ns);
	changed = changed || is_new || !pl->gpu.present || gpu_changed(&before, &pl->gpu.gpu);
	pl->gpu.present = true;
	pl->gpu.last_seen_ns = now_ns;
	return changed;
}

static bool apply_gone_gpu(struct node_entry *pl, const struct health_policy *p,
	uint64_t now_ns)
{
	bool changed = pl->gpu.present;

	set_unseen(&pl->gpu.gpu, GPU_FAULT_GONE, "GPU is gone: NVML does not list it any more");
	pl->gpu.present = false;
	return health_probe(&pl->gpu.health, p, &pl->gpu.gpu, now_ns) || changed;
}

static bool is_absent_gpu_expired(const struct node_gpu *g, const struct health_policy *p,
	uint64_t now_ns)
{
	return !g->present && now_ns - g->last_seen_ns >= p->forget_after_ns;
}

/* Entries are unique by UUID, however often the GPU is forgotten. */
static void add_missing_entry(struct node *n, const struct node_missing *m)
{
	uint32_t i = 0;

	while (i < n->n_missing && strcmp(n->missing[i].uuid, m->uuid) != 0)
		i++;
	if (!m->uuid[0] || i == ARRAY_LEN(n->missing))
		return;
	n->n_missing += i == n->n_missing;
	n->missing[i] = *m;
}

void node_missing_of(struct node_missing *m, const struct node_gpu *g)
{
	const struct health *h = &g->health;

	*m = (struct node_missing){ .index = g->gpu.index,
		.xid = h->cause >= XID_RESET ? h->cause_xid : 0 };
	memcpy(m->uuid, g->gpu.uuid, sizeof(m->uuid));
	memcpy(m->bus_id, g->gpu.bus_id, sizeof(m->bus_id));
}

static void add_missing_gpu(struct node *n, const struct node_gpu *g)
{
	struct node_missing m;

	node_missing_of(&m, g);
	add_missing_entry(n, &m);
}

/* Runs after the first inventory. A persisted GPU that needed a repair and is not there now is missing. */
static void drop_persisted_gpus(struct node *n)
{
	for (uint32_t i = 0; i < n->n_persisted; i++) {
		const struct node_persisted *k = &n->persisted[i];
		struct node_missing m = { .index = k->index, .xid = k->health.cause_xid };

		if (k->profile[0] || !m.xid || xid_class(m.xid) < XID_RESET ||
			find_uuid(n, k->uuid) != NODE_NONE)
			continue;
		memcpy(m.uuid, k->uuid, sizeof(m.uuid));
		memcpy(m.bus_id, k->bus_id, sizeof(m.bus_id));
		add_missing_entry(n, &m);
	}
	free(n->persisted);
	n->persisted = NULL;
	n->n_persisted = 0;
}

/* Whether @seen has the missing GPU, or another GPU in its slot. */
static bool is_back(const struct inventory *seen, const struct node_missing *m)
{
	for (uint32_t i = 0; i < seen->n; i++)
		if (strcmp(seen->gpus[i].uuid, m->uuid) == 0 ||
			(m->bus_id[0] && strcmp(seen->gpus[i].bus_id, m->bus_id) == 0))
			return true;
	return false;
}

static void drop_missing(struct node *n, const struct inventory *seen)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n->n_missing; i++)
		if (!is_back(seen, &n->missing[i]))
			n->missing[kept++] = n->missing[i];
	n->n_missing = kept;
}

static int compare_node_entries(const void *a, const void *b)
{
	const struct node_entry *x = a, *y = b;

	if (x->gpu.gpu.index != y->gpu.gpu.index)
		return x->gpu.gpu.index < y->gpu.gpu.index ? -1 : 1;
	return strcmp(x->gpu.gpu.uuid, y->gpu.gpu.uuid);
}

/* The link between two GPUs: as seen, or as known before if this probe could not read the link. */
static struct gpu_link merge_link(const struct node *n, const struct inventory *seen,
	const struct node_entry *a, const struct node_entry *b)
{
	struct gpu_link was = { .level = GPU_LEVEL_UNKNOWN };
	struct gpu_link is = was;
	bool sick = a->gpu.gpu.fault != GPU_OK || b->gpu.gpu.fault != GPU_OK;

	if (a->old != NODE_NONE && b->old != NODE_NONE)
		was = inventory_link(n->inv, a->old, b->old);
	if (!seen || !seen->links || a->seen == NODE_NONE || b->seen == NODE_NONE)
		return was;
	is = inventory_link(seen, a->seen, b->seen);
	if (!is.p2p)
		is.p2p = was.p2p;
	if (is.level == GPU_LEVEL_UNKNOWN && !is.nvlinks && sick)
		return was;
	return is;
}

static bool links_equal(const struct inventory *a, const struct inventory *b)
{
	for (uint32_t i = 0; i < a->n; i++) {
		for (uint32_t j = 0; j < a->n; j++) {
			struct gpu_link x = inventory_link(a, i, j),
					y = inventory_link(b, i, j);

			if (x.level != y.level || x.nvlinks != y.nvlinks || x.p2p != y.p2p)
				return false;
		}
	}
	return true;
}

/* --- the next state --- */

/* Builds the next state from @places and replaces the old state. Returns 1 if versions, order, links or MIG
 * devices changed, else 0. Returns < 0 on lack of memory. */
static int commit_node_state(struct node *n, const struct health_policy *p,
	const struct inventory *seen, const struct node_entry *places, uint32_t n_places,
	uint64_t now_ns, struct error *err)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	CLEANUP(freep) struct node_gpu *gpus = NULL;
	struct node_migs migs;
	bool changed;

	if (inventory_new(&inv, n_places, err) < 0)
		return -1;
	gpus = calloc(n_places ? n_places : 1, sizeof(*gpus));
	if (!gpus)
		return error_nomem(err);
	if (node_make_migs(&migs, n, p, seen, places, n_places, now_ns, err) < 0)
		return -1;
	inv->mig = migs.mig;
	inv->n_mig = migs.n;
	for (uint32_t i = 0; i < n_places; i++) {
		gpus[i] = places[i].gpu;
		inv->gpus[i] = places[i].gpu.gpu;
		for (uint32_t j = 0; j < n_places; j++)
			inv->links[(size_t)i * n_places + j] =
				merge_link(n, seen, &places[i], &places[j]);
	}
	memcpy(inv->driver_version, seen->driver_version, sizeof(inv->driver_version));
	memcpy(inv->nvml_version, seen->nvml_version, sizeof(inv->nvml_version));
	inv->cuda_version = seen->cuda_version;
	changed = !n->inv || n->inv->n != n_places ||
		  strcmp(n->inv->driver_version, inv->driver_version) != 0 ||
		  strcmp(n->inv->nvml_version, inv->nvml_version) != 0 ||
		  n->inv->cuda_version != inv->cuda_version || !links_equal(n->inv, inv) ||
		  node_migs_changed(n->inv, inv);
	for (uint32_t i = 0; !changed && i < n_places; i++)
		changed = places[i].old != i;
	inventory_free(n->inv);
	free(n->gpus);
	free(n->migs);
	n->inv = STEAL_PTR(inv);
	n->gpus = STEAL_PTR(gpus);
	n->migs = migs.health;
	return changed;
}

static int observe_none(struct node *n, const struct health_policy *p, const struct error *why,
	uint64_t now_ns)
{
	bool stuck = why && why->code == ERR_TIMEOUT;
	int changed = 0;

	for (uint32_t i = 0; i < count_known_gpus(n); i++) {
		struct node_gpu *g = &n->gpus[i];

		/* A gone GPU stays gone, the stronger fault. Its health is still probed. */
		if (g->present)
			set_unseen(&g->gpu, stuck ? GPU_FAULT_STUCK : GPU_FAULT_FIELD,
				why && why->msg[0] ? why->msg : "NVML cannot be used");
		if (n->driver_mismatch)
			gpu_signal_set(&g->gpu, GPU_SIGNAL_DRIVER_MISMATCH, 1);
		n->inv->gpus[i] = g->gpu;
		changed |= health_probe(&g->health, p, &g->gpu, now_ns);
	}
	return n->inv && node_probe_migs(n, p, now_ns) ? 1 : changed;
}

int node_observe(struct node *n, const struct health_policy *p, const struct inventory *seen,
	const struct error *why, uint64_t now_ns, struct error *err)
{
	CLEANUP(freep) struct node_entry *places = NULL;
	CLEANUP(freep) uint32_t *claims = NULL;
	uint32_t n_places = 0, n_missing = n->n_missing;
	uint32_t *claimed;
	bool changed = false;
	int r;

	if (!seen) {
		n->observed_ns = now_ns;
		return observe_none(n, p, why, now_ns);
	}
	places = calloc((size_t)seen->n + count_known_gpus(n) + 1, sizeof(*places));
	claims = calloc((size_t)seen->n + count_known_gpus(n) + 1, sizeof(*claims));
	if (!places || !claims)
		return error_nomem(err);
	claimed = claims + count_known_gpus(n);
	match_seen_gpus(n, seen, claims, claimed);
	for (uint32_t k = 0; k < seen->n; k++) {
		struct node_entry *pl = &places[n_places++];

		*pl = (struct node_entry){ .old = claimed[k], .seen = k };
		if (claimed[k] != NODE_NONE)
			pl->gpu = n->gpus[claimed[k]];
		changed |= apply_seen_gpu(pl, n, p, &seen->gpus[k], now_ns);
	}
	for (uint32_t i = 0; i < count_known_gpus(n); i++) {
		struct node_entry *pl = &places[n_places];

		if (claims[i] != NODE_NONE)
			continue;
		/* A GPU without a UUID cannot be recognized later, so it is not kept. */
		if (!n->gpus[i].gpu.uuid[0] || is_absent_gpu_expired(&n->gpus[i], p, now_ns) ||
			n_places >= GPU_NODE_MAX) {
			add_missing_gpu(n, &n->gpus[i]);
			changed = true;
			continue;
		}
		*pl = (struct node_entry){ .gpu = n->gpus[i], .old = i, .seen = NODE_NONE };
		changed |= apply_gone_gpu(pl, p, now_ns);
		n_places++;
	}
	qsort(places, n_places, sizeof(*places), compare_node_entries);
	r = commit_node_state(n, p, seen, places, n_places, now_ns, err);
	if (r < 0) {
		n->n_missing = n_missing; /* what was to be forgotten is still known */
		return -1;
	}
	drop_persisted_gpus(n);
	drop_missing(n, seen);
	changed |= node_probe_migs(n, p, now_ns);
	n->observed_ns = now_ns;
	return changed || r > 0;
}

/* --- between two probes --- */

static bool is_in(const struct gpu_mig *m, uint32_t gpu, uint32_t gi, uint32_t ci)
{
	return m->gpu == gpu && (gi == NODE_XID_ALL || m->gi == gi) &&
	       (ci == NODE_XID_ALL || m->ci == ci);
}

bool node_xid(struct node *n, const struct health_policy *p, const char *uuid, uint32_t gi,
	uint32_t ci, uint32_t xid, uint64_t now_ns)
{
	uint32_t i = find_uuid(n, uuid);
	bool changed = false;

	if (i == NODE_NONE)
		return false;
	/* Without MIG mode, as far as known, only the GPU can be affected. */
	if ((gi == NODE_XID_ALL && ci == NODE_XID_ALL) || !n->gpus[i].gpu.mig_enabled)
		return health_xid(&n->gpus[i].health, p, xid, now_ns);
	n->gpus[i].health.xid_count++;
	n->gpus[i].health.last_xid = xid;
	for (uint32_t k = 0; k < n->inv->n_mig; k++)
		if (is_in(&n->inv->mig[k], i, gi, ci))
			changed |= health_xid(&n->migs[k], p, xid, now_ns);
	return changed;
}

bool node_device_ok(const struct node *n, uint32_t gpu, const char *mig, const char **ret_why)
{
	const struct health *h = NULL;
	bool there = !mig;

	if (gpu < count_known_gpus(n))
		h = &n->gpus[gpu].health;
	for (uint32_t i = h ? node_first_mig(n->inv, gpu) : 0;
		h && health_ok(h) && i < n->inv->n_mig && n->inv->mig[i].gpu == gpu; i++) {
		if (mig && strcmp(n->inv->mig[i].uuid, mig) != 0)
			continue;
		h = &n->migs[i];
		there = true;
	}
	if (h && health_ok(h) && !there)
		h = NULL;
	if (ret_why)
		*ret_why = h ? h->reason : "it is not there any more";
	return h && health_ok(h);
}

/* Removes GPU @i in place. Needs no memory, so it cannot fail. */
static void remove_known_gpu(struct node *n, uint32_t i)
{
	struct inventory *inv = n->inv;
	uint32_t was = inv->n, to = 0;

	add_missing_gpu(n, &n->gpus[i]);
	node_forget_migs(n, i);
	for (uint32_t a = 0; inv->links && a < was; a++)
		for (uint32_t b = 0; b < was; b++)
			if (a != i && b != i)
				inv->links[to++] = inv->links[a * was + b];
	memmove(&inv->gpus[i], &inv->gpus[i + 1], (was - i - 1) * sizeof(*inv->gpus));
	memmove(&n->gpus[i], &n->gpus[i + 1], (was - i - 1) * sizeof(*n->gpus));
	inv->n--;
}

bool node_tick(struct node *n, const struct health_policy *p, uint64_t now_ns)
{
	bool changed = false;

	for (uint32_t i = 0; i < count_known_gpus(n);) {
		if (is_absent_gpu_expired(&n->gpus[i], p, now_ns)) {
			remove_known_gpu(n, i);
			changed = true;
			continue;
		}
		changed |= health_tick(&n->gpus[i].health, p, now_ns);
		i++;
	}
	for (uint32_t i = 0; n->inv && i < n->inv->n_mig; i++)
		changed |= health_tick(&n->migs[i], p, now_ns);
	return changed;
}

uint64_t node_due(const struct node *n, const struct health_policy *p)
{
	uint64_t due = UINT64_MAX, t;

	if (p->probe_interval_ns &&
		!__builtin_add_overflow(n->observed_ns, p->probe_interval_ns, &t))
		due = t;
	for (uint32_t i = 0; i < count_known_gpus(n); i++) {
		t = health_due(&n->gpus[i].health, p);
		due = t < due ? t : due;
		if (!n->gpus[i].present && !__builtin_add_overflow(n->gpus[i].last_seen_ns,
						   p->forget_after_ns, &t))
			due = t < due ? t : due;
	}
	for (uint32_t i = 0; n->inv && i < n->inv->n_mig; i++) {
		t = health_due(&n->migs[i], p);
		due = t < due ? t : due;
	}
	return due;
}
