/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which resources and devices the agent serves to the kubelet, and which of them it reports as usable, without a
 * kubelet: the sockets exist, and no kubelet answers.
 */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/kubelet/kubelet.h"
#include "node/agent/kubelet/trial.h"
#include "lib/base/fd.h"

#include <string.h>
#include <unistd.h>

struct env {
	struct agent_fixture *f;
	struct agent_cdi cdi;
	struct failure failure;
	struct agent_kubelet k;
	const char *refused;  /* device that check() refuses; NULL: none */
	const char *mps_down; /* resource whose devices do not work; NULL: none */
	unsigned checks;
};

/* --- the agent's answers --- */

static int check_device(void *arg, const struct resource *r, const char *const *ids,
	size_t n_ids, struct error *err)
{
	struct env *e = arg;

	(void)r;
	assert_int_equal(n_ids, 1);
	e->checks++;
	if (e->refused && !strcmp(ids[0], e->refused))
		return error_set(err, ERR_UNAVAILABLE, "no arbiter");
	return 0;
}

static int refuse_allocation(void *arg, const struct resource *r, const char *const *ids,
	size_t n_ids, struct allocation *answer, struct error *err)
{
	(void)arg, (void)r, (void)ids, (void)n_ids, (void)answer;
	return error_set(err, ERR_UNAVAILABLE, "not asked here");
}

static void ignore_allocation(void *arg, const char *resource, const char *const *ids,
	size_t n_ids, bool ok)
{
	(void)arg, (void)resource, (void)ids, (void)n_ids, (void)ok;
}

static bool is_daemon_up(void *arg, const struct resource *r, const struct offer_device *d,
	const char **ret_why)
{
	struct env *e = arg;
	bool up = !e->mps_down || strcmp(e->mps_down, r->name) != 0;

	(void)d;
	if (ret_why)
		*ret_why = up ? "" : "the MPS daemon is down";
	return up;
}

static const struct agent_kubelet_ops ops = {
	.check = check_device,
	.allocate = refuse_allocation,
	.allocated = ignore_allocation,
	.device_ok = is_daemon_up,
};

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	struct error err = ERROR_INIT;

	assert_non_null(e);
	(void)agent_fixture_setup((void **)&e->f);
	e->failure.loop = &e->f->loop;
	agent_cdi_init(&e->cdi, &e->f->facts, NULL, e->f->dir);
	agent_kubelet_init(&e->k, &(struct agent_kubelet_context){ .loop = &e->f->loop,
					  .facts = &e->f->facts,
					  .reporter = &e->f->reporter,
					  .cdi = &e->cdi,
					  .wake = &e->f->wake,
					  .failure = &e->failure,
					  .ops = &ops,
					  .arg = e });
	assert_ok(agent_kubelet_set_paths(&e->k, e->f->dir, NULL, &err), &err);
	assert_ok(agent_kubelet_start(&e->k, &err), &err);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	agent_kubelet_stop(&e->k);
	agent_kubelet_fini(&e->k);
	agent_cdi_fini(&e->cdi);
	(void)agent_fixture_teardown((void **)&e->f);
	free(e);
	return 0;
}

static void make_plugin_dir(struct env *e)
{
	struct error err = ERROR_INIT;

	assert_ok(dir_make(e->k.plugin_dir, 0755, &err), &err);
}

static bool has_socket(const struct env *e, const char *name)
{
	char path[PATH_MAX];

	assert_int_equal(path_join(path, sizeof(path), e->k.plugin_dir, name, NULL), 0);
	return access(path, F_OK) == 0;
}

/* Two GPUs, shared by two. */
static const struct resource *know_two(struct env *e, const char *rename)
{
	struct config *c = fixture_config();

	(void)fixture_share(c, "nvidia.com/gpu", rename, 2, NULL);
	agent_fixture_know(e->f, fixture_inventory(2), c);
	return &e->f->facts.offered.offer->resources[0];
}

