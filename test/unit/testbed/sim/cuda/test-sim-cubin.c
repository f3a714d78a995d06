/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "testbed/sim/cuda/module/cubin.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/*
 * Cubins as compilers of CUDA 11 (ABI 7) and 13 (ABI 8) lay them out, as far as it is read: a kernel with three
 * parameters, a device function, a variable, a constant.
 */
enum { NAMES = 1, STRINGS, SYMBOLS, TEXT, INFO, GLOBAL, CONSTANT, SECTIONS };

static const char names[] =
	"\0.shstrtab\0.strtab\0.symtab\0.text.scale\0.nv.info.scale\0.nv.global\0.nv.constant3";
static const char strings[] = "\0scale\0helper\0counter\0limits";

struct file {
	Elf64_Ehdr head;
	Elf64_Shdr sections[SECTIONS];
	Elf64_Sym symbols[5];
	uint8_t info[3 * 16 + 20];
	char names[sizeof(names)], strings[sizeof(strings)];
};

static uint32_t at_of(const char *table, size_t n, const char *word)
{
	for (size_t i = 1; i < n; i++)
		if (!table[i - 1] && !strcmp(table + i, word))
			return (uint32_t)i;
	fail_msg("no %s", word);
	return 0;
}

static void set_elf_section(struct file *f, unsigned i, const char *name, uint32_t type,
	const void *data, size_t bytes)
{
	f->sections[i] = (Elf64_Shdr){ .sh_name = at_of(names, sizeof(names), name),
		.sh_type = type,
		.sh_offset = data ? (size_t)((const char *)data - (const char *)f) : sizeof(*f),
		.sh_size = bytes };
}

static void set_elf_symbol(struct file *f, unsigned i, const char *name, unsigned type,
	unsigned other, unsigned section, size_t bytes)
{
	f->symbols[i] = (Elf64_Sym){ .st_name = at_of(strings, sizeof(strings), name),
		.st_info = ELF64_ST_INFO(STB_GLOBAL, type),
		.st_other = (unsigned char)other,
		.st_shndx = (Elf64_Section)section,
		.st_size = bytes };
}

/* Compilers write the last parameter first. */
static void set_kernel_params(struct file *f)
{
	static const struct {
		uint16_t ordinal, offset, bytes;
	} params[] = { { 2, 12, 300 }, { 1, 8, 2 }, { 0, 0, 8 } };
	uint8_t *p = f->info;

	for (size_t i = 0; i < ARRAY_LEN(params); i++, p += 16) {
		uint32_t size = (uint32_t)params[i].bytes << 18 | 0x1f000;

		memcpy(p, (const uint8_t[]){ 4, 0x17, 12, 0, 0, 0, 0, 0 }, 8);
		memcpy(p + 8, &params[i].ordinal, 2);
		memcpy(p + 10, &params[i].offset, 2);
		memcpy(p + 12, &size, 4);
	}
	memcpy(p, (const uint8_t[]){ 4, 0x37, 4, 0, 1, 0, 0, 0, 3, 0x1b, 0xff, 0 }, 12);
	memcpy(p + 12, (const uint8_t[]){ 3, 0x19, 0x38, 1, 2, 0x4c, 1, 1 }, 8); /* 312 bytes */
}

