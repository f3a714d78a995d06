/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices of a resource an Allocate would refuse now. A device that is advertised as healthy and then refused
 * makes a Deployment create failed pods without end. So a trial makes an answer with the code of an Allocate, for one
 * device of each physical device and share, and discards it.
 * Thread: loop.
 */
#include "lib/base/error.h"
#include "model/offer/offer.h"

#include <stdbool.h>

/* Why Allocate would refuse one physical device, as it is shared here. Positions are those of the offer. */
struct allocate_refusal {
	uint32_t gpu, mig, share;
	char why[ERROR_MSG_MAX];
};

struct allocate_trial {
	struct allocate_refusal *v;
	size_t n, room;
};

/* Answers an Allocate of @d and discards the answer. < 0: it would be refused, @err says why. */
typedef int allocate_try(void *arg, const struct resource *r, const struct offer_device *d,
	struct error *err);

/*
 * Tries the devices of @r, and replaces *t by the result. True: the result differs from *t. If memory runs out, *t
 * stays as it is: a device that is refused must not become healthy.
 */
bool allocate_trial_run(struct allocate_trial *t, const struct resource *r, allocate_try *try,
	void *arg);

/* Why the last run refused @d; NULL: it did not. Borrowed until the next run. */
const char *allocate_trial_refusal(const struct allocate_trial *t,
	const struct offer_device *d);

void allocate_trial_fini(struct allocate_trial *t);
