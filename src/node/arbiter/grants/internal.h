/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of grants/: grants.c has slices, tasks and members, credit.c has their grants, compare.c
 * applies what NVML reports. Thread: loop. Blocks: never.
 */
#include "node/arbiter/grants/grants.h"
#include "lib/base/minmax.h"

/* Raises the member's peak to what it uses now. */
void grants_update_peak(struct grants_member *m, unsigned int gpu);

/* Adds the refusals that the page counted since the last call to its slice's .refused. */
void grants_count_refused(const struct grants_member *m, unsigned int gpu);

/* Bytes that the hooks charged. @seen_only: only those that NVML sees. The member has a page. */
uint64_t grants_get_charged(const struct grants_member *m, unsigned int gpu, bool seen_only);

/* Grants the member @used bytes in use and @credit bytes of credit. */
void grants_add_granted(struct grants_member *m, unsigned int gpu, uint64_t used,
	uint64_t credit);

/* Lowers the grant by @bytes that count as in use but are not. */
void grants_return(struct grants_member *m, unsigned int gpu, uint64_t bytes);

/* Reclaims credit until @bytes can be granted, or no credit is left. Spares @own; with @from_own it takes from
 * @own last. */
void grants_reclaim_credit(struct grants_slice *s, unsigned int gpu, uint64_t bytes,
	struct grants_member *own, bool from_own);

/* Publishes in each page whether its member is the only one of the slice with a grant on the GPU. @next counts as
 * one that has a grant. */
void grants_publish_sole_member(struct grants_slice *s, unsigned int gpu,
	const struct grants_member *next);
