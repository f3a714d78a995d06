/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

/* MIG strategies: the offer, and reasons against it. */

#define NONE   MIG_STRATEGY_NONE
#define SINGLE MIG_STRATEGY_SINGLE
#define MIXED  MIG_STRATEGY_MIXED
#define GPU    "nvidia.com/gpu"
#define MIG_1G "nvidia.com/mig-1g.5gb"
#define MIG_3G "nvidia.com/mig-3g.20gb"

/*
 * "gpu=GPU-0 MIG-1-0! ...; mig-1g.5gb=..." without "nvidia.com/"; "!" marks unhealthy devices.
 * Its reason must be a note about that GPU.
 */
static void offer_text(const struct offer *o, const struct inventory *inv, char *ret,
	size_t cap)
{
	size_t len = 0;

	ret[0] = '\0';
	for (uint32_t i = 0; i < o->n; i++) {
		const struct resource *r = &o->resources[i];

		len += (size_t)snprintf(ret + len, cap - len, "%s%s=", i ? "; " : "",
			r->name + strlen("nvidia.com/"));
		for (uint32_t k = 0; k < r->n_devices && len < cap; k++) {
			const struct offer_device *d = &r->devices[k];
			char about[32];

			len += (size_t)snprintf(ret + len, cap - len, "%s%s%s", k ? " " : "",
				d->id, d->why ? "!" : "");
			(void)snprintf(about, sizeof(about), "GPU %u (",
				inv->gpus[d->gpu].index);
			assert_true(d->why <= o->notes.n);
			if (d->why)
				assert_non_null(strstr(o->notes.v[d->why - 1], about));
		}
	}
}

static void check_mig_offer(const struct offer *o, const struct inventory *inv)
{
	for (uint32_t i = 0; i < o->n; i++) {
		const struct resource *r = &o->resources[i];

		for (uint32_t k = 0; k < r->n_devices; k++) {
			const struct offer_device *d = &r->devices[k];
			const char *uuid = d->mig == OFFER_WHOLE ? inv->gpus[d->gpu].uuid
								 : inv->mig[d->mig].uuid;

			assert_ptr_equal(resource_find(r, d->id), d);
			assert_int_equal(device_id_physical_len(d->id), strlen(uuid));
			assert_memory_equal(d->id, uuid, strlen(uuid));
			if (d->mig != OFFER_WHOLE)
				assert_int_equal(inv->mig[d->mig].gpu, d->gpu);
		}
	}
}

static void expect_mig_offer(int line, const struct inventory *inv, const struct config *c,
	const char *devices, const char *note)
{
	struct offer *o = fixture_offer(inv, c);
	char text[8192];

	offer_text(o, inv, text, sizeof(text));
	if (strcmp(text, devices) != 0)
		fail_msg("line %d: %s", line, text);
	if ((note == NULL) != (o->notes.n == 0))
		fail_msg("line %d: %zu notes, first '%s'", line, o->notes.n,
			o->notes.n ? o->notes.v[0] : "");
	if (note && strcmp(o->notes.v[0], note) != 0)
		fail_msg("line %d: note '%s'", line, o->notes.v[0]);
	check_mig_offer(o, inv);
	offer_free(o);
}

/* One case: a node of @n GPUs and a configuration, both called so in the statements. */
#define CASE(n_gpus, strategy, devices, note, ...)                 \
	do {                                                       \
		struct inventory *inv = fixture_inventory(n_gpus); \
		struct config *c = fixture_config();               \
		c->mig_strategy = strategy;                        \
		__VA_ARGS__;                                       \
		expect_mig_offer(__LINE__, inv, c, devices, note); \
		config_free(c);                                    \
		inventory_free(inv);                               \
	} while (0)

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void mig_pattern(struct config *c, const char *pattern, const char *name)
{
	struct resource_pattern *p;

	c->mig_patterns = realloc(c->mig_patterns, (c->n_mig_patterns + 1) * sizeof(*p));
	assert_non_null(c->mig_patterns);
	p = &c->mig_patterns[c->n_mig_patterns++];
	*p = (struct resource_pattern){ .pattern = strdup(pattern) };
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
}

static void add_small_device(struct inventory *inv, uint32_t gpu)
{
	(void)fixture_mig(inv, gpu, 1, 1, 5);
}

static void large(struct inventory *inv, uint32_t gpu)
{
	(void)fixture_mig(inv, gpu, 3, 3, 20);
}

