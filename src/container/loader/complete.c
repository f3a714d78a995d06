/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making our dynamic symbol table say what the real library's says, in place.
 *
 * A program may look for a function of a newer driver than our list knows, by dlsym() on the handle
 * that dlopen() gave it, which is ours; and one that looks for a function that this driver lacks
 * must not find it. Instead of standing in front of dlsym, the table that dlsym reads is corrected:
 *
 * - A name is hidden by changing the word of its hash: one store.
 * - A name is added by copying the chain of its bucket, with the new symbol at its end, into spare
 *   places (gen-forward.py), and then letting the bucket point there: again one store. Others may
 *   read the table at the same time: they see the old chain or the new one.
 *
 * Symbols may have any address, so the new ones are the real library's own; names may lie anywhere
 * in our 4 GiB, so they are in .bss. All our symbols have the same version (none), so that table
 * stays as it is. The pages are private copies from then on; none of them holds code.
 */
#include "container/loader/internal.h"
#include "container/client/warn.h"

#include <sys/mman.h>

#define NAME_BYTES (32 << 10)

static char new_names[NAME_BYTES];

/* Static, and moved on only after each step: a child that was forked off in the middle goes on. */
static struct symbol_table {
	struct loader_image im; /* ours */
	uint32_t next, end;     /* spare places that are left; 0: not looked for */
	uint32_t name_bytes;    /* of new_names, in use */
	bool cleared;           /* the spares are out of their own bucket */
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

/* The place of a copy of bucket @b's chain with one free place at its end; 0: no room. Spares are
 * not worth copying. */
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
 * The bucket of the spares must not lead through them any more. Symbols of ours that are in it too
 * get the first places. (Who walks it at this very moment could miss one behind the spares; the
 * linkers put none there, which check-runtime.sh holds.)
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

/* Names of the list that this driver lacks. */
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
