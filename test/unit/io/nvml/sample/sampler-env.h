/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Samples of a monitor in a test, and what is in them. */
#include "support/test.h"

#include "unit/io/nvml/monitor/monitor-env.h"

struct sampled {
	int times;
	struct sample *sample; /* the last one; NULL: .err has the reason */
	struct error err;
};

static inline void on_sampled(void *arg, struct sample *sample, const struct error *err)
{
	struct sampled *t = arg;

	t->times++;
	sample_free(t->sample);
	t->sample = sample;
	if (err)
		t->err = *err;
}

static inline void sampled_fini(struct sampled *t)
{
	t->sample = sample_free(t->sample);
}

/* The position of a field. */
static inline uint16_t at(const char *name)
{
	int position = field_position(name);

	if (position < 0)
		fail_msg("no field %s", name);
	return (uint16_t)position;
}

static inline void sample_request_and_wait(struct monitor_watcher *s, struct sampled *t,
	const char *const *names, size_t n)
{
	struct gpu_sample_request rq = { .interval_ns = 100 * NS_PER_MS };
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < n; i++)
		gpu_sample_want(&rq, at(names[i]));
	t->times = 0;
	assert_ok(gpu_monitor_sample(s->m, &rq, on_sampled, t, &err), &err);
}

/* Into t->sample, which is there after this. */
#define sample_now(s, t, names, n)                               \
	do {                                                     \
		sample_request_and_wait(s, t, names, n);         \
		run_until(s, (t)->times == 1);                   \
		if (!(t)->sample)                                \
			fail_msg("no sample: %s", (t)->err.msg); \
	} while (0)

static inline int64_t int_of(const struct sample_device *device, const char *name)
{
	const struct sample_value *v = sample_value(device, at(name));

	if (!v)
		fail_msg("%s has no %s", device->uuid, name);
	return v ? v->i : -1;
}

static inline double real_of(const struct sample_device *device, const char *name)
{
	const struct sample_value *v = sample_value(device, at(name));

	if (!v)
		fail_msg("%s has no %s", device->uuid, name);
	return v ? v->real : -1;
}

#define assert_near(found, expected)                                                \
	do {                                                                        \
		double found_ = (found), expected_ = (expected);                    \
		if (found_ < expected_ - 1e-6 || found_ > expected_ + 1e-6)         \
			fail_msg("%s: %f, expected %f", #found, found_, expected_); \
	} while (0)
