/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Every key of the config as one row of data. The reader takes from it which keys an object may
 * have, where a flag's value goes, which option and variable override it, and what is said about
 * keys without effect; config_to_json() prints by it; a test holds docs/config.md against it.
 * Thread: any (constant).
 */
#include "core/config.h"

#include <stddef.h>

enum field_type {
	FIELD_OBJECT,
	FIELD_LIST,
	FIELD_STR,  /* char * */
	FIELD_BOOL, /* bool */
	FIELD_INT,
	FIELD_DURATION,   /* int64_t nanoseconds */
	FIELD_WORD,       /* enum; .words says which */
	FIELD_STRATEGIES, /* unsigned: a set of .words */
	FIELD_IMEX,       /* bool: [0] is in it */
	FIELD_OTHER,      /* several types; read by its own function */
};

enum field_flags {
	FIELD_EXACT = 1 << 0, /* an object whose keys are compared with their case */
	FIELD_NO_EFFECT =
		1 << 1,        /* read and checked, then of no use here: warn, .note says why */
	FIELD_OURS = 1 << 2,   /* not in NVIDIA's format */
	FIELD_STORED = 1 << 3, /* .offset is where struct config keeps it */
};

/* The words of an enum, in the order of its values; of a set, of its bits. */
struct field_words {
	const char *const *words;
	size_t n;
};

struct field {
	const char *path; /* "[]" stands for each element: "sharing.slices[].name" */
	enum field_type type;
	unsigned flags; /* enum field_flags */
	size_t offset;
	const struct field_words *words;
	const char *option; /* long name of the flag, or NULL */
	const char *def;    /* as text; NULL: none */
	const char *note;   /* of FIELD_NO_EFFECT */
};

extern const struct field config_fields[];
extern const size_t config_n_fields;

extern const struct field_words words_mig, words_discovery, words_list_strategy,
	words_id_strategy, words_allocation, words_memory, words_compute, words_profile_compute,
	words_class, words_unhooked, words_compute_mode, words_signal_policy, words_rule_policy;

/* The row of @path; NULL: no such key. */
const struct field *field_by_path(const char *path);

/* The key of @f inside its object, and whether that object is @parent ("" for the top). */
const char *field_key(const struct field *f);
bool field_is_in(const struct field *f, const char *parent);

/* Position of @text in @words, or -1. */
int words_find(const struct field_words *words, const char *text);

/* "none, single or mixed" into @buf. Returns @buf. */
const char *words_list(const struct field_words *words, char *buf, size_t cap);
