/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/mig/checkpoint.h"
#include "model/mig/config/config.h"
#include "model/mig/geometry/geometry.h"
#include "layouts.h"

/* Which entry a GPU gets, what that wants, and whether it is there. */

#define PCI_A100 0x20B010DEU
#define PCI_A30  0x20B710DEU
#define PCI_H100 0x233010DEU
#define PCI_RTX  0x2BB510DEU
#define PCI_T4   0x1EB810DEU

static struct mig_node_gpu gpu_of(uint32_t index, enum product_id id, uint32_t pci)
{
	struct mig_node_gpu g = { .index = index, .layout = product_layout(id) };

	g.pci.device = pci;
	g.pci.subsystem = 0x134F10DE;
	g.state.capable = g.state.enabled = g.state.pending_enabled = true;
	(void)snprintf(g.uuid, sizeof(g.uuid), "GPU-%u", index);
	return g;
}

/* Adds a GI of @name at @start with CIs of @cis slices, "21" for two. */
static void add_gi(struct mig_node_gpu *g, const char *name, uint32_t start, const char *cis)
{
	struct mig_gi *gi = &g->state.gi[g->state.n];

	*gi = (struct mig_gi){ .id = g->state.n,
		.profile = profile_at(&g->layout, name),
		.start = start };
	g->state.n++;
	for (; *cis; cis++) {
		struct mig_ci *ci = &gi->ci[gi->n_ci];

		*ci = (struct mig_ci){ .id = gi->n_ci, .slices = (uint32_t)(*cis - '0') };
		ci->number = ci->slices == 7 ? 4 : ci->slices - 1;
		gi->n_ci++;
	}
}

/* An entry for all GPUs with rows such as "1g.5gb 2,3g.20gb 1@4"; NULL: disabled. */
static void set_entry(struct mig_entry *e, const char *rows)
{
	struct error err = ERROR_INIT;

	*e = (struct mig_entry){ .all = true, .enabled = rows != NULL, .has_rows = rows };
	while (rows && *rows) {
		struct mig_device_row row = { .start = MIG_START_ANY };
		char name[MIG_PROFILE_NAME_MAX];
		int n = 0;

		assert_int_equal(sscanf(rows, "%63[^ ] %u%n", name, &row.count, &n), 2);
		rows += n;
		if (*rows == '@') {
			assert_int_equal(sscanf(rows, "@%u%n", &row.start, &n), 1);
			rows += n;
		}
		rows += *rows == ',';
		assert_ok(mig_profile_parse(&row.profile, name, &err), &err);
		assert_ok(mig_entry_add_row(e, &row, &err), &err);
	}
}

static struct mig_configs *configs_of(const char *name)
{
	struct mig_configs *c = NULL;
	struct mig_config *config = NULL;
	struct error err = ERROR_INIT;

	assert_ok(mig_configs_new(&c, &err), &err);
	if (name)
		assert_ok(mig_configs_add(c, name, &config, &err), &err);
	return c;
}

static struct mig_entry *add_entry(struct mig_configs *c, const char *rows)
{
	struct mig_entry *e = NULL;
	struct error err = ERROR_INIT;

	assert_ok(mig_config_add_entry(&c->configs[0], &e, &err), &err);
	set_entry(e, rows);
	return e;
}

static void entry_fini(struct mig_entry *e)
{
	free(e->rows);
	free(e->devices);
	free(e->filters);
}

static void mig_configs_select__has_the_texts_of_mig_parted(void **state)
{
	struct mig_configs *c = configs_of("one");
	const struct mig_config *found = NULL;
	struct mig_config *added = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_configs_select(c, NULL, &found, &err), &err);
	assert_string_equal(found->name, "one");
	assert_ok(mig_configs_select(c, "", &found, &err), &err);
	assert_error(mig_configs_select(c, "x", &found, &err), &err,
		"selected mig-config not present: x");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_ok(mig_configs_add(c, "two", &added, &err), &err);
	assert_error(mig_configs_select(c, "", &found, &err), &err,
		"missing required flag 'selected-config' when more than one config available");
	assert_ok(mig_configs_select(c, "two", &found, &err), &err);
	assert_string_equal(found->name, "two");
	(void)mig_configs_free(c);
}

