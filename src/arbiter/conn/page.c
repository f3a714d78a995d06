/* SPDX-License-Identifier: Apache-2.0 */

/* Pages (abi/slice-page.h) as files: made, or taken in from a process that may not be trusted. */
#include "arbiter/internal.h"

#include "base/fd.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static void *map_page(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

int page_make(struct slice *s, const char *name, size_t bytes, void **ret, ino_t *ino)
{
	CLEANUP(closep) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, PAGE_SEALS | F_SEAL_SEAL) < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!pages_take(s, fd))
		return PAGE_TOO_MANY;
	*ret = map_page(fd, bytes);
	*ino = st.st_ino;
	return *ret ? steal_fd(&fd) : -1;
}

void *page_map(int fd, size_t bytes, ino_t *ino)
{
	struct stat st;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & PAGE_SEALS) != PAGE_SEALS || fstat(fd, &st) < 0 ||
		st.st_size != (off_t)bytes)
		return NULL;
	*ino = st.st_ino;
	return map_page(fd, bytes);
}

int page_new(struct slice *s, struct slice_page **ret, ino_t *ino)
{
	void *at = NULL;
	int fd = page_make(s, PAGE_NAME, SLICE_PAGE_BYTES, &at, ino);

	*ret = at;
	return fd;
}

struct slice_page *page_accept(int fd, ino_t *ino)
{
	struct slice_page *page = page_map(fd, SLICE_PAGE_BYTES, ino);

	if (page && (page->magic != SLICE_PAGE_MAGIC || page->version != SLICE_PAGE_VERSION ||
			    page->bytes != SLICE_PAGE_BYTES || !page->serial)) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		return NULL;
	}
	return page;
}

bool page_fits(const struct slice_page *page, const struct book_slice *s)
{
	if (page->gpu_count != s->n_gpus)
		return false;
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (memcmp(page->gpus[i].uuid, s->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}
