/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of amounts in nano-units: parse, format, sum without overflow, and divide without a remainder
 * (price.h). Also divides a price by OpenCost's ratios.
 */
#include "io/price/price.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DECIMALS 9

__extension__ typedef unsigned __int128 wide;

/* Whether the digits after the ninth decimal round @nano up: half to even. */
static bool rounds_up(const char *digits, size_t n, int64_t nano)
{
	if (n == 0 || digits[0] < '5')
		return false;
	if (digits[0] > '5')
		return true;
	for (size_t i = 1; i < n; i++) {
		if (digits[i] != '0')
			return true;
	}
	return nano % 2 != 0;
}

bool price_parse(const char *text, int64_t *ret_nano)
{
	size_t whole = strspn(text, "0123456789"), part = 0;
	const char *decimals = text + whole;
	int64_t v = 0;

	if (*decimals == '.') {
		decimals++;
		part = strspn(decimals, "0123456789");
		if (part == 0)
			return false;
	}
	if (whole == 0 || decimals[part] != '\0')
		return false;
	for (size_t i = 0; i < whole; i++) {
		v = v * 10 + (text[i] - '0');
		if (v > PRICE_MAX / PRICE_NANO)
			return false;
	}
	for (size_t i = 0; i < DECIMALS; i++)
		v = v * 10 + (i < part ? decimals[i] - '0' : 0);
	if (part > DECIMALS && rounds_up(decimals + DECIMALS, part - DECIMALS, v))
		v++;
	if (v > PRICE_MAX)
		return false;
	*ret_nano = v;
	return true;
}

int64_t price_times(int64_t nano, uint64_t n)
{
	wide sum = (wide)(uint64_t)nano * n;

	return sum > PRICE_SUM_MAX ? PRICE_SUM_MAX : (int64_t)sum;
}

int64_t price_plus(int64_t a, int64_t b)
{
	return a > PRICE_SUM_MAX - b ? PRICE_SUM_MAX : a + b;
}

const char *price_text(int64_t nano, unsigned decimals, char *buf)
{
	uint64_t v = nano < 0 ? 0 - (uint64_t)nano : (uint64_t)nano;
	int n = snprintf(buf, PRICE_TEXT_MAX, "%s%" PRIu64 ".%09" PRIu64, nano < 0 ? "-" : "",
		v / (uint64_t)PRICE_NANO, v % (uint64_t)PRICE_NANO);
	size_t min = (size_t)n - DECIMALS + (decimals < DECIMALS ? decimals : DECIMALS);
	size_t len = (size_t)n;

	while (len > min && buf[len - 1] == '0')
		len--;
	if (buf[len - 1] == '.')
		len--;
	buf[len] = '\0';
	return buf;
}

void price_split(int64_t total, const int64_t *weights, int64_t *ret, size_t n)
{
	int64_t left = total;
	wide sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += weights[i] > 0 ? (wide)weights[i] : 0;
	for (size_t i = 0; i + 1 < n; i++) {
		wide weight = weights[i] > 0 ? (wide)weights[i] : 0;

		ret[i] = sum ? (int64_t)((wide)total * weight / sum) : 0;
		left -= ret[i];
	}
	if (n)
		ret[n - 1] = left;
}

/* --- OpenCost's parts of a price --- */

/* USD per hour */
#define OPENCOST_VCPU 0.031611
#define OPENCOST_GIB  0.004237
#define OPENCOST_GPU  0.95
#define MIB_PER_GIB   1024.0

struct price_parts price_opencost(int64_t nano_per_hour, uint32_t vcpus, uint32_t memory_mib,
	uint32_t gpus)
{
	double weight = gpus * OPENCOST_GPU + vcpus * OPENCOST_VCPU +
			memory_mib / MIB_PER_GIB * OPENCOST_GIB;
	double scale = weight > 0 ? (double)nano_per_hour / weight : 0;

	return (struct price_parts){ (int64_t)(OPENCOST_VCPU * scale + 0.5),
		(int64_t)(OPENCOST_GIB * scale + 0.5), (int64_t)(OPENCOST_GPU * scale + 0.5) };
}
