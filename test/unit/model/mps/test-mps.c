/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#include "model/mps/mps.h"

/* MPS daemons and the settings of containers: NVIDIA's vectors (13.10 and the table of 9.6), and ours. */

#define GPU    OFFER_GPU
#define GIB    (UINT64_C(1) << 30)
#define MIG_1G "nvidia.com/mig-1g.5gb"

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define IDS(...)                                \
	((const char *const[]){ __VA_ARGS__ }), \
		ARRAY_LEN(((const char *const[]){ __VA_ARGS__ }))

struct fixture {
	struct inventory *inv;
	struct config *c;
	struct offer *offer;
	struct mps_plan *plan;
	struct error err;
};

/* @n GPUs of so many GiB, of which CUDA has one less. */
static void setup(struct fixture *f, uint32_t n, uint64_t gib)
{
	*f = (struct fixture){ .inv = fixture_inventory(n), .c = fixture_config() };
	for (uint32_t i = 0; i < n; i++) {
		f->inv->gpus[i].cc_major = 9;
		f->inv->gpus[i].memory_total_bytes = gib * GIB;
		f->inv->gpus[i].memory_usable_bytes = gib ? (gib - 1) * GIB : 0;
	}
}

static void make_mps_plan(struct fixture *f)
{
	f->offer = offer_free(f->offer);
	f->plan = mps_plan_free(f->plan);
	f->offer = fixture_offer(f->inv, f->c);
	assert_ok(mps_plan_new(&f->plan, f->offer, f->inv, f->c, &f->err), &f->err);
}

static void teardown(struct fixture *f)
{
	mps_plan_free(f->plan);
	offer_free(f->offer);
	config_free(f->c);
	inventory_free(f->inv);
}

static struct replicated *share_by_mps(struct fixture *f, const char *name, uint32_t replicas,
	const char *const *list)
{
	return fixture_share_by(f->c, SHARING_MPS, name, NULL, replicas, list);
}

/* "GPU-0 25% GPU-0=10240M; ...". */
static void assert_plan(struct fixture *f, const char *want)
{
	char text[1024] = "";
	size_t len = 0;

	make_mps_plan(f);
	for (uint32_t i = 0; i < f->plan->n; i++) {
		const struct mps_daemon *d = &f->plan->daemons[i];

		assert_true(!i || strcmp(d[-1].key, d->key) < 0);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %u%%%s",
			i ? "; " : "", d->key, d->percent, d->exclusive ? " exclusive" : "");
		for (uint32_t k = 0; k < d->n; k++) {
			const struct mps_device *m = &d->devices[k];

			assert_ptr_equal(mps_plan_find(f->plan, m->gpu, m->mig), d);
			len += (size_t)snprintf(text + len, sizeof(text) - len, " %s=%lluM%s",
				m->uuid, (unsigned long long)m->limit_mib, m->lost ? "?" : "");
		}
	}
	assert_string_equal(text, want);
}

static void assert_grant(struct fixture *f, const char *resource, const char *const *ids,
	size_t n, const char *key, const char *memory, uint32_t percent, int priority)
{
	struct mps_grant g;

	assert_ok(mps_grant_make(&g, f->plan, offer_find(f->offer, resource), f->inv, ids, n,
			  &f->err),
		&f->err);
	assert_string_equal(g.daemon ? g.daemon->key : "", key);
	assert_string_equal(g.memory, memory);
	assert_int_equal(g.percent, percent);
	assert_int_equal(g.priority, priority);
}

static int try_mps_grant(struct fixture *f, const char *resource, const char *const *ids,
	size_t n)
{
	struct mps_grant g;

	return mps_grant_make(&g, f->plan, offer_find(f->offer, resource), f->inv, ids, n,
		&f->err);
}

static void mps_replicas_max__vectors(void **state)
{
	(void)state;
	assert_int_equal(mps_replicas_max(7, 5), 48);
	assert_int_equal(mps_replicas_max(9, 0), 48);
	assert_int_equal(mps_replicas_max(10, 0), 48);
	assert_int_equal(mps_replicas_max(7, 4), 16);
	assert_int_equal(mps_replicas_max(7, 0), 16);
	assert_int_equal(mps_replicas_max(6, 9), 16);
}

