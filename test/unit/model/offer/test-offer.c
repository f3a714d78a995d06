/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

#define GPU "nvidia.com/gpu"

static void pattern_match__vectors(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool match;
	} rows[] = {
		{ "1g.24gb", "1g.24gb", true },
		{ "1g.24gb", "2g.48gb", false },
		{ "1g.24gb", "1g.24gb-me", false },
		{ "1g.24gb", "1g.24gb+me.all", false },
		{ "1g.24gb", "1g.24gb+gfx", false },
		{ "1g.24gb", "x1g.24gb", false },
		{ "1g.24gb", "1g524gb", false },
		{ "1g.24gb-me", "1g.24gb-me", true },
		{ "1g.24gb+me.all", "1g.24gb+me.all", true },
		{ "1g.24gb+gfx", "1g.24gb+gfx", true },
		{ "1g.24gb+gfx", "1g.24gb", false },
		{ "1g.24gb+gfx", "1g.24gb-me", false },
		{ "2g.48gb", "2g.48gb+gfx", false },
		{ "*", "", true },
		{ "*", "anything at all", true },
		{ "1g.*", "1g.24gb", true },
		{ "1g.*", "2g.48gb", false },
		{ "*gb", "1g.24gb", true },
		{ "*gb", "1g.24gb-me", false },
		{ "", "", true },
		{ "", "a", false },
		{ "a", "", false },
		{ "**", "", true },
		{ "*a*b", "xaaab", true },
		{ "*ab", "abaab", true },
		{ "a*b*c", "abcbcc", true },
		{ "a*b*c", "acb", false },
		{ "Tesla*", "tesla T4", false },
		{ "[a-z]?", "[a-z]?", true },
		{ "?", "x", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (pattern_match(rows[i].pattern, rows[i].text) != rows[i].match)
			fail_msg("'%s' and '%s'", rows[i].pattern, rows[i].text);
}

static void device_id__vectors(void **state)
{
	char id[DEVICE_ID_MAX], small[8];

	(void)state;
	assert_true(device_id_make(id, sizeof(id), "GPU-a", 3));
	assert_string_equal(id, "GPU-a::3");
	assert_false(device_id_make(small, sizeof(small), "GPU-a", 3));
	assert_true(device_id_is_replica("GPU-a::3"));
	assert_false(device_id_is_replica("GPU-a"));
	assert_false(device_id_is_replica("GPU-a:3"));
	assert_int_equal(device_id_physical_len("GPU-a::3"), 5);
	assert_int_equal(device_id_physical_len("GPU-a::3::4"), 5);
	assert_int_equal(device_id_physical_len("GPU-a"), 5);
}

/* "name=GPU-0 GPU-1::0 ...; name2=..." for comparing. */
static void offer_text(const struct offer *o, char *ret, size_t cap)
{
	size_t len = 0;

	ret[0] = '\0';
	for (uint32_t i = 0; i < o->n; i++) {
		const struct resource *r = &o->resources[i];

		len += (size_t)snprintf(ret + len, cap - len, "%s%s=", i ? "; " : "",
			r->name + 11);
		for (uint32_t k = 0; k < r->n_devices && len < cap; k++)
			len += (size_t)snprintf(ret + len, cap - len, "%s%s", k ? " " : "",
				r->devices[k].id + 4);
	}
}

/* Checks the invariants of every offer. */
static void check_offer(const struct offer *o, const struct inventory *inv)
{
	for (uint32_t i = 0; i < o->n; i++) {
		const struct resource *r = &o->resources[i];
		uint32_t replicas = 1;

		assert_true(i == 0 || strcmp(o->resources[i - 1].name, r->name) < 0);
		assert_ptr_equal(offer_find(o, r->name), r);
		assert_true(r->n_devices > 0);
		for (uint32_t k = 0; k < r->n_devices; k++) {
			const struct offer_device *d = &r->devices[k];
			const char *uuid = inv->gpus[d->gpu].uuid;

			assert_ptr_equal(resource_find(r, d->id), d);
			assert_int_equal(device_id_physical_len(d->id), strlen(uuid));
			assert_memory_equal(d->id, uuid, strlen(uuid));
			if (k) {
				assert_true(
					d[-1].gpu < d->gpu ||
					(d[-1].gpu == d->gpu && d[-1].replica <= d->replica));
			}
			if (d->replica >= replicas)
				replicas = d->replica + 1;
		}
		assert_true(r->replicas >= replicas);
		assert_null(resource_find(r, "GPU-none"));
		assert_null(resource_find(r, ""));
	}
	assert_null(offer_find(o, "nvidia.com/none"));
}

static void expect_offer(int line, const struct inventory *inv, const struct config *c,
	const char *devices, const char *note)
{
	struct offer *o = fixture_offer(inv, c);
	char text[4096];

	offer_text(o, text, sizeof(text));
	if (strcmp(text, devices) != 0)
		fail_msg("line %d: %s", line, text);
	if ((note == NULL) != (o->notes.n == 0))
		fail_msg("line %d: %zu notes, first '%s'", line, o->notes.n,
			o->notes.n ? o->notes.v[0] : "");
	if (note && strcmp(o->notes.v[0], note) != 0)
		fail_msg("line %d: note '%s'", line, o->notes.v[0]);
	check_offer(o, inv);
	offer_free(o);
}

#define EXPECT(inv, c, devices, note) expect_offer(__LINE__, inv, c, devices, note)

/* One case: a node of @n GPUs and a configuration, both called so in the statements. */
#define CASE(n_gpus, devices, note, ...)                           \
	do {                                                       \
		struct inventory *inv = fixture_inventory(n_gpus); \
		struct config *c = fixture_config();               \
		__VA_ARGS__;                                       \
		EXPECT(inv, c, devices, note);                     \
		config_free(c);                                    \
		inventory_free(inv);                               \
	} while (0)

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void offer_new__shares_and_renames(void **state)
{
	(void)state;
	CASE(0, "", NULL, (void)0);
	CASE(2, "gpu=0 1", NULL, (void)0);
	CASE(2, "gpu=0::0 0::1 1::0 1::1", NULL, fixture_share(c, GPU, NULL, 2, NULL));
	CASE(1, "gpu.shared=0::0 0::1", NULL, fixture_share(c, GPU, NULL, 2, NULL);
		SLICING(c).rename_by_default = true);
	CASE(1, "part=0::0 0::1", NULL, fixture_share(c, GPU, "nvidia.com/part", 2, NULL));
	CASE(1, "part=0::0 0::1", NULL, fixture_share(c, GPU, "nvidia.com/part", 2, NULL);
		SLICING(c).rename_by_default = true);
	CASE(1, "gpu=0::0", NULL, fixture_share_by(c, SHARING_MPS, GPU, NULL, 1, NULL));
	/* each kind has its own setting */
	CASE(2, "gpu=0::0 0::1; gpu.shared=1::0 1::1 1::2", NULL,
		fixture_share(c, GPU, NULL, 2, LIST("0"));
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 3, LIST("1"));
		MPS(c).rename_by_default = true);
}

