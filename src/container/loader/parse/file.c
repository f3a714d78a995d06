/* SPDX-License-Identifier: Apache-2.0 */
#include "container/loader/parse/file.h"

#include <elf.h>
#include <link.h>
#include <string.h>

/* --- a file --- */

#if defined(__x86_64__)
#	define MACHINE EM_X86_64
#else
#	define MACHINE EM_AARCH64
#endif

static const char owner[] = "gpuslice"; /* of the note in container/loader/entry.h */

bool file_is_library(const unsigned char *bytes, size_t size)
{
	Elf64_Ehdr h;

	if (size < sizeof(h))
		return false;
	memcpy(&h, bytes, sizeof(h));
	return memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 && h.e_ident[EI_CLASS] == ELFCLASS64 &&
	       h.e_ident[EI_DATA] == ELFDATA2LSB && h.e_type == ET_DYN &&
	       h.e_machine == MACHINE;
}

static bool notes_are_ours(const unsigned char *at, size_t size)
{
	Elf64_Nhdr n;

	while (size >= sizeof(n)) {
		size_t name, all;

		memcpy(&n, at, sizeof(n));
		name = ((size_t)n.n_namesz + 3) / 4 * 4;
		all = sizeof(n) + name + ((size_t)n.n_descsz + 3) / 4 * 4;
		if (all > size)
			return false;
		if (n.n_namesz == sizeof(owner) &&
			memcmp(at + sizeof(n), owner, sizeof(owner)) == 0)
			return true;
		at += all;
		size -= all;
	}
	return false;
}

bool file_is_ours(const unsigned char *bytes, size_t size)
{
	Elf64_Ehdr h;

	if (!file_is_library(bytes, size))
		return false;
	memcpy(&h, bytes, sizeof(h));
	for (unsigned int i = 0; i < h.e_phnum; i++) {
		Elf64_Phdr p;

		if (h.e_phoff > size || (size - h.e_phoff) / sizeof(p) <= i)
			return false;
		memcpy(&p, bytes + h.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_NOTE && p.p_offset <= size &&
			p.p_filesz <= size - p.p_offset &&
			notes_are_ours(bytes + p.p_offset, p.p_filesz))
			return true;
	}
	return false;
}

bool file_has_name(const char *path, const char *soname)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t stem = strlen(soname) - strlen(".1");

	if (strncmp(base, soname, stem) != 0)
		return false;
	for (base += stem; *base; base += strspn(base, "0123456789"))
		if (*base++ != '.' || *base < '0' || *base > '9')
			return false;
	return true;
}

/* --- the loader's cache --- */

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
