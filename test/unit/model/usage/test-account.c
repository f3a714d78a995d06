/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/usage/usage.h"

#define SEC     UINT64_C(1000000000)
#define MILLION ACCOUNT_MILLION
#define DOLLAR  UINT64_C(1000000000)

/* --- one device, by hand --- */

struct scene {
	struct accounts a;
	struct account_device_round unit;
	struct account_use uses[8];
	struct account_round r;
};

static void scene_init(struct scene *s, uint32_t n_uses)
{
	*s = (struct scene){
		.unit = { .uuid = "GPU-0", .part = MILLION, .priced = true, .n_uses = n_uses },
		.r = { .dt_ns = SEC,
			.wall_ns = 100 * SEC,
			.n_gpus = 1,
			.n_devices = 1,
			.complete = true },
	};
	accounts_init(&s->a);
	s->r.devices = &s->unit;
	s->r.uses = s->uses;
	s->r.n_uses = n_uses;
	for (uint32_t i = 0; i < n_uses; i++)
		s->uses[i] = (struct account_use){ .namespace_ = "ns",
			.pod = "web-0",
			.uid = "",
			.container = "main",
			.resource = "nvidia.com/gpu",
			.live = true,
			.allocated_ns = SEC,
			.share = MILLION / n_uses,
			.share_ns = SEC * (MILLION / n_uses) };
}

static void count_account_round(struct scene *s)
{
	struct error err = ERROR_INIT;

	assert_ok(accounts_round(&s->a, &s->r, &err), &err);
	s->r.wall_ns += SEC;
}

static struct account *get_only_account(const struct scene *s, size_t n, size_t i)
{
	assert_int_equal(s->a.n_devices, 1);
	assert_int_equal(s->a.devices[0]->n_uses, n);
	return s->a.devices[0]->uses[i];
}

static void account__uses_the_uid_when_it_is_known(void **state)
{
	struct scene s;
	struct account *a;

	(void)state;
	scene_init(&s, 1);
	count_account_round(&s);
	s.uses[0].uid = "uid-1";
	count_account_round(&s);
	a = get_only_account(&s, 1, 0);
	assert_string_equal(a->uid, "uid-1");
	assert_int_equal(a->total.allocated_ns, 2 * SEC);
	/* The kubelet's notes cannot be read for a while: it is the same pod all the same. */
	s.uses[0].uid = "";
	count_account_round(&s);
	a = get_only_account(&s, 1, 0);
	assert_string_equal(a->uid, "uid-1");
	assert_int_equal(a->total.allocated_ns, 3 * SEC);
	accounts_fini(&s.a);
}

