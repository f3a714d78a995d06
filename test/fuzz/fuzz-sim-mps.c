/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "testbed/sim/mps/command.h"
#include "testbed/sim/mps/limits.h"

#include <stdlib.h>
#include <string.h>

/* A command line of the simulated MPS, and the same text as each of the variables of a client. */
static const char *text;

static const char *get_fuzz_env(const char *name)
{
	(void)name;
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mps_settings asked, server = { .percent = MPS_PERCENT_ALL }, got;
	struct sim_mps_command c;
	char *copy = malloc(size + 1), shown[32];

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	copy[size] = '\0';
	text = copy;
	mps_command_parse(&c, copy);
	if (strlen(c.name) >= MPS_WORD_MAX || strlen(c.value) >= MPS_WORD_MAX)
		abort();
	mps_settings_from_env(&asked, get_fuzz_env);
	mps_settings_lower(&got, &server, &asked);
	if (got.percent == 0 || got.percent > MPS_PERCENT_ALL || got.priority > 1)
		abort();
	mps_limit_format(mps_limit_parse(copy), shown, sizeof(shown));
	mps_percent_format(mps_percent_parse(copy), shown, sizeof(shown));
	free(copy);
	return 0;
}
