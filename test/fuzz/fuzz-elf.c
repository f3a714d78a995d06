/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "io/cdi/elf.h"

#include <stdlib.h>
#include <string.h>

struct file {
	const uint8_t *data;
	size_t size;
};

static bool read_at(void *arg, uint64_t offset, void *to, size_t len)
{
	const struct file *f = arg;

	if (offset > f->size || len > f->size - offset)
		return false;
	memcpy(to, f->data + offset, len);
	return true;
}

/* A shared library: its SONAME is a text that ends, or there is a reason. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file f = { data, size };
	struct error err = ERROR_INIT;
	char soname[ELF_SONAME_MAX];
	int r = elf_soname(soname, read_at, &f, &err);

	if (r < 0 ? err.code == ERR_NONE
		  : r == 0 && strnlen(soname, sizeof(soname)) == sizeof(soname))
		abort();
	return 0;
}
