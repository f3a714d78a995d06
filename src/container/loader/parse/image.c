/* SPDX-License-Identifier: Apache-2.0 */
#include "container/loader/parse/image.h"

#include <elf.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

/* The loader adds the base to these addresses in memory, but not where the section is read-only. */
static uintptr_t get_dynamic_address(uintptr_t base, const Elf64_Dyn *d)
{
	return d->d_un.d_ptr < base ? base + d->d_un.d_ptr : d->d_un.d_ptr;
}

bool image_of(uintptr_t base, const Elf64_Dyn *dynamic, struct loader_image *ret)
{
	uintptr_t soname = 0;

	*ret = (struct loader_image){ .base = base };
	for (const Elf64_Dyn *d = dynamic; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			ret->symbols = (const Elf64_Sym *)get_dynamic_address(base, d);
			break;
		case DT_STRTAB:
			ret->strings = (const char *)get_dynamic_address(base, d);
			break;
		case DT_VERSYM:
			ret->versions = (const uint16_t *)get_dynamic_address(base, d);
			break;
		case DT_HASH:
			ret->hash = (const uint32_t *)get_dynamic_address(base, d);
			break;
		case DT_GNU_HASH:
			ret->gnu = (const uint32_t *)get_dynamic_address(base, d);
			break;
		case DT_SONAME:
			soname = d->d_un.d_val;
			break;
		default:
			break;
		}
	}
	if (!ret->symbols || !ret->strings || (!ret->hash && !ret->gnu))
		return false;
	if (soname)
		ret->soname = ret->strings + soname;
	if (ret->gnu) {
		ret->bucket_count = ret->gnu[0];
		ret->first = ret->gnu[1];
		ret->bloom_words = ret->gnu[2];
		ret->bloom_shift = ret->gnu[3];
		ret->bloom = (const Elf64_Addr *)(ret->gnu + 4);
		ret->buckets = (const uint32_t *)(ret->bloom + ret->bloom_words);
		ret->chain = ret->buckets + ret->bucket_count;
	}
	return true;
}

bool image_of_phdr(const struct dl_phdr_info *info, struct loader_image *ret)
{
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_DYNAMIC)
			return image_of(info->dlpi_addr,
				(const Elf64_Dyn *)(info->dlpi_addr + p->p_vaddr), ret);
	}
	return false;
}

void image_self(struct loader_image *ret)
{
	image_of((uintptr_t)__ehdr_start, _DYNAMIC, ret);
}

bool image_is_self(const struct dl_phdr_info *info)
{
	return info->dlpi_addr == (uintptr_t)__ehdr_start;
}

uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

static bool is_same_symbol_name(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

bool image_offers(const struct loader_image *im, uint32_t symbol)
{
	const Elf64_Sym *s = &im->symbols[symbol];
	unsigned int type = s->st_info & 15, bind = s->st_info >> 4;

	if (s->st_shndx == SHN_UNDEF || !s->st_value ||
		(bind != STB_GLOBAL && bind != STB_WEAK))
		return false;
	if (im->versions && im->versions[symbol] & 0x8000)
		return false;
	return type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE;
}

uint32_t image_find(const struct loader_image *im, const char *name)
{
	uint32_t h, i;

	if (!im->gnu) {
		/* Old objects: few, and rarely searched. */
		for (i = 1; i < im->hash[1]; i++)
			if (is_same_symbol_name(im->strings + im->symbols[i].st_name, name) &&
				image_offers(im, i))
				return i;
		return 0;
	}
	if (!im->bucket_count)
		return 0;
	h = gnu_hash(name);
	i = im->buckets[h % im->bucket_count];
	if (i < im->first)
		return 0;
	for (;; i++) {
		uint32_t word = im->chain[i - im->first];

		if ((word | 1) == (h | 1) &&
			is_same_symbol_name(im->strings + im->symbols[i].st_name, name) &&
			image_offers(im, i))
			return i;
		if (word & 1)
			return 0;
	}
}

void *image_address(const struct loader_image *im, const char *name)
{
	uint32_t i = image_find(im, name);

	return i ? (void *)(im->base + im->symbols[i].st_value) : NULL;
}

uint32_t image_count(const struct loader_image *im)
{
	uint32_t last = 0;

	if (im->hash)
		return im->hash[1];
	for (uint32_t b = 0; b < im->bucket_count; b++)
		if (im->buckets[b] > last)
			last = im->buckets[b];
	if (last < im->first)
		return im->first;
	while (!(im->chain[last - im->first] & 1))
		last++;
	return last + 1;
}