static void offer_new__follows_device_lists(void **state)
{
	(void)state;
	CASE(3, "gpu=0::0 0::1 1::0 1::1 2", NULL,
		struct replicated *e = fixture_share(c, GPU, NULL, 2, NULL);
		e->devices = DEVICES_COUNT; e->count = 2);
	CASE(3, "gpu=1 2; part=0::0 0::1", NULL,
		struct replicated *e = fixture_share(c, GPU, "nvidia.com/part", 2, NULL);
		e->devices = DEVICES_COUNT; e->count = 1);
	CASE(2, "gpu=0::0 0::1 1::0 1::1",
		"sharing of 'nvidia.com/gpu': requested 4 devices to be replicated, but only 2 "
		"devices available",
		struct replicated *e = fixture_share(c, GPU, NULL, 2, NULL);
		e->devices = DEVICES_COUNT; e->count = 4);
	CASE(3, "gpu=0 1 2::0 2::1", NULL, fixture_share(c, GPU, NULL, 2, LIST("GPU-2")));
	CASE(3, "gpu=0::0 0::1 1 2::0 2::1", NULL,
		fixture_share(c, GPU, NULL, 2, LIST("2", "GPU-0", "2")));
	CASE(2, "gpu=0 1::0 1::1",
		"sharing of 'nvidia.com/gpu' (line 7): no matching device with UUID: GPU-9",
		fixture_share(c, GPU, NULL, 2, LIST("GPU-9", "1"))->pos.line = 7);
	CASE(2, "gpu=0 1", "sharing of 'nvidia.com/gpu': no matching device at index: 5",
		fixture_share(c, GPU, NULL, 2, LIST("5")));
	CASE(1, "gpu=0", "sharing of 'nvidia.com/gpu': no matching device at index: 0:0",
		fixture_share(c, GPU, NULL, 2, LIST("0:0")));
	CASE(1, "gpu=0", "sharing of 'nvidia.com/gpu': no matching device with UUID: MIG-x",
		fixture_share(c, GPU, NULL, 2, LIST("MIG-x")));
	CASE(1, "gpu=0", NULL, fixture_share(c, GPU, NULL, 2, NULL)->devices = DEVICES_LIST);
	CASE(1, "gpu=0", "sharing of 'nvidia.com/mig-1g.5gb': this node has no such device",
		fixture_share(c, "nvidia.com/mig-1g.5gb", NULL, 2, NULL));
}