static void mig_configs_add_missing__adds_only_missing_names(void **state)
{
	struct mig_configs *to = configs_of("a"), *from = configs_of("a");
	struct mig_config *added = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	(void)add_entry(to, "1g.5gb 1");
	(void)add_entry(from, "2g.10gb 1");
	assert_ok(mig_configs_add(from, "b", &added, &err), &err);
	assert_ok(mig_configs_add_missing(to, from, &err), &err);
	assert_int_equal(to->n, 2);
	assert_int_equal(from->n, 1);
	assert_int_equal(to->configs[0].entries[0].rows[0].profile.g, 1);
	assert_string_equal(to->configs[1].name, "b");
	assert_null(mig_configs_find(to, "c"));
	(void)mig_configs_free(to);
	(void)mig_configs_free(from);
}

static void mig_filter__matches_as_written_in_go(void **state)
{
	static const struct {
		const char *text;
		bool match, never;
	} rows[] = {
		{ "0x20B010DE", true, false },
		{ "0x20b010de", true, false },
		{ "0X20B0_10DE", true, false },
		{ "0x_20B010DE", true, false },
		{ "548409566", true, false },
		{ "0b100000101100000001000011011110", true, false },
		{ "0o4054010336", true, false },
		{ "04054010336", true, false },
		{ "0x20B010DE:0x134F10DE", true, false },
		{ "0x20B010DE:0x134F10DF", false, false },
		{ "0x20B110DE", false, false },
		{ "0", false, false },
		{ "", false, true },
		{ ":", false, true },
		{ "0x", false, true },
		{ "20B010DE", false, true },
		{ "0x20B010DE_", false, true },
		{ "0x20B0__10DE", false, true },
		{ "_1", false, true },
		{ "08", false, true },
		{ "0x120B010DE", false, true },
		{ " 0x20B010DE", false, true },
		{ "+1", false, true },
		{ "0x20B010DE:", false, true },
		{ ":0x20B010DE", false, true },
		{ "0x20B010DE:0x134F10DE:0x1", false, true },
		{ "0x20B010DE:x", false, true },
		{ "A100-SXM4-40GB", false, true },
		{ "0x00000000000000000000000000000000000000020B010DE", false, true },
	};
	const struct mig_pci pci = { PCI_A100, 0x134F10DE };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_filter f;

		mig_filter_parse(&f, rows[i].text);
		if (mig_filter_matches(&f, &pci) != rows[i].match || f.never != rows[i].never)
			fail_msg("'%s': match %d, never %d", rows[i].text,
				mig_filter_matches(&f, &pci), f.never);
		assert_memory_equal(f.text, rows[i].text,
			strnlen(rows[i].text, MIG_FILTER_MAX - 3));
	}
}

static void mig_config_entry__is_the_last_that_matches(void **state)
{
	struct mig_configs *c = configs_of("x");
	struct mig_node_gpu gpus[] = { gpu_of(0, A100_40, PCI_A100),
		gpu_of(2, H100, PCI_H100) };
	struct mig_node node = { ARRAY_LEN(gpus), gpus };
	struct mig_filter f;
	struct mig_entry *e;
	struct strv notes = STRV_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	assert_null(mig_config_entry(&c->configs[0], &gpus[0]));
	(void)add_entry(c, NULL);
	assert_ptr_equal(mig_config_entry(&c->configs[0], &gpus[0]), &c->configs[0].entries[0]);
	e = add_entry(c, "1g.5gb 1");
	mig_filter_parse(&f, "0x233010de");
	assert_ok(mig_entry_add_filter(e, &f, &err), &err);
	e = add_entry(c, "1g.5gb 1");
	e->all = false;
	assert_ok(mig_entry_add_device(e, 5, &err), &err);
	assert_ok(mig_entry_add_device(e, 0, &err), &err);
	assert_ptr_equal(mig_config_entry(&c->configs[0], &gpus[0]), &c->configs[0].entries[2]);
	assert_ptr_equal(mig_config_entry(&c->configs[0], &gpus[1]), &c->configs[0].entries[1]);
	assert_ok(mig_config_notes(&c->configs[0], &node, &notes, &err), &err);
	assert_int_equal(notes.n, 1);
	assert_string_equal(notes.v[0],
		"config 'x', entry 3: GPU 5 does not exist; the node has 2");
	strv_clear(&notes);
	c->configs[0].entries[0].all = false;
	gpus[1].pci.device = PCI_T4;
	assert_ok(mig_config_notes(&c->configs[0], &node, &notes, &err), &err);
	assert_int_equal(notes.n, 2);
	assert_string_equal(notes.v[1],
		"config 'x' has no entry for GPU 2, which stays as it is");
	strv_clear(&notes);
	gpus[0].pci.device = PCI_T4;
	c->configs[0].entries[2].n_devices = 1; /* GPU 5 alone */
	assert_ok(mig_config_notes(&c->configs[0], &node, &notes, &err), &err);
	assert_int_equal(notes.n, 2);
	assert_string_equal(notes.v[1],
		"config 'x' has no entry for GPUs 0, 2, which stay as they are; GPU 0 is "
		"0x1EB810DE to a device-filter");
	strv_fini(&notes);
	(void)mig_configs_free(c);
}

