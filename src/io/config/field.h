/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Every key of the config as one row. The rows give the reader the keys of an object and the place of a
 * flag's value. They also have the option and variable that override it, and the warning for keys without
 * effect. config_to_json() prints by them. A test compares docs/config.md with them.
 * Thread: any (constant).
 */
#include "model/config/config.h"

#include <stddef.h>

enum field_type {
	FIELD_OBJECT,
	FIELD_LIST,
	FIELD_STR,  /* char * */
	FIELD_BOOL, /* bool */
	FIELD_INT,
	FIELD_DURATION,   /* int64_t nanoseconds */
	FIELD_WORD,       /* enum; .words has the words */
	FIELD_STRATEGIES, /* unsigned: a bit set of .words */
	FIELD_IMEX,       /* bool: whether the list has [0] */
	FIELD_NAME,       /* resource name, with or without "nvidia.com/" */
	FIELD_MEMORY,     /* an amount, a percentage, or one of .words */
	FIELD_DEVICES,    /* all, a count, a list, or an object if it has rows */
	FIELD_XIDS,       /* a list of XIDs, or one of .words */
};

enum field_flags {
	FIELD_EXACT = 1 << 0,     /* an object with case-sensitive keys */
	FIELD_NO_EFFECT = 1 << 1, /* read and checked, but without effect: warn with .note */
	FIELD_OURS = 1 << 2,      /* not in NVIDIA's format */
	FIELD_STORED = 1 << 3,    /* .offset is the place in struct config */
	FIELD_REQUIRED = 1 << 4,  /* required in its object */
	FIELD_NULL = 1 << 5,      /* null means absent, even if keys below are required */
};

/* The words of an enum in the order of its values, or of a set in the order of its bits. */
struct field_words {
	const char *const *words;
	size_t n;
};

struct config_field {
	const char *path; /* "[]" means each element: "sharing.slices[].name" */
	enum field_type type;
	unsigned flags; /* enum field_flags */
	size_t offset;
	const struct field_words *words;
	const char *option; /* long name of the flag, or NULL */
	const char *def;    /* as text; NULL: none */
	const char *note;   /* for FIELD_NO_EFFECT */
};

extern const struct config_field config_fields[];
extern const size_t config_n_fields;

/* Limits of a row: of an integer, of a duration in ns, or of the number of elements. */
struct field_range {
	const char *path;
	int64_t min, max;
};

extern const struct field_range config_ranges[];
extern const size_t config_n_ranges;

extern const struct field_words words_version, words_mig, words_discovery, words_list_strategy,
	words_id_strategy, words_allocation, words_memory, words_profile_memory, words_compute,
	words_profile_compute, words_class, words_unhooked, words_compute_mode,
	words_signal_policy, words_rule_policy, words_xids;

/* The row of @path, and its limits. NULL: no such key; no limits. Static. */
const struct config_field *field_by_path(const char *path);
const struct field_range *field_range(const char *path);

/* The key of @f within its object, a part of .path. Whether that object is @parent ("": top level); false for
 * an element of a list. */
const char *field_key(const struct config_field *f);
bool field_is_in(const struct config_field *f, const char *parent);

/* Position of @text in @words, or -1. */
int words_find(const struct field_words *words, const char *text);

/* Writes "none, single or mixed" into @buf. Returns @buf. */
const char *words_list(const struct field_words *words, char *buf, size_t cap);