static void offer_new__applies_several_entries(void **state)
{
	(void)state;
	/* the same name: the greater count wins, in both orders */
	CASE(1, "gpu=0::0 0::1 0::2", NULL, fixture_share(c, GPU, NULL, 2, NULL);
		fixture_share(c, GPU, NULL, 3, NULL));
	CASE(1, "gpu=0::0 0::1 0::2", NULL, fixture_share(c, GPU, NULL, 3, NULL);
		fixture_share(c, GPU, NULL, 2, NULL));
	/* several policies on one node: a GPU that an entry names is not in the plain resource */
	CASE(3, "a=0::0 0::1; b=1::0 1::1 1::2; gpu=2", NULL,
		fixture_share(c, GPU, "nvidia.com/a", 2, LIST("0"));
		fixture_share(c, GPU, "nvidia.com/b", 3, LIST("1")));
	CASE(2, "gpu=0::0 0::1 1::0 1::1 1::2", NULL, fixture_share(c, GPU, NULL, 2, NULL);
		fixture_share(c, GPU, NULL, 3, LIST("1")));
	CASE(1, "a=0::0 0::1; b=0::0 0::1",
		"sharing of 'nvidia.com/gpu': GPU 0 is offered twice, as 'nvidia.com/a' and as "
		"'nvidia.com/b'",
		fixture_share(c, GPU, "nvidia.com/a", 2, NULL);
		fixture_share(c, GPU, "nvidia.com/b", 2, NULL));
	/* entries see the original devices, not each other's */
	CASE(1, "a=0::0 0::1", "sharing of 'nvidia.com/a': this node has no such device",
		fixture_share(c, GPU, "nvidia.com/a", 2, NULL);
		fixture_share(c, "nvidia.com/a", NULL, 4, NULL));
}

static void offer_new__follows_patterns(void **state)
{
	(void)state;
	CASE(2, "gpu=0; v100=1", NULL, fixture_pattern(c, "*V100*", "nvidia.com/v100");
		(void)snprintf(inv->gpus[1].name, GPU_NAME_MAX, "Tesla V100-SXM2-16GB"));
	CASE(1, "t=0", NULL, fixture_pattern(c, "Tesla*", "nvidia.com/t");
		fixture_pattern(c, "*", "nvidia.com/rest"));
	CASE(2, "rest=0::0 0::1; t=1", NULL, fixture_pattern(c, "Tesla*", "nvidia.com/t");
		fixture_pattern(c, "*", "nvidia.com/rest");
		fixture_share(c, "nvidia.com/rest", NULL, 2, NULL);
		(void)snprintf(inv->gpus[0].name, GPU_NAME_MAX, "NVIDIA A10G"));
	/* the index in a list is NVML's, and only counts within the resource */
	CASE(2, "rest=0; t=1", "sharing of 'nvidia.com/t': no matching device at index: 0",
		fixture_pattern(c, "Tesla*", "nvidia.com/t");
		fixture_pattern(c, "*", "nvidia.com/rest");
		fixture_share(c, "nvidia.com/t", NULL, 2, LIST("0"));
		(void)snprintf(inv->gpus[0].name, GPU_NAME_MAX, "NVIDIA A10G"));
}

