/* SPDX-License-Identifier: Apache-2.0 */

/* What an allocation has to know of the host: its device nodes, and which CDI specifications are in place. */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/kubelet/cdi.h"
#include "node/agent/kubelet/host.h"

#include <string.h>
#include <unistd.h>

#define CHANNEL0 "/dev/nvidia-caps-imex-channels/channel0"

static const char *const control_nodes[] = { "/dev/nvidiactl", "/dev/nvidia-uvm",
	"/dev/nvidia-uvm-tools", "/dev/nvidia-modeset" };

/* The config whose driver root is the fixture's directory. */
static struct config *with_root(struct agent_fixture *f)
{
	struct config *c = f->facts.config;

	free(c->container_driver_root);
	c->container_driver_root = strdup(f->dir);
	assert_non_null(c->container_driver_root);
	return c;
}

static void host_has_node__searches_the_driver_root_and_our_own_dev(void **state)
{
	struct agent_fixture *f = *state;
	const struct config *c = with_root(f);

	assert_true(host_has_node(c, "/dev/null"));
	assert_false(host_has_node(c, "/dev/gpuslice-none"));
	test_write(f->dir, "dev/gpuslice-none", "", 0, 0600);
	assert_true(host_has_node(c, "/dev/gpuslice-none"));
}

/* The agent still searches its own /dev if the root is too long for a path. */
static void host_has_node__ignores_a_driver_root_that_is_too_long(void **state)
{
	struct agent_fixture *f = *state;
	struct config *c = with_root(f);
	char *root = malloc(2 * PATH_MAX);

	assert_non_null(root);
	memset(root, 'r', 2 * PATH_MAX - 1);
	root[0] = '/';
	root[2 * PATH_MAX - 1] = '\0';
	free(c->container_driver_root);
	c->container_driver_root = root;
	assert_true(host_has_node(c, "/dev/null"));
	assert_false(host_has_node(c, "/dev/gpuslice-none"));
}

static void alloc_host_probe__lists_control_nodes_in_the_order_of_the_answer(void **state)
{
	struct agent_fixture *f = *state;
	const struct config *c = with_root(f);
	struct alloc_host h = { .imex_channel0 = false };
	struct error err = ERROR_INIT;

	for (size_t i = ARRAY_LEN(control_nodes); i-- > 0;)
		test_write(f->dir, control_nodes[i] + 1, "", 0, 0600);
	assert_ok(alloc_host_probe(&h, c, &err), &err);
	assert_int_equal(h.control_nodes.n, ARRAY_LEN(control_nodes));
	for (size_t i = 0; i < h.control_nodes.n; i++)
		assert_string_equal(h.control_nodes.v[i], control_nodes[i]);
	alloc_host_fini(&h);
}

static void alloc_host_probe__follows_the_imex_settings_of_the_config(void **state)
{
	static const struct {
		bool there, asked, required;
		bool given, fails;
	} rows[] = {
		{ false, false, false, false, false },
		{ false, false, true, false, false },
		{ false, true, false, false, false },
		{ false, true, true, false, true },
		{ true, false, true, false, false },
		{ true, true, false, true, false },
		{ true, true, true, true, false },
	};
	struct agent_fixture *f = *state;
	struct config *c = with_root(f);

	SKIP_UNLESS(access(CHANNEL0, F_OK) < 0, "this machine has an IMEX channel");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct alloc_host h = { .imex_channel0 = false };
		struct error err = ERROR_INIT;

		if (rows[i].there)
			test_write(f->dir, &CHANNEL0[1], "", 0, 0600);
		c->imex_channel0 = rows[i].asked;
		c->imex_required = rows[i].required;
		if ((alloc_host_probe(&h, c, &err) < 0) != rows[i].fails ||
			h.imex_channel0 != rows[i].given)
			fail_msg("row %zu: %s", i, err.msg);
		if (rows[i].fails)
			assert_int_equal(err.code, ERR_NOT_FOUND);
		alloc_host_fini(&h);
	}
}

/* --- CDI --- */

static void agent_cdi_facts__returns_only_written_specs(void **state)
{
	struct agent_fixture *f = *state;
	struct agent_cdi c;
	struct alloc_cdi facts;
	struct error err = ERROR_INIT;

	agent_cdi_init(&c, &f->facts, NULL, NULL);
	assert_string_equal(c.dir, CDI_DIR);
	assert_true(agent_cdi_due(&c) == UINT64_MAX);
	assert_ok(agent_cdi_facts(&c, &facts, &err), &err);
	assert_false(
		facts.gpu || facts.imex_channel || facts.gdrcopy || facts.gds || facts.mofed);
	assert_string_equal(facts.why, "no GPU has a device node to give");
	assert_string_equal(facts.response_id, ""); /* of no use without CDI */

	(void)error_set(&c.error, ERR_IO, "no library");
	c.written[CDI_GDS] = c.written[CDI_MOFED] = true;
	assert_ok(agent_cdi_facts(&c, &facts, &err), &err);
	assert_true(facts.gds && facts.mofed);
	assert_false(facts.gpu || facts.imex_channel || facts.gdrcopy);
	assert_string_equal(facts.why, "no library");
	agent_cdi_fini(&c);
}

static void agent_cdi_facts__has_a_new_id_of_version_4_each_time(void **state)
{
	struct agent_fixture *f = *state;
	struct agent_cdi c;
	struct alloc_cdi facts, other;
	struct error err = ERROR_INIT;

	agent_cdi_init(&c, &f->facts, NULL, f->dir);
	f->facts.config->device_lists = DEVICE_LIST_CDI_CRI;
	assert_ok(agent_cdi_facts(&c, &facts, &err), &err);
	f->facts.config->device_lists = DEVICE_LIST_CDI_ANNOTATIONS;
	assert_ok(agent_cdi_facts(&c, &other, &err), &err);
	assert_string_not_equal(facts.response_id, other.response_id);
	assert_int_equal(strlen(facts.response_id), CDI_RESPONSE_MAX - 1);
	assert_int_equal(strspn(facts.response_id, "0123456789abcdef-"), CDI_RESPONSE_MAX - 1);
	for (size_t i = 0; i < CDI_RESPONSE_MAX - 1; i++)
		assert_int_equal(facts.response_id[i] == '-',
			i == 8 || i == 13 || i == 18 || i == 23);
	assert_int_equal(facts.response_id[14], '4');
	assert_non_null(strchr("89ab", facts.response_id[19]));
	agent_cdi_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(host_has_node__searches_the_driver_root_and_our_own_dev),
		AGENT_TEST(host_has_node__ignores_a_driver_root_that_is_too_long),
		AGENT_TEST(alloc_host_probe__lists_control_nodes_in_the_order_of_the_answer),
		AGENT_TEST(alloc_host_probe__follows_the_imex_settings_of_the_config),
		AGENT_TEST(agent_cdi_facts__returns_only_written_specs),
		AGENT_TEST(agent_cdi_facts__has_a_new_id_of_version_4_each_time),
	};

	return cmocka_run_group_tests_name("kubelet-host", tests, NULL, NULL);
}
