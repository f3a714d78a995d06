/* SPDX-License-Identifier: Apache-2.0 */
#include "container/cuda/memory/code-size.h"

#include <stdbool.h>
#include <string.h>

#define WRAPPER_MAGIC UINT32_C(0x466243b1) /* points to a fat binary */
#define FAT_MAGIC     UINT32_C(0xba55ed50)
#define FAT_ELF       2
#define FAT_PACKED    UINT64_C(0xa000) /* flags: compressed by either method */

#define ELF_BYTES     64 /* of the header of a 64-bit file, and of a section header */
#define ELF_SHOFF     40
#define ELF_SHENTRY   58
#define ELF_SHNUM     60
#define SECTION_TYPE  4
#define SECTION_FLAGS 8
#define SECTION_SIZE  32
#define NOBITS        8
#define ALLOC         2

#define TEXT_MAX (UINT64_C(1) << 32)

/* Little-endian, as every host of CUDA. */
static uint64_t read_code_word(const unsigned char *p, size_t bytes)
{
	uint64_t n = 0;

	memcpy(&n, p, bytes);
	return n;
}

static uint64_t add_code_bytes(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Length of the file, plus its variables without bytes in the file. */
static uint64_t elf_bytes(const unsigned char *p, size_t len)
{
	uint64_t at, n, sum;

	if (len < ELF_BYTES || p[4] != 2 /* 64-bit */ ||
		read_code_word(p + ELF_SHENTRY, 2) != ELF_BYTES)
		return 0;
	at = read_code_word(p + ELF_SHOFF, 8);
	n = read_code_word(p + ELF_SHNUM, 2);
	if (at > TEXT_MAX || at > len || n * ELF_BYTES > len - at)
		return 0;
	sum = at + n * ELF_BYTES;
	for (uint64_t i = 0; i < n; i++) {
		const unsigned char *s = p + at + i * ELF_BYTES;

		if (read_code_word(s + SECTION_TYPE, 4) == NOBITS &&
			read_code_word(s + SECTION_FLAGS, 8) & ALLOC)
			sum = add_code_bytes(sum, read_code_word(s + SECTION_SIZE, 8));
	}
	return sum;
}

/* Several images, of which the driver loads one: the size of all, plus the largest elf_bytes() of any. */
static uint64_t fat_bytes(const unsigned char *p, size_t len)
{
	uint64_t header = len < 16 ? 0 : read_code_word(p + 6, 2),
		 size = len < 16 ? 0 : read_code_word(p + 8, 8), max = 0;

	if (header < 16 || size > TEXT_MAX || header > len || size > len - header)
		return 0;
	for (uint64_t at = header; header + size - at >= ELF_BYTES;) {
		const unsigned char *e = p + at;
		uint64_t e_header = read_code_word(e + 4, 4), e_size = read_code_word(e + 8, 8),
			 left = header + size - at;

		if (e_header < 48 || e_header > left || e_size > left - e_header)
			break;
		if (read_code_word(e, 2) == FAT_ELF &&
			!(read_code_word(e + 40, 8) & FAT_PACKED)) {
			uint64_t n = elf_bytes(e + e_header, e_size);

			if (n > max)
				max = n;
		}
		at += e_header + e_size;
	}
	return add_code_bytes(header + size, max);
}

static bool is_ptx_text_char(unsigned char c)
{
	return c == '\t' || c == '\n' || c == '\r' || (c >= ' ' && c < 127);
}

uint64_t code_bytes(const void *image, size_t len)
{
	const unsigned char *p = image;
	const void *inner;

	if (!p || len < 8)
		return 0;
	if (!memcmp(p, "\177ELF", 4))
		return elf_bytes(p, len);
	if (read_code_word(p, 4) == FAT_MAGIC)
		return fat_bytes(p, len);
	/* Only for an image from the program itself: a pointer in a file is invalid. */
	if (read_code_word(p, 4) == WRAPPER_MAGIC && len == CODE_LEN_UNKNOWN) {
		memcpy(&inner, p + 8, sizeof(inner));
		if (inner && read_code_word(inner, 4) == FAT_MAGIC)
			return fat_bytes(inner, CODE_LEN_UNKNOWN);
	}
	if (is_ptx_text_char(*p)) /* PTX */
		return len == CODE_LEN_UNKNOWN ? strlen(image) : strnlen(image, len);
	return 0;
}