static void offer_new__omits_devices_that_cannot_be_offered(void **state)
{
	(void)state;
	CASE(2, "gpu=1", "GPU 0: not offered, its UUID is unknown: GPU is lost",
		inv->gpus[0].uuid[0] = '\0';
		(void)snprintf(inv->gpus[0].reason, GPU_REASON_MAX, "GPU is lost"));
	/* a fault alone does not remove the GPU: health decides the rest */
	CASE(2, "gpu=0 1", NULL, inv->gpus[0].fault = GPU_FAULT_LOST);
	CASE(2, "gpu=0 1", NULL, inv->gpus[0].mig_enabled = true);
	CASE(3, "gpu=2", NULL, (void)snprintf(inv->gpus[0].name, GPU_NAME_MAX, "DGX Display");
		(void)snprintf(inv->gpus[1].name, GPU_NAME_MAX, "NVIDIA DGX Display"));
	CASE(2, "gpu=0", "GPU 0 (GPU-0): not offered, another GPU has the same UUID",
		(void)snprintf(inv->gpus[1].uuid, GPU_UUID_MAX, "GPU-0"));
	/* the index of a missing GPU belongs to the GPU that has it now */
	CASE(2, "gpu=0 1::0 1::1", NULL, inv->gpus[0].fault = GPU_FAULT_GONE;
		inv->gpus[1].index = 0; fixture_share(c, GPU, NULL, 2, LIST("0")));
}

/* MPS has precedence on each device, in any order of the file. */
static void offer_new__time_slices_devices_that_mps_omits(void **state)
{
	(void)state;
	CASE(3, "gpu=0::0 0::1 1::0 1::1 1::2 1::3 2", NULL,
		fixture_share(c, GPU, NULL, 4, LIST("1"));
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, LIST("0")));
	CASE(3, "gpu=0::0 0::1 1::0 1::1 1::2 1::3 2::0 2::1 2::2 2::3",
		"sharing of 'nvidia.com/gpu' (line 9): GPU 0 is shared by sharing.mps, and not "
		"time-sliced too",
		fixture_share(c, GPU, NULL, 4, NULL)->pos.line = 9;
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, LIST("GPU-0")));
	/* the greater number does not count here, nor another name */
	CASE(3, "gpu=2::0 2::1 2::2; mps=0::0 0::1 1::0 1::1",
		"sharing of 'nvidia.com/gpu': GPU 0 and 1 more are shared by sharing.mps, and not "
		"time-sliced too",
		fixture_share(c, GPU, NULL, 3, NULL);
		fixture_share_by(c, SHARING_MPS, GPU, "nvidia.com/mps", 2, LIST("0", "1")));
	/* a count is of those that are left */
	CASE(4, "gpu=0::0 0::1 1::0 1::1 1::2 2::0 2::1 2::2 3", NULL,
		struct replicated *e = fixture_share(c, GPU, NULL, 3, NULL);
		e->devices = DEVICES_COUNT; e->count = 2;
		e = fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, NULL);
		e->devices = DEVICES_COUNT; e->count = 1);
	CASE(2, "gpu=0::0 0::1 1::0 1::1 1::2",
		"sharing of 'nvidia.com/gpu': requested 2 devices to be replicated, but only 1 "
		"devices available",
		struct replicated *e = fixture_share(c, GPU, NULL, 3, NULL);
		e->devices = DEVICES_COUNT; e->count = 2;
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, LIST("0")));
	/* of what the reader of the config has warned there is no note */
	CASE(1, "gpu=0::0 0::1", NULL, fixture_share(c, GPU, NULL, 4, NULL);
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, NULL));
	CASE(1, "gpu=0::0 0::1", NULL, fixture_share(c, GPU, NULL, 4, LIST("0"));
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, NULL));
	CASE(1, "gpu=0::0 0::1", NULL,
		struct replicated *e = fixture_share(c, GPU, NULL, 4, NULL);
		e->devices = DEVICES_COUNT; e->count = 1;
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, NULL));
	/* two entries of MPS are as two others */
	CASE(1, "gpu=0::0 0::1 0::2", NULL,
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 3, NULL);
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, NULL));
	/* slices stay slices */
	CASE(1, "gpu.a=0::gpu.a::0",
		"sharing of 'nvidia.com/gpu': GPU 0 is cut into slices, and is left so",
		fixture_profile(fixture_add_slices(c, GPU, NULL), "nvidia.com/gpu.a", 1, 0);
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, LIST("0")));
}

