/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/parse.h"

#define BYTES_MAX (UINT64_C(1) << 50)

uint32_t mps_percent_parse(const char *text)
{
	char digits[32];
	double v;

	(void)snprintf(digits, sizeof(digits), "%.*s", (int)strspn(text, "0123456789."), text);
	if (!parse_double(digits, &v) || v <= 0 || v > 100)
		return 0;
	return v * MPS_PERCENT_ONE < 1 ? 1 : (uint32_t)(v * MPS_PERCENT_ONE + 0.5);
}

void mps_percent_format(uint32_t percent, char *ret, size_t cap)
{
	(void)snprintf(ret, cap, "%.1f", (double)percent / MPS_PERCENT_ONE);
}

static unsigned get_suffix_bits(char c)
{
	switch (c) {
	case 'K':
	case 'k':
		return 10;
	case 'M':
	case 'm':
		return 20;
	case 'G':
	case 'g':
		return 30;
	default:
		return 0;
	}
}

/* The number at the start of @text, with its unit; *end is behind both. */
static uint64_t bytes_at(const char *text, const char **end)
{
	size_t n = strspn(text, "0123456789");
	unsigned bits = get_suffix_bits(text[n]);
	char digits[24];
	uint64_t v = 0;

	if (n < sizeof(digits)) {
		(void)snprintf(digits, sizeof(digits), "%.*s", (int)n, text);
		if (!parse_u64(digits, &v))
			v = 0;
	}
	*end = text + n + (bits != 0);
	return v > BYTES_MAX >> bits ? BYTES_MAX : v << bits;
}

uint64_t mps_limit_parse(const char *text)
{
	const char *end;

	return bytes_at(text, &end);
}

void mps_limit_format(uint64_t bytes, char *ret, size_t cap)
{
	static const struct {
		unsigned bits;
		const char *unit;
	} units[] = { { 30, "G" }, { 20, "M" }, { 10, "K" }, { 0, "" } };
	size_t i = 0;

	while (units[i].bits && bytes >> units[i].bits == 0)
		i++;
	(void)snprintf(ret, cap, "%" PRIu64 "%s", bytes >> units[i].bits, units[i].unit);
}

/* "0=1G,1=512MB" into @limits. Devices that @text does not name keep their limit. */
static void mps_limits_parse(const char *text, uint64_t limits[MPS_DEVICES_MAX])
{
	while (*text) {
		size_t n = strspn(text, "0123456789");
		char digits[16];
		uint32_t device = MPS_DEVICES_MAX;

		if (n < sizeof(digits)) {
			(void)snprintf(digits, sizeof(digits), "%.*s", (int)n, text);
			if (!parse_u32(digits, &device))
				device = MPS_DEVICES_MAX;
		}
		text += n;
		if (*text == '=' && device < MPS_DEVICES_MAX)
			limits[device] = bytes_at(text + 1, &text);
		text += strcspn(text, ",");
		text += *text == ',';
	}
}

void mps_settings_from_env(struct mps_settings *ret, const char *(*env)(const char *name))
{
	const char *percent = env(MPS_ENV_PERCENT), *memory = env(MPS_ENV_MEMORY);
	const char *priority = env(MPS_ENV_PRIORITY);

	*ret = (struct mps_settings){ .percent = percent ? mps_percent_parse(percent) : 0,
		.priority = priority && strcmp(priority, "1") == 0 };
	if (memory)
		mps_limits_parse(memory, ret->limits);
}

void mps_settings_lower(struct mps_settings *ret, const struct mps_settings *server,
	const struct mps_settings *own)
{
	*ret = *server;
	if (own->percent && own->percent < server->percent)
		ret->percent = own->percent;
	if (own->priority > server->priority)
		ret->priority = own->priority;
	for (size_t i = 0; i < MPS_DEVICES_MAX; i++)
		if (own->limits[i] &&
			(!server->limits[i] || own->limits[i] < server->limits[i]))
			ret->limits[i] = own->limits[i];
}