static void account__is_not_continued_by_a_later_pod_with_the_name(void **state)
{
	static const struct {
		const char *first, *second; /* UIDs */
		bool gap, fresh;            /* between the two */
	} rows[] = {
		{ "uid-1", "uid-2", false, false },
		{ "uid-1", "uid-2", true, true },
		{ "uid-1", "", true, false },
		{ "uid-1", "", false, true },
		{ "", "", true, false },
		{ "", "", false, true },
		{ "", "uid-2", true, false },
		{ "", "uid-2", false, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scene s;

		scene_init(&s, 1);
		s.uses[0].uid = rows[i].first;
		count_account_round(&s);
		if (rows[i].gap) {
			s.unit.n_uses = 0;
			count_account_round(&s);
			s.unit.n_uses = 1;
		}
		s.uses[0].uid = rows[i].second;
		s.uses[0].fresh = rows[i].fresh;
		count_account_round(&s);
		s.uses[0].fresh = false;
		count_account_round(&s);
		assert_false(get_only_account(&s, 2, 0)->live);
		assert_true(get_only_account(&s, 2, 1)->live);
		assert_string_equal(get_only_account(&s, 2, 0)->uid, rows[i].first);
		assert_string_equal(get_only_account(&s, 2, 1)->uid, rows[i].second);
		assert_int_equal(get_only_account(&s, 2, 0)->total.allocated_ns, SEC);
		assert_int_equal(get_only_account(&s, 2, 1)->total.allocated_ns, 2 * SEC);
		accounts_fini(&s.a);
	}
}

static void account__is_archived_when_it_ended_long_ago(void **state)
{
	struct scene s;
	uint64_t rounds = ACCOUNT_ENDED_RETAIN_NS / SEC;

	(void)state;
	scene_init(&s, 1);
	s.r.price_nano_per_hour = 3600 * DOLLAR;
	count_account_round(&s);
	s.unit.n_uses = 0;
	for (uint64_t i = 0; i < rounds; i++)
		count_account_round(&s);
	assert_int_equal(get_only_account(&s, 1, 0)->total.cost_nano, DOLLAR);
	count_account_round(&s);
	assert_int_equal(s.a.devices[0]->n_uses, 0);
	assert_int_equal(s.a.devices[0]->past.cost_nano, DOLLAR);
	assert_int_equal(s.a.devices[0]->past.gpu_ns, SEC);
	accounts_fini(&s.a);
}

static void account__counts_a_pod_that_starts_and_ends_in_a_round(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	s.r.price_nano_per_hour = 3600 * DOLLAR;
	s.uses[0].live = false;
	s.uses[0].allocated_ns = SEC / 4;
	s.uses[0].share_ns = SEC / 4 * MILLION;
	count_account_round(&s);
	assert_false(get_only_account(&s, 1, 0)->live);
	assert_int_equal(get_only_account(&s, 1, 0)->ended_wall_ns, 100 * SEC);
	assert_int_equal(get_only_account(&s, 1, 0)->total.allocated_ns, SEC / 4);
	assert_int_equal(get_only_account(&s, 1, 0)->total.cost_nano, DOLLAR / 4);
	assert_int_equal(s.a.devices[0]->idle_cost_nano, DOLLAR - DOLLAR / 4);
	accounts_fini(&s.a);
}

/* The idle state of the GPU is unknown: its time is not counted, its cost is the node's. */
static void account__counts_no_idle_time_while_allocations_are_unknown(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	s.r.price_nano_per_hour = 3600 * DOLLAR;
	s.r.allocations_unknown = true;
	count_account_round(&s);
	s.unit.n_uses = 0;
	count_account_round(&s);
	assert_int_equal(s.a.devices[0]->present_ns, 0);
	assert_int_equal(s.a.devices[0]->idle_gpu_ns, 0);
	assert_int_equal(s.a.devices[0]->idle_cost_nano, 0);
	assert_int_equal(s.a.devices[0]->cost_nano, 0);
	assert_int_equal(s.a.other_cost_nano, 2 * DOLLAR);
	s.r.allocations_unknown = false;
	count_account_round(&s);
	assert_int_equal(s.a.devices[0]->present_ns, SEC);
	assert_int_equal(s.a.devices[0]->idle_gpu_ns, SEC);
	assert_int_equal(s.a.devices[0]->idle_cost_nano, DOLLAR);
	assert_int_equal(s.a.cost_nano, 3 * DOLLAR);
	accounts_fini(&s.a);
}

#define NONE UINT64_MAX /* not known */

static void account__busy_time_is_within_that_of_the_devices(void **state)
{
	static const enum account_source U = ACCOUNT_FROM_NOTHING, N = ACCOUNT_FROM_PROCESSES,
					 X = ACCOUNT_FROM_SLICE;
	const struct {
		uint64_t unit;
		bool known, foreign;
		enum account_source kind[2];
		uint64_t ns[2];
		uint32_t n;
		uint64_t want[2], want_unit, want_other;
	} rows[] = {
		{ 800, true, false, { N, N }, { 300, 400 }, 2, { 300, 400 }, 800, 100 },
		/* too much: each its part */
		{ 700, true, false, { N, N }, { 1000, 400 }, 2, { 500, 200 }, 700, 0 },
		/* what is exact goes first, and makes the unit's more */
		{ 700, true, false, { X, N }, { 600, 400 }, 2, { 600, 100 }, 700, 0 },
		{ 700, true, false, { X, X }, { 600, 300 }, 2, { 600, 300 }, 900, 0 },
		/* terms of an unknown sum are unknown, too */
		{ 0, false, false, { X, N }, { 600, 300 }, 2, { 600, NONE }, 600, 0 },
		{ 0, false, false, { N, N }, { 600, 300 }, 2, { NONE, NONE }, 0, 0 },
		{ 0, false, false, { N, N }, { 600, 0 }, 1, { NONE, 0 }, 0, 0 },
		/* but not more than the time */
		{ 0, true, false, { X, X }, { 900, 600 }, 2, { 600, 400 }, 1000, 0 },
		/* alone it does all that is done */
		{ 700, true, false, { U, U }, { 0, 0 }, 1, { 700, 0 }, 700, 0 },
		{ 700, true, true, { U, U }, { 0, 0 }, 1, { NONE, 0 }, 700, 700 },
		{ 700, true, false, { U, U }, { 0, 0 }, 2, { NONE, NONE }, 700, 700 },
		{ 700, true, true, { N, U }, { 200, 0 }, 1, { 200, 0 }, 700, 500 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scene s;
		const struct account_device *device;

		scene_init(&s, rows[i].n);
		s.r.dt_ns = 1000;
		s.unit.busy_known = rows[i].known;
		s.unit.busy_ns = rows[i].unit;
		s.unit.busy_of_ns = 1000;
		s.unit.has_other_users = rows[i].foreign;
		s.uses[1].container = "second";
		for (uint32_t k = 0; k < rows[i].n; k++) {
			s.uses[k].busy_from = rows[i].kind[k];
			s.uses[k].busy_ns = rows[i].ns[k];
		}
		count_account_round(&s);
		device = s.a.devices[0];
		for (uint32_t k = 0; k < rows[i].n; k++) {
			const struct account *a = device->uses[k];
			uint64_t want = rows[i].want[k] == NONE ? 0 : rows[i].want[k];
			bool known = rows[i].want[k] != NONE;

			if (a->total.busy_ns != want || a->busy_ever != known ||
				(a->busy_from != ACCOUNT_FROM_NOTHING) != known)
				fail_msg("row %zu: use %u: %llu of source %d", i, k,
					(unsigned long long)a->total.busy_ns, a->busy_from);
		}
		if (device->busy_ns != rows[i].want_unit ||
			device->other_busy_ns != rows[i].want_other)
			fail_msg("row %zu: unit %llu, other %llu", i,
				(unsigned long long)device->busy_ns,
				(unsigned long long)device->other_busy_ns);
		accounts_fini(&s.a);
	}
}

static void account__counters_after_a_gap_span_more_than_the_round(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	s.uses[0].busy_from = ACCOUNT_FROM_SLICE;
	s.uses[0].busy_ns = 3 * SEC;
	s.uses[0].busy_of_ns = 4 * SEC;
	count_account_round(&s);
	assert_int_equal(get_only_account(&s, 1, 0)->total.busy_ns, 3 * SEC);
	s.uses[0].busy_of_ns = 0; /* no container is busy for three seconds of one */
	count_account_round(&s);
	assert_int_equal(get_only_account(&s, 1, 0)->total.busy_ns, 4 * SEC);
	accounts_fini(&s.a);
}

static void account__memory_is_counted_over_time(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	s.uses[0].memory_from = ACCOUNT_FROM_PROCESSES;
	s.uses[0].memory = 3;
	s.uses[0].allocated_ns = s.r.dt_ns = SEC / 2;
	count_account_round(&s);
	assert_int_equal(get_only_account(&s, 1, 0)->total.memory_byte_s, 1);
	s.uses[0].memory = 1;
	count_account_round(&s);
	assert_int_equal(get_only_account(&s, 1, 0)->total.memory_byte_s,
		2); /* nothing was lost */
	assert_int_equal(get_only_account(&s, 1, 0)->memory_peak, 3);
	assert_int_equal(get_only_account(&s, 1, 0)->memory, 1);
	accounts_fini(&s.a);
}

/* The highest peak that was sampled or reported, also after a restart of the arbiter. */
static void account__a_peak_outlives_its_arbiter(void **state)
{
	static const enum account_source U = ACCOUNT_FROM_NOTHING, N = ACCOUNT_FROM_PROCESSES,
					 X = ACCOUNT_FROM_SLICE;
	const struct {
		enum account_source from;
		uint64_t memory;
		bool said;
		uint64_t peak;
		bool want_known;
		uint64_t want, want_high;
	} rows[] = {
		{ U, 0, false, 0, false, 0, 0 },
		{ N, 0, false, 0, false, 0, 0 }, /* it may have had more between */
		{ X, 0, true, 0, true, 0, 0 },
		{ X, 3, true, 8, true, 8, 8 },
		{ X, 3, true, 8, true, 8, 3 },  /* that was before this round */
		{ U, 0, false, 0, true, 8, 0 }, /* its arbiter ends, */
		{ X, 2, true, 2, true, 8, 2 },  /* and the next one begins */
		{ N, 9, true, 2, true, 9, 9 },
	};
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	s.uses[0].sliced = true;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct account *a;

		s.uses[0].memory_from = rows[i].from;
		s.uses[0].memory = rows[i].memory;
		s.uses[0].peak_known = rows[i].said;
		s.uses[0].peak = rows[i].peak;
		count_account_round(&s);
		a = get_only_account(&s, 1, 0);
		if (a->peak_known != rows[i].want_known || a->memory_peak != rows[i].want ||
			a->memory_high != rows[i].want_high)
			fail_msg("row %zu: %d, %llu, of the round %llu", i, a->peak_known,
				(unsigned long long)a->memory_peak,
				(unsigned long long)a->memory_high);
	}
	accounts_fini(&s.a);
}

/* A process that comes and goes between two samples. */
static void account__memory_that_was_never_sampled_is_unknown(void **state)
{
	struct scene s;
	const struct account *a;

	(void)state;
	scene_init(&s, 1);
	s.uses[0].live = false;
	count_account_round(&s);
	a = get_only_account(&s, 1, 0);
	assert_true(a->memory_unknown);
	assert_false(a->memory_ever || a->peak_known);
	accounts_fini(&s.a);
}

/* An unknown figure of a round is neither zero nor counted, and stays marked. */
static void account__reports_the_source_of_its_figures(void **state)
{
	struct scene s;
	const struct account *a;

	(void)state;
	scene_init(&s, 1);
	s.r.dt_ns = s.uses[0].allocated_ns = SEC;
	count_account_round(&s);
	a = get_only_account(&s, 1, 0);
	assert_int_equal(a->busy_from, ACCOUNT_FROM_NOTHING);
	assert_int_equal(a->memory_from, ACCOUNT_FROM_NOTHING);
	assert_true(a->busy_unknown && a->memory_unknown);
	assert_false(a->busy_ever || a->memory_ever);
	/* Alone on a device whose time is known. */
	s.unit.busy_known = true;
	s.unit.busy_ns = SEC / 2;
	s.unit.busy_of_ns = SEC;
	s.uses[0].memory_from = ACCOUNT_FROM_DEVICE;
	s.uses[0].memory = 7;
	count_account_round(&s);
	a = get_only_account(&s, 1, 0);
	assert_int_equal(a->busy_from, ACCOUNT_FROM_DEVICE);
	assert_int_equal(a->memory_from, ACCOUNT_FROM_DEVICE);
	assert_int_equal(a->memory, 7);
	assert_true(a->busy_unknown && a->memory_unknown && a->busy_ever && a->memory_ever);
	/* The memory is unknown again; the counted bytes stay. */
	s.uses[0].memory_from = ACCOUNT_FROM_NOTHING;
	count_account_round(&s);
	a = get_only_account(&s, 1, 0);
	assert_int_equal(a->memory_from, ACCOUNT_FROM_NOTHING);
	assert_int_equal(a->memory, 0);
	assert_int_equal(a->memory_peak, 7);
	assert_int_equal(a->total.memory_byte_s, 7);
	accounts_fini(&s.a);
}

static void account__the_price_is_exact_over_time(void **state)
{
	static const char *const names[] = { "GPU-0", "GPU-1", "GPU-2" };
	struct account_device_round units[3];
	struct account_round r = { .price_nano_per_hour = 1000000007,
		.n_gpus = 3,
		.devices = units,
		.n_devices = 3,
		.complete = true };
	struct error err = ERROR_INIT;
	struct accounts a;
	uint64_t sum = 0;

	(void)state;
	accounts_init(&a);
	for (uint32_t i = 0; i < 3; i++)
		units[i] = (struct account_device_round){ .uuid = names[i],
			.gpu = i,
			.part = MILLION,
			.priced = i < 2 };
	for (uint32_t i = 0; i < 3600 * 7; i++) { /* an hour in rounds of 1/7 s */
		r.dt_ns = SEC / 7 + (i % 7 == 0 ? SEC % 7 : 0);
		r.wall_ns += r.dt_ns;
		assert_ok(accounts_round(&a, &r, &err), &err);
	}
	assert_int_equal(a.cost_nano, 1000000007);
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t cost = a.devices[i]->cost_nano;

		assert_in_range(cost, 333333335, 333333336);
		assert_int_equal(a.devices[i]->idle_cost_nano, cost);
		sum += cost;
	}
	assert_int_equal(sum + a.other_cost_nano, a.cost_nano);
	accounts_fini(&a);
}

