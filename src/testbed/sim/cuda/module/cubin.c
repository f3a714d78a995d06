/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/cuda/module/cubin.h"

#include <elf.h>
#include <string.h>

#define MACHINE_CUDA 190  /* EM_CUDA */
#define OTHER_ENTRY  0x10 /* of a symbol: a kernel, no other function */
#define ABI_BYTE_1   8 /* from this ABI version on, the flags' second byte has the architecture */

/* Attributes: a format, a number, and 16 bits: the value, or the size of the value that follows. */
#define FORMAT_SIZED        4
#define ATTR_PARAM          0x17 /* EIATTR_KPARAM_INFO */
#define ATTR_PARAM_BYTES    0x19 /* EIATTR_CBANK_PARAM_SIZE */
#define PARAM_SIZE_SHIFT    18
#define PARAMS_BYTES_MAX    32768
#define INFO_PREFIX         ".nv.info."
#define GLOBAL_PREFIX       ".nv.global"
#define CONSTANT_PREFIX     ".nv.constant3"
#define PREFIX_LEN(literal) (sizeof(literal) - 1)

struct attribute {
	uint8_t format, number;
	uint16_t value;
};

struct param {
	uint32_t index;
	uint16_t ordinal, offset;
	uint32_t size; /* size: the bits above PARAM_SIZE_SHIFT */
};

/* The tables may be unaligned. */
static bool copy_from_image(const struct cubin *c, void *to, size_t from, size_t bytes)
{
	if (from > c->bytes || bytes > c->bytes - from)
		return false;
	memcpy(to, c->image + from, bytes);
	return true;
}

static bool read_section_header(const struct cubin *c, size_t i, Elf64_Shdr *ret)
{
	return i < c->section_count &&
	       copy_from_image(c, ret, c->sections + i * sizeof(*ret), sizeof(*ret));
}

/* A text that ends within its table, else NULL. */
static const char *get_table_text(const struct cubin *c, size_t table, size_t bytes, size_t at)
{
	const char *p = (const char *)c->image + table + at;

	return at < bytes && memchr(p, '\0', bytes - at) ? p : NULL;
}

bool cubin_is(const void *image)
{
	return strncmp(image, ELFMAG, SELFMAG) ==
	       0; /* reads no byte behind the end of a short text */
}

static unsigned arch_of(const Elf64_Ehdr *h)
{
	return h->e_ident[EI_ABIVERSION] >= ABI_BYTE_1 ? h->e_flags >> 8 & 0xff
						       : h->e_flags & 0xff;
}

static bool is_within(const struct cubin *c, const Elf64_Shdr *s)
{
	return s->sh_offset <= c->bytes && s->sh_size <= c->bytes - s->sh_offset;
}

static bool find_tables(struct cubin *c, size_t names)
{
	Elf64_Shdr s, strings;

	if (!read_section_header(c, names, &s) || !is_within(c, &s))
		return false;
	c->names = s.sh_offset;
	c->names_bytes = s.sh_size;
	for (size_t i = 0; i < c->section_count; i++) {
		if (!read_section_header(c, i, &s))
			return false;
		if (s.sh_type != SHT_SYMTAB)
			continue;
		if (!read_section_header(c, s.sh_link, &strings) || !is_within(c, &s) ||
			!is_within(c, &strings))
			return false;
		c->symbols = s.sh_offset;
		c->symbol_count = s.sh_size / sizeof(Elf64_Sym);
		c->strings = strings.sh_offset;
		c->strings_bytes = strings.sh_size;
	}
	return true;
}

/* Sets c->bytes to the end of the sections' data in the file. */
static bool measure_cubin(struct cubin *c, size_t max)
{
	size_t end = c->sections + c->section_count * sizeof(Elf64_Shdr);
	Elf64_Shdr s;

	c->bytes = max;
	for (size_t i = 0; i < c->section_count; i++) {
		if (!read_section_header(c, i, &s))
			return false;
		if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL)
			continue;
		if (!is_within(c, &s))
			return false;
		end = s.sh_offset + s.sh_size > end ? s.sh_offset + s.sh_size : end;
	}
	c->bytes = end;
	return true;
}

bool cubin_open(struct cubin *ret, const void *image, size_t max)
{
	Elf64_Ehdr h;

	*ret = (struct cubin){ .image = image, .bytes = max };
	if (!copy_from_image(ret, &h, 0, sizeof(h)) || !cubin_is(image) ||
		h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
		h.e_machine != MACHINE_CUDA || h.e_shentsize != sizeof(Elf64_Shdr) ||
		h.e_shoff > max || h.e_shnum > (max - h.e_shoff) / sizeof(Elf64_Shdr))
		return false;
	ret->arch = arch_of(&h);
	ret->sections = h.e_shoff;
	ret->section_count = h.e_shnum;
	return measure_cubin(ret, max) && find_tables(ret, h.e_shstrndx);
}

