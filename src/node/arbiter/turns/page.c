/* SPDX-License-Identifier: Apache-2.0 */

/* Pages for turns (abi/turn-page.h): made, or taken in from a process that may not be trusted. */
#include "node/arbiter/turns/turn.h"

#include <stddef.h>
#include <sys/mman.h>

int turn_page_new(const struct page_who *who, struct turn_page **ret, ino_t *ino,
	uint64_t serial, unsigned int n_gpus)
{
	void *at = NULL;
	int fd = page_make(who, TURN_PAGE_NAME, TURN_PAGE_BYTES, &at, ino);
	struct turn_page *page = at;

	if (fd < 0)
		return fd;
	page->magic = TURN_PAGE_MAGIC;
	page->version = TURN_PAGE_VERSION;
	page->bytes = TURN_PAGE_BYTES;
	page->gpu_count = n_gpus;
	page->serial = serial;
	*ret = page;
	return fd;
}

/* Arbiters before 1.0 left memory that no GPU of the slice needs to be made when it is touched. */
int turn_page_accept(const struct page_who *who, int fd, struct turn_page **ret, ino_t *ino,
	unsigned int n_gpus)
{
	void *at = NULL;
	int r = page_map(who, fd, TURN_PAGE_BYTES,
		offsetof(struct turn_page, gpus) + n_gpus * sizeof(struct turn_gpu_page), &at,
		ino);
	struct turn_page *page = at;

	if (r < 0)
		return r;
	if (page->magic != TURN_PAGE_MAGIC || page->version != TURN_PAGE_VERSION ||
		page->bytes != TURN_PAGE_BYTES || page->gpu_count != n_gpus || !page->serial) {
		(void)munmap(page, TURN_PAGE_BYTES);
		return PAGE_NOT_OURS;
	}
	*ret = page;
	return 0;
}