/* 9.6: each limit of each replica, and the daemon's defaults are the same. */
static void mps_plan_new__has_nvidias_limits(void **state)
{
	static const struct {
		uint64_t gib;
		uint32_t replicas;
		const char *plan, *memory;
		uint32_t percent;
	} rows[] = {
		{ 40, 4, "GPU-0 25% GPU-0=10240M", "0=10240M", 25 },
		{ 24, 10, "GPU-0 10% GPU-0=2457M", "0=2457M", 10 },
		{ 16, 3, "GPU-0 33% GPU-0=5461M", "0=5461M", 33 },
		{ 80, 48, "GPU-0 2% GPU-0=1706M", "0=1706M", 2 },
		{ 80, 1, "GPU-0 100% GPU-0=81920M", "0=81920M", 100 },
		{ 0, 4, "GPU-0 25% GPU-0=0M", "", 25 }, /* not known: none */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		setup(&f, 1, rows[i].gib);
		share_by_mps(&f, GPU, rows[i].replicas, NULL);
		assert_plan(&f, rows[i].plan);
		assert_grant(&f, GPU, IDS("GPU-0::0"), "GPU-0", rows[i].memory, rows[i].percent,
			MPS_PRIORITY_UNSET);
		teardown(&f);
	}
}

/* Each division rounds down, of bytes first: 7 replicas of 40 GiB less a byte. */
static void mps_plan_new__rounds_like_nvidia(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 1, 40);
	f.inv->gpus[0].memory_total_bytes = (UINT64_C(5852) << 20) * 7 - 1;
	share_by_mps(&f, GPU, 7, NULL);
	assert_plan(&f, "GPU-0 14% GPU-0=5851M");
	teardown(&f);
}

/* 13.10: 7.0 with 16 ok, 29 error; 9.0 with 48 ok, 49 error. Only that device is refused. */
static void offer_new__refuses_more_replicas_than_mps_has_clients(void **state)
{
	static const struct {
		uint32_t major, minor, replicas;
		const char *note;
	} rows[] = {
		{ 7, 0, 16, NULL }, { 7, 0, 29, "29 > 16" }, { 9, 0, 48, NULL },
		{ 9, 0, 49, "49 > 48" }, { 0, 0, 49, NULL }, /* not read yet */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct resource *r;
		struct fixture f;
		char want[160];

		setup(&f, 2, 40);
		f.inv->gpus[1].cc_major = rows[i].major;
		f.inv->gpus[1].cc_minor = rows[i].minor;
		share_by_mps(&f, GPU, 16, LIST("0"));
		share_by_mps(&f, GPU, rows[i].replicas, LIST("1"));
		assert_plan(&f,
			rows[i].note             ? "GPU-0 6% GPU-0=2560M"
			: rows[i].replicas == 16 ? "GPU-0 6% GPU-0=2560M; GPU-1 6% GPU-1=2560M"
			: rows[i].replicas == 48 ? "GPU-0 6% GPU-0=2560M; GPU-1 2% GPU-1=853M"
						 : "GPU-0 6% GPU-0=2560M; GPU-1 2% GPU-1=835M");
		r = offer_find(f.offer, GPU);
		assert_int_equal(r->n_devices, 16 + rows[i].replicas);
		assert_int_equal(r->devices[0].why, 0);
		assert_int_equal(f.offer->notes.n, rows[i].note ? 1 : 0);
		for (uint32_t k = 16; k < r->n_devices; k++)
			assert_int_equal(r->devices[k].why, rows[i].note ? 1 : 0);
		(void)snprintf(want, sizeof(want),
			"GPU 1 (GPU-1): unhealthy, invalid device maximum allowed replicas "
			"exceeded: %s",
			rows[i].note ? rows[i].note : "");
		if (rows[i].note) {
			assert_string_equal(f.offer->notes.v[0], want);
			assert_error(try_mps_grant(&f, GPU, IDS("GPU-1::3")), &f.err,
				"resource \"nvidia.com/gpu\": 'GPU-1' cannot be had, and has no MPS "
				"daemon");
			assert_int_equal(f.err.code, ERR_UNAVAILABLE);
		}
		teardown(&f);
	}
}

