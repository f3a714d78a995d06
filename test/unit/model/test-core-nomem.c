/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every allocation of core fails once: the first, the second, ... until the call succeeds. Each
 * failure must be reported as such, leave nothing behind and change nothing. Sanitizers bring their
 * own malloc; there the calls are made once, without a failure.
 */
#include "core-fixture.h"

#include "model/allocate/allocate.h"
#include "model/labels/labels.h"
#include "model/mps/mps.h"
#include "model/node/node.h"
#include "model/prefer/prefer.h"

static long countdown = -1; /* allocations until one fails; < 0: none */
static long live;           /* blocks that were allocated and not freed */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#	define SANITIZED 1
#elif defined(__has_feature)
#	if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#		define SANITIZED 1
#	endif
#endif

#if !defined(SANITIZED) && defined(__GLIBC__)
#	define CAN_FAIL 1

/* glibc's own names for the functions that this test replaces. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static bool must_fail_now(void)
{
	return countdown >= 0 && countdown-- == 0;
}

static void *count(void *p)
{
	live += p != NULL;
	return p;
}

void *malloc(size_t size)
{
	return must_fail_now() ? NULL : count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return must_fail_now() ? NULL : count(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
	void *q;

	if (must_fail_now())
		return NULL;
	q = __libc_realloc(p, size);
	return p ? q : count(q);
}

void free(void *p)
{
	live -= p != NULL;
	__libc_free(p);
}
#else
#	define CAN_FAIL 0
#endif

struct all {
	struct inventory *inv, *inv2, *models; /* .models: each GPU is another one */
	struct config *config, *patterns;      /* .patterns: each model has its resource */
	struct config *sizes; /* with profiles, of which all kinds lack something */
	struct offer *offer;
	struct inventory *cut, *cut2; /* with MIG devices */
	struct config *mig;           /* .mig and .mig_offer are for .cut */
	struct offer *mig_offer;
	struct config *mps; /* .mps and .mps_offer are for .inv */
	struct offer *mps_offer;
	struct alloc_host host;
	struct health_policy policy;
	struct error err;
};

/* Each returns what the call returned, with its result released. */
static int call_inventory(struct all *a)
{
	struct inventory *copy = NULL;
	int r = inventory_copy(&copy, a->inv, &a->err);

	inventory_free(copy);
	return r;
}

static int call_config(struct all *a)
{
	struct config *c = NULL;
	int r = config_new(&c, &a->err);

	config_free(c);
	return r;
}

static int call_env(struct all *a)
{
	struct health_policy p;
	struct strv skipped = STRV_INIT;
	int r;

	health_policy_default(&p);
	r = health_policy_env(&p, "all,x,5", "48", &skipped, &a->err);
	assert_int_equal(p.n_rules, r < 0 ? 0 : 2);
	strv_fini(&skipped);
	return r;
}

static int call_offer(struct all *a)
{
	struct offer *o = NULL;
	int r = offer_new(&o, a->inv, a->config, &a->err);

	offer_free(o);
	return r;
}

static int call_slices(struct all *a)
{
	struct offer *o = NULL;
	int r = offer_new(&o, a->models, a->sizes, &a->err);

	if (r >= 0) {
		assert_int_equal(o->notes.n, 6);
		assert_true(o->warnings.n > 0);
	}
	offer_free(o);
	return r;
}

static int call_slices_labels(struct all *a)
{
	const struct label_facts facts = { .machine = "m" };
	struct labels *l = NULL;
	int r = labels_new(&l, a->models, a->sizes, &facts, NULL, &a->err);

	if (r >= 0)
		assert_string_equal(labels_get(l, "nvidia.com/a.replicas"), "2");
	labels_free(l);
	return r;
}

/* Makes more labels than the list has room for at first, and notes. */
static int call_labels(struct all *a)
{
	const struct label_facts facts = { .machine = "m",
		.vgpu = VGPU_PRESENT,
		.timestamp_s = 1 };
	struct strv notes = STRV_INIT;
	struct labels *l = NULL;
	int r = labels_new(&l, a->models, a->patterns, &facts, &notes, &a->err);

	if (r >= 0)
		assert_true(notes.n > 0 && l->n > 64);
	labels_free(l);
	strv_fini(&notes);
	return r;
}

static int call_prefer(struct all *a, const char *const *available, size_t n_available,
	const struct resource *res)
{
	struct prefer_request req = { .available = available,
		.n_available = n_available,
		.size = 2 };
	const char *ids[2];
	size_t n;

	return prefer_choose(res, a->inv, ALLOCATION_DISTRIBUTED, &req, ids, &n, &a->err);
}

static int call_greedy(struct all *a)
{
	static const char *const ids[] = { "GPU-0::0", "GPU-0::1", "GPU-1::0" };

	return call_prefer(a, ids, 3, offer_find(a->offer, "nvidia.com/part"));
}

static int call_aligned(struct all *a)
{
	static const char *const ids[] = { "GPU-2", "GPU-3", "GPU-4" };

	return call_prefer(a, ids, 3, offer_find(a->offer, "nvidia.com/gpu"));
}

