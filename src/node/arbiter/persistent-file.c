/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/persistent-file.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int lock_persistent_file(int fd, const char *path, struct error *err)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return error_set(err, ERR_EXISTS, "'%s': another arbiter has this directory",
			path);
	return error_sys(err, errno, "lock '%s'", path);
}

static int map_persistent_file(struct persistent_file *f, const char *path, struct error *err)
{
	struct stat st;
	void *at;
	int r;

	if (fstat(f->fd, &st) < 0)
		return error_sys(err, errno, "look at '%s'", path);
	if ((size_t)st.st_size != f->bytes && persistent_file_clear(f, path, err) < 0)
		return -1;
	r = posix_fallocate(f->fd, 0, (off_t)f->head_bytes);
	if (r)
		return error_sys(err, r, "room for '%s'", path);
	at = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (at == MAP_FAILED)
		return error_sys(err, errno, "map '%s'", path);
	f->head = at;
	return 0;
}

int persistent_file_open(struct persistent_file *f, const char *path, size_t bytes,
	size_t head_bytes, bool lock, struct error *err)
{
	*f = (struct persistent_file){ .fd = -1, .bytes = bytes, .head_bytes = head_bytes };
	f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	if ((lock && lock_persistent_file(f->fd, path, err) < 0) ||
		map_persistent_file(f, path, err) < 0) {
		closep(&f->fd);
		return -1;
	}
	return 0;
}

int persistent_file_clear(const struct persistent_file *f, const char *path, struct error *err)
{
	int r;

	if (ftruncate(f->fd, 0) < 0 || ftruncate(f->fd, (off_t)f->bytes) < 0)
		return error_sys(err, errno, "size '%s'", path);
	r = posix_fallocate(f->fd, 0, (off_t)f->head_bytes);
	return r ? error_sys(err, r, "room for '%s'", path) : 0;
}

bool persistent_file_reserve(const struct persistent_file *f, size_t offset, size_t bytes)
{
	return posix_fallocate(f->fd, (off_t)offset, (off_t)bytes) == 0;
}

void persistent_file_close(struct persistent_file *f)
{
	if (!f->head)
		return;
	(void)munmap(f->head, f->bytes);
	f->head = NULL;
	closep(&f->fd);
}
