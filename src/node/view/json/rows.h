/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to src/node/view: the members of each struct and their keys. A row with .known set is null if that flag
 * of the same struct is false.
 * Thread: any (constant).
 */
#include "node/view/json/json.h"

enum json_kind {
	JSON_KIND_TEXT,
	JSON_KIND_TEXT_KNOWN, /* "" is null */
	JSON_KIND_BOOL,
	JSON_KIND_U32,
	JSON_KIND_U32_NONE, /* VIEW_NONE is null */
	JSON_KIND_U32_ZERO, /* 0 is null */
	JSON_KIND_NUMA,     /* -1 is null */
	JSON_KIND_INT,
	JSON_KIND_U64,
	JSON_KIND_U64_MAX,  /* UINT64_MAX is null */
	JSON_KIND_U64_ZERO, /* 0 is null */
	JSON_KIND_TIME,     /* wall clock; 0 is null */
	JSON_KIND_MODE,
	JSON_KIND_HEALTH,
	JSON_KIND_SOURCE, /* VIEW_FROM_NOTHING is null */
};

#define JSON_ALWAYS SIZE_MAX

struct json_row {
	const char *key;
	enum json_kind kind;
	size_t at, known; /* offsets in the struct */
};

/* Each ends with a row without a key. */
extern const struct json_row json_rows_head[], json_rows_node[], json_rows_gpu[],
	json_rows_xid[], json_rows_signal[], json_rows_device[], json_rows_place[],
	json_rows_replica[], json_rows_use[], json_rows_slice[], json_rows_resource[],
	json_rows_agent[], json_rows_component[];
