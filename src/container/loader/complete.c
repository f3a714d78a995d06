/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives this library's dynamic symbol table the names of the real library, in place.
 *
 * Why. A program may call dlsym() on the handle that dlopen() returned, which is that of this library. It may
 * look for a function of a driver that is newer than the list of names, and must find it. It may look for a
 * function that this driver lacks, and must not find it. dlsym stays unhooked; this file corrects the table that
 * it reads:
 *
 * - To hide a name, the thread changes the word of its hash: one store.
 * - To add a name, the thread
 *	1. copies the chain of its bucket, with the new symbol at its end, to spare places (gen-forward.py);
 *	2. sets the name's bits in the Bloom filter;
 *	3. stores the new start of the chain in the bucket (release): again one store.
 *   A thread that reads the table at the same time sees the old chain or the new one.
 *
 * Symbols may have any address, so the new ones have the real library's. Names may be anywhere in the 4 GiB
 * after the string table, so they are in .bss. All symbols of this library have the same version (none), so that
 * table stays unchanged. The changed pages become private copies; none of them holds code.
 */
#include "container/loader/internal.h"
#include "container/sys.h"

#include <sys/mman.h>

#define NAME_BYTES (32 << 10)

static char new_names[NAME_BYTES];

/* Static, and advanced only after each step: a child that was forked in between continues. */
static struct symbol_table {
	struct loader_image im; /* of this library */
	uint32_t next, end;     /* free spare places; .end 0: not found yet */
	uint32_t name_bytes;    /* used bytes of new_names */
	bool cleared;           /* the spares are no longer in their own bucket */
} table;

static uint32_t *chain_of(struct symbol_table *t, uint32_t symbol)
{
	return (uint32_t *)(uintptr_t)&t->im.chain[symbol - t->im.first];
}

static bool protect_symbol_pages(const void *from, const void *to, int access)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t a = (uintptr_t)from & ~(page - 1),
		  b = ((uintptr_t)to + page - 1) & ~(page - 1);

	return mprotect((void *)a, b - a, access) == 0;
}

static bool set_table_access(struct symbol_table *t, int access)
{
	uint32_t n = image_count(&t->im);

	return protect_symbol_pages(t->im.gnu, &t->im.chain[n - t->im.first], access) &&
	       protect_symbol_pages(t->im.symbols, t->im.symbols + n, access);
}

static bool find_spares(struct symbol_table *t)
{
	uint32_t i, word;

	if (t->end)
		return true;
	image_self(&t->im);
	if (!t->im.gnu || !t->im.bucket_count)
		return false;
	i = t->im.buckets[forward_spare_hash % t->im.bucket_count];
	if (i < t->im.first)
		return false;
	do {
		word = *chain_of(t, i);
		if ((word | 1) == (forward_spare_hash | 1)) {
			if (!t->next)
				t->next = i;
			t->end = i + 1;
		}
		i++;
	} while (!(word & 1));
	return t->next != 0;
}

static void copy_symbol(struct symbol_table *t, uint32_t to, uint32_t from)
{
	((Elf64_Sym *)(uintptr_t)t->im.symbols)[to] = t->im.symbols[from];
}

/* Copies the chain of bucket @b, without spares, and leaves one free place at the end of the copy. Returns the
 * index of the copy; 0: no space. */
static uint32_t copy_chain(struct symbol_table *t, uint32_t b, uint32_t *free_place)
{
	uint32_t old = t->im.buckets[b], to = t->next, word;

	if (old >= t->im.first) {
		do {
			word = *chain_of(t, old);
			if ((word | 1) != (forward_spare_hash | 1)) {
				if (to + 1 >= t->end)
					return 0;
				copy_symbol(t, to, old);
				*chain_of(t, to++) = word & ~1U;
			}
			old++;
		} while (!(word & 1));
	}
	if (to >= t->end)
		return 0;
	*free_place = to;
	return t->next;
}

