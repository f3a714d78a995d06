/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What of the GPUs' health outlives the agent, as a JSON document for a file of the state directory:
 * - which XID made a GPU or MIG device unhealthy, and when;
 * - relapses;
 * - when the XIDs came that health.xidRules count;
 * - raised health signals;
 * - missing GPUs.
 *
 * Times are of the monotonic clock. So the document has a boot ID and is valid for that boot only.
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "model/node/node.h"

#include <stddef.h>

#define SAVED_HEALTH_MAX      1024 /* devices */
#define SAVED_HEALTH_FILE_MAX ((size_t)4 << 20)

/* Caller's: free(). "": there is nothing to save; NULL: no memory. */
char *saved_health_format(const struct node *n, const struct health_policy *p,
	const char *boot) MUST_USE;

/*
 * Fills .persisted and .missing of @n, which has not been observed yet. ERR_NOT_FOUND: the document is of
 * another boot. After an error *n is unchanged.
 */
int saved_health_parse(struct node *n, const char *json, size_t len, const char *boot,
	uint64_t now_ns, struct error *err) MUST_USE;
