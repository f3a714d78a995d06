/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The environment of a child program: the environment of this process with changes. env->v has the form that exec
 * needs. Thread: one.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

/* Copies the environment of this process. ERR_NOMEM. */
int env_init(struct strv *env, struct error *err) MUST_USE;
/* @value NULL: removes the variable. ERR_NOMEM. */
int env_set(struct strv *env, const char *name, const char *value, struct error *err) MUST_USE;
