/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A strict parser of slice.json (abi/slice-dir.h). Thread: any. */
#include "abi/slice-wire.h"
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stddef.h>

#define SLICE_DEF_RESOURCE_MAX 320
#define SLICE_DEF_DEVICES_MAX  1024
#define SLICE_UUID_TEXT        41 /* "GPU-" and 36 characters, with the end */

struct slice_def {
	char id[SLICE_ID_MAX];
	char resource[SLICE_DEF_RESOURCE_MAX];
	struct strv devices;
	bool stop_unhooked;
	bool has_compute; /* "compute" is present */
	bool mps;         /* "compute" is "mps" */
	bool latency;     /* class is "latency" */
	unsigned int n_gpus;
	struct {
		char text[SLICE_UUID_TEXT];
		uint8_t uuid[SLICE_UUID_BYTES];
		uint64_t limit;       /* SLICE_NO_LIMIT: none */
		uint32_t weight, cap; /* of its time; cap in millionths, 0: none */
	} gpus[SLICE_GPUS_MAX];
};

/*
 * Parses @text, the file @path of the slice @id (the directory's name). After success, release *ret with
 * slice_def_fini(). The error gives the file, the key, what was expected and what was found.
 */
int slice_def_read(struct slice_def *ret, const char *path, const char *id, const char *text,
	size_t len, struct error *err) MUST_USE;
void slice_def_fini(struct slice_def *d);

/* 32 lower-case hex digits. */
bool slice_id_valid(const char *id);

/* "GPU-8-4-4-4-12" or "MIG-...", hex digits in any case. */
bool slice_uuid_parse(const char *text, uint8_t *ret);