/* Clients are counted over all that one GPU is offered as. */
static void offer_new__counts_clients_of_all_resources(void **state)
{
	struct slice_set *s;
	struct fixture f;

	(void)state;
	setup(&f, 1, 40);
	share_by_mps(&f, GPU, 24, NULL);
	fixture_share_by(f.c, SHARING_MPS, GPU, "nvidia.com/b", 25, NULL);
	assert_plan(&f, "");
	assert_non_null(strstr(f.offer->notes.v[f.offer->notes.n - 1], "exceeded: 49 > 48"));
	f.c->sharing.entries[0].replicas = 23;
	assert_plan(&f, "GPU-0 4% GPU-0=1780M");
	teardown(&f);
	setup(&f, 1, 40);
	s = fixture_add_slices(f.c, GPU, NULL);
	fixture_profile(s, "nvidia.com/gpu.a", 24, 0);
	fixture_profile(s, "nvidia.com/gpu.b", 25, 0);
	make_mps_plan(&f);
	assert_int_equal(f.offer->notes.n, 0); /* they have quanta */
	s->mps = true;
	assert_plan(&f, "");
	assert_string_equal(f.offer->notes.v[0],
		"GPU 0 (GPU-0): unhealthy, invalid device maximum allowed replicas exceeded: "
		"49 > 48");
	s->profiles[0].count = 23;
	assert_plan(&f, "GPU-0 100% GPU-0=0M");
	teardown(&f);
}

static void mps_grant__of_one_node_with_all_kinds(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 4, 40);
	share_by_mps(&f, GPU, 4, LIST("1"));
	fixture_share(f.c, GPU, NULL, 2, LIST("2"));
	fixture_share_by(f.c, SHARING_MPS, GPU, "nvidia.com/mps", 10, LIST("3"));
	assert_plan(&f, "GPU-1 25% GPU-1=10240M; GPU-3 10% GPU-3=4096M");
	assert_int_equal(offer_find(f.offer, GPU)->strategy, SHARING_MPS);
	assert_grant(&f, GPU, IDS("GPU-1::3"), "GPU-1", "0=10240M", 25, -1);
	assert_grant(&f, "nvidia.com/mps", IDS("GPU-3::9"), "GPU-3", "0=4096M", 10, -1);
	/* neither of these is of MPS */
	assert_grant(&f, GPU, IDS("GPU-0"), "", "", 0, -1);
	assert_grant(&f, GPU, IDS("GPU-2::0", "GPU-2::1"), "", "", 0, -1);
	assert_grant(&f, GPU, IDS("GPU-9"), "", "", 0, -1);
	assert_null(mps_plan_find(f.plan, 0, OFFER_WHOLE));
	assert_null(mps_plan_find(f.plan, 2, OFFER_WHOLE));
	assert_error(try_mps_grant(&f, GPU, IDS("GPU-1::0", "GPU-0")), &f.err,
		"resource \"nvidia.com/gpu\": a process can have one MPS daemon only, and 'GPU-0' "
		"and 'GPU-1' have not the same");
	assert_int_equal(f.err.code, ERR_INVALID);
	assert_error(try_mps_grant(&f, GPU, IDS("GPU-1::0", "GPU-2::0")), &f.err,
		"'GPU-1' and 'GPU-2' have not the same");
	teardown(&f);
}