static const char *section_name(const struct cubin *c, const Elf64_Shdr *s)
{
	return get_table_text(c, c->names, c->names_bytes, s->sh_name);
}

static bool add_param(struct ptx_entry *e, const struct param *p)
{
	if (p->ordinal >= PTX_PARAMS_MAX)
		return false;
	if (p->ordinal >= e->param_count)
		e->param_count = p->ordinal + 1U;
	e->offsets[p->ordinal] = p->offset;
	e->sizes[p->ordinal] = p->size >> PARAM_SIZE_SHIFT;
	if (e->bytes < e->offsets[p->ordinal] + e->sizes[p->ordinal])
		e->bytes = e->offsets[p->ordinal] + e->sizes[p->ordinal];
	return e->bytes <= PARAMS_BYTES_MAX;
}

static bool read_kernel_attributes(const struct cubin *c, const Elf64_Shdr *s,
	struct ptx_entry *e)
{
	struct attribute a;
	struct param p;

	for (size_t at = s->sh_offset, end = s->sh_offset + s->sh_size; at < end;) {
		if (end - at < sizeof(a) || !copy_from_image(c, &a, at, sizeof(a)))
			return false;
		at += sizeof(a);
		if (a.number == ATTR_PARAM_BYTES && a.format != FORMAT_SIZED &&
			a.value > e->bytes && a.value <= PARAMS_BYTES_MAX)
			e->bytes = a.value;
		if (a.format != FORMAT_SIZED)
			continue;
		if (a.value > end - at)
			return false;
		if (a.number == ATTR_PARAM &&
			(a.value < sizeof(p) || !copy_from_image(c, &p, at, sizeof(p)) ||
				!add_param(e, &p)))
			return false;
		at += a.value;
	}
	return true;
}

/* A kernel without parameters may have no attributes. */
static bool read_cubin_kernel(const struct cubin *c, struct ptx_entry *e)
{
	Elf64_Shdr s;

	for (size_t i = 0; read_section_header(c, i, &s); i++) {
		const char *name = section_name(c, &s);

		if (name && !strncmp(name, INFO_PREFIX, PREFIX_LEN(INFO_PREFIX)) &&
			!strcmp(name + PREFIX_LEN(INFO_PREFIX), e->name))
			return read_kernel_attributes(c, &s, e);
	}
	return true;
}

/* False: no variable that programs can look up. */
static bool is_variable(const struct cubin *c, const Elf64_Sym *sym, enum ptx_kind *ret)
{
	const char *name;
	Elf64_Shdr s;

	if (!read_section_header(c, sym->st_shndx, &s))
		return false;
	name = section_name(c, &s);
	if (!name)
		return false;
	*ret = !strncmp(name, CONSTANT_PREFIX, PREFIX_LEN(CONSTANT_PREFIX)) ? PTX_CONSTANT
									    : PTX_GLOBAL;
	return *ret == PTX_CONSTANT || !strncmp(name, GLOBAL_PREFIX, PREFIX_LEN(GLOBAL_PREFIX));
}

int cubin_next(struct cubin *c, struct ptx_entry *ret)
{
	while (c->at < c->symbol_count) {
		enum ptx_kind kind = PTX_KERNEL;
		const char *name;
		Elf64_Sym s;

		if (!copy_from_image(c, &s, c->symbols + c->at * sizeof(s), sizeof(s)))
			return -1;
		c->at++;
		if (ELF64_ST_TYPE(s.st_info) == STT_FUNC
				? !(s.st_other & OTHER_ENTRY)
				: ELF64_ST_TYPE(s.st_info) != STT_OBJECT ||
					  !is_variable(c, &s, &kind))
			continue;
		name = get_table_text(c, c->strings, c->strings_bytes, s.st_name);
		if (!name || strlen(name) >= PTX_NAME_MAX)
			return -1;
		*ret = (struct ptx_entry){ .kind = kind };
		memcpy(ret->name, name, strlen(name) + 1);
		if (kind != PTX_KERNEL)
			ret->bytes = s.st_size < CUBIN_MAX_BYTES ? s.st_size : CUBIN_MAX_BYTES;
		else if (!read_cubin_kernel(c, ret))
			return -1;
		return 1;
	}
	return 0;
}