/* One resource of three kinds of devices: each has its own sharing. */
static void offer_new__reports_the_kind_of_each_device(void **state)
{
	struct inventory *inv = fixture_inventory(3);
	struct config *c = fixture_config();
	const struct offer_share *s;
	struct resource *r;
	struct offer *o;

	(void)state;
	fixture_share(c, GPU, NULL, 4, LIST("0"));
	fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, LIST("1"));
	o = fixture_offer(inv, c);
	r = &o->resources[0];
	assert_int_equal(r->strategy, SHARING_MPS);
	assert_int_equal(r->replicas, 4);
	s = resource_share(r, resource_find(r, "GPU-0::3"));
	assert_int_equal(s->strategy, SHARING_TIME_SLICING);
	assert_false(s->fail_requests_greater_than_one);
	assert_int_equal(s->replicas, 4);
	s = resource_share(r, resource_find(r, "GPU-1::1"));
	assert_int_equal(s->strategy, SHARING_MPS);
	assert_true(s->fail_requests_greater_than_one);
	assert_int_equal(s->replicas, 2);
	assert_null(resource_share(r, resource_find(r, "GPU-2")));
	offer_free(o);
	/* the same the other way round */
	c->sharing.entries[0].list.v[0][0] = '0';
	c->sharing.entries[1].list.v[0][0] = '1';
	o = fixture_offer(inv, c);
	assert_int_equal(o->resources[0].strategy, SHARING_MPS);
	offer_free(o);
	config_free(c);
	inventory_free(inv);
}

static void offer_new__describes_each_resource(void **state)
{
	struct inventory *inv = fixture_inventory(3);
	struct config *c = fixture_config();
	const struct resource *r;
	struct offer *o;

	(void)state;
	fixture_share(c, GPU, "nvidia.com/part", 4, LIST("0"));
	SLICING(c).fail_requests_greater_than_one = true;
	o = fixture_offer(inv, c);
	r = offer_find(o, "nvidia.com/part");
	assert_string_equal(r->original, GPU);
	assert_int_equal(r->strategy, SHARING_TIME_SLICING);
	assert_int_equal(r->replicas, 4);
	assert_true(resource_share(r, &r->devices[0])->fail_requests_greater_than_one);
	assert_int_equal(resource_share(r, &r->devices[0])->strategy, SHARING_TIME_SLICING);
	r = offer_find(o, GPU);
	assert_string_equal(r->original, GPU);
	assert_int_equal(r->strategy, SHARING_NONE);
	assert_int_equal(r->replicas, 1);
	assert_null(resource_share(r, &r->devices[0]));
	offer_free(o);
	config_free(c);
	inventory_free(inv);
	assert_null(offer_free(NULL));
}

static void offer_new__has_limits(void **state)
{
	struct inventory *inv = fixture_inventory(8);
	struct error err = ERROR_INIT;
	struct offer *o = NULL;
	struct replicated *e;
	struct config *c;

	(void)state;
	c = fixture_config();
	fixture_share(c, GPU, NULL, OFFER_DEVICES_MAX / 8, NULL);
	assert_ok(offer_new(&o, inv, c, &err), &err);
	assert_int_equal(o->resources[0].n_devices, OFFER_DEVICES_MAX);
	o = offer_free(o);
	c->sharing.entries[0].replicas++;
	assert_error(offer_new(&o, inv, c, &err), &err,
		"resource 'nvidia.com/gpu': 40008 devices make more than 40000 on this node");
	assert_int_equal(err.code, ERR_LIMIT);
	/* the limit is of the node, not of each resource */
	fixture_pattern(c, "NVIDIA*", "nvidia.com/rest");
	fixture_share(c, "nvidia.com/rest", NULL, OFFER_DEVICES_MAX / 2 + 2, NULL);
	(void)snprintf(inv->gpus[7].name, GPU_NAME_MAX, "NVIDIA A10G");
	c->sharing.entries[0].replicas = OFFER_DEVICES_MAX / 14;
	assert_error(offer_new(&o, inv, c, &err), &err, "more than 40000");
	c->sharing.entries[0].replicas = UINT32_MAX;
	assert_error(offer_new(&o, inv, c, &err), &err, "more than 40000");
	assert_null(o);
	c = config_free(c);
	c = fixture_config();
	e = fixture_share(c, GPU, NULL, 2, NULL);
	memset(e->name, 'x', RESOURCE_NAME_MAX - 1);
	SLICING(c).rename_by_default = true;
	assert_error(offer_new(&o, inv, c, &err), &err, "longer than 79 bytes");
	config_free(c);
	inventory_free(inv);
}

