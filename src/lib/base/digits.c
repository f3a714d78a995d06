/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/digits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXTRA_DIGITS_MAX 6   /* a smaller difference comes from arithmetic */
#define TEXT_MAX         400 /* the largest double has 309 digits */

int digits_to_differ(double v, double limit, int min)
{
	char is[TEXT_MAX], most[TEXT_MAX];

	if (!isfinite(v) || !isfinite(limit))
		return min;
	for (int n = min; n <= min + EXTRA_DIGITS_MAX; n++) {
		(void)snprintf(is, sizeof(is), "%.*f", n, v);
		(void)snprintf(most, sizeof(most), "%.*f", n, limit);
		if (strcmp(is, most) != 0)
			return n;
	}
	return min;
}
