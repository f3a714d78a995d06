/* SPDX-License-Identifier: Apache-2.0 */
#include "container/loader/parse/file.h"

#include <elf.h>
#include <link.h>
#include <string.h>

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
