/* SPDX-License-Identifier: Apache-2.0 */

/* Pages for turns (abi/turn-page.h): made, or taken in from a process that may not be trusted. */
#include "arbiter/turns/turn.h"

#include <stddef.h>
#include <sys/mman.h>

int turn_page_new(struct slice *s, struct turn_page **ret, ino_t *ino, uint64_t serial,
	unsigned int n_gpus)
{
	void *at = NULL;
	int fd = page_make(s, TURN_PAGE_NAME, TURN_PAGE_BYTES, &at, ino);
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

struct turn_page *turn_page_accept(int fd, ino_t *ino, unsigned int n_gpus)
{
	struct turn_page *page = page_map(fd, TURN_PAGE_BYTES, ino);

	if (page && (page->magic != TURN_PAGE_MAGIC || page->version != TURN_PAGE_VERSION ||
			    page->bytes != TURN_PAGE_BYTES || page->gpu_count != n_gpus ||
			    !page->serial)) {
		(void)munmap(page, TURN_PAGE_BYTES);
		return NULL;
	}
	return page;
}
