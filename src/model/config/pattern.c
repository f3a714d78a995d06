/* SPDX-License-Identifier: Apache-2.0 */
#include "model/offer/offer.h"

/* Greedy match with one fallback position. A star first matches nothing, then one character more each time
 * the rest does not match. Only the last star needs a retry, so the cost is at most |pattern| x |text|. */
bool pattern_match(const char *pattern, const char *text)
{
	const char *star = NULL, *retry = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			retry = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
