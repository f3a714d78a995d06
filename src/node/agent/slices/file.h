/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * slice.json of one slice (abi/slice-dir.h), as the agent writes it and finds it again. Besides what
 * the arbiter reads it has what only the agent wants to know: which libraries the container has mounted
 * ("lib") and when it was given ("created", seconds since 1970).
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "model/slice/slice.h"

#include <stdbool.h>

#define SLICE_ID_DIGITS    32 /* 128 random bits */
#define SLICE_LIB_NAME_MAX 64

struct slice_file {
	char id[SLICE_ID_DIGITS + 1];
	char resource[RESOURCE_NAME_MAX];
	struct strv devices; /* the kubelet's */
	struct slice_plan plan;
	char lib[SLICE_LIB_NAME_MAX]; /* directory below the libraries' */
	uint64_t created_s;
};

/* Zeroes *ret before. ERR_INVALID: which key is not as it should be. */
int slice_file_parse(struct slice_file *ret, const char *json, size_t len,
	struct error *err) MUST_USE;

/* Yours: free(). NULL: out of memory. */
char *slice_file_text(const struct slice_file *f) MUST_USE;

void slice_file_fini(struct slice_file *f);

/* 32 digits, 0-9 and a-f. */
bool slice_id_ok(const char *id);

/* A plain name: no slash, no dot in front. */
bool slice_lib_name_ok(const char *name);