static int call_allocate(struct all *a)
{
	static const char *const ids[] = { "GPU-2", "GPU-3", "GPU-4" };
	struct allocation *alloc = NULL;
	int r = allocation_new(&alloc, offer_find(a->offer, "nvidia.com/gpu"), a->inv,
		a->config, &a->host, ids, 3, &a->err);

	allocation_free(alloc);
	return r;
}

/* No allocation fails within this. */
static void observe_surely(struct all *a, struct node *n, const struct inventory *inv,
	uint64_t now_ns)
{
	long planned = countdown;

	countdown = -1;
	assert_true(node_observe(n, &a->policy, inv, NULL, now_ns, &a->err) > 0);
	countdown = planned;
}

/* Inits @n, which has observed @inv. */
static void make_node(struct all *a, struct node *n, const struct inventory *inv)
{
	node_init(n);
	observe_surely(a, n, inv, 0);
}

static int call_observe(struct all *a)
{
	struct node n;
	int r;

	make_node(a, &n, a->inv);
	r = node_observe(&n, &a->policy, a->inv2, NULL, 20 * NS_PER_SEC, &a->err);
	if (r < 0) {
		assert_int_equal(n.inv->n, 5);
		assert_true(health_ok(&n.gpus[4].health));
	}
	node_fini(&n);
	return r < 0 ? r : 0;
}

/* GPUs that have been absent for long: they are missing only once they are forgotten. */
static int call_forget(struct all *a)
{
	struct node n;
	int r;

	make_node(a, &n, a->inv);
	observe_surely(a, &n, a->inv2, NS_PER_SEC);
	r = node_observe(&n, &a->policy, a->inv2, NULL,
		2 * NS_PER_SEC + a->policy.forget_after_ns, &a->err);
	assert_int_equal(n.n_missing, r < 0 ? 0 : 2);
	assert_int_equal(n.inv->n, r < 0 ? 5 : 3);
	node_fini(&n);
	return r < 0 ? r : 0;
}

/* Strategy single with several types, and an entry for some: all kinds of notes. */
static int call_mig_offer(struct all *a)
{
	struct offer *o = NULL;
	int r = offer_new(&o, a->cut, a->mig, &a->err);

	if (r >= 0)
		assert_int_equal(o->notes.n, 4);
	offer_free(o);
	return r;
}

static int call_mig_prefer(struct all *a)
{
	static const char *const ids[] = { "MIG-0-0", "MIG-0-1", "MIG-1-0" };

	return call_prefer(a, ids, 3, &a->mig_offer->resources[0]);
}

static int call_mig_allocate(struct all *a)
{
	static const char *const ids[] = { "MIG-0-0", "MIG-0-1" };
	struct allocation *alloc = NULL;
	int r = allocation_new(&alloc, &a->mig_offer->resources[0], a->cut, a->config, &a->host,
		ids, 2, &a->err);

	allocation_free(alloc);
	return r;
}

static int call_mig_observe(struct all *a)
{
	struct node n;
	int r;

	make_node(a, &n, a->cut);
	r = node_observe(&n, &a->policy, a->cut2, NULL, 30 * NS_PER_SEC, &a->err);
	assert_int_equal(n.inv->n_mig, r < 0 ? 3 : 2);
	node_fini(&n);
	return r < 0 ? r : 0;
}

static void make_migs(struct all *a)
{
	a->cut = fixture_inventory(4); /* GPU 2 is empty, GPU 3 whole */
	(void)fixture_mig(a->cut, 0, 1, 1, 5);
	(void)fixture_mig(a->cut, 0, 1, 1, 5);
	(void)fixture_mig(a->cut, 1, 3, 3, 20);
	a->cut->gpus[2].mig_enabled = true;
	a->cut2 = fixture_inventory(4);
	(void)fixture_mig(a->cut2, 0, 2, 2, 10);
	(void)fixture_mig(a->cut2, 3, 2, 2, 10);
	a->mig = fixture_config();
	a->mig->mig_strategy = MIG_STRATEGY_SINGLE;
	a->mig_offer = fixture_offer(a->cut, a->mig);
	fixture_share(a->mig, "nvidia.com/gpu", NULL, 2,
		(const char *const[]){ "0:1", "9:9", NULL });
}

static void make_models(struct all *a)
{
	a->models = fixture_inventory(16);
	a->patterns = fixture_config();
	(void)snprintf(a->models->driver_version, sizeof(a->models->driver_version), "580.1");
	for (uint32_t i = 0; i < a->models->n; i++) {
		char resource[RESOURCE_NAME_MAX];

		(void)snprintf(a->models->gpus[i].name, sizeof(a->models->gpus[i].name),
			"Model %u", i);
		(void)snprintf(resource, sizeof(resource), "nvidia.com/own%u", i);
		fixture_pattern(a->patterns, a->models->gpus[i].name, resource);
	}
}