/* Every row of 7.1, for each strategy. */
static void offer_new__follows_the_strategy(void **state)
{
	static const enum mig_strategy all[] = { NONE, SINGLE, MIXED };

	(void)state;
	/* no GPU with MIG on */
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		CASE(2, all[i], "gpu=GPU-0 GPU-1", NULL, inv->gpus[1].mig_capable = true);
		/* all with MIG on, one profile */
#define ONE add_small_device(inv, 0), add_small_device(inv, 0), add_small_device(inv, 1)
	CASE(2, NONE, "gpu=GPU-0 GPU-1", NULL, ONE);
	CASE(2, SINGLE, "gpu=MIG-0-0 MIG-0-1 MIG-1-0", NULL, ONE);
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-0-1 MIG-1-0", NULL, ONE);
	/* all with MIG on, several profiles */
#define SEVERAL add_small_device(inv, 0), large(inv, 0), add_small_device(inv, 1)
	CASE(2, NONE, "gpu=GPU-0 GPU-1", NULL, SEVERAL);
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-1-0; mig-3g.20gb=MIG-0-1", NULL, SEVERAL);
	CASE(2, SINGLE, "gpu=MIG-0-0 MIG-0-1! MIG-1-0",
		"GPU 0 (GPU-0): its MIG devices '3g.20gb' (42 SMs, 20480 MiB) are unhealthy, with "
		"strategy single 'nvidia.com/gpu' is one type of MIG device, and most are '1g.5gb' "
		"(14 SMs, 5120 MiB)",
		SEVERAL);
	/* some with MIG on */
	CASE(2, NONE, "gpu=GPU-0 GPU-1", NULL, add_small_device(inv, 1));
	CASE(2, MIXED, "gpu=GPU-0; mig-1g.5gb=MIG-1-0", NULL, add_small_device(inv, 1));
	CASE(2, SINGLE, "gpu=GPU-0! MIG-1-0",
		"GPU 0 (GPU-0): unhealthy, MIG is off there, and with strategy single "
		"'nvidia.com/gpu' is the MIG devices '1g.5gb' of this node",
		add_small_device(inv, 1));
	/* one with MIG on and no MIG device */
#define EMPTY add_small_device(inv, 0), inv->gpus[1].mig_enabled = true
	CASE(2, NONE, "gpu=GPU-0 GPU-1", NULL, EMPTY);
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0",
		"GPU 1 (GPU-1): not offered, MIG is on and there are no MIG devices", EMPTY);
	CASE(2, SINGLE, "gpu=MIG-0-0 GPU-1!",
		"GPU 1 (GPU-1): unhealthy, MIG is on and there are no MIG devices", EMPTY);
	/* compute instances smaller than their GPU instance */
#define PART fixture_mig(inv, 0, 1, 2, 10), add_small_device(inv, 1)
	CASE(2, NONE, "gpu=GPU-0 GPU-1", NULL, PART);
	CASE(1, SINGLE, "gpu=MIG-0-0 MIG-0-1", NULL, fixture_mig(inv, 0, 1, 2, 10),
		fixture_mig(inv, 0, 1, 2, 10));
	CASE(2, MIXED, "mig-1g.5gb=MIG-1-0",
		"GPU 0 (GPU-0): its MIG devices '1c.2g.10gb' are not offered, no resource pattern "
		"matches the profile",
		PART);
}

/* p4d.24xlarge as in the user's story. */
static void offer_new__counts_mig_devices_of_eight_gpus(void **state)
{
	struct inventory *inv = fixture_inventory(8);
	struct config *c = fixture_config();
	struct offer *o;

	(void)state;
	for (uint32_t i = 0; i < 56; i++)
		add_small_device(inv, i / 7);
	c->mig_strategy = SINGLE;
	o = fixture_offer(inv, c);
	assert_int_equal(o->n, 1);
	assert_string_equal(o->resources[0].name, GPU);
	assert_int_equal(o->resources[0].n_devices, 56);
	o = offer_free(o);
	c->mig_strategy = MIXED;
	o = fixture_offer(inv, c);
	assert_int_equal(o->n, 1);
	assert_int_equal(offer_find(o, MIG_1G)->n_devices, 56);
	o = offer_free(o);
	inv->n_mig = 0;
	for (uint32_t i = 0; i < 8; i++) {
		add_small_device(inv, i);
		add_small_device(inv, i);
		(void)fixture_mig(inv, i, 2, 2, 10);
		large(inv, i);
	}
	o = fixture_offer(inv, c);
	assert_int_equal(o->n, 3);
	assert_int_equal(offer_find(o, MIG_1G)->n_devices, 16);
	assert_int_equal(offer_find(o, "nvidia.com/mig-2g.10gb")->n_devices, 8);
	assert_int_equal(offer_find(o, MIG_3G)->n_devices, 8);
	offer_free(o);
	config_free(c);
	inventory_free(inv);
}