static void account__removed_device_leaves_its_cost_to_the_node(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	s.r.price_nano_per_hour = 3600 * DOLLAR;
	count_account_round(&s);
	s.r.n_devices = 0;
	s.r.complete = false; /* it may still be there */
	count_account_round(&s);
	assert_int_equal(get_only_account(&s, 1, 0)->total.cost_nano, DOLLAR);
	s.r.complete = true;
	count_account_round(&s);
	assert_int_equal(s.a.n_devices, 0);
	assert_int_equal(s.a.cost_nano, 3 * DOLLAR);
	assert_int_equal(s.a.other_cost_nano, 3 * DOLLAR);
	accounts_fini(&s.a);
}

/* --- a node at random --- */

#define GPUS     3
#define UNITS    5 /* GPU 2 is three MIG devices */
#define REPLICAS 4

struct pod {
	char name[16], uid[16];
	int unit, replica;
	bool known; /* its UID */
	uint64_t truth_ns;
};

struct world {
	struct accounts a;
	struct pod pods[UNITS * REPLICAS]; /* by place; .unit < 0: free */
	uint32_t serial;
	struct account_device_round units[UNITS];
	struct account_use uses[UNITS * REPLICAS * 2];
	char uids[UNITS * REPLICAS * 2][16];
	uint64_t wall_ns, cost_ns, last[UNITS];
};

