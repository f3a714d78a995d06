/* SPDX-License-Identifier: Apache-2.0 */

/* Which devices a trial finds refused, and that a trial without memory forgets none of them. */
#include "support/test.h"

#include "node/agent/kubelet/trial.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory;

void *__real_reallocarray(void *p, size_t n, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return no_memory ? NULL : __real_reallocarray(p, n, size);
}

/* Devices of two GPUs, two replicas each, and one that is not offered as it is configured. */
static struct offer_device devices[] = {
	{ .id = "GPU-0::0", .gpu = 0, .mig = OFFER_WHOLE },
	{ .id = "GPU-0::1", .gpu = 0, .mig = OFFER_WHOLE },
	{ .id = "GPU-1::0", .gpu = 1, .mig = OFFER_WHOLE },
	{ .id = "GPU-1::1", .gpu = 1, .mig = OFFER_WHOLE },
	{ .id = "GPU-2", .gpu = 2, .mig = OFFER_WHOLE, .why = 1 },
};

static const struct resource resource = { .devices = devices, .n_devices = ARRAY_LEN(devices) };

struct tries {
	unsigned n;
	bool refuse[3]; /* by GPU */
};

static int try_device(void *arg, const struct resource *r, const struct offer_device *d,
	struct error *err)
{
	struct tries *t = arg;

	(void)r;
	t->n++;
	return t->refuse[d->gpu] ? error_set(err, ERR_UNAVAILABLE, "no %s", d->id) : 0;
}

static void allocate_trial_run__tries_each_physical_device_once(void **state)
{
	struct allocate_trial trial = { .n = 0 };
	struct tries t = { .refuse = { false, true, true } };

	(void)state;
	assert_true(allocate_trial_run(&trial, &resource, try_device, &t));
	assert_int_equal(t.n, 2);
	assert_null(allocate_trial_refusal(&trial, &devices[1]));
	assert_string_equal(allocate_trial_refusal(&trial, &devices[3]), "no GPU-1::0");
	assert_false(allocate_trial_run(&trial, &resource, try_device, &t)); /* no news */
	t.refuse[1] = false;
	assert_true(allocate_trial_run(&trial, &resource, try_device, &t));
	assert_null(allocate_trial_refusal(&trial, &devices[3]));
	allocate_trial_fini(&trial);
}

static void allocate_trial_run__without_memory_keeps_the_former_result(void **state)
{
	struct allocate_trial trial = { .n = 0 };
	struct tries t = { .refuse = { true, true } };

	(void)state;
	assert_true(allocate_trial_run(&trial, &resource, try_device, &t));
	no_memory = true;
	assert_false(allocate_trial_run(&trial, &resource, try_device, &t));
	no_memory = false;
	assert_non_null(allocate_trial_refusal(&trial, &devices[0]));
	assert_non_null(allocate_trial_refusal(&trial, &devices[2]));
	allocate_trial_fini(&trial);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocate_trial_run__tries_each_physical_device_once),
		cmocka_unit_test(allocate_trial_run__without_memory_keeps_the_former_result),
	};

	return cmocka_run_group_tests_name("kubelet-trial", tests, NULL, NULL);
}