/* What the reader of a config cannot know: that an index and a UUID are one GPU. */
static void offer_new__warns_of_replicas_without_the_scheduler(void **state)
{
	struct inventory *inv = fixture_inventory(3);
	struct config *c = fixture_config();
	struct replicated *e;
	struct offer *o;

	(void)state;
	e = fixture_share(c, GPU, "nvidia.com/a", 2, LIST("0", "1"));
	e->isolation.compute = ISOLATION_COMPUTE_FAIR;
	e = fixture_share(c, GPU, "nvidia.com/b", 2, LIST("GPU-1", "2"));
	e->pos.line = 7;
	o = fixture_offer(inv, c);
	assert_int_equal(o->warnings.n, 1);
	assert_string_equal(o->warnings.v[0],
		"sharing of 'nvidia.com/gpu' (line 7): without isolation.compute who has "
		"nvidia.com/b takes no turns on GPU 1, and takes it from those that do");
	o = offer_free(o);
	/* The order of the two entries does not matter. */
	c->sharing.entries[0].isolation.compute = ISOLATION_COMPUTE_NONE;
	c->sharing.entries[1].isolation.compute = ISOLATION_COMPUTE_CAPPED;
	o = fixture_offer(inv, c);
	assert_int_equal(o->warnings.n, 1);
	assert_non_null(
		strstr(o->warnings.v[0], "who has nvidia.com/a takes no turns on GPU 1"));
	o = offer_free(o);
	/* Under MPS there are no quanta. */
	fixture_strategy(c, SHARING_MPS);
	o = fixture_offer(inv, c);
	assert_int_equal(o->warnings.n, 0);
	o = offer_free(o);
	fixture_strategy(c, SHARING_TIME_SLICING);
	/* Both entries have quanta, or the entries are on different GPUs: no warning. */
	c->sharing.entries[0].isolation.compute = ISOLATION_COMPUTE_FAIR;
	o = fixture_offer(inv, c);
	assert_int_equal(o->warnings.n, 0);
	o = offer_free(o);
	c->sharing.entries[0].isolation.compute = ISOLATION_COMPUTE_NONE;
	(void)snprintf(c->sharing.entries[1].list.v[0], sizeof("GPU-2"), "GPU-2");
	o = fixture_offer(inv, c);
	assert_int_equal(o->warnings.n, 0);
	offer_free(o);
	config_free(c);
	inventory_free(inv);
}

static void offer_new__names_the_line_that_exceeds_a_limit(void **state)
{
	struct inventory *inv = fixture_inventory(2);
	struct config *c = fixture_config();
	struct error err = ERROR_INIT;
	struct offer *o = NULL;

	(void)state;
	fixture_share(c, GPU, NULL, 2, LIST("0"))->pos.line = 5;
	fixture_share(c, GPU, NULL, OFFER_DEVICES_MAX, LIST("1"))->pos.line = 7;
	fixture_share(c, GPU, "nvidia.com/a", 2, LIST("0"))->pos.line = 9;
	assert_error(offer_new(&o, inv, c, &err), &err,
		"resource 'nvidia.com/gpu' (line 7): 40002 devices make more than 40000 on this "
		"node");
	c = config_free(c);
	c = fixture_config();
	(void)fixture_profile(fixture_add_slices(c, GPU, NULL), "nvidia.com/x",
		OFFER_DEVICES_MAX, 0);
	assert_error(offer_new(&o, inv, c, &err), &err,
		"resource 'nvidia.com/x' (line 11): 80000 devices make more than 40000 on this "
		"node");
	assert_null(o);
	config_free(c);
	inventory_free(inv);
}

/* Whether two devices are shared alike. Ignores isolation, which belongs to the slice. */
static bool is_same_share(const struct offer_share *x, const struct offer_share *y)
{
	if (!x || !y)
		return !x == !y;
	return x->strategy == y->strategy &&
	       x->fail_requests_greater_than_one == y->fail_requests_greater_than_one;
}

/* The two resources have the same devices, with the same positions in the inventory. */
static void expect_same_resource(const struct resource *a, const struct resource *b)
{
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->original, b->original);
	assert_int_equal(a->strategy, b->strategy);
	assert_int_equal(a->replicas, b->replicas);
	assert_int_equal(a->n_devices, b->n_devices);
	for (uint32_t i = 0; i < a->n_devices; i++) {
		const struct offer_device *x = &a->devices[i], *y = &b->devices[i];

		assert_string_equal(x->id, y->id);
		assert_int_equal(x->gpu, y->gpu);
		assert_int_equal(x->mig, y->mig);
		assert_int_equal(x->replica, y->replica);
		assert_int_equal(!x->why, !y->why);
		assert_true(is_same_share(resource_share(a, x), resource_share(b, y)));
	}
}

