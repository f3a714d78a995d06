/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kube-api/api.h"

#include <string.h>

/* RFC 3986, section 2.3. Not isalnum(): its result depends on the locale. */
static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

void api_escape(struct buf *b, const char *text)
{
	for (; *text; text++) {
		if (is_unreserved(*text))
			buf_putc(b, *text);
		else
			buf_printf(b, "%%%02X", (unsigned char)*text);
	}
}
