/* SPDX-License-Identifier: Apache-2.0 */
#include "io/cdi/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/fd.h"

#if defined(__aarch64__)
#	define OUR_MACHINE EM_AARCH64
#else
#	define OUR_MACHINE EM_X86_64
#endif

#define DYNAMIC_BLOCK 64 /* entries of one read; most libraries have fewer */

struct elf_image {
	elf_read_fn *read;
	void *arg;
	struct error *err;
	Elf64_Phdr segments[ELF_SEGMENTS_MAX];
	uint16_t n_segments;
};

static int set_elf_error(struct elf_image *e, const char *what)
{
	return error_set(e->err, ERR_INVALID, "not a good ELF file: %s", what);
}

static int read_segments(struct elf_image *e)
{
	Elf64_Ehdr h;

	if (!e->read(e->arg, 0, &h, sizeof(h)))
		return set_elf_error(e, "it is too short");
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return set_elf_error(e, "expected 7f 'ELF' at its start");
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
		h.e_machine != OUR_MACHINE)
		return error_set(e->err, ERR_UNSUPPORTED,
			"an ELF file of another machine: class %u, machine %u",
			h.e_ident[EI_CLASS], h.e_machine);
	if (h.e_phnum > ELF_SEGMENTS_MAX || h.e_phentsize != sizeof(Elf64_Phdr))
		return set_elf_error(e, "odd program headers");
	e->n_segments = h.e_phnum;
	if (!e->read(e->arg, h.e_phoff, e->segments, h.e_phnum * sizeof(Elf64_Phdr)))
		return set_elf_error(e, "its program headers are cut off");
	return 0;
}

/* Finds the file offset of what is loaded at @address, and the number of bytes there. */
static bool file_offset(const struct elf_image *e, uint64_t address, uint64_t *ret,
	uint64_t *ret_len)
{
	for (uint16_t i = 0; i < e->n_segments; i++) {
		const Elf64_Phdr *p = &e->segments[i];

		if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
			address - p->p_vaddr < p->p_filesz) {
			*ret_len = p->p_filesz - (address - p->p_vaddr);
			return !__builtin_add_overflow(address - p->p_vaddr, p->p_offset, ret);
		}
	}
	return false;
}

struct dynamic {
	bool has_soname, has_strings;
	uint64_t soname, strings; /* offset in the strings; address of the strings */
};

/* False: this is the last entry. */
static bool read_dynamic_entry(const Elf64_Dyn *d, struct dynamic *ret)
{
	if (d->d_tag == DT_SONAME) {
		ret->soname = d->d_un.d_val;
		ret->has_soname = true;
	} else if (d->d_tag == DT_STRTAB) {
		ret->strings = d->d_un.d_ptr;
		ret->has_strings = true;
	}
	return d->d_tag != DT_NULL;
}

static int read_dynamic_section(struct elf_image *e, const Elf64_Phdr *p, struct dynamic *ret)
{
	uint64_t n = p->p_filesz / sizeof(Elf64_Dyn), offset = p->p_offset, some;
	Elf64_Dyn block[DYNAMIC_BLOCK];

	if (n > ELF_DYNAMIC_MAX || p->p_offset > INT64_MAX)
		return set_elf_error(e, "an odd dynamic section");
	for (; n > 0; n -= some, offset += some * sizeof(*block)) {
		some = n < DYNAMIC_BLOCK ? n : DYNAMIC_BLOCK;
		if (!e->read(e->arg, offset, block, some * sizeof(*block)))
			return set_elf_error(e, "its dynamic section is cut off");
		for (uint64_t i = 0; i < some; i++)
			if (!read_dynamic_entry(&block[i], ret))
				return 0;
	}
	return 0;
}

/* Reads the SONAME at @offset; @len bytes remain in the strings. */
static int read_elf_soname(struct elf_image *e, uint64_t offset, uint64_t len, char *ret)
{
	char name[ELF_SONAME_MAX];
	const char *end;

	if (len > sizeof(name))
		len = sizeof(name);
	if (offset > INT64_MAX || !e->read(e->arg, offset, name, len))
		return set_elf_error(e, "its SONAME is cut off");
	end = memchr(name, '\0', len);
	if (!end)
		return set_elf_error(e, "its SONAME does not end");
	memcpy(ret, name, (size_t)(end - name) + 1);
	return end > name ? 0 : ELF_E_NONE;
}

int elf_soname(char *ret, elf_read_fn *read, void *arg, struct error *err)
{
	struct elf_image e = { .read = read, .arg = arg, .err = err };
	struct dynamic d = { 0 };
	uint64_t strings, len;

	if (read_segments(&e) < 0)
		return -1;
	for (uint16_t i = 0; i < e.n_segments; i++)
		if (e.segments[i].p_type == PT_DYNAMIC &&
			read_dynamic_section(&e, &e.segments[i], &d) < 0)
			return -1;
	if (!d.has_soname)
		return ELF_E_NONE;
	if (!d.has_strings || !file_offset(&e, d.strings, &strings, &len) || d.soname >= len ||
		__builtin_add_overflow(strings, d.soname, &strings))
		return set_elf_error(&e, "its SONAME is nowhere");
	return read_elf_soname(&e, strings, len - d.soname, ret);
}

static bool read_fd(void *arg, uint64_t offset, void *to, size_t len)
{
	const int *fd = arg;
	ssize_t n;

	if (offset > INT64_MAX)
		return false;
	do
		n = pread(*fd, to, len, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n >= 0 && (size_t)n == len;
}

int elf_file_soname(char *ret, const char *path, struct error *err)
{
	CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r;

	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	r = elf_soname(ret, read_fd, &fd, err);
	return r < 0 ? error_prefix(err, "'%s'", path) : r;
}