/* "2g.10gb[2] 1g.5gb[1]@4": the desired devices, for comparing. */
static const char *want_text(const struct mig_layout *l, const struct mig_desired *desired)
{
	static char text[1024];
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < desired->n; i++) {
		char name[MIG_PROFILE_NAME_MAX];

		mig_profile_format(&l->profiles[desired->gi[i].profile].name, name);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s[", i ? " " : "",
			name);
		for (uint32_t c = 0; c < desired->gi[i].n_ci; c++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%u",
				desired->gi[i].ci[c]);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "]");
		if (desired->gi[i].start != MIG_START_ANY)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "@%u",
				desired->gi[i].start);
	}
	return text;
}

static void mig_entry_want__sorts_and_packs(void **state)
{
	static const struct {
		enum product_id id;
		const char *rows, *want;
	} rows[] = {
		{ A100_40, "", "" },
		{ A100_40, "1g.5gb 2,2g.10gb 1,3g.20gb 1",
			"3g.20gb[3] 2g.10gb[2] 1g.5gb[1] 1g.5gb[1]" },
		{ A100_40, "1g.5gb 1,1g.5gb+me 1,1g.10gb 1",
			"1g.5gb+me[1] 1g.5gb[1] 1g.10gb[1]" },
		{ A100_40, "1c.3g.20gb 3", "3g.20gb[111]" },
		{ A100_40, "1c.3g.20gb 4", "3g.20gb[111] 3g.20gb[1]" },
		{ A100_40, "1c.3g.20gb 1,2c.3g.20gb 1", "3g.20gb[21]" },
		{ A100_40, "2c.3g.20gb 2,1c.3g.20gb 1", "3g.20gb[2] 3g.20gb[21]" },
		{ A100_40, "1c.3g.20gb 1,3g.20gb 1", "3g.20gb[3] 3g.20gb[1]" },
		{ A100_40, "1c.7g.40gb 7", "7g.40gb[1111111]" },
		{ A100_40, "2c.7g.40gb 2,3c.7g.40gb 1", "7g.40gb[322]" },
		{ A100_40, "2c.4g.20gb 2,1g.5gb 0", "4g.20gb[22]" },
		{ A100_40, "1g.5gb 1@0,3g.20gb 1@4,1g.5gb 1",
			"3g.20gb[3]@4 1g.5gb[1]@0 1g.5gb[1]" },
		{ A100_40, "1c.3g.20gb 1@4,1c.3g.20gb 1@4,1c.3g.20gb 1@0",
			"3g.20gb[1]@0 3g.20gb[11]@4" },
		{ RTX_PRO_6000, "1g.24gb-me 2,2g.48gb+gfx 1",
			"2g.48gb+gfx[2] 1g.24gb-me[1] 1g.24gb-me[1]" },
		{ A30, "1g.6gb 2,2g.12gb 1", "2g.12gb[2] 1g.6gb[1] 1g.6gb[1]" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_node_gpu g = gpu_of(0, rows[i].id, PCI_A100);
		struct mig_entry e;
		struct mig_desired desired;
		struct error err = ERROR_INIT;

		g.state.enabled = false; /* or the first would be applied */
		set_entry(&e, rows[i].rows);
		assert_ok(mig_entry_want(&e, &g, &desired, NULL, &err), &err);
		assert_true(desired.enabled);
		assert_string_equal(want_text(&g.layout, &desired), rows[i].want);
		entry_fini(&e);
	}
}

static void mig_entry_want__reports_a_guess_and_refuses_missing_profiles(void **state)
{
	static const struct {
		const char *rows, *want;
		enum error_code code;
	} rows[] = {
		{ "1g.6gb+gfx 1",
			"GPU 3: MIG profile \"1g.6gb+gfx\" not found on this GPU, which has "
			"1g.5gb, ",
			ERR_INVALID },
		{ "5g.20gb 1", "MIG profile \"5g.20gb\" not found", ERR_INVALID },
		{ "3c.4g.20gb 1", "MIG profile \"3c.4g.20gb\" not found", ERR_INVALID },
		{ "2c.1g.5gb 1", "MIG profile \"2c.1g.5gb\" not found", ERR_INVALID },
		{ "1g.5gb 17", "expected at most 16 GPU instances", ERR_LIMIT },
		{ "1g.5gb 1000000", "expected at most 16 GPU instances", ERR_LIMIT },
	};
	struct mig_node_gpu g = gpu_of(3, A100_40, PCI_A100);
	struct strv notes = STRV_INIT;
	struct mig_entry e;
	struct mig_desired desired;
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		set_entry(&e, rows[i].rows);
		assert_error(mig_entry_want(&e, &g, &desired, &notes, &err), &err,
			rows[i].want);
		assert_int_equal(err.code, rows[i].code);
		entry_fini(&e);
	}
	assert_int_equal(notes.n, 0);
	g = gpu_of(3, A100_80, PCI_A100);
	set_entry(&e, "7g.79gb 1");
	assert_ok(mig_entry_want(&e, &g, &desired, &notes, &err), &err);
	assert_string_equal(want_text(&g.layout, &desired), "7g.80gb[7]");
	assert_int_equal(notes.n, 1);
	assert_non_null(strstr(notes.v[0], "GPU 3: 7g.79gb is taken as 7g.80gb"));
	entry_fini(&e);
	strv_fini(&notes);
}