static struct file *make_cubin(unsigned abi, uint32_t flags)
{
	struct file *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	memcpy(f->head.e_ident, (const uint8_t[]){ ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3 },
		SELFMAG);
	f->head.e_ident[EI_CLASS] = ELFCLASS64;
	f->head.e_ident[EI_DATA] = ELFDATA2LSB;
	f->head.e_ident[EI_ABIVERSION] = (unsigned char)abi;
	f->head.e_machine = 190;
	f->head.e_flags = flags;
	f->head.e_shoff = offsetof(struct file, sections);
	f->head.e_shentsize = sizeof(Elf64_Shdr);
	f->head.e_shnum = SECTIONS;
	f->head.e_shstrndx = NAMES;
	memcpy(f->names, names, sizeof(names));
	memcpy(f->strings, strings, sizeof(strings));
	set_elf_section(f, NAMES, ".shstrtab", SHT_STRTAB, f->names, sizeof(names));
	set_elf_section(f, STRINGS, ".strtab", SHT_STRTAB, f->strings, sizeof(strings));
	set_elf_section(f, SYMBOLS, ".symtab", SHT_SYMTAB, f->symbols, sizeof(f->symbols));
	f->sections[SYMBOLS].sh_link = STRINGS;
	set_elf_section(f, TEXT, ".text.scale", SHT_NOBITS, NULL, 256);
	set_elf_section(f, INFO, ".nv.info.scale", SHT_LOPROC, f->info, sizeof(f->info));
	set_elf_section(f, GLOBAL, ".nv.global", SHT_NOBITS, NULL, 4);
	set_elf_section(f, CONSTANT, ".nv.constant3", SHT_NOBITS, NULL, 32);
	set_elf_symbol(f, 1, "helper", STT_FUNC, 0, TEXT, 64);
	set_elf_symbol(f, 2, "counter", STT_OBJECT, 0, GLOBAL, 4);
	set_elf_symbol(f, 3, "limits", STT_OBJECT, 0, CONSTANT, 32);
	set_elf_symbol(f, 4, "scale", STT_FUNC, 0x10, TEXT, 256);
	set_kernel_params(f);
	return f;
}

static void cubin_open__accepts_both_abis(void **state)
{
	struct file *old = make_cubin(7, 0x5a055a), *new = make_cubin(8, 0x6005a04);
	struct cubin c;

	(void)state;
	assert_true(cubin_is(old));
	assert_false(cubin_is(".version 8.0"));
	assert_false(cubin_is(""));
	assert_true(cubin_open(&c, old, CUBIN_MAX_BYTES));
	assert_int_equal(c.arch, 90);
	assert_int_equal(c.bytes, sizeof(*old));
	assert_true(cubin_open(&c, new, sizeof(*new)));
	assert_int_equal(c.arch, 90);
	free(old);
	free(new);
}

static void cubin_next__finds_kernels_and_variables(void **state)
{
	struct file *f = make_cubin(8, 0x6005a04);
	struct ptx_entry e;
	struct cubin c;

	(void)state;
	assert_true(cubin_open(&c, f, sizeof(*f)));
	assert_int_equal(cubin_next(&c, &e), 1);
	assert_string_equal(e.name, "counter");
	assert_int_equal(e.kind, PTX_GLOBAL);
	assert_int_equal(e.bytes, 4);
	assert_int_equal(cubin_next(&c, &e), 1);
	assert_string_equal(e.name, "limits");
	assert_int_equal(e.kind, PTX_CONSTANT);
	assert_int_equal(e.bytes, 32);
	assert_int_equal(cubin_next(&c, &e), 1);
	assert_string_equal(e.name, "scale");
	assert_int_equal(e.kind, PTX_KERNEL);
	assert_int_equal(e.param_count, 3);
	assert_int_equal(e.sizes[0], 8);
	assert_int_equal(e.offsets[1], 8);
	assert_int_equal(e.sizes[1], 2);
	assert_int_equal(e.offsets[2], 12);
	assert_int_equal(e.sizes[2], 300);
	assert_int_equal(e.bytes, 312);
	assert_int_equal(cubin_next(&c, &e), 0);
	free(f);
}

/* Each length, and each byte that is another: nothing is read beyond the end, which sanitizers and fuzz-cubin watch. */
static void cubin__survives_damage(void **state)
{
	struct file *f = make_cubin(8, 0x6005a04);
	struct ptx_entry e;
	struct cubin c;

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(*f); bytes++) {
		unsigned char *cut = malloc(bytes + 1);

		assert_non_null(cut);
		memcpy(cut, f, bytes);
		assert_false(cubin_open(&c, cut, bytes));
		free(cut);
	}
	for (size_t i = 0; i < sizeof(*f); i++) {
		unsigned char *p = (unsigned char *)f + i, was = *p;

		*p ^= 0xff;
		if (cubin_open(&c, f, sizeof(*f)))
			while (cubin_next(&c, &e) == 1)
				assert_true(strlen(e.name) < PTX_NAME_MAX);
		*p = was;
	}
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cubin_open__accepts_both_abis),
		cmocka_unit_test(cubin_next__finds_kernels_and_variables),
		cmocka_unit_test(cubin__survives_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