/* The agent serves the rest of the node where NVIDIA's plugin ends (7.2). */
static void offer_new__single_serves_the_greatest_number(void **state)
{
	(void)state;
	/* not the first, not the largest: those of which there are most */
	CASE(2, SINGLE, "gpu=MIG-0-0! MIG-1-0 MIG-1-1",
		"GPU 0 (GPU-0): its MIG devices '3g.20gb' (42 SMs, 20480 MiB) are unhealthy, with "
		"strategy single 'nvidia.com/gpu' is one type of MIG device, and most are '1g.5gb' "
		"(14 SMs, 5120 MiB)",
		large(inv, 0);
		add_small_device(inv, 1); add_small_device(inv, 1));
	/* of equal numbers the one with the lowest index */
	CASE(2, SINGLE, "gpu=MIG-0-0 MIG-1-0!",
		"GPU 1 (GPU-1): its MIG devices '1g.5gb' (14 SMs, 5120 MiB) are unhealthy, with "
		"strategy single 'nvidia.com/gpu' is one type of MIG device, and most are '3g.20gb' "
		"(42 SMs, 20480 MiB)",
		large(inv, 0);
		add_small_device(inv, 1));
	/* the type is all attributes, not the name of the profile */
	CASE(1, SINGLE, "gpu=MIG-0-0 MIG-0-1!",
		"GPU 0 (GPU-0): its MIG devices '1g.5gb' (14 SMs, 5120 MiB) are unhealthy, with "
		"strategy single 'nvidia.com/gpu' is one type of MIG device, and most are '1g.5gb' "
		"(14 SMs, 5120 MiB)",
		add_small_device(inv, 0);
		fixture_mig(inv, 0, 1, 1, 5)->jpeg = 1);
	/* ... and the same attributes under two names are one type */
	CASE(1, SINGLE, "gpu=MIG-0-0 MIG-0-1", NULL, add_small_device(inv, 0);
		add_small_device(inv, 0);
		(void)snprintf(inv->mig[1].profile, sizeof(inv->mig[1].profile), "1g.6gb"));
	/* without any MIG device the whole GPUs serve */
	CASE(2, SINGLE, "gpu=GPU-0! GPU-1",
		"GPU 0 (GPU-0): unhealthy, MIG is on and there are no MIG devices",
		inv->gpus[0].mig_enabled = true);
	CASE(1, SINGLE, "gpu=GPU-0!",
		"GPU 0 (GPU-0): unhealthy, MIG is on and its MIG devices are not known: GPU is lost",
		inv->gpus[0].mig_enabled = true;
		inv->gpus[0].fault = GPU_FAULT_LOST;
		(void)snprintf(inv->gpus[0].reason, GPU_REASON_MAX, "GPU is lost"));
	/* a note for each GPU and type, not for each device */
	CASE(2, SINGLE, "gpu=MIG-0-0! MIG-0-1! MIG-1-0 MIG-1-1 MIG-1-2",
		"GPU 0 (GPU-0): its MIG devices '3g.20gb' (42 SMs, 20480 MiB) are unhealthy, with "
		"strategy single 'nvidia.com/gpu' is one type of MIG device, and most are '1g.5gb' "
		"(14 SMs, 5120 MiB)",
		large(inv, 0);
		large(inv, 0); add_small_device(inv, 1); add_small_device(inv, 1);
		add_small_device(inv, 1));
	/* a resource of its own settles it: types are counted in each */
	CASE(2, SINGLE, "big=MIG-0-0; gpu=MIG-1-0", NULL, large(inv, 0);
		add_small_device(inv, 1); mig_pattern(c, "3g.*", "nvidia.com/big"));
	CASE(2, SINGLE, "gpu=MIG-1-0; t4=GPU-0", NULL, add_small_device(inv, 1);
		fixture_pattern(c, "Tesla*", "nvidia.com/t4"));
}

