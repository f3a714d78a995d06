/* SPDX-License-Identifier: Apache-2.0 */
#include "container/loader/parse/cache.h"

#include <string.h>

static const char magic_old[] = "ld.so-1.7.0";
static const char magic[] = "glibc-ld.so.cache1.1"; /* start of the header, without the NUL */

struct header {
	char magic[20];
	uint32_t count, strings;
	uint8_t flags, pad[3];
	uint32_t extensions, unused[3];
};
_Static_assert(sizeof(struct header) == 48, "as ldconfig writes it");

struct ld_cache_entry {
	int32_t flags;
	uint32_t key, value; /* offsets from the header */
	uint32_t os_version;
	uint64_t capabilities; /* required of the processor; 0: none */
};
_Static_assert(sizeof(struct ld_cache_entry) == 24, "as ldconfig writes it");

/* Offset of the header; @size: there is none. After an old cache it is aligned for its type. */
static size_t find_header(const unsigned char *bytes, size_t size)
{
	size_t at = 0;
	uint32_t count;

	if (size >= 16 && memcmp(bytes, magic_old, sizeof(magic_old) - 1) == 0) {
		memcpy(&count, bytes + 12, sizeof(count));
		if (count > size / 12)
			return size;
		at = (16 + (size_t)count * 12 + 7) / 8 * 8;
	}
	if (at > size || size - at < sizeof(struct header) ||
		memcmp(bytes + at, magic, sizeof(magic) - 1) != 0)
		return size;
	return at;
}

/* The string at @at; NULL: it does not end within the bytes. */
static const char *get_cache_string(const unsigned char *bytes, size_t size, size_t at)
{
	if (at >= size || !memchr(bytes + at, '\0', size - at))
		return NULL;
	return (const char *)bytes + at;
}

bool cache_each(const void *bytes, size_t size, const char *name, uint32_t flags,
	bool (*use)(const char *path, void *arg), void *arg)
{
	const unsigned char *at = bytes;
	size_t start = find_header(bytes, size), length = strlen(name) + 1;
	struct header h;

	if (start == size)
		return false;
	at += start;
	size -= start;
	memcpy(&h, at, sizeof(h));
	if (h.count > (size - sizeof(h)) / sizeof(struct ld_cache_entry))
		return false;
	for (uint32_t i = 0; i < h.count; i++) {
		struct ld_cache_entry e;
		const char *path;

		memcpy(&e, at + sizeof(h) + i * sizeof(e), sizeof(e));
		if ((uint32_t)e.flags != flags || e.capabilities || e.key >= size ||
			size - e.key < length || memcmp(at + e.key, name, length) != 0)
			continue;
		path = get_cache_string(at, size, e.value);
		if (path && path[0] == '/' && use(path, arg))
			return true;
	}
	return false;
}
