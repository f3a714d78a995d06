/* SPDX-License-Identifier: Apache-2.0 */

/* Pages (abi/slice-page.h) as files: the arbiter makes them, or accepts them from an untrusted process. */
#include "node/arbiter/internal.h"

#include "lib/base/fd.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

const char *page_error_text(int trouble)
{
	switch (trouble) {
	case PAGE_TOO_MANY:
		return "this process, this slice or this node has too many pages";
	case PAGE_NOT_OURS:
		return "no page, or not one of ours";
	default:
		return "no memory for a page";
	}
}

static void *map_client_page(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

int page_make(const struct page_owner *who, const char *name, size_t bytes, void **ret,
	ino_t *ino)
{
	CLEANUP(closep) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;
	int r;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, PAGE_SEALS | F_SEAL_SEAL) < 0 || fstat(fd, &st) < 0)
		return PAGE_NO_MEMORY;
	r = pages_count_page(who, fd);
	if (r < 0)
		return r;
	/* Without this, missing memory is a signal (SIGBUS) at the first access instead of an error here. */
	if (fallocate(fd, 0, 0, (off_t)bytes) < 0)
		return PAGE_NO_MEMORY;
	*ret = map_client_page(fd, bytes);
	*ino = st.st_ino;
	return *ret ? steal_fd(&fd) : PAGE_NO_MEMORY;
}

/* Uses no call that takes a lock which a process can hold as long as it likes. Other calls tell more, but take
 * such a lock: the file's position (lseek), the inode (SEEK_HOLE, F_ADD_SEALS). */
bool page_has_form(int fd, size_t bytes)
{
	struct stat st;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & PAGE_SEALS) == PAGE_SEALS && fstat(fd, &st) == 0 &&
	       st.st_size == (off_t)bytes;
}

int page_map(const struct page_owner *who, int fd, size_t bytes, size_t used, void **ret,
	ino_t *ino)
{
	struct stat st;
	int r;

	/* If memory of the page is missing, the kernel would charge it to the arbiter at the first read. The
	 * process can still free the memory after this check; the count of pages covers that. */
	if (!page_has_form(fd, bytes) || fstat(fd, &st) < 0 ||
		(uint64_t)st.st_blocks * S_BLKSIZE < used)
		return PAGE_NOT_OURS;
	r = pages_count_page(who, fd);
	if (r < 0)
		return r;
	*ino = st.st_ino;
	*ret = map_client_page(fd, bytes);
	return *ret ? 0 : PAGE_NOT_OURS;
}

int page_new(const struct page_owner *who, struct slice_page **ret, ino_t *ino)
{
	void *at = NULL;
	int fd = page_make(who, PAGE_NAME, SLICE_PAGE_BYTES, &at, ino);

	*ret = at;
	return fd;
}

int page_accept(const struct page_owner *who, int fd, struct slice_page **ret, ino_t *ino)
{
	void *at = NULL;
	int r = page_map(who, fd, SLICE_PAGE_BYTES, SLICE_PAGE_BYTES, &at, ino);
	struct slice_page *page = at;

	if (r < 0)
		return r;
	if (page->magic != SLICE_PAGE_MAGIC || page->version != SLICE_PAGE_VERSION ||
		page->bytes != SLICE_PAGE_BYTES || !page->serial) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		return PAGE_NOT_OURS;
	}
	*ret = page;
	return 0;
}

bool page_fits(const struct slice_page *page, const struct grants_slice *s)
{
	if (page->gpu_count != s->n_gpus)
		return false;
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (memcmp(page->gpus[i].uuid, s->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}