static void offer_new__single_attributes(void **state)
{
	static const size_t at[] = { offsetof(struct gpu_mig, multiprocessors),
		offsetof(struct gpu_mig, gi_slices), offsetof(struct gpu_mig, ci_slices),
		offsetof(struct gpu_mig, copy), offsetof(struct gpu_mig, decoder),
		offsetof(struct gpu_mig, encoder), offsetof(struct gpu_mig, jpeg),
		offsetof(struct gpu_mig, ofa), offsetof(struct gpu_mig, memory_mib) };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		struct inventory *inv = fixture_inventory(1);
		struct config *c = fixture_config();
		struct offer *o;

		c->mig_strategy = SINGLE;
		add_small_device(inv, 0);
		add_small_device(inv, 0);
		((uint8_t *)&inv->mig[1])[at[i]]++;
		o = fixture_offer(inv, c);
		assert_int_equal(o->resources[0].devices[0].why, 0);
		assert_int_equal(o->resources[0].devices[1].why, 1);
		offer_free(o);
		config_free(c);
		inventory_free(inv);
	}
}

static void offer_new__names_profiles(void **state)
{
	(void)state;
	CASE(1, MIXED, "mig-1g.10gb.me=MIG-0-0", NULL, add_small_device(inv, 0);
		(void)snprintf(inv->mig[0].profile, 32, "1g.10gb+me"));
	CASE(1, MIXED, "mig-1g.24gb.me.all=MIG-0-0", NULL, add_small_device(inv, 0);
		(void)snprintf(inv->mig[0].profile, 32, "1g.24gb+me.all"));
	CASE(1, MIXED, "mig-1g.24gb-me=MIG-0-0", NULL, add_small_device(inv, 0);
		(void)snprintf(inv->mig[0].profile, 32, "1g.24gb-me"));
	CASE(1, MIXED, "mig-1g.24gb.gfx.me=MIG-0-0", NULL, add_small_device(inv, 0);
		(void)snprintf(inv->mig[0].profile, 32, "1g.24gb+gfx,me"));
	/* the user's patterns come first, match the whole text, and name what has no other name */
	CASE(1, MIXED, "mig-3g.20gb=MIG-0-1; tiny=MIG-0-0", NULL, add_small_device(inv, 0);
		large(inv, 0); mig_pattern(c, "1g.5gb", "nvidia.com/tiny");
		mig_pattern(c, "1g*", "nvidia.com/never"));
	CASE(1, MIXED, "part=MIG-0-0", NULL, fixture_mig(inv, 0, 1, 2, 10);
		mig_pattern(c, "1c.*", "nvidia.com/part"));
	CASE(1, MIXED, "gpu=MIG-0-0 MIG-0-1", NULL, add_small_device(inv, 0); large(inv, 0);
		mig_pattern(c, "*", GPU));
	CASE(1, NONE, "gpu=GPU-0", NULL, add_small_device(inv, 0);
		mig_pattern(c, "*", "nvidia.com/m"));
	/* patterns of GPUs are not for MIG devices */
	CASE(1, MIXED, "mig-1g.5gb=MIG-0-0", NULL, add_small_device(inv, 0);
		fixture_pattern(c, "*", "nvidia.com/t"));
}

#define UUID "MIG-GPU-1/8/0" /* of the second device of GPU 1, as old drivers call it */

