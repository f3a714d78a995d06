/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/geometry/list.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char more[] = ", ...";

void mig_list_add(struct mig_list *l, const char *fmt, ...)
{
	char item[MIG_LIST_MAX / 2] = ", ";
	const char *text = l->len ? item : item + 2;
	size_t len;
	va_list ap;

	if (l->full)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(item + 2, sizeof(item) - 2, fmt, ap);
	va_end(ap);
	len = strlen(text);
	if (l->len + len + sizeof(more) > sizeof(l->text)) {
		l->full = true;
		text = more;
		len = strlen(more);
	}
	memcpy(l->text + l->len, text, len + 1);
	l->len += len;
}