static void mig_entry_want__leaves_a_gpu_without_mig_alone_unless_it_is_named(void **state)
{
	struct mig_node_gpu g = gpu_of(1, A100_40, PCI_T4);
	struct mig_entry e;
	struct mig_desired desired;
	struct error err = ERROR_INIT;
	uint32_t index = 1;

	(void)state;
	g.state = (struct mig_state){ .capable = false };
	set_entry(&e, "1g.5gb 1");
	assert_int_equal(mig_entry_want(&e, &g, &desired, NULL, &err), 1);
	e.all = false;
	e.devices = &index;
	e.n_devices = 1;
	assert_error(mig_entry_want(&e, &g, &desired, NULL, &err), &err,
		"GPU 1: cannot set MIG config on non MIG-capable GPU");
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	e.enabled = false;
	assert_int_equal(mig_entry_want(&e, &g, &desired, NULL, &err), 1);
	e.devices = NULL;
	entry_fini(&e);
}

static void mig_entry_applied__compares_counts_by_name(void **state)
{
	static const struct {
		const char *rows, *why; /* .why NULL: it is applied */
	} rows[] = {
		{ "1g.5gb 2,3g.20gb 1,2c.3g.20gb 1", NULL },
		{ "2c.3g.20gb 1,3g.20gb 1,1g.5gb 1,1g.5gb 1", NULL }, /* one in two rows */
		{ "1g.5gb 2,3g.20gb 1@4,2c.3g.20gb 1@0", NULL },
		{ "1g.5gb 2,3g.20gb 1@0,2c.3g.20gb 1", "expected a 3g.20gb at slot 0" },
		{ "1g.5gb 2,3g.20gb 1,2c.3g.20gb 1,2g.10gb 0",
			"2g.10gb with the count 0 can never be applied" },
		{ "1g.5gb 1,3g.20gb 1,2c.3g.20gb 1", "expected 1 of 1g.5gb, found 2" },
		{ "1g.5gb 2,3g.20gb 1", "expected no 2c.3g.20gb, found 1" },
		{ "1g.5gb 2,3g.20gb 1,1c.3g.20gb 1", "expected 1 of 1c.3g.20gb, found 0" },
		{ "1g.99gb 2", "it has no MIG profile 1g.99gb" },
		{ "", "expected no " },
		{ NULL, "MIG mode is enabled, expected disabled" },
	};
	struct mig_node_gpu g = gpu_of(0, A100_40, PCI_A100);
	struct mig_entry e;
	struct error why = ERROR_INIT;

	(void)state;
	add_gi(&g, "3g.20gb", 4, "3");
	add_gi(&g, "3g.20gb", 0, "2");
	add_gi(&g, "1g.5gb", 0, "1"); /* no real GPU has all of these at once */
	add_gi(&g, "1g.5gb", 1, "1");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		set_entry(&e, rows[i].rows);
		error_clear(&why);
		if (mig_entry_applied(&e, &g, &why) != !rows[i].why ||
			(rows[i].why && !strstr(why.msg, rows[i].why)))
			fail_msg("%s: '%s', expected '%s'", rows[i].rows ? rows[i].rows : "off",
				why.msg, rows[i].why ? rows[i].why : "applied");
		entry_fini(&e);
	}
	set_entry(&e, "1g.5gb 2,3g.20gb 1,2c.3g.20gb 1");
	g.state.gi[1].n_ci = 0;
	assert_false(mig_entry_applied(&e, &g, &why));
	e.rows[2].count = 1;
	e.n_rows = 2;
	assert_false(mig_entry_applied(&e, &g, &why));
	assert_string_equal(why.msg, "GPU 0: GPU instance 1 has no compute instance");
	g.state.enabled = false;
	assert_false(mig_entry_applied(&e, &g, &why));
	assert_string_equal(why.msg, "GPU 0: MIG mode is disabled, expected enabled");
	entry_fini(&e);
}

