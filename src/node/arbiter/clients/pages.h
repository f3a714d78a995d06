/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pages (abi/slice-page.h, abi/turn-page.h): how many there are, and the pages as files. The arbiter makes
 * them, or accepts them from an untrusted process. pages.c says why and how they are counted. Thread: loop.
 * Blocks: never.
 */
#include "node/arbiter/grants/fair-quota.h"
#include "node/arbiter/grants/grants.h"
#include "abi/slice-page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define PAGE_NAME "gpuslice-page" /* of the memfd of a struct slice_page */
/* Per node, open or mapped. inotify's queue has space for the end of each. */
#define PAGES_MAX 8192
/* Per process: GRANTS_TASK_MEMBERS_MAX + SCHEDULER_REGISTRATIONS_PID (scheduler/internal.h). */
#define PAGES_CLIENT_MAX 80
#define PAGES_BUCKETS    1024

struct arbiter;
struct arbiter_slice;

struct pages {
	struct fair_quota quota;
	struct fd_watch *watch;                     /* inotify; NULL: none */
	struct issued_page *buckets[PAGES_BUCKETS]; /* by their watch */
	struct page_client *clients[PAGES_BUCKETS];
	struct fair_quota blind_quota; /* pages without a watch: one descriptor each */
	struct issued_page *blind[PAGES_BUCKETS]; /* by their inode */
	unsigned int next_blind_bucket;           /* of .blind */
	uv_timer_t blind_timer;
	/* Of slices that no longer existed when their processes were found. */
	struct slice_pages *gone_slices;
};

/* Why there is no page. */
enum page_error {
	PAGE_NO_MEMORY = -1,
	PAGE_TOO_MANY = -2,
	PAGE_NOT_OURS = -3, /* another size, no seals, or its memory is missing */
};

/* A constant text for logs and answers. @trouble: enum page_error. */
const char *page_error_text(int trouble);

/* The process and slice that the page is for. */
struct page_owner {
	struct arbiter *arbiter;
	struct arbiter_slice *slice; /* NULL: it no longer exists */
	uint32_t pid;
	uint64_t start; /* with .pid it identifies the process (process/proc.h) */
};

/*
 * Makes a memfd of @bytes that no process can shrink; counts it for @who, and maps it at *ret. The caller owns
 * the mapping and the descriptor that it gets. *ino: of the memfd. Returns the descriptor, or enum page_error.
 */
int page_make(const struct page_owner *who, const char *name, size_t bytes, void **ret,
	ino_t *ino);

/*
 * Whether @fd (-1: no) is a memfd of @bytes with the seals of a page. Closing such a descriptor does not block.
 */
bool page_has_form(int fd, size_t bytes);

/*
 * Counts the page @fd that a process has, and maps its @bytes at *ret. All of its memory must be
 * allocated. The count comes first: reading memory that is not there yet charges it to the arbiter in the kernel's
 * accounting. The caller owns the mapping, and still owns @fd. *ino: of the memfd. Returns 0, or enum
 * page_error.
 */
int page_map(const struct page_owner *who, int fd, size_t bytes, void **ret, ino_t *ino);

/* page_make() of a struct slice_page, which is all zeros. */
int page_new(const struct page_owner *who, struct slice_page **ret, ino_t *ino);

/* page_map() of a struct slice_page that has a valid head. The process may write the rest at any time. */
int page_accept(const struct page_owner *who, int fd, struct slice_page **ret, ino_t *ino);

/* Whether the page is for the GPUs of the slice, in their order. */
bool page_fits(const struct slice_page *page, const struct grants_slice *s);

/* Works without inotify too: then pages count until their process has ended, which is logged. */
void pages_start(struct arbiter *a);

/*
 * Forgets all pages. The slices have been freed, and no page is being emptied (clients/passed-fds.h). The
 * handle closes as the loop runs.
 */
void pages_stop(struct arbiter *a);

/* Called before @s is freed. Its issued pages still count. */
void pages_detach_slice(struct arbiter_slice *s);