/* A container has one replica by default, and a daemon gives no more. */
static void mps_grant__of_several_replicas(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 1, 40);
	share_by_mps(&f, GPU, 6, NULL);
	MPS(f.c).fail_requests_greater_than_one = false;
	assert_plan(&f, "GPU-0 96% GPU-0=40956M"); /* six times 16 % and 6826 MiB */
	assert_grant(&f, GPU, IDS("GPU-0::0"), "GPU-0", "0=6826M", 16, -1);
	assert_grant(&f, GPU, IDS("GPU-0::0", "GPU-0::5"), "GPU-0", "0=13652M", 32, -1);
	assert_grant(&f, GPU, IDS("GPU-0::0", "GPU-0::5", "GPU-0::1"), "GPU-0", "0=20478M", 48,
		-1);
	teardown(&f);
}

static void mps_plan_new__joins_gpus_of_which_one_may_have_several(void **state)
{
	char key[MPS_KEY_MAX];
	struct fixture f;

	(void)state;
	setup(&f, 4, 40);
	share_by_mps(&f, GPU, 2, LIST("0"));
	share_by_mps(&f, GPU, 4, LIST("2", "3"));
	/* a daemon each */
	assert_plan(&f,
		"GPU-0 50% GPU-0=20480M; GPU-2 25% GPU-2=10240M; GPU-3 25% GPU-3=10240M");
	assert_error(try_mps_grant(&f, GPU, IDS("GPU-2::0", "GPU-3::0")), &f.err,
		"have not the same");
	MPS(f.c).fail_requests_greater_than_one = false;
	assert_plan(&f, "set-5fc5071c402a 100% GPU-0=40960M GPU-2=40960M GPU-3=40960M");
	/* in the order of the inventory; the least percentage counts */
	assert_grant(&f, GPU, IDS("GPU-3::1", "GPU-0::0", "GPU-3::0"), "set-5fc5071c402a",
		"0=20480M,1=20480M", 50, -1);
	assert_grant(&f, GPU, IDS("GPU-3::1", "GPU-0::0"), "set-5fc5071c402a",
		"0=20480M,1=10240M", 25, -1);
	assert_grant(&f, GPU, IDS("GPU-3::1"), "set-5fc5071c402a", "0=10240M", 25, -1);
	assert_error(try_mps_grant(&f, GPU, IDS("GPU-1", "GPU-3::0")), &f.err,
		"have not the same");
	memcpy(key, f.plan->daemons[0].key, sizeof(key));
	/* other limits, another name, another order of the file: the same directory */
	f.c->sharing.entries[0].replicas = 8;
	make_mps_plan(&f);
	assert_string_equal(f.plan->daemons[0].key, key);
	/* a GPU that is lost keeps its place */
	f.inv->gpus[2].fault = GPU_FAULT_GONE;
	f.inv->gpus[3].fault = GPU_FAULT_LOST;
	f.c->sharing.entries[0].replicas = 2;
	assert_plan(&f, "set-5fc5071c402a 100% GPU-0=40960M GPU-2=40960M? GPU-3=40960M?");
	/* others are another set */
	strv_clear(&f.c->sharing.entries[0].list);
	assert_ok(strv_add(&f.c->sharing.entries[0].list, "1", &f.err), &f.err);
	make_mps_plan(&f);
	assert_string_not_equal(f.plan->daemons[0].key, key);
	teardown(&f);
}

/* Resources with a common GPU have one daemon, also through a third resource. */
static void mps_plan_new__joins_over_resources(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 5, 40);
	MPS(f.c).fail_requests_greater_than_one = false;
	fixture_share_by(f.c, SHARING_MPS, GPU, "nvidia.com/a", 2, LIST("0", "4"));
	fixture_share_by(f.c, SHARING_MPS, GPU, "nvidia.com/b", 2, LIST("1", "3"));
	make_mps_plan(&f);
	assert_int_equal(f.plan->n, 2);
	fixture_share_by(f.c, SHARING_MPS, GPU, "nvidia.com/c", 2, LIST("3", "4"));
	make_mps_plan(&f);
	assert_int_equal(f.plan->n, 1);
	assert_int_equal(f.plan->daemons[0].n, 4);
	for (uint32_t i = 0, gpu = 0; i < 4; i++, gpu++) {
		gpu += gpu == 2;
		assert_int_equal(f.plan->daemons[0].devices[i].gpu, gpu);
	}
	teardown(&f);
}

