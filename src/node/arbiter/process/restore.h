/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Processes that were there before this arbiter, or that the grants do not have. Thread: loop. */
#include "node/arbiter/grants/grants.h"
#include "abi/slice-page.h"

#include <stdint.h>

struct arbiter;

/*
 * Restores the members that an earlier arbiter left in the journal, and frees the records of which nothing is
 * left. Called once, before the loop serves any process and after the slices have started. Blocks: for up to
 * two seconds of searching for pages, then only for /proc.
 */
void restore_grants(struct arbiter *a);

/*
 * Makes a member of the slice @s from a page that the grants do not have, because the grants file was lost. The
 * page is the only source. @page: as page_accept() returns it; stays the caller's. @who: the process; .serial
 * is set from the page. NULL: the page does not fit the slice, a limit is reached, or no memory. The grants own
 * the member, which has no .user yet.
 */
struct grants_member *restore_from_page(struct arbiter *a, struct grants_slice *s,
	struct grants_client *who, const struct slice_page *page);

enum restore_result {
	RESTORE_NO_PAGE, /* none of its descriptors is a page that can be adopted */
	RESTORE_MORE,    /* it has more descriptors than one call reads */
	RESTORE_ADOPTED,
};

/*
 * For a process of the slice @slice (an ID, slice_id_valid()) that the grants do not have. If the process holds
 * a page of the arbiter, the grants file was lost, and the process is registered again from its page. *at: see
 * proc_each_memfd().
 */
enum restore_result restore_lost_process(struct arbiter *a, uint32_t pid, uint64_t start,
	const char *slice, long *at);

/* Abandons the members of processes that executed another program. Reads /proc for each member. */
void restore_detect_exec(struct arbiter *a);