/* The number of kinds of sharing by which a GPU is offered. */
static unsigned n_kinds(const struct offer *o, uint32_t gpu)
{
	unsigned kinds = 0;

	for (uint32_t i = 0; i < o->n; i++)
		for (uint32_t k = 0; k < o->resources[i].n_devices; k++) {
			const struct offer_device *d = &o->resources[i].devices[k];
			const struct offer_share *s = resource_share(&o->resources[i], d);

			if (d->gpu == gpu && s)
				kinds |= 1U << s->strategy;
		}
	return (unsigned)__builtin_popcount(kinds);
}

/* The device list that the kubelet gets must be the same for the same node, always. */
static void offer_new__keeps_its_invariants(void **state)
{
	static const char *const names[] = { GPU, "nvidia.com/a", "nvidia.com/b" };
	uint64_t seed = 11;

	(void)state;
	for (int round = 0; round < 1000; round++) {
		uint32_t n = fixture_random(&seed) % 9;
		struct inventory *inv = fixture_inventory(n);
		struct config *c = fixture_config();
		struct offer *o, *again;
		uint32_t entries = fixture_random(&seed) % 4, plain = 0, covered = 0;

		if (fixture_random(&seed) % 2)
			fixture_pattern(c, "Tesla*", names[fixture_random(&seed) % 3]);
		SLICING(c).rename_by_default = fixture_random(&seed) % 2;
		for (uint32_t k = 0; k < entries; k++) {
			struct replicated *e = fixture_share_by(c,
				fixture_random(&seed) % 2 ? SHARING_MPS : SHARING_TIME_SLICING,
				names[fixture_random(&seed) % 3],
				fixture_random(&seed) % 2 ? NULL
							  : names[fixture_random(&seed) % 3],
				2 + fixture_random(&seed) % 5, NULL);

			if (fixture_random(&seed) % 2) {
				e->devices = DEVICES_COUNT;
				e->count = 1 + fixture_random(&seed) % 9;
			}
		}
		for (uint32_t i = 0; i < n; i++)
			if (fixture_random(&seed) % 4 == 0)
				(void)snprintf(inv->gpus[i].name, GPU_NAME_MAX, "NVIDIA A10G");
		o = fixture_offer(inv, c);
		again = fixture_offer(inv, c);
		check_offer(o, inv);
		assert_int_equal(o->n, again->n);
		for (uint32_t i = 0; i < o->n; i++)
			expect_same_resource(&o->resources[i], &again->resources[i]);
		/* no GPU is lost, and none is offered both whole and shared */
		for (uint32_t g = 0; g < n; g++) {
			uint32_t whole = 0, shared = 0;

			for (uint32_t i = 0; i < o->n; i++) {
				const struct resource *r = &o->resources[i];

				for (uint32_t k = 0; k < r->n_devices; k++) {
					bool replica = device_id_is_replica(r->devices[k].id);

					whole += r->devices[k].gpu == g && !replica;
					shared += r->devices[k].gpu == g && replica;
				}
			}
			assert_true(whole == 1 ? shared == 0 : whole == 0 && shared > 0);
			assert_int_equal(n_kinds(o, g), whole ? 0 : 1);
			plain += whole;
			covered++;
		}
		assert_int_equal(covered, n);
		if (!entries)
			assert_int_equal(plain, n);
		offer_free(o);
		offer_free(again);
		config_free(c);
		inventory_free(inv);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pattern_match__vectors),
		cmocka_unit_test(device_id__vectors),
		cmocka_unit_test(offer_new__shares_and_renames),
		cmocka_unit_test(offer_new__follows_device_lists),
		cmocka_unit_test(offer_new__applies_several_entries),
		cmocka_unit_test(offer_new__follows_patterns),
		cmocka_unit_test(offer_new__omits_devices_that_cannot_be_offered),
		cmocka_unit_test(offer_new__time_slices_devices_that_mps_omits),
		cmocka_unit_test(offer_new__reports_the_kind_of_each_device),
		cmocka_unit_test(offer_new__describes_each_resource),
		cmocka_unit_test(offer_new__has_limits),
		cmocka_unit_test(offer_new__warns_of_replicas_without_the_scheduler),
		cmocka_unit_test(offer_new__names_the_line_that_exceeds_a_limit),
		cmocka_unit_test(offer_new__keeps_its_invariants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