static void mps_plan_new__of_mig_devices(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 2, 40);
	(void)fixture_mig(f.inv, 1, 1, 1, 5);
	(void)fixture_mig(f.inv, 1, 1, 1, 5);
	f.c->mig_strategy = MIG_STRATEGY_MIXED;
	f.c->sharing.mps_exclusive = true;
	MPS(f.c).fail_requests_greater_than_one = false;
	share_by_mps(&f, MIG_1G, 4, NULL);
	share_by_mps(&f, GPU, 1, NULL);
	/* what drivers before R470 call them has no '/' as a directory */
	(void)snprintf(f.inv->mig[1].uuid, GPU_UUID_MAX, "MIG-GPU-1/8/0");
	assert_plan(&f, "GPU-0 100% exclusive GPU-0=40960M; MIG-1-0 100% MIG-1-0=5120M; "
			"MIG-GPU-1-8-0 100% MIG-GPU-1/8/0=5120M");
	assert_grant(&f, MIG_1G, IDS("MIG-GPU-1/8/0::2"), "MIG-GPU-1-8-0", "0=1280M", 25, -1);
	assert_error(try_mps_grant(&f, MIG_1G, IDS("MIG-1-0::0", "MIG-GPU-1/8/0::2")), &f.err,
		"'MIG-1-0' and 'MIG-GPU-1/8/0' have not the same");
	f.c->sharing.entries[0].replicas = 49;
	assert_plan(&f, "GPU-0 100% exclusive GPU-0=40960M");
	assert_string_equal(f.offer->notes.v[0],
		"MIG device 1:0 (MIG-1-0): unhealthy, invalid device maximum allowed replicas "
		"exceeded: 49 > 48");
	teardown(&f);
}

static void mps_plan_new__is_exclusive_for_whole_gpus_only(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 2, 40);
	share_by_mps(&f, GPU, 2, LIST("0"));
	fixture_profile(fixture_add_slices(f.c, GPU, LIST("1")), "nvidia.com/gpu.a", 2, 0);
	f.c->slices[0].mps = true;
	assert_plan(&f, "GPU-0 50% GPU-0=20480M; GPU-1 100% GPU-1=0M");
	f.c->sharing.mps_exclusive = true;
	assert_plan(&f, "GPU-0 50% exclusive GPU-0=20480M; GPU-1 100% GPU-1=0M");
	f.inv->gpus[0].mig_enabled = true;
	assert_plan(&f, "GPU-0 50% GPU-0=20480M; GPU-1 100% GPU-1=0M");
	teardown(&f);
}

/* The grant of an isolated replica has the memory limit of the slice, and percentages by the value of
 * compute. */
