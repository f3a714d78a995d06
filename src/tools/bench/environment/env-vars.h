/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The environment of a program that is started: ours with changes; env->v is what exec wants. Thread: one. */
#include "lib/base/error.h"
#include "lib/base/strv.h"

/* All of ours. ERR_NOMEM. */
int env_init(struct strv *env, struct error *err) MUST_USE;
/* @value NULL: without it. ERR_NOMEM. */
int env_set(struct strv *env, const char *name, const char *value, struct error *err) MUST_USE;
