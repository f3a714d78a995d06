/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "container/loader/parse/file.h"
#include "container/loader/parse/image.h"

#include <elf.h>
#include <unistd.h>

/* A loader's cache in the making: entries and strings behind the header. */
struct maker {
	unsigned char bytes[4096];
	size_t start;         /* of the header */
	uint32_t count, room; /* entries; for how many there is room */
	size_t size;
};

static void put32(unsigned char *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

static void maker_begin(struct maker *m, bool behind_old, uint32_t room)
{
	memset(m, 0, sizeof(*m));
	m->room = room;
	if (behind_old) {
		memcpy(m->bytes, "ld.so-1.7.0", 11);
		put32(m->bytes + 12, 1);
		m->start = 32;
	}
	memcpy(m->bytes + m->start, "glibc-ld.so.cache1.1", 20);
	m->size = m->start + 48 + (size_t)room * 24;
}

static uint32_t maker_string(struct maker *m, const char *s)
{
	uint32_t at = (uint32_t)(m->size - m->start);

	memcpy(m->bytes + m->size, s, strlen(s) + 1);
	m->size += strlen(s) + 1;
	return at;
}

static void maker_add(struct maker *m, const char *name, const char *path, uint32_t flags,
	uint64_t capabilities)
{
	unsigned char *e = m->bytes + m->start + 48 + (size_t)m->count++ * 24;

	assert_true(m->count <= m->room);
	put32(e, flags);
	put32(e + 4, maker_string(m, name));
	put32(e + 8, maker_string(m, path));
	memcpy(e + 16, &capabilities, sizeof(capabilities));
	put32(m->bytes + m->start + 20, m->count);
}

struct found {
	char text[256];
	const char *wanted; /* NULL: see all */
};

static bool note_path(const char *path, void *arg)
{
	struct found *f = arg;

	snprintf(f->text + strlen(f->text), sizeof(f->text) - strlen(f->text), "%s ", path);
	return f->wanted && strcmp(f->wanted, path) == 0;
}

static bool search_cache(const struct maker *m, size_t size, struct found *f)
{
	return cache_each(m->bytes, size, "libcuda.so.1", CACHE_FLAGS, note_path, f);
}

static void make_usual(struct maker *m, bool behind_old)
{
	maker_begin(m, behind_old, 6);
	maker_add(m, "libcudart.so.1", "/lib/libcudart.so.1", CACHE_FLAGS, 0);
	maker_add(m, "libcuda.so.1", "/32/libcuda.so.1", 0x0003, 0);
	maker_add(m, "libcuda.so.1", "/fast/libcuda.so.1", CACHE_FLAGS, 1);
	maker_add(m, "libcuda.so.1", "/compat/libcuda.so.1", CACHE_FLAGS, 0);
	maker_add(m, "libcuda.so.1", "/usr/lib/libcuda.so.1", CACHE_FLAGS, 0);
	maker_add(m, "libcuda.so.1", "relative/libcuda.so.1", CACHE_FLAGS, 0);
}

static void cache_each__returns_files_of_this_machine_in_order(void **state)
{
	struct maker m;
	struct found all = { "", NULL }, first = { "", "/compat/libcuda.so.1" };

	(void)state;
	for (int old = 0; old < 2; old++) {
		make_usual(&m, old);
		all.text[0] = first.text[0] = '\0';
		assert_false(search_cache(&m, m.size, &all));
		assert_string_equal(all.text, "/compat/libcuda.so.1 /usr/lib/libcuda.so.1 ");
		assert_true(search_cache(&m, m.size, &first));
		assert_string_equal(first.text, "/compat/libcuda.so.1 ");
	}
}

static void cache_each__reads_nothing_beyond_the_bytes(void **state)
{
	struct maker m;

	(void)state;
	for (int old = 0; old < 2; old++) {
		make_usual(&m, old);
		for (size_t size = 0; size < m.size; size++) {
			/* Each prefix has an allocation of its own size, so that a sanitizer detects a read
			 * beyond its end. */
			void *bytes = malloc(size ? size : 1);
			struct found f = { "", NULL };

			memcpy(bytes, m.bytes, size);
			cache_each(bytes, size, "libcuda.so.1", CACHE_FLAGS, note_path, &f);
			free(bytes);
		}
	}
}

static void cache_each__rejects_a_file_that_is_no_cache(void **state)
{
	struct maker m;
	struct found f = { "", NULL };

	(void)state;
	make_usual(&m, false);
	put32(m.bytes + 20, UINT32_MAX);
	assert_false(search_cache(&m, m.size, &f));
	make_usual(&m, false);
	m.bytes[0] = 'G';
	assert_false(search_cache(&m, m.size, &f));
	make_usual(&m, true);
	put32(m.bytes + 12, UINT32_MAX);
	assert_false(search_cache(&m, m.size, &f));
	assert_string_equal(f.text, "");
}

static void file_has_name__accepts_names_of_the_driver(void **state)
{
	static const struct {
		const char *path;
		bool is;
	} rows[] = {
		{ "libcuda.so", true },
		{ "libcuda.so.1", true },
		{ "libcuda.so.580.159.04", true },
		{ "/usr/lib/libcuda.so.1", true },
		{ "./libcuda.so", true },
		{ "libcuda.so.2", true },
		{ "", false },
		{ "/", false },
		{ "libcuda", false },
		{ "libcuda.so.", false },
		{ "libcuda.so.1.", false },
		{ "libcuda.so..1", false },
		{ "libcuda.so.1.bak", false },
		{ "libcuda.so.1a", false },
		{ "libcuda.so1", false },
		{ "libcudart.so.12", false },
		{ "libcudadebugger.so.1", false },
		{ "/libcuda.so.1/libfoo.so", false },
		{ "libnvidia-ml.so.1", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (file_has_name(rows[i].path, "libcuda.so.1") != rows[i].is)
			fail_msg("'%s': expected %d", rows[i].path, rows[i].is);
	assert_true(file_has_name("libnvidia-ml.so", "libnvidia-ml.so.1"));
}

static size_t make_library(unsigned char bytes[512], const char *owner)
{
	Elf64_Ehdr h = { .e_ident = ELFMAG "\2\1\1",
		.e_type = ET_DYN,
		.e_phoff = sizeof(h),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2 };
	Elf64_Phdr p[2] = { { .p_type = PT_LOAD },
		{ .p_type = PT_NOTE, .p_offset = 256, .p_filesz = 60 } };
	Elf64_Nhdr n[2] = { { 4, 16, 3 }, { 9, 4, 1 } };

#if defined(__x86_64__)
	h.e_machine = EM_X86_64;
#else
	h.e_machine = EM_AARCH64;
#endif
	memset(bytes, 0, 512);
	memcpy(bytes, &h, sizeof(h));
	memcpy(bytes + sizeof(h), p, sizeof(p));
	memcpy(bytes + 256, &n[0], 12);
	memcpy(bytes + 268, "GNU", 4);
	memcpy(bytes + 288, &n[1], 12);
	memcpy(bytes + 300, owner, strlen(owner) + 1);
	return 512;
}

static void file_is_ours__depends_on_the_elf_note(void **state)
{
	unsigned char bytes[512];
	size_t size = make_library(bytes, "gpuslice");

	(void)state;
	assert_true(file_is_library(bytes, size));
	assert_true(file_is_ours(bytes, size));
	make_library(bytes, "gpuslicf");
	assert_true(file_is_library(bytes, size));
	assert_false(file_is_ours(bytes, size));
	make_library(bytes, "gpuslice");
	bytes[EI_CLASS] = ELFCLASS32;
	assert_false(file_is_library(bytes, size));
	assert_false(file_is_ours(bytes, size));
}

static void file_is_ours__reads_nothing_beyond_the_bytes(void **state)
{
	unsigned char bytes[512];
	size_t all = make_library(bytes, "gpuslice");

	(void)state;
	for (size_t size = 0; size < all; size++) {
		unsigned char *part = malloc(size ? size : 1);

		memcpy(part, bytes, size);
		assert_true(!file_is_ours(part, size) || size >= 316);
		free(part);
	}
}

struct lookup {
	const char *soname, *symbol;
	void *address;
};

static int look_up(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct lookup *l = arg;
	struct loader_image im;

	(void)size;
	if (!image_of_phdr(info, &im) || !im.soname || strcmp(im.soname, l->soname) != 0)
		return 0;
	l->address = image_address(&im, l->symbol);
	return 1;
}

static void image_find__agrees_with_the_dynamic_loader(void **state)
{
	struct lookup there = { "libc.so.6", "getpid", NULL };
	struct lookup not_there = { "libc.so.6", "no_such_function", NULL };

	(void)state;
	dl_iterate_phdr(look_up, &there);
	dl_iterate_phdr(look_up, &not_there);
	assert_non_null(there.address);
	assert_int_equal(((pid_t(*)(void))there.address)(), getpid());
	assert_null(not_there.address);
}

/* A version script of old symbols ("@") beside new ones ("@@"): the new one counts. */
static int image_find__finds_each_offered_symbol(struct dl_phdr_info *info, size_t size,
	void *arg)
{
	struct loader_image im;
	int *n = arg;

	(void)size;
	if (!image_of_phdr(info, &im) || !im.soname || strncmp(im.soname, "libc.so", 7) != 0)
		return 0;
	for (uint32_t i = 1; i < image_count(&im); i++) {
		const char *name = im.strings + im.symbols[i].st_name;

		if (!image_offers(&im, i))
			continue;
		*n += 1;
		if (!image_find(&im, name))
			fail_msg("%s is not found", name);
	}
	return 1;
}

static void image_find__finds_each_symbol_of_libc(void **state)
{
	int n = 0;

	(void)state;
	dl_iterate_phdr(image_find__finds_each_offered_symbol, &n);
	assert_true(n > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_each__returns_files_of_this_machine_in_order),
		cmocka_unit_test(cache_each__reads_nothing_beyond_the_bytes),
		cmocka_unit_test(cache_each__rejects_a_file_that_is_no_cache),
		cmocka_unit_test(file_has_name__accepts_names_of_the_driver),
		cmocka_unit_test(file_is_ours__depends_on_the_elf_note),
		cmocka_unit_test(file_is_ours__reads_nothing_beyond_the_bytes),
		cmocka_unit_test(image_find__agrees_with_the_dynamic_loader),
		cmocka_unit_test(image_find__finds_each_symbol_of_libc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
