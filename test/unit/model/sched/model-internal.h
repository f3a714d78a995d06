/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of the model share. Inside model*.c only. */
#include "unit/model/sched/model.h"

#include <stdbool.h>
#include <stdio.h>

#define START S /* the time at which a model begins */

/* Records the first failure. A test checks .failure at the end of its run. */
#define model_fail(m, ...)                                       \
	do {                                                     \
		char text[160];                                  \
                                                                 \
		(void)snprintf(text, sizeof(text), __VA_ARGS__); \
		model_record_failure(m, text);                   \
	} while (0)
void model_record_failure(struct model *m, const char *failure);

/* Whether a process has work on the GPU. */
bool model_is_busy(const struct model *m, unsigned int gpu);

/* Checks that follow each call of the scheduler. */
void model_check_call(struct model *m);

/* Checks of the time that has passed; and that it passes. */
void model_check_time(struct model *m);
void model_check_progress(struct model *m);