static uint32_t pick_below(uint32_t n)
{
	static uint64_t x = 88172645463325252; /* the same numbers each time: xorshift64 */

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32) % n;
}

static void check_sums(const struct accounts *a)
{
	uint64_t cost = a->other_cost_nano;

	for (size_t i = 0; i < a->n_devices; i++) {
		const struct account_device *device = a->devices[i];
		struct account_counts sum = device->past;

		for (size_t k = 0; k < device->n_uses; k++) {
			sum.busy_ns += device->uses[k]->total.busy_ns;
			sum.gpu_ns += device->uses[k]->total.gpu_ns;
			sum.cost_nano += device->uses[k]->total.cost_nano;
		}
		assert_int_equal(sum.busy_ns + device->other_busy_ns, device->busy_ns);
		assert_int_equal(sum.gpu_ns + device->idle_gpu_ns, device->present_ns);
		assert_int_equal(sum.cost_nano + device->idle_cost_nano, device->cost_nano);
		cost += device->cost_nano;
	}
	assert_int_equal(cost, a->cost_nano);
}

static void add_use(struct world *w, struct account_round *r, const struct pod *p, bool live,
	bool fresh, uint64_t held_ns)
{
	struct account_use *u = &w->uses[r->n_uses];
	char *uid = w->uids[r->n_uses++];

	/* The next pod of that replica overwrites it. */
	(void)snprintf(uid, sizeof(w->uids[0]), "%s", p->known ? p->uid : "");
	*u = (struct account_use){ .namespace_ = "ns",
		.pod = p->name,
		.uid = uid,
		.container = "main",
		.resource = "gpu",
		.live = live,
		.fresh = fresh,
		.allocated_ns = held_ns,
		.share = MILLION / REPLICAS,
		.share_ns = held_ns * (MILLION / REPLICAS),
		.busy_from = (enum account_source)pick_below(4),
		.busy_ns = pick_below(2) ? pick_below(1000000)
					 : pick_below(1000000) * UINT64_C(10000),
		.memory_from = (enum account_source)pick_below(4),
		.memory = (uint64_t)pick_below(1000000) << 12 };
	w->units[p->unit].n_uses++;
}