static void mig_config_assert__requires_every_gpu(void **state)
{
	struct mig_configs *c = configs_of("x");
	struct mig_node_gpu gpus[] = { gpu_of(0, A100_40, PCI_A100),
		gpu_of(1, A100_40, PCI_A100) };
	struct mig_node node = { ARRAY_LEN(gpus), gpus };
	struct mig_entry *e = add_entry(c, "1g.5gb 1");
	struct error why = ERROR_INIT, err = ERROR_INIT;

	(void)state;
	add_gi(&gpus[0], "1g.5gb", 0, "1");
	gpus[1].state.enabled = false;
	e->all = false;
	assert_ok(mig_entry_add_device(e, 0, &err), &err);
	assert_true(mig_config_assert(&c->configs[0], &node, true, &why));
	assert_false(mig_config_assert(&c->configs[0], &node, false, &why));
	assert_string_equal(why.msg, "GPU 1: no entry of the config is about it");
	(void)add_entry(c, NULL); /* for all: now the last of both */
	assert_false(mig_config_assert(&c->configs[0], &node, true, &why));
	assert_string_equal(why.msg, "GPU 0: MIG mode is enabled, expected disabled");
	c->configs[0].entries[1].all = false;
	assert_ok(mig_entry_add_device(&c->configs[0].entries[1], 1, &err), &err);
	assert_true(mig_config_assert(&c->configs[0], &node, false, &why));
	/* A GPU without MIG is as it should be when disabled, and never when enabled. */
	gpus[1].state.capable = false;
	assert_true(mig_config_assert(&c->configs[0], &node, false, &why));
	c->configs[0].entries[1].enabled = true;
	assert_false(mig_config_assert(&c->configs[0], &node, true, &why));
	assert_string_equal(why.msg, "GPU 1: it has no MIG");
	c->configs[0].entries[1].enabled = false;
	(void)error_set(&gpus[1].fault, ERR_IO, "lost");
	assert_false(mig_config_assert(&c->configs[0], &node, false, &why));
	assert_string_equal(why.msg, "GPU 1: lost");
	(void)mig_configs_free(c);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Fills @g with what fits, at random places, with random CIs. */
static void fill(struct mig_node_gpu *g, uint32_t *seed)
{
	uint32_t used = 0, slices = 0;

	for (int tries = 0; tries < 30 && g->state.n < 8; tries++) {
		uint32_t p = next_random(seed) % g->layout.n,
			 s = next_random(seed) % g->layout.slots;
		const struct mig_gi_profile *in = &g->layout.profiles[p];
		uint32_t mask = ((1U << in->size) - 1) << s, left = in->slices;
		struct mig_gi *gi = &g->state.gi[g->state.n];

		if (!(in->starts >> s & 1) || (used & mask) || slices + left > g->layout.slices)
			continue;
		used |= mask;
		slices += left;
		*gi = (struct mig_gi){ .id = g->state.n++, .profile = p, .start = s };
		do {
			uint32_t n =
				next_random(seed) % 2 ? in->slices : 1 + next_random(seed) % 3;

			if (n > left ||
				(n != in->slices && !mig_profile_shape_ok(n, in->slices)))
				n = 1;
			if (in->slices == 2 && n == 1 && left == 2 && next_random(seed) % 2)
				n = 2;
			gi->ci[gi->n_ci] = (struct mig_ci){ .id = gi->n_ci,
				.slices = n,
				.number = n == 7 ? 4 : n - 1 };
			gi->n_ci++;
			left -= n;
		} while (left && next_random(seed) % 3 && gi->n_ci < MIG_CIS_MAX);
	}
}

/* An export of any node has its present layout, and so has a checkpoint. */
static void mig_config_export__describes_the_present_layout(void **state)
{
	static const struct {
		enum product_id id;
		uint32_t pci;
	} kinds[] = { { A100_40, PCI_A100 }, { A100_80, 0x20B210DE }, { H100, PCI_H100 },
		{ A30, PCI_A30 }, { RTX_PRO_6000, PCI_RTX }, { GB300, 0x31C210DE } };
	struct error err = ERROR_INIT, why = ERROR_INIT;
	uint32_t seed = 4711;

	(void)state;
	for (int round = 0; round < 400; round++) {
		struct mig_node_gpu gpus[6];
		struct mig_node node = { 1 + next_random(&seed) % ARRAY_LEN(gpus), gpus };
		struct mig_configs *c = NULL;
		struct mig_checkpoint *saved = NULL;

		for (uint32_t i = 0; i < node.n; i++) {
			uint32_t k =
				round % 2 ? 0 : next_random(&seed) % (uint32_t)ARRAY_LEN(kinds);

			gpus[i] = gpu_of(i, kinds[k].id, kinds[k].pci);
			gpus[i].state.capable = next_random(&seed) % 5 > 0;
			gpus[i].state.enabled = gpus[i].state.capable && next_random(&seed) % 4;
			if (gpus[i].state.enabled)
				fill(&gpus[i], &seed);
		}
		assert_ok(mig_config_export(&c, &node, "current", &err), &err);
		assert_int_equal(c->n, 1);
		if (!mig_config_assert(&c->configs[0], &node, false, &why))
			fail_msg("round %d: %s", round, why.msg);
		assert_ok(mig_checkpoint_make(&saved, &node, &err), &err);
		for (uint32_t i = 0; i < node.n; i++) {
			const struct mig_entry *e = mig_config_entry(&c->configs[0], &gpus[i]);
			const struct mig_saved_gpu *s =
				mig_checkpoint_find(saved, gpus[i].uuid);
			struct mig_desired desired, have;

			assert_int_equal(s != NULL, gpus[i].state.capable);
			if (!s) {
				assert_int_equal(
					mig_entry_want(e, &gpus[i], &desired, NULL, &err), 1);
				continue;
			}
			mig_desired_from_state(&gpus[i].state, &have);
			memset(&desired, 0, sizeof(desired));
			assert_ok(mig_entry_want(e, &gpus[i], &desired, NULL, &err), &err);
			assert_string_equal(want_text(&gpus[i].layout, &desired),
				want_text(&gpus[i].layout, &have));
			assert_int_equal(desired.enabled, gpus[i].state.enabled);
			assert_ok(mig_checkpoint_want(s, &gpus[i], &desired, &err), &err);
			assert_int_equal(desired.n, have.n);
			/* A checkpoint has them by profile; no two are at one place. */
			for (uint32_t k = 0; k < have.n; k++) {
				const struct mig_desired_gi *w = &desired.gi[0];

				assert_true(!k ||
					    desired.gi[k - 1].profile <= desired.gi[k].profile);
				while (w < &desired.gi[desired.n] &&
					w->start != have.gi[k].start)
					w++;
				assert_true(w < &desired.gi[desired.n]);
				assert_int_equal(w->profile, have.gi[k].profile);
				assert_int_equal(w->n_ci, have.gi[k].n_ci);
				assert_memory_equal(w->ci, have.gi[k].ci,
					w->n_ci * sizeof(w->ci[0]));
			}
		}
		(void)mig_checkpoint_free(saved);
		(void)mig_configs_free(c);
	}
}

static void mig_config_export__merges_gpus_that_are_the_same(void **state)
{
	struct mig_node_gpu gpus[] = { gpu_of(0, A100_40, PCI_A100),
		gpu_of(1, A100_40, PCI_A100), gpu_of(2, A30, PCI_A30) };
	struct mig_node node = { ARRAY_LEN(gpus), gpus };
	struct mig_configs *c = NULL;
	const struct mig_entry *e;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_config_export(&c, &node, "current", &err), &err);
	e = c->configs[0].entries;
	assert_int_equal(c->configs[0].n, 1);
	assert_true(e->all && e->enabled && e->has_rows && !e->n_filters && !e->n_rows);
	c = mig_configs_free(c);

	add_gi(&gpus[1], "3g.20gb", 4, "3");
	add_gi(&gpus[1], "3g.20gb", 0, "21");
	assert_ok(mig_config_export(&c, &node, "current", &err), &err);
	e = c->configs[0].entries;
	assert_int_equal(c->configs[0].n, 2);
	assert_false(e[0].all); /* both filters, but not GPU 1 */
	assert_int_equal(e[0].n_devices, 2);
	assert_int_equal(e[0].devices[1], 2);
	assert_int_equal(e[0].n_filters, 2);
	assert_string_equal(e[0].filters[0].text, "0x20B010DE");
	assert_string_equal(e[0].filters[1].text, "0x20B710DE");
	assert_int_equal(e[1].n_filters, 1);
	assert_true(e[1].filter_text);
	assert_int_equal(e[1].n_rows, 3);
	assert_int_equal(e[1].rows[0].profile.c, 3);
	assert_int_equal(e[1].rows[1].profile.c, 2);
	c = mig_configs_free(c);

	gpus[0] = gpus[1];
	gpus[0].index = 0;
	assert_ok(mig_config_export(&c, &node, "current", &err), &err);
	e = c->configs[0].entries;
	assert_true(e[0].all && e[1].all && e[0].filter_text && e[1].filter_text);
	c = mig_configs_free(c);

	gpus[2] = gpu_of(2, A100_40, PCI_A100);
	assert_ok(mig_config_export(&c, &node, "current", &err), &err);
	e = c->configs[0].entries;
	assert_true(!e[0].all && !e[1].all && !e[0].n_filters && !e[1].n_filters);
	c = mig_configs_free(c);
	(void)error_set(&gpus[2].fault, ERR_IO, "lost"); /* as if it were not there */
	assert_ok(mig_config_export(&c, &node, "current", &err), &err);
	assert_int_equal(c->configs[0].n, 1);
	assert_true(c->configs[0].entries[0].all);
	(void)mig_configs_free(c);
}

