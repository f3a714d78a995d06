/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/number.h"

#include <math.h>
#include <stdio.h>

const char *bench_print_ns(double ns, char *buf)
{
	if (!(ns > 0) || !isfinite(ns))
		(void)snprintf(buf, BENCH_NUMBER_MAX, "-");
	else if (ns < 1e6)
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.*f us",
			ns < 1e4   ? 2
			: ns < 1e5 ? 1
				   : 0,
			ns / 1e3);
	else if (ns < 1e9)
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.*f ms",
			ns < 1e7   ? 2
			: ns < 1e8 ? 1
				   : 0,
			ns / 1e6);
	else
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.2f s", ns / 1e9);
	return buf;
}

const char *bench_print_figure(double v, char *buf)
{
	if (!isfinite(v))
		(void)snprintf(buf, BENCH_NUMBER_MAX, "-");
	else
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.*f",
			fabs(v) >= 100 && v == rint(v) ? 0 : 1, v);
	return buf;
}

const char *bench_print_number(double v, char *buf)
{
	double size = fabs(v);

	if (!isfinite(v))
		(void)snprintf(buf, BENCH_NUMBER_MAX, "-");
	else
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.*f",
			size < 9.995   ? 2
			: size < 99.95 ? 1
				       : 0,
			v);
	return buf;
}