/* What happens on one replica in a round: its pod goes or stays, another may come. */
static void play_replica(struct world *w, struct account_round *r, int unit, int replica)
{
	struct pod *p = &w->pods[unit * REPLICAS + replica];
	uint64_t at = pick_below(1000) * (r->dt_ns / 1000);
	bool here = p->unit >= 0;

	if (here && pick_below(8)) {
		p->known = p->known || pick_below(2);
		p->truth_ns += r->dt_ns;
		add_use(w, r, p, true, false, r->dt_ns);
		return;
	}
	if (here) {
		add_use(w, r, p, false, false, at);
		p->unit = -1;
	}
	if (pick_below(2))
		return;
	/* The same name again, as a StatefulSet does. */
	(void)snprintf(p->name, sizeof(p->name), "pod-%d", unit * REPLICAS + replica);
	(void)snprintf(p->uid, sizeof(p->uid), "uid-%u", w->serial++);
	p->unit = unit;
	p->known = !here && pick_below(2);
	p->truth_ns = r->dt_ns - at;
	add_use(w, r, p, true, true, p->truth_ns);
}

static void check_truth(const struct world *w, const struct account_round *r)
{
	for (uint32_t i = 0; i < r->n_uses; i++) {
		const struct account *a = w->uses[i].account;

		for (size_t k = 0; k < ARRAY_LEN(w->pods); k++)
			if (w->pods[k].unit >= 0 && w->pods[k].known &&
				!strcmp(w->pods[k].uid, a->uid))
				assert_int_equal(a->total.allocated_ns, w->pods[k].truth_ns);
	}
}