static void mps_grant__of_isolated_replicas(void **state)
{
	static const struct {
		struct isolation isolation;
		const char *one, *three;
		uint32_t one_percent, three_percent;
		int priority;
	} rows[] = {
		{ { .memory = ISOLATION_MEMORY_EQUAL }, "0=5704M", "0=17112M", 14, 42, -1 },
		{ { .memory = ISOLATION_MEMORY_BYTES, .memory_value = 3 * GIB }, "0=3072M",
			"0=9216M", 14, 42, -1 },
		{ { .compute = ISOLATION_COMPUTE_FAIR }, "0=5851M", "0=17553M", 28, 85, 1 },
		{ { .compute = ISOLATION_COMPUTE_CAPPED, .class_ = SLICE_CLASS_LATENCY },
			"0=5851M", "0=17553M", 14, 42, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		setup(&f, 1, 40);
		MPS(f.c).fail_requests_greater_than_one = false;
		share_by_mps(&f, GPU, 7, NULL)->isolation = rows[i].isolation;
		make_mps_plan(&f);
		assert_grant(&f, GPU, IDS("GPU-0::0"), "GPU-0", rows[i].one,
			rows[i].one_percent, rows[i].priority);
		assert_grant(&f, GPU, IDS("GPU-0::0", "GPU-0::1", "GPU-0::2"), "GPU-0",
			rows[i].three, rows[i].three_percent, rows[i].priority);
		teardown(&f);
	}
}

static void mps_grant__of_slices(void **state)
{
	struct slice_set *s;
	struct fixture f;

	(void)state;
	setup(&f, 1, 40);
	s = fixture_add_slices(f.c, GPU, NULL);
	s->mps = true;
	fixture_profile(s, "nvidia.com/gpu.a", 1, 8192)->weight = 3;
	s->profiles[0].isolation.class_ = SLICE_CLASS_LATENCY;
	fixture_profile(s, "nvidia.com/gpu.b", 2, 1024)->weight = 2;
	s->profiles[1].isolation.compute = ISOLATION_COMPUTE_CAPPED;
	fixture_profile(s, "nvidia.com/gpu.c", 4, 0);
	/* weights are 3, 2, 2, 1, 1, 1, 1: the daemon gives the most, that is four of c */
	assert_plan(&f, "GPU-0 72% GPU-0=0M");
	assert_grant(&f, "nvidia.com/gpu.a", IDS("GPU-0::gpu.a::0"), "GPU-0", "0=8192M", 54, 0);
	assert_grant(&f, "nvidia.com/gpu.b", IDS("GPU-0::gpu.b::0"), "GPU-0", "0=1024M", 18, 1);
	assert_grant(&f, "nvidia.com/gpu.b", IDS("GPU-0::gpu.b::1", "GPU-0::gpu.b::0"), "GPU-0",
		"0=2048M", 36, 1);
	assert_grant(&f, "nvidia.com/gpu.c", IDS("GPU-0::gpu.c::3"), "GPU-0", "", 18, 1);
	/* never nothing, and never more than all */
	s->profiles[0].weight = 1000;
	s->profiles[1].count = s->profiles[2].count = 1;
	make_mps_plan(&f);
	assert_grant(&f, "nvidia.com/gpu.a", IDS("GPU-0::gpu.a::0"), "GPU-0", "0=8192M", 100,
		0);
	assert_grant(&f, "nvidia.com/gpu.b", IDS("GPU-0::gpu.b::0"), "GPU-0", "0=1024M", 1, 1);
	assert_grant(&f, "nvidia.com/gpu.c", IDS("GPU-0::gpu.c::0"), "GPU-0", "", 1, 1);
	/* slices with quanta have no daemon */
	s->mps = false;
	assert_plan(&f, "");
	assert_grant(&f, "nvidia.com/gpu.b", IDS("GPU-0::gpu.b::0"), "", "", 0, -1);
	teardown(&f);
}

/* Slices of several GPUs have no common daemon: a fault of one GPU ends no client on another. */
static void mps_plan_new__joins_no_slices(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, 2, 40);
	fixture_profile(fixture_add_slices(f.c, GPU, NULL), "nvidia.com/gpu.a", 2, 2048);
	f.c->slices[0].mps = true;
	assert_plan(&f, "GPU-0 100% GPU-0=4096M; GPU-1 100% GPU-1=4096M");
	assert_error(try_mps_grant(&f, "nvidia.com/gpu.a",
			     IDS("GPU-0::gpu.a::0", "GPU-1::gpu.a::0")),
		&f.err, "have not the same");
	teardown(&f);
}