static void offer_new__shares_mig_devices(void **state)
{
	(void)state;
	CASE(1, MIXED, "mig-1g.5gb=MIG-0-0::0 MIG-0-0::1 MIG-0-1::0 MIG-0-1::1", NULL,
		add_small_device(inv, 0);
		add_small_device(inv, 0); fixture_share(c, MIG_1G, NULL, 2, NULL));
	CASE(1, MIXED, "mig-1g.5gb.shared=MIG-0-0::0 MIG-0-0::1; mig-3g.20gb=MIG-0-1", NULL,
		add_small_device(inv, 0);
		large(inv, 0); fixture_share(c, MIG_1G, NULL, 2, NULL);
		SLICING(c).rename_by_default = true);
	CASE(1, MIXED, "tiny=MIG-0-0::0 MIG-0-0::1", NULL, add_small_device(inv, 0);
		fixture_share(c, MIG_1G, "nvidia.com/tiny", 2, NULL));
	/* lists: by index, UUID, and old UUID */
#define FOUR                                                                          \
	add_small_device(inv, 0), add_small_device(inv, 0), add_small_device(inv, 1), \
		add_small_device(inv, 1)
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-0-1::0 MIG-0-1::1 MIG-1-0 MIG-1-1", NULL, FOUR;
		fixture_share(c, MIG_1G, NULL, 2, LIST("0:1")));
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-0-1 MIG-1-0::0 MIG-1-0::1 MIG-1-1", NULL, FOUR;
		fixture_share(c, MIG_1G, NULL, 2, LIST("MIG-1-0")));
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-0-1 MIG-1-0 MIG-1-1::0 MIG-1-1::1", NULL, FOUR;
		fixture_share(c, MIG_1G, NULL, 2, LIST(UUID)));
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0::0 MIG-0-0::1 MIG-0-1::0 MIG-0-1::1 MIG-1-0 MIG-1-1",
		NULL, FOUR;
		struct replicated *e = fixture_share(c, MIG_1G, NULL, 2, NULL);
		e->devices = DEVICES_COUNT; e->count = 2);
	/* not selected: another GPU, an index of the GPU, another resource */
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-0-1 MIG-1-0 MIG-1-1",
		"sharing of 'nvidia.com/mig-1g.5gb': no matching device at index: 1:2", FOUR;
		fixture_share(c, MIG_1G, NULL, 2, LIST("1:2")));
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-0-1 MIG-1-0 MIG-1-1",
		"sharing of 'nvidia.com/mig-1g.5gb': no matching device at index: 0", FOUR;
		fixture_share(c, MIG_1G, NULL, 2, LIST("0")));
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-0-1 MIG-1-0 MIG-1-1",
		"sharing of 'nvidia.com/mig-1g.5gb': no matching device with UUID: GPU-0", FOUR;
		fixture_share(c, MIG_1G, NULL, 2, LIST("GPU-0")));
	CASE(2, MIXED, "gpu=GPU-0; mig-1g.5gb=MIG-1-0",
		"sharing of 'nvidia.com/gpu': no matching device at index: 1:0",
		add_small_device(inv, 1);
		fixture_share(c, GPU, NULL, 2, LIST("1:0")));
	/* only what exists is shared, and the rest of the node is as it was */
	CASE(2, MIXED, "gpu=GPU-0::0 GPU-0::1; mig-1g.5gb=MIG-1-0", NULL,
		add_small_device(inv, 1);
		fixture_share(c, GPU, NULL, 2, NULL));
	CASE(1, MIXED, "a=MIG-0-0::0 MIG-0-0::1; b=MIG-0-0::0 MIG-0-0::1",
		"sharing of 'nvidia.com/mig-1g.5gb': MIG device 0:0 is offered twice, as "
		"'nvidia.com/a' and as 'nvidia.com/b'",
		add_small_device(inv, 0);
		fixture_share(c, MIG_1G, "nvidia.com/a", 2, NULL);
		fixture_share(c, MIG_1G, "nvidia.com/b", 2, NULL));
	/* a count takes those that can be had; what cannot keeps all its replicas out together */
	CASE(2, SINGLE, "gpu=GPU-0! MIG-1-0::0 MIG-1-0::1",
		"GPU 0 (GPU-0): unhealthy, MIG is off there, and with strategy single "
		"'nvidia.com/gpu' is the MIG devices '1g.5gb' of this node",
		add_small_device(inv, 1);
		struct replicated *e = fixture_share(c, GPU, NULL, 2, NULL);
		e->devices = DEVICES_COUNT; e->count = 1);
	CASE(2, SINGLE, "gpu=GPU-0::0! GPU-0::1! MIG-1-0::0 MIG-1-0::1",
		"GPU 0 (GPU-0): unhealthy, MIG is off there, and with strategy single "
		"'nvidia.com/gpu' is the MIG devices '1g.5gb' of this node",
		add_small_device(inv, 1);
		fixture_share(c, GPU, NULL, 2, NULL));
	/* a missing GPU does not keep its index */
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0 MIG-1-0::0 MIG-1-0::1", NULL,
		add_small_device(inv, 0);
		add_small_device(inv, 1); inv->gpus[0].fault = GPU_FAULT_GONE;
		inv->gpus[1].index = 0; fixture_share(c, MIG_1G, NULL, 2, LIST("0:0")));
}