static void play_round(struct world *w)
{
	static const char *const names[] = { "GPU-0", "GPU-1", "MIG-a", "MIG-b", "MIG-c" };
	struct account_round r = { .n_gpus = GPUS,
		.devices = w->units,
		.uses = w->uses,
		.n_devices = UNITS,
		.complete = true };
	struct error err = ERROR_INIT;

	r.dt_ns = (uint64_t)(1 + pick_below(9000000)) * 1000;
	w->wall_ns += r.dt_ns;
	if (pick_below(20) == 0) /* the clock is set */
		w->wall_ns = pick_below(2) ? w->wall_ns + 7200 * SEC : w->wall_ns - 3600 * SEC;
	r.wall_ns = w->wall_ns;
	r.price_nano_per_hour = 98 * DOLLAR + 1;
	for (int i = 0; i < UNITS; i++) {
		w->units[i] = (struct account_device_round){ .uuid = names[i],
			.gpu = i < 2 ? (uint32_t)i : 2,
			.part = i < 2   ? MILLION
				: i < 4 ? MILLION / 7 * 2
					: MILLION / 7 * 3,
			.priced = i != 1 || pick_below(2),
			.busy_known = pick_below(4) != 0,
			.busy_ns = r.dt_ns / 1000 * pick_below(1001),
			.busy_of_ns = r.dt_ns,
			.has_other_users = pick_below(2),
			.first_use = r.n_uses };
		for (int k = 0; k < REPLICAS; k++)
			play_replica(w, &r, i, k);
	}
	w->cost_ns += r.dt_ns;
	assert_ok(accounts_round(&w->a, &r, &err), &err);
	check_sums(&w->a);
	check_truth(w, &r);
}