/* --- which resources are served --- */

static void agent_kubelet_sync__serves_the_offered_devices(void **state)
{
	struct env *e = *state;
	const char *why;

	make_plugin_dir(e);
	(void)know_two(e, NULL);
	assert_string_equal(agent_kubelet_state(&e->k, "nvidia.com/gpu", &why), "waiting");
	assert_string_equal(why, "not started");
	agent_kubelet_sync(&e->k);
	assert_true(has_socket(e, "nvidia-gpu.sock"));
	assert_string_equal(agent_kubelet_state(&e->k, "nvidia.com/gpu", &why), "waiting");
	assert_true(agent_kubelet_due(&e->k, 1) == UINT64_MAX);
}

static void agent_kubelet_sync__withdraws_devices_before_the_socket(void **state)
{
	struct env *e = *state;
	uint64_t due;

	make_plugin_dir(e);
	(void)know_two(e, NULL);
	agent_kubelet_sync(&e->k);
	(void)know_two(e, "nvidia.com/gpu.shared");
	agent_kubelet_sync(&e->k);
	assert_true(has_socket(e, "nvidia-gpu.shared.sock"));
	assert_true(has_socket(e, "nvidia-gpu.sock"));
	due = agent_kubelet_due(&e->k, 1);
	assert_true(due != UINT64_MAX);
	agent_fixture_until(e->f, time_mono_ns() >= due);
	agent_kubelet_sync(&e->k);
	assert_false(has_socket(e, "nvidia-gpu.sock"));
	assert_true(has_socket(e, "nvidia-gpu.shared.sock"));
	assert_true(agent_kubelet_due(&e->k, 1) == UINT64_MAX);
}

static void agent_kubelet_sync__waits_for_the_directory(void **state)
{
	struct env *e = *state;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(4096);
	const char *why;

	(void)know_two(e, NULL);
	agent_kubelet_sync(&e->k);
	(void)agent_kubelet_state(&e->k, "nvidia.com/gpu", &why);
	assert_non_null(strstr(why, "device-plugins"));
	assert_false(agent_kubelet_ready(&e->k, &text));
	assert_non_null(strstr(buf_str(&text), "nvidia.com/gpu: not registered: "));
	assert_true(
		agent_kubelet_due(&e->k, 1) > 1 && agent_kubelet_due(&e->k, 1) != UINT64_MAX);
	assert_int_equal(e->failure.why.code, ERR_NONE);
	make_plugin_dir(e);
	agent_kubelet_check_dir(&e->k);
	agent_fixture_run_once(e->f);
	assert_true(e->f->wakes > 0);
	agent_kubelet_sync(&e->k);
	assert_true(has_socket(e, "nvidia-gpu.sock"));
}

static void agent_kubelet_sync__ends_a_second_agent_of_a_node(void **state)
{
	struct env *e = *state, *other = NULL;

	make_plugin_dir(e);
	(void)know_two(e, NULL);
	agent_kubelet_sync(&e->k);
	(void)setup((void **)&other);
	other->k.plugin_dir[0] = '\0';
	(void)snprintf(other->k.plugin_dir, sizeof(other->k.plugin_dir), "%s", e->k.plugin_dir);
	(void)know_two(other, NULL);
	agent_kubelet_sync(&other->k);
	assert_int_equal(other->failure.why.code, ERR_EXISTS);
	assert_int_equal(e->failure.why.code, ERR_NONE);
	(void)teardown((void **)&other);
}

/* --- which devices are usable --- */

