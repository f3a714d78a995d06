/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What of the GPUs' health outlives the agent, as a JSON document for a file of the state directory: which XID made a
 * GPU or MIG device unhealthy and when, relapses, when the XIDs came that health.xidRules count, health signals that
 * are raised, GPUs that are missing. Times are of the monotonic clock, so the document is of one boot, whose ID it has.
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "model/node/node.h"

#include <stddef.h>

#define SAVED_HEALTH_MAX      1024 /* devices */
#define SAVED_HEALTH_FILE_MAX ((size_t)4 << 20)

/* Yours: free(). "": there is nothing to keep; NULL: no memory. */
char *saved_health_format(const struct node *n, const struct health_policy *p,
	const char *boot) MUST_USE;

/*
 * Fills .kept and .missing of @n, which has not been observed yet. ERR_NOT_FOUND: it is of another boot. On an error
 * *n is as before.
 */
int saved_health_parse(struct node *n, const char *json, size_t len, const char *boot,
	uint64_t now_ns, struct error *err) MUST_USE;