static bool has_count(const struct mig_entry *e, const char *name, uint32_t count)
{
	char text[MIG_PROFILE_NAME_MAX];

	for (size_t i = 0; i < e->n_rows; i++) {
		mig_profile_format(&e->rows[i].profile, text);
		if (!strcmp(text, name))
			return e->rows[i].count == count;
	}
	return false;
}

static void mig_config_generate__lists_the_layouts_of_each_kind(void **state)
{
	struct mig_node_gpu gpus[] = { gpu_of(0, H100, PCI_H100), gpu_of(1, A30, PCI_A30),
		gpu_of(2, A100_40, PCI_A100), gpu_of(3, H100, PCI_H100) };
	struct mig_node node = { ARRAY_LEN(gpus), gpus };
	struct mig_configs *c = NULL;
	const struct mig_config *config;
	struct error err = ERROR_INIT;

	(void)state;
	gpus[1].layout.profiles[0].max = 3; /* the answer of some drivers for A30 */
	assert_ok(mig_config_generate(&c, &node, &err), &err);
	for (size_t i = 1; i < c->n; i++)
		assert_true(strcmp(c->configs[i - 1].name, c->configs[i].name) < 0);
	config = mig_configs_find(c, "all-1g.10gb"); /* A100: 4, H100: 7 */
	assert_non_null(config);
	assert_int_equal(config->n, 2);
	assert_true(has_count(&config->entries[0], "1g.10gb", 4));
	assert_string_equal(config->entries[0].filters[0].text, "0x20B010DE");
	assert_true(has_count(&config->entries[1], "1g.10gb", 7));
	assert_string_equal(config->entries[1].filters[0].text, "0x233010DE");
	assert_false(config->entries[1].filter_text);
	config = mig_configs_find(c, "all-1g.6gb");
	assert_true(config->n == 1 && has_count(&config->entries[0], "1g.6gb", 4));
	config = mig_configs_find(c, "all-1g.10gb.me");
	assert_true(config->n == 1 && has_count(&config->entries[0], "1g.10gb+me", 1));
	config = mig_configs_find(c, "all-balanced");
	assert_int_equal(config->n, 3);
	assert_true(has_count(&config->entries[0], "1g.5gb", 2) &&
		    has_count(&config->entries[0], "2g.10gb", 1) &&
		    has_count(&config->entries[0], "3g.20gb", 1));
	assert_true(config->entries[1].n_rows == 2 &&
		    has_count(&config->entries[1], "1g.6gb", 2) &&
		    has_count(&config->entries[1], "2g.12gb", 1));
	assert_true(has_count(&config->entries[2], "1g.10gb", 2));
	config = mig_configs_find(c, "all-disabled");
	assert_true(!config->entries[0].enabled && !config->entries[0].n_filters &&
		    !config->entries[0].has_rows);
	config = mig_configs_find(c, "all-enabled");
	assert_true(config->entries[0].enabled && config->entries[0].has_rows);
	c = mig_configs_free(c);
	node.n = 1;
	assert_ok(mig_config_generate(&c, &node, &err), &err);
	assert_int_equal(c->n, 10); /* seven profiles and the three others */
	for (size_t i = 0; i < c->n; i++)
		assert_int_equal(c->configs[i].entries[0].n_filters, 0);
	c = mig_configs_free(c);
	gpus[0].layout.n = 0;
	assert_error(mig_config_generate(&c, &node, &err), &err,
		"no MIG profiles discovered for MIG-capable GPUs");
	gpus[0].state.capable = false;
	assert_error(mig_config_generate(&c, &node, &err), &err,
		"no MIG-capable devices found on the system");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	gpus[0] = gpu_of(0, A100_40, 0x1FB010DE);
	assert_error(mig_config_generate(&c, &node, &err), &err, "no MIG-capable devices");
}