static void account__sums_agree_in_random_scenarios(void **state)
{
	struct world w = { .wall_ns = 1000000 * SEC };
	uint64_t want;

	(void)state;
	accounts_init(&w.a);
	for (size_t i = 0; i < ARRAY_LEN(w.pods); i++)
		w.pods[i].unit = -1;
	for (int i = 0; i < 5000; i++) {
		play_round(&w);
		for (uint32_t k = 0; k < UNITS; k++) {
			const struct account_device *device = w.a.devices[k];

			assert_true(device->busy_ns + device->cost_nano + device->present_ns >=
				    w.last[k]);
			w.last[k] = device->busy_ns + device->cost_nano + device->present_ns;
			assert_true(device->idle_gpu_ns <= device->present_ns);
			assert_true(device->delta.busy_ns <= 10000 * SEC);
		}
	}
	want = (uint64_t)((__extension__(unsigned __int128)(98 * DOLLAR + 1) * w.cost_ns) /
			  (3600 * SEC));
	assert_int_equal(w.a.cost_nano, want);
	accounts_fini(&w.a);
}

static void account__continues_restored_records(void **state)
{
	static const struct account_use use = { .namespace_ = "ns",
		.pod = "web-0",
		.uid = "uid-1",
		.container = "main",
		.resource = "nvidia.com/gpu" };
	struct error err = ERROR_INIT;
	struct account_device *device;
	struct account *a;
	struct scene s;

	(void)state;
	scene_init(&s, 1);
	assert_ok(accounts_restore_device(&s.a, "GPU-0", &device, &err), &err);
	device->present_ns = 100;
	device->idle_gpu_ns = 30;
	device->busy_ns = 50;
	device->cost_nano = 7;
	s.a.cost_nano = 9;
	assert_ok(accounts_restore_account(device, &use, &a, &err), &err);
	a->live = true;
	a->total = (struct account_counts){ .allocated_ns = 80,
		.gpu_ns = 60,
		.busy_ns = 55,
		.cost_nano = 6 };
	accounts_settle(&s.a);
	check_sums(&s.a);
	assert_int_equal(device->past.gpu_ns, 10);
	assert_int_equal(device->past.busy_ns, 0); /* the parts were more */
	assert_int_equal(device->busy_ns, 55);
	assert_int_equal(s.a.other_cost_nano, 2);
	s.uses[0].uid = "uid-1";
	count_account_round(&s);
	check_sums(&s.a);
	assert_int_equal(get_only_account(&s, 1, 0)->total.allocated_ns, 80 + SEC);
	accounts_fini(&s.a);
}

static void account__replicas_of_a_former_layout_do_not_count_twice(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 2);
	s.uses[1].container = "second";
	for (int i = 0; i < 2; i++) {
		s.uses[i].share = MILLION;
		s.uses[i].share_ns = SEC * MILLION;
	}
	count_account_round(&s);
	check_sums(&s.a);
	assert_int_equal(get_only_account(&s, 2, 0)->total.gpu_ns, SEC / 2);
	assert_int_equal(get_only_account(&s, 2, 0)->share, MILLION / 2);
	assert_int_equal(s.a.devices[0]->idle_gpu_ns, 0);
	assert_int_equal(s.a.devices[0]->allocated, MILLION);
	accounts_fini(&s.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(account__uses_the_uid_when_it_is_known),
		cmocka_unit_test(account__is_not_continued_by_a_later_pod_with_the_name),
		cmocka_unit_test(account__is_archived_when_it_ended_long_ago),
		cmocka_unit_test(account__counts_a_pod_that_starts_and_ends_in_a_round),
		cmocka_unit_test(account__counts_no_idle_time_while_allocations_are_unknown),
		cmocka_unit_test(account__busy_time_is_within_that_of_the_devices),
		cmocka_unit_test(account__counters_after_a_gap_span_more_than_the_round),
		cmocka_unit_test(account__memory_is_counted_over_time),
		cmocka_unit_test(account__a_peak_outlives_its_arbiter),
		cmocka_unit_test(account__memory_that_was_never_sampled_is_unknown),
		cmocka_unit_test(account__reports_the_source_of_its_figures),
		cmocka_unit_test(account__the_price_is_exact_over_time),
		cmocka_unit_test(account__removed_device_leaves_its_cost_to_the_node),
		cmocka_unit_test(account__sums_agree_in_random_scenarios),
		cmocka_unit_test(account__continues_restored_records),
		cmocka_unit_test(account__replicas_of_a_former_layout_do_not_count_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
