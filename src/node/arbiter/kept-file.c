/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/kept-file.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int take_lock(int fd, const char *path, struct error *err)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return error_set(err, ERR_EXISTS, "'%s': another arbiter has this directory",
			path);
	return error_sys(err, errno, "lock '%s'", path);
}

static int map(struct kept_file *f, const char *path, struct error *err)
{
	struct stat st;
	void *at;
	int r;

	if (fstat(f->fd, &st) < 0)
		return error_sys(err, errno, "look at '%s'", path);
	if ((size_t)st.st_size != f->bytes && kept_clear(f, path, err) < 0)
		return -1;
	r = posix_fallocate(f->fd, 0, (off_t)f->head_bytes);
	if (r)
		return error_sys(err, r, "room for '%s'", path);
	at = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (at == MAP_FAILED)
		return error_sys(err, errno, "map '%s'", path);
	f->at = at;
	return 0;
}

int kept_open(struct kept_file *f, const char *path, size_t bytes, size_t head_bytes, bool lock,
	struct error *err)
{
	*f = (struct kept_file){ .fd = -1, .bytes = bytes, .head_bytes = head_bytes };
	f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	if ((lock && take_lock(f->fd, path, err) < 0) || map(f, path, err) < 0) {
		closep(&f->fd);
		return -1;
	}
	return 0;
}

int kept_clear(const struct kept_file *f, const char *path, struct error *err)
{
	int r;

	if (ftruncate(f->fd, 0) < 0 || ftruncate(f->fd, (off_t)f->bytes) < 0)
		return error_sys(err, errno, "size '%s'", path);
	r = posix_fallocate(f->fd, 0, (off_t)f->head_bytes);
	return r ? error_sys(err, r, "room for '%s'", path) : 0;
}

bool kept_room(const struct kept_file *f, size_t offset, size_t bytes)
{
	return posix_fallocate(f->fd, (off_t)offset, (off_t)bytes) == 0;
}

void kept_close(struct kept_file *f)
{
	if (!f->at)
		return;
	(void)munmap(f->at, f->bytes);
	f->at = NULL;
	closep(&f->fd);
}
