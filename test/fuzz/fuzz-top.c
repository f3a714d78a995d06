/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/view.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The canvas has no bytes that control a terminal, and no line that is too wide. */
static void check_canvas(const struct canvas *c)
{
	size_t column = 0;

	for (size_t i = 0; i < c->text.len; i++) {
		unsigned char byte = (unsigned char)c->text.data[i];

		if (byte != '\n' && (byte < 0x20 || byte >= 0x7f))
			__builtin_trap();
		column = byte == '\n' ? 0 : column + 1;
		if (column > c->width)
			__builtin_trap();
	}
}

/* The agent's answer as `gpuslice top` reads and draws it, on a terminal of some size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	CLEANUP(top_model_freep) struct top_model *m = NULL;
	struct error err = ERROR_INIT;

	if (top_model_read(&m, (const char *)data, len, &err) < 0)
		return 0;
	for (unsigned i = 0; i < TOP_BOARDS * 2; i++) {
		struct top_state s = { .width = i % 2 ? 140 : 20 + (unsigned)(len % 80),
			.height = i % 2 ? 0 : 24,
			.choice = { .table = (enum top_table)(i % TOP_BOARDS),
				.sort = (enum top_sort)(len % TOP_SORT_COUNT_),
				.reverse = len % 3 == 0,
				.filter = "a" } };
		struct canvas c;

		s.choice.filter[0] = len % 5 ? '\0' : 'a';
		canvas_init(&c, s.width, false);
		if (top_screen(&c, m, &s, &err) == 0)
			check_canvas(&c);
		canvas_fini(&c);
	}
	return 0;
}