static void make_sizes(struct all *a)
{
	struct slice_set *s;

	a->sizes = fixture_config();
	s = fixture_add_slices(a->sizes, "nvidia.com/gpu",
		(const char *const[]){ "0", "1", "99", NULL });
	(void)fixture_profile(s, "nvidia.com/a", 3, 1024);
	(void)fixture_profile(s, "nvidia.com/b", 1, 4096);
	a->models->gpus[0].memory_usable_bytes = UINT64_C(2) << 30;
	a->models->gpus[1].memory_usable_bytes = UINT64_C(1) << 20;
}

/* The plan, with a set of GPUs, and the settings of a container of it. */
static int call_mps(struct all *a)
{
	static const char *const ids[] = { "GPU-0::0", "GPU-1::1" };
	struct mps_plan *p = NULL;
	struct mps_grant g;
	int r = mps_plan_new(&p, a->mps_offer, a->inv, a->mps, &a->err);

	if (r == 0)
		r = mps_grant_make(&g, p, a->mps_offer->resources, a->inv, ids, 2, &a->err);
	mps_plan_free(p);
	return r;
}

static int call_mps_labels(struct all *a)
{
	const struct label_facts facts = { .machine = "m" };
	struct labels *l = NULL;
	int r = labels_new(&l, a->inv, a->mps, &facts, NULL, &a->err);

	labels_free(l);
	return r;
}

static int call_mps_offer(struct all *a)
{
	struct offer *o = NULL;
	int r = offer_new(&o, a->inv, a->mps, &a->err);

	offer_free(o);
	return r;
}

/* A GPU with too many replicas, two that are shared by both kinds, two by MPS. */
static void make_mps(struct all *a)
{
	a->mps = fixture_config();
	MPS(a->mps).fail_requests_greater_than_one = false;
	fixture_share_by(a->mps, SHARING_MPS, "nvidia.com/gpu", NULL, 2,
		(const char *const[]){ "0", "1", NULL });
	fixture_share_by(a->mps, SHARING_MPS, "nvidia.com/gpu", NULL, 49,
		(const char *const[]){ "2", NULL });
	fixture_share(a->mps, "nvidia.com/gpu", NULL, 2,
		(const char *const[]){ "1", "3", NULL });
	a->inv->gpus[2].cc_major = 8;
	(void)snprintf(a->inv->driver_version, sizeof(a->inv->driver_version), "580.1");
	a->mps_offer = fixture_offer(a->inv, a->mps);
}

static void core__survives_every_failing_allocation(void **state)
{
	static int (*const calls[])(struct all *) = { call_inventory, call_config, call_env,
		call_labels, call_offer, call_slices, call_slices_labels, call_greedy,
		call_aligned, call_allocate, call_observe, call_forget, call_mig_offer,
		call_mig_prefer, call_mig_allocate, call_mig_observe, call_mps, call_mps_offer,
		call_mps_labels };
	static const char *const list[] = { "GPU-0", "GPU-1", "GPU-9", NULL };
	struct all a = { .inv = fixture_inventory(5), .inv2 = fixture_inventory(3) };

	(void)state;
	a.config = fixture_config();
	fixture_share(a.config, "nvidia.com/gpu", "nvidia.com/part", 2, list);
	a.config->device_lists |= DEVICE_LIST_VOLUME_MOUNTS;
	a.config->pass_device_specs = true;
	a.config->gds = true;
	a.host.imex_channel0 = true;
	assert_ok(strv_add(&a.host.control_nodes, "/dev/nvidiactl", &a.err), &a.err);
	make_models(&a);
	make_sizes(&a);
	make_migs(&a);
	make_mps(&a);
	a.offer = fixture_offer(a.inv, a.config);
	health_policy_default(&a.policy);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		bool failed =
			true; /* an allocation, also one that the call can do without (qsort()) */
		long n;
		int r = -1;

		for (n = 0; n < 1000 && failed; n++) {
			long before = live;

			error_clear(&a.err);
			countdown = CAN_FAIL ? n : -1;
			r = calls[i](&a);
			failed = CAN_FAIL && countdown < 0;
			countdown = -1;
			if (live != before)
				fail_msg("call %zu leaks %ld blocks when allocation %ld fails",
					i, live - before, n);
			if (r < 0)
				assert_int_equal(a.err.code, ERR_NOMEM);
		}
		if (r < 0 || (CAN_FAIL && n < 3))
			fail_msg("call %zu: %d after %ld failures: %s", i, r, n - 1, a.err.msg);
	}
	strv_fini(&a.host.control_nodes);
	offer_free(a.offer);
	config_free(a.config);
	config_free(a.patterns);
	config_free(a.sizes);
	inventory_free(a.models);
	inventory_free(a.inv);
	inventory_free(a.inv2);
	inventory_free(a.cut);
	inventory_free(a.cut2);
	offer_free(a.mig_offer);
	config_free(a.mig);
	offer_free(a.mps_offer);
	config_free(a.mps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(core__survives_every_failing_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