/* Every config that a product's own profiles make fits it. */
static void mig_config_generate__generates_only_layouts_that_fit(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	for (int id = 0; id < PRODUCTS; id++) {
		struct mig_node_gpu g = gpu_of(0, (enum product_id)id, 0x123410DE);
		struct mig_node node = { 1, &g };
		struct mig_configs *c = NULL;

		assert_ok(mig_config_generate(&c, &node, &err), &err);
		assert_int_equal(c->n, g.layout.n + 3);
		for (size_t i = 0; i < c->n; i++) {
			struct mig_placement placements[MIG_GIS_MAX];
			struct mig_desired desired;

			assert_ok(
				mig_entry_want(c->configs[i].entries, &g, &desired, NULL, &err),
				&err);
			assert_ok(mig_geometry_place(&g.layout, NULL, &desired,
					  MIG_KEEP_NOTHING, placements, &err),
				&err);
		}
		(void)mig_configs_free(c);
	}
}

static void mig_checkpoint_want__refuses_profiles_that_the_gpu_lacks(void **state)
{
	static const struct {
		struct mig_saved_gi gi;
		const char *want;
	} rows[] = {
		{ { .profile = 8 }, "profile number 8, which this GPU has not" },
		{ { .profile = 2, .start = 2, .size = 4 },
			"at 2:4, where this GPU has no place" },
		{ { .profile = 2, .start = 4, .size = 3 },
			"at 4:3, where this GPU has no place" },
		{ { .profile = 0, .start = 0, .size = 1, .n_ci = 1, .ci = { { 9, 0 } } },
			"compute instance of profile number 9 with engine profile 0" },
		{ { .profile = 0, .start = 0, .size = 1, .n_ci = 1, .ci = { { 0, 1 } } },
			"compute instance of profile number 0 with engine profile 1" },
		{ { .profile = 2,
			  .start = 0,
			  .size = 4,
			  .n_ci = 2,
			  .ci = { { 1, 0 }, { 1, 0 } } },
			"compute instances of 4 slices in a GPU instance of 3" },
	};
	struct mig_node_gpu g = gpu_of(0, A100_40, PCI_A100);
	struct mig_saved_gpu s = { .enabled = true, .n = 1 };
	struct mig_desired desired;
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		s.gi[0] = rows[i].gi;
		assert_error(mig_checkpoint_want(&s, &g, &desired, &err), &err, rows[i].want);
	}
	g.state.capable = false;
	assert_error(mig_checkpoint_want(&s, &g, &desired, &err), &err, "non MIG-capable GPU");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_configs_select__has_the_texts_of_mig_parted),
		cmocka_unit_test(mig_configs_add_missing__adds_only_missing_names),
		cmocka_unit_test(mig_filter__matches_as_written_in_go),
		cmocka_unit_test(mig_config_entry__is_the_last_that_matches),
		cmocka_unit_test(mig_entry_want__sorts_and_packs),
		cmocka_unit_test(mig_entry_want__reports_a_guess_and_refuses_missing_profiles),
		cmocka_unit_test(
			mig_entry_want__leaves_a_gpu_without_mig_alone_unless_it_is_named),
		cmocka_unit_test(mig_entry_applied__compares_counts_by_name),
		cmocka_unit_test(mig_config_assert__requires_every_gpu),
		cmocka_unit_test(mig_config_export__describes_the_present_layout),
		cmocka_unit_test(mig_config_export__merges_gpus_that_are_the_same),
		cmocka_unit_test(mig_config_generate__lists_the_layouts_of_each_kind),
		cmocka_unit_test(mig_config_generate__generates_only_layouts_that_fit),
		cmocka_unit_test(mig_checkpoint_want__refuses_profiles_that_the_gpu_lacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
