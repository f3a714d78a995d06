/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * slice.json of one slice (abi/slice-dir.h), as the agent writes it and reads it again. The file has keys that
 * only the agent needs: the libraries that the container has mounted ("lib") and the creation time ("created",
 * seconds since 1970).
 *
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
	char lib[SLICE_LIB_NAME_MAX]; /* directory below STATE/lib */
	uint64_t created_s;
};

/* Zeroes *ret first. ERR_INVALID: the error names the key. */
int slice_file_parse(struct slice_file *ret, const char *json, size_t len,
	struct error *err) MUST_USE;

/* The caller frees the text. NULL: out of memory. */
char *slice_file_text(const struct slice_file *f) MUST_USE;

void slice_file_fini(struct slice_file *f);

/* 32 digits, 0-9 and a-f. */
bool slice_id_ok(const char *id);

/* A plain name: no slash, no dot in front. */
bool slice_lib_name_ok(const char *name);