/* NVIDIA's plugin refuses both. */
static void offer_new__shares_mig_devices_by_mps(void **state)
{
	(void)state;
	CASE(2, MIXED, "gpu=GPU-0; mig-1g.5gb=MIG-1-0::0 MIG-1-0::1 MIG-1-1", NULL,
		add_small_device(inv, 1);
		add_small_device(inv, 1);
		fixture_share_by(c, SHARING_MPS, MIG_1G, NULL, 2, LIST("1:0")));
	CASE(1, SINGLE, "gpu=MIG-0-0::0 MIG-0-0::1 MIG-0-1::0 MIG-0-1::1 MIG-0-1::2",
		"sharing of 'nvidia.com/gpu': MIG device 0:0 is shared by sharing.mps, and not "
		"time-sliced too",
		add_small_device(inv, 0);
		add_small_device(inv, 0); fixture_share(c, GPU, NULL, 3, NULL);
		fixture_share_by(c, SHARING_MPS, GPU, NULL, 2, LIST("MIG-GPU-0/7/0")));
}

static void offer_new__omits_devices_that_cannot_be_offered(void **state)
{
	(void)state;
	CASE(1, MIXED, "mig-1g.5gb=MIG-0-1",
		"MIG device 0:0: not offered, its UUID is unknown: unknown error",
		add_small_device(inv, 0);
		add_small_device(inv, 0); inv->mig[0].uuid[0] = '\0';
		(void)snprintf(inv->mig[0].reason, GPU_REASON_MAX, "unknown error"));
	CASE(1, MIXED, "mig-1g.5gb=MIG-0-0",
		"MIG device 0:0 (MIG-0-0): not offered, another MIG device has the same UUID",
		add_small_device(inv, 0);
		add_small_device(inv, 0);
		(void)snprintf(inv->mig[1].uuid, GPU_UUID_MAX, "MIG-0-0"));
	/* a fault of a device alone: health says the rest, and it is no type of its own */
	CASE(1, MIXED, "mig-1g.5gb=MIG-0-0", NULL, add_small_device(inv, 0);
		(void)snprintf(inv->mig[0].reason, GPU_REASON_MAX, "unknown error"));
	CASE(1, SINGLE, "gpu=MIG-0-0 MIG-0-1 MIG-0-2", NULL, add_small_device(inv, 0);
		add_small_device(inv, 0); add_small_device(inv, 0);
		(void)snprintf(inv->mig[0].reason, GPU_REASON_MAX, "x");
		(void)snprintf(inv->mig[1].reason, GPU_REASON_MAX, "x");
		inv->mig[0].memory_mib = 0; inv->mig[0].profile[0] = '\0';
		inv->mig[1].memory_mib = 0; inv->mig[1].profile[0] = '\0');
	/* while its type is known it counts: no other takes over for that long */
	CASE(2, SINGLE, "gpu=GPU-0! MIG-1-0 MIG-1-1 MIG-1-2!",
		"GPU 0 (GPU-0): unhealthy, MIG is off there, and with strategy single "
		"'nvidia.com/gpu' is the MIG devices '1g.5gb' of this node",
		add_small_device(inv, 1);
		add_small_device(inv, 1); large(inv, 1);
		(void)snprintf(inv->mig[0].reason, GPU_REASON_MAX, "minors: not there");
		(void)snprintf(inv->mig[1].reason, GPU_REASON_MAX, "minors: not there"));
	CASE(1, MIXED, "",
		"MIG device 0:0 (MIG-0-0): not offered, its profile is unknown: GetInfo: "
		"unknown error",
		add_small_device(inv, 0);
		(void)snprintf(inv->mig[0].reason, GPU_REASON_MAX, "GetInfo: unknown error");
		inv->mig[0].profile[0] = '\0');
	/* so it is with a GPU of them: its MIG devices go where it goes */
	CASE(2, MIXED, "gpu=GPU-0", "GPU 1: not offered, its UUID is unknown",
		add_small_device(inv, 1);
		inv->gpus[1].uuid[0] = '\0');
	CASE(2, MIXED, "gpu=GPU-0", NULL, add_small_device(inv, 1);
		(void)snprintf(inv->gpus[1].name, GPU_NAME_MAX, "DGX Display"));
	CASE(2, MIXED, "mig-1g.5gb=MIG-0-0", NULL, add_small_device(inv, 0);
		inv->gpus[0].fault = GPU_FAULT_GONE; inv->n = 1);
	CASE(2, MIXED, "mig-1g.5gb=MIG-1-0",
		"GPU 0 (GPU-1): not offered, another GPU has the same UUID",
		add_small_device(inv, 0);
		add_small_device(inv, 1);
		(void)snprintf(inv->gpus[0].uuid, GPU_UUID_MAX, "GPU-1"));
}