static void agent_kubelet_device_ok__has_the_refusals_of_allocate(void **state)
{
	struct env *e = *state;
	const struct resource *r;
	const char *why;

	make_plugin_dir(e);
	r = know_two(e, NULL);
	e->refused = "GPU-1::0";
	agent_kubelet_sync(&e->k);
	assert_int_equal(e->checks, 2); /* one of each GPU, whatever its replicas */
	for (uint32_t i = 0; i < r->n_devices; i++)
		assert_int_equal(agent_kubelet_device_ok(&e->k, r, &r->devices[i], &why),
			r->devices[i].gpu == 0);
	assert_string_equal(agent_kubelet_refusal(&e->k, "GPU-0"), "");
	assert_string_equal(agent_kubelet_refusal(&e->k, "GPU-1"), "no arbiter");
	assert_int_equal(agent_fixture_count(e->f, "DevicesNotAllocatable"), 1);

	assert_false(agent_kubelet_try(&e->k)); /* the same again is no news */
	e->refused = NULL;
	assert_true(agent_kubelet_try(&e->k));
	assert_true(agent_kubelet_device_ok(&e->k, r, &r->devices[2], &why));
	assert_int_equal(agent_fixture_count(e->f, "DevicesAllocatable"), 1);
}

static void agent_kubelet_device_ok__has_the_health_of_the_gpu_and_of_mps(void **state)
{
	struct env *e = *state;
	struct inventory *inv = fixture_inventory(2);
	const struct resource *r;
	const char *why;

	make_plugin_dir(e);
	inv->gpus[0].fault = GPU_FAULT_FIELD;
	(void)snprintf(inv->gpus[0].reason, sizeof(inv->gpus[0].reason), "no answer");
	agent_fixture_know(e->f, inv, NULL);
	agent_kubelet_sync(&e->k);
	r = &e->f->facts.offered.offer->resources[0];
	assert_false(agent_kubelet_device_ok(&e->k, r, &r->devices[0], &why));
	assert_string_equal(why, "no answer");
	assert_true(agent_kubelet_device_ok(&e->k, r, &r->devices[1], NULL));
	e->mps_down = "nvidia.com/gpu";
	assert_false(agent_kubelet_device_ok(&e->k, r, &r->devices[1], &why));
	assert_string_equal(why, "the MPS daemon is down");
}

static void agent_kubelet_ready__needs_no_registration_without_a_kubelet_socket(void **state)
{
	struct env *e = *state;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(4096);

	make_plugin_dir(e);
	(void)know_two(e, NULL);
	agent_kubelet_sync(&e->k);
	assert_false(agent_kubelet_ready(&e->k, &why));
	free(e->k.socket);
	e->k.socket = strdup("");
	assert_true(agent_kubelet_ready(&e->k, &why));
}

static void agent_kubelet_set_paths__refuses_paths_that_are_too_long_for_sockets(void **state)
{
	struct env *e = *state;
	struct agent_kubelet k = { .dir = "" };
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	(void)e;
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_true(agent_kubelet_set_paths(&k, path, NULL, &err) < 0);
	path[100] = '\0';
	error_clear(&err);
	assert_true(agent_kubelet_set_paths(&k, path, NULL, &err) < 0);
	assert_non_null(strstr(err.msg, "--kubelet-dir"));
	error_clear(&err);
	assert_ok(agent_kubelet_set_paths(&k, path, "", &err), &err);
	agent_kubelet_fini(&k);
}

#define KUBELET_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		KUBELET_TEST(agent_kubelet_sync__serves_the_offered_devices),
		KUBELET_TEST(agent_kubelet_sync__withdraws_devices_before_the_socket),
		KUBELET_TEST(agent_kubelet_sync__waits_for_the_directory),
		KUBELET_TEST(agent_kubelet_sync__ends_a_second_agent_of_a_node),
		KUBELET_TEST(agent_kubelet_device_ok__has_the_refusals_of_allocate),
		KUBELET_TEST(agent_kubelet_device_ok__has_the_health_of_the_gpu_and_of_mps),
		KUBELET_TEST(
			agent_kubelet_ready__needs_no_registration_without_a_kubelet_socket),
		KUBELET_TEST(
			agent_kubelet_set_paths__refuses_paths_that_are_too_long_for_sockets),
	};

	return cmocka_run_group_tests_name("kubelet-plugins", tests, NULL, NULL);
}
