/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "lib/base/buf.h"
#include "lib/yaml/yaml.h"
#include "tools/plan/make/make.h"

#include <stdlib.h>
#include <string.h>

/* Provisioners are a user's file. What they become is YAML, whatever is in them; an error is one line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64U << 20);
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	struct error err = ERROR_INIT;
	size_t n = 0;

	if (make_translation(&b, "f", (const char *)data, size, &n, &err) < 0) {
		if (err.code == ERR_NONE || !*err.msg || strchr(err.msg, '\n'))
			abort();
		return 0;
	}
	if (n && buf_ok(&b)) {
		const struct yaml_source src = { .name = "o",
			.text = buf_str(&b),
			.len = b.len,
			.values_max = 10000000 };

		/* A key that is given twice, or nests too deep, was refused before. */
		if (yaml_parse(&y, &src, &err) < 0 || y->n != n)
			abort();
	}
	return 0;
}