/* While a layout changes, present devices are offered and none is reported as missing. */
static void offer_new__of_a_changing_gpu(void **state)
{
	(void)state;
	CASE(2, SINGLE, "gpu=MIG-1-0", NULL, inv->gpus[0].mig_enabled = true;
		add_small_device(inv, 1); inv->gpus[0].changing = true);
	CASE(2, MIXED, "mig-1g.5gb=MIG-1-0", NULL, inv->gpus[0].mig_enabled = true;
		add_small_device(inv, 1); inv->gpus[0].changing = true);
	CASE(1, MIXED, "mig-1g.5gb=MIG-0-0", NULL, add_small_device(inv, 0);
		inv->gpus[0].changing = true);
	CASE(1, MIXED, "", NULL, inv->gpus[0].mig_enabled = true; inv->gpus[0].changing = true);
}

/* Any node with any config has an offer in which each device is once, in one state. */
static void offer_new__keeps_its_invariants(void **state)
{
	static const struct {
		uint32_t ci, gi, gb;
	} types[] = { { 1, 1, 5 }, { 2, 2, 10 }, { 3, 3, 20 }, { 1, 3, 20 } };
	static const char *const refs[] = { "0", "0:0", "1:1", "MIG-0-0", "GPU-1", UUID };
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct inventory *inv = fixture_inventory(1 + fixture_random(&seed) % 4);
		struct config *c = fixture_config();
		struct offer *o;

		c->mig_strategy = (enum mig_strategy)(fixture_random(&seed) % 3);
		for (uint32_t i = 0; i < inv->n; i++) {
			uint32_t cut = fixture_random(&seed) % 5;

			inv->gpus[i].mig_enabled = cut > 0;
			for (uint32_t k = 1; k < cut; k++) {
				size_t t = fixture_random(&seed) % ARRAY_LEN(types);

				(void)fixture_mig(inv, i, types[t].ci, types[t].gi,
					types[t].gb);
			}
		}
		if (fixture_random(&seed) % 2)
			fixture_share(c, fixture_random(&seed) % 2 ? GPU : MIG_1G, NULL, 2,
				fixture_random(&seed) % 2
					? LIST(refs[fixture_random(&seed) % ARRAY_LEN(refs)])
					: NULL);
		o = fixture_offer(inv, c);
		check_mig_offer(o, inv);
		for (uint32_t i = 0; i < o->n; i++) {
			const struct resource *r = &o->resources[i];
			const struct offer_device *good = NULL;

			for (uint32_t k = 0; k < r->n_devices; k++) {
				const struct offer_device *d = &r->devices[k];
				const struct gpu *g = &inv->gpus[d->gpu];

				/* whole and cut up at once is nothing */
				if (c->mig_strategy == NONE)
					assert_int_equal(d->mig, OFFER_WHOLE);
				else if (!d->why)
					assert_int_equal(d->mig == OFFER_WHOLE,
						!g->mig_enabled);
				if (d->why)
					continue;
				/* what serves is of one kind */
				if (good && c->mig_strategy == SINGLE) {
					assert_int_equal(d->mig == OFFER_WHOLE,
						good->mig == OFFER_WHOLE);
					if (d->mig != OFFER_WHOLE)
						assert_string_equal(inv->mig[d->mig].profile,
							inv->mig[good->mig].profile);
				}
				good = d;
			}
			if (c->mig_strategy == SINGLE && inv->n_mig > 0)
				assert_non_null(good);
		}
		offer_free(o);
		config_free(c);
		inventory_free(inv);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offer_new__follows_the_strategy),
		cmocka_unit_test(offer_new__counts_mig_devices_of_eight_gpus),
		cmocka_unit_test(offer_new__single_serves_the_greatest_number),
		cmocka_unit_test(offer_new__single_attributes),
		cmocka_unit_test(offer_new__names_profiles),
		cmocka_unit_test(offer_new__shares_mig_devices),
		cmocka_unit_test(offer_new__shares_mig_devices_by_mps),
		cmocka_unit_test(offer_new__omits_devices_that_cannot_be_offered),
		cmocka_unit_test(offer_new__of_a_changing_gpu),
		cmocka_unit_test(offer_new__keeps_its_invariants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
