/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the fake NVML share: the file that defines what it does, and the prototypes. */
#include "lib/base/error.h"
#include "abi/nvml-api.h"

#include <stdbool.h>
#include <stdio.h>

#define X(name, params) nvmlReturn_t name params;
NVML_FUNCTIONS(X)
#undef X
const char *nvmlErrorString(nvmlReturn_t r);

#define WORDS_MAX 8
#define MIG_FIRST 100 /* as the numbers of GPUs: 100 * (GPU + 1) + index */

/* The file that FAKE_NVML names, for the caller to close; NULL: none. */
FILE *fake_nvml_open(void);
/* Splits a line at blanks; missing words are "". */
void fake_nvml_split(const char *line, char words[WORDS_MAX][64]);
/* Numbers of a line; what is none is 0. */
int fake_nvml_number(const char *text);
/* The first line of @word whose next words are @a and, if it is not -1, @b. False: there is none. */
bool fake_nvml_find_line(const char *word, int a, int b, char words[WORDS_MAX][64]);

/* Does what the file defines for @call on @gpu, and returns the result of the call. */
nvmlReturn_t fake_nvml_act(const char *call, int gpu);
#define ACT(d)                                                                   \
	do {                                                                     \
		nvmlReturn_t act_ = fake_nvml_act(__func__, fake_nvml_index(d)); \
		if (act_ != NVML_SUCCESS)                                        \
			return act_;                                             \
	} while (0)

unsigned int fake_nvml_count(void); /* of GPUs */
int fake_nvml_index(nvmlDevice_t d);
nvmlDevice_t fake_nvml_device(unsigned int index);
