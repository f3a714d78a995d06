/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cost/view/print.h"

#include "lib/base/escape.h"
#include "lib/base/utf8.h"
#include "io/price/price.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NANO_HOUR_NS 3600 /* nanoseconds in a billionth of an hour */

void cost_clean(struct buf *b, const char *text)
{
	CLEANUP(freep) char *valid = strdup(text);
	const char *p = valid;

	if (!valid) {
		b->failed = true;
		return;
	}
	utf8_make_valid(valid);
	while (*p) {
		size_t n = escape_control_len(p);

		buf_putc(b, n ? '?' : *p);
		p += n ? n : 1;
	}
}

const char *cost_hours(int64_t ns, unsigned decimals, char *buf)
{
	int64_t unit = NANO_HOUR_NS, v;

	if (decimals >= 9)
		return price_text(ns / NANO_HOUR_NS, 0, buf);
	for (unsigned i = decimals; i < 9; i++)
		unit *= 10;
	v = ns / unit + (ns % unit >= unit / 2);
	for (unsigned i = decimals; i < 9; i++)
		v *= 10;
	return price_text(v, decimals, buf);
}
