/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the real library: the file that the loader would have found for its name if this library were not in
 * front of it, in the loader's order. So an image with its own newer driver library (forward compatibility)
 * keeps using that. The bare name is never opened, as it means this library.
 */
#include "container/loader/parse/file.h"
#include "container/loader/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define HEAD_BYTES  4096 /* of a file, with its headers and notes */
#define CACHE_BYTES ((size_t)16 << 20)
#define PATH_BYTES  4096

/* NVIDIA's container images and Google's nodes have the library here, even if the loader's configuration does
 * not name it. */
static const char *const other_places[] = { "/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib" };

struct path_trial {
	bool (*use)(const char *path, void *arg);
	void *arg;
};

static size_t read_library_bytes(int fd, unsigned char *to, size_t size)
{
	size_t n = 0;

	while (n < size) {
		ssize_t r = read(fd, to + n, size - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	return n;
}

static size_t read_library_head(const char *path, unsigned char head[HEAD_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n;

	if (fd < 0)
		return 0;
	n = read_library_bytes(fd, head, HEAD_BYTES);
	close(fd);
	return n;
}

bool find_is_library(const char *path)
{
	unsigned char head[HEAD_BYTES];

	return file_is_library(head, read_library_head(path, head));
}

static bool try_library_path(const char *path, void *arg)
{
	const struct path_trial *t = arg;
	unsigned char head[HEAD_BYTES];
	size_t n = read_library_head(path, head);

	return file_is_library(head, n) && !file_is_ours(head, n) && t->use(path, t->arg);
}

static bool try_directory(const char *dir, void *arg)
{
	char path[PATH_BYTES];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, forward_soname);

	return n > 0 && (size_t)n < sizeof(path) && try_library_path(path, arg);
}

/* Reads the cache instead of mapping it: a truncation of a mapped file would kill the process (SIGBUS). */
static bool try_cache(struct path_trial *t)
{
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	bool ret = false;
	void *at;

	if (size > 0 && (size_t)size <= CACHE_BYTES && lseek(fd, 0, SEEK_SET) == 0) {
		at = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at != MAP_FAILED) {
			ret = cache_each(at, read_library_bytes(fd, at, (size_t)size),
				forward_soname, CACHE_FLAGS, try_library_path, t);
			munmap(at, (size_t)size);
		}
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

bool find_real(const char *first, bool (*use)(const char *path, void *arg), void *arg)
{
	struct path_trial t = { use, arg };

	if ((first && try_library_path(first, &t)) ||
		dl_directories(false, try_directory, &t) || try_cache(&t) ||
		dl_directories(true, try_directory, &t))
		return true;
	for (size_t i = 0; i < sizeof(other_places) / sizeof(other_places[0]); i++)
		if (try_directory(other_places[i], &t))
			return true;
	return false;
}