/*
 * Removes the spares from their bucket. Other symbols of this library in that bucket get the first places. A
 * thread that walks the bucket at this moment could miss a symbol after the spares. The linkers put none there
 * (check-runtime.sh verifies this).
 */
static void clear_spares(struct symbol_table *t)
{
	uint32_t b = forward_spare_hash % t->im.bucket_count, place = 0;
	uint32_t start = copy_chain(t, b, &place);

	if (t->cleared)
		return;
	if (place > start)
		*chain_of(t, place - 1) |= 1;
	__atomic_store_n((uint32_t *)(uintptr_t)&t->im.buckets[b], place > start ? start : 0,
		__ATOMIC_RELEASE);
	t->next = place;
	t->cleared = true;
}

static bool add_symbol_name(struct symbol_table *t, const char *name,
	const struct loader_image *real, uint32_t symbol)
{
	uint32_t h = gnu_hash(name), b = h % t->im.bucket_count, place = 0;
	uint32_t start = copy_chain(t, b, &place);
	uint32_t bits = (uint32_t)sizeof(Elf64_Addr) * 8;
	size_t length = strlen(name) + 1;
	Elf64_Sym *s = (Elf64_Sym *)(uintptr_t)&t->im.symbols[place];
	Elf64_Addr *bloom;

	if (!start || length > NAME_BYTES - t->name_bytes ||
		(uintptr_t)new_names - (uintptr_t)t->im.strings > UINT32_MAX - NAME_BYTES)
		return false;
	memcpy(new_names + t->name_bytes, name, length);
	/* st_shndx stays that of the spare: defined, and relative to the base. */
	s->st_name = (uint32_t)(new_names + t->name_bytes - t->im.strings);
	s->st_info = real->symbols[symbol].st_info;
	s->st_other = 0;
	s->st_value = real->base + real->symbols[symbol].st_value - t->im.base;
	s->st_size = real->symbols[symbol].st_size;
	*chain_of(t, place) = h | 1;

	bloom = (Elf64_Addr *)(uintptr_t)&t->im.bloom[h / bits % t->im.bloom_words];
	__atomic_fetch_or(bloom,
		(Elf64_Addr)1 << h % bits | (Elf64_Addr)1 << (h >> t->im.bloom_shift) % bits,
		__ATOMIC_RELEASE);
	__atomic_store_n((uint32_t *)(uintptr_t)&t->im.buckets[b], start, __ATOMIC_RELEASE);
	t->name_bytes += (uint32_t)length;
	t->next = place + 1;
	return true;
}

/* Hides the names of the list that this driver lacks. */
static void hide_missing(struct symbol_table *t, const struct loader_image *real)
{
	for (uint32_t i = 0; i < forward_count; i++) {
		const char *name = forward_names + forward_name_at[i];
		uint32_t symbol;

		if (image_find(real, name))
			continue;
		symbol = image_find(&t->im, name);
		if (symbol)
			__atomic_store_n(chain_of(t, symbol), *chain_of(t, symbol) ^ ~1U,
				__ATOMIC_RELEASE);
	}
}

void complete_names(const struct loader_image *real)
{
	struct symbol_table *t = &table;
	uint32_t count = image_count(real), left = 0;

	if (!find_spares(t) || !set_table_access(t, PROT_READ | PROT_WRITE)) {
		warn_once(WARN_NEW_NAMES, "%s: names of the driver's cannot be added to ours",
			forward_soname);
		return;
	}
	clear_spares(t);
	hide_missing(t, real);
	for (uint32_t i = 1; i < count; i++) {
		const char *name = real->strings + real->symbols[i].st_name;

		if (strncmp(name, forward_prefix, strlen(forward_prefix)) != 0 ||
			!image_offers(real, i) || image_find(&t->im, name))
			continue;
		left += !add_symbol_name(t, name, real, i);
	}
	set_table_access(t, PROT_READ);
	if (left)
		warn_once(WARN_NEW_NAMES,
			"%s of the driver has %u names more than there is room for",
			forward_soname, left);
}