static void random_config(struct fixture *f, uint64_t *seed)
{
	static const char *const refs[] = { "0", "1", "GPU-2", "3" };

	MPS(f->c).fail_requests_greater_than_one = fixture_random(seed) % 2;
	for (uint32_t n = fixture_random(seed) % 4; n; n--) {
		struct replicated *e = fixture_share_by(f->c,
			fixture_random(seed) % 4 ? SHARING_MPS : SHARING_TIME_SLICING, GPU,
			fixture_random(seed) % 2 ? NULL : "nvidia.com/b",
			2 + fixture_random(seed) % 30,
			fixture_random(seed) % 3 ? LIST(refs[fixture_random(seed) % 4],
							   refs[fixture_random(seed) % 4])
						 : NULL);

		e->isolation.compute = (enum isolation_compute)(fixture_random(seed) % 3);
		e->isolation.memory = fixture_random(seed) % 2 ? ISOLATION_MEMORY_EQUAL
							       : ISOLATION_MEMORY_NONE;
	}
	if (fixture_random(seed) % 2) {
		struct slice_set *s =
			fixture_add_slices(f->c, GPU, LIST(refs[fixture_random(seed) % 4]));

		s->mps = fixture_random(seed) % 4 > 0;
		for (uint32_t n = 1 + fixture_random(seed) % 2; n; n--)
			fixture_profile(s, n == 1 ? "nvidia.com/x" : "nvidia.com/y",
				1 + fixture_random(seed) % 9, fixture_random(seed) % 3 * 1024)
				->weight = 1 + fixture_random(seed) % 99;
	}
}

/* A device has one daemon if MPS shares it and it can be allocated. A container gets no more than that
 * daemon's limits. */
static unsigned check_device(struct fixture *f, const struct resource *r,
	const struct offer_device *d, uint32_t n_daemons)
{
	const char *const id = d->id;
	unsigned long long mib = 0;
	struct mps_grant g;
	int ret = mps_grant_make(&g, f->plan, r, f->inv, &id, 1, &f->err);

	assert_int_equal(ret, mps_shares(r, d) && d->why ? -1 : 0);
	if (ret < 0 || !g.daemon)
		return 0;
	assert_int_equal(n_daemons, 1);
	assert_in_range(g.percent, 1, g.daemon->percent);
	(void)sscanf(g.memory, "0=%lluM", &mib);
	for (uint32_t m = 0; m < g.daemon->n; m++)
		if (g.daemon->devices[m].gpu == d->gpu && g.daemon->devices[m].limit_mib)
			assert_in_range(mib, 1, g.daemon->devices[m].limit_mib);
	return 1;
}

static void mps_plan_new__keeps_its_invariants(void **state)
{
	uint64_t seed = 5;
	unsigned n_grants = 0, n_sets = 0;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct fixture f;
		uint32_t seen[4] = { 0 };

		setup(&f, 4, 40);
		random_config(&f, &seed);
		make_mps_plan(&f);
		for (uint32_t i = 0; i < f.plan->n; i++) {
			n_sets += f.plan->daemons[i].n > 1;
			for (uint32_t k = 0; k < f.plan->daemons[i].n; k++)
				seen[f.plan->daemons[i].devices[k].gpu]++;
		}
		for (uint32_t i = 0; i < f.offer->n; i++) {
			const struct resource *r = &f.offer->resources[i];

			for (uint32_t k = 0; k < r->n_devices; k++)
				n_grants += check_device(&f, r, &r->devices[k],
					seen[r->devices[k].gpu]);
		}
		teardown(&f);
	}
	assert_true(n_grants > 10000 && n_sets > 100);
	assert_null(mps_plan_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mps_replicas_max__vectors),
		cmocka_unit_test(mps_plan_new__has_nvidias_limits),
		cmocka_unit_test(mps_plan_new__rounds_like_nvidia),
		cmocka_unit_test(offer_new__refuses_more_replicas_than_mps_has_clients),
		cmocka_unit_test(offer_new__counts_clients_of_all_resources),
		cmocka_unit_test(mps_grant__of_one_node_with_all_kinds),
		cmocka_unit_test(mps_grant__of_several_replicas),
		cmocka_unit_test(mps_plan_new__joins_gpus_of_which_one_may_have_several),
		cmocka_unit_test(mps_plan_new__joins_over_resources),
		cmocka_unit_test(mps_plan_new__of_mig_devices),
		cmocka_unit_test(mps_plan_new__is_exclusive_for_whole_gpus_only),
		cmocka_unit_test(mps_grant__of_isolated_replicas),
		cmocka_unit_test(mps_grant__of_slices),
		cmocka_unit_test(mps_plan_new__joins_no_slices),
		cmocka_unit_test(mps_plan_new__keeps_its_invariants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
