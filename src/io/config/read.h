/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the readers of the parts of a config share: the place in the key path, messages, and values
 * by type with NVIDIA's conversions. Inside src/io/config only.
 * Thread: any.
 */
#include "lib/base/buf.h"
#include "io/config/config.h"
#include "io/config/field.h"
#include "lib/yaml/yaml.h"

#define CONFIG_FIELDS_MAX   160
#define CONFIG_ENTRIES_MAX  1024 /* of each list in sharing and resources */
#define CONFIG_WARNINGS_MAX 100

/* The way to a value, from inside out; lives on the stack of the readers. */
struct config_value_path {
	const struct config_value_path *parent;
	const char *key; /* NULL: the element .index of the parent, which is a list */
	size_t index;
};

enum value_source { VALUE_UNSET, VALUE_FROM_FILE, VALUE_FROM_ENV, VALUE_FROM_ARGS };

/* A flag before it is judged, from wherever it came. */
struct flag_value {
	enum value_source source;
	struct config_pos pos; /* VALUE_FROM_FILE */
	const char *env;       /* VALUE_FROM_ENV */
	char *str;             /* words and texts; of the rest, for messages */
	bool b;
	int64_t i;
	struct strv list;
};

struct config_reader {
	const struct yaml_source *src;        /* .text NULL: there is no file */
	const struct config_sources *sources; /* may be NULL */
	struct strv *warnings;                /* may be NULL */
	struct strv *mistakes; /* behind the first; NULL: reading ends at the first */
	struct error first;    /* of the mistakes; ERR_NONE: none so far */
	size_t n_mistakes;
	struct error *err;
	struct config *c;
	struct flag_value values[CONFIG_FIELDS_MAX]; /* by row of config_fields */
	const struct yaml_node *mps, *time_slicing;  /* NULL: absent or null */
};

/* "file:line:column: key.path: text". Returns -1. */
int read_fail(struct config_reader *r, const struct yaml_node *at,
	const struct config_value_path *w, enum error_code code, const char *fmt, ...)
	PRINTF(5, 6);

/*
 * Whether reading goes on behind what has returned @ret: 0 after a mistake that is kept for later, while more
 * are wanted, else @ret. To be asked where what follows does not depend on what was wrong.
 */
int read_on(struct config_reader *r, int ret) MUST_USE;

/* The same form as a warning. < 0 only for lack of memory. */
int read_warn(struct config_reader *r, const struct yaml_node *at,
	const struct config_value_path *w, const char *fmt, ...) PRINTF(4, 5) MUST_USE;

/* "expected @expected, found ...", with the text of NVIDIA's decoder for the Go type. */
int read_type_error(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const char *expected, const char *go_type);

/* "sharing.mps.resources[2].name" */
void where_text(const struct config_value_path *w, char *buf, size_t cap);
#define WHERE_TEXT_MAX 200

/* Edits between two words, letters' case aside; @max and more, and words that are too long to compare,
 * count as @max or more. */
size_t read_distance(const char *a, const char *b, size_t max);

/*
 * Returns 1 and has checked all keys by the rows below @pattern, or 0 for null or NULL; anything
 * else than an object is an error.
 */
int read_object(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const char *pattern) MUST_USE;

/* The value of @key by the case rule of the object @pattern; NULL: absent. */
const struct yaml_node *read_find_key(const struct yaml_node *object, const char *pattern,
	const char *key);

/*
 * One value each; NULL or null: returns 0 and leaves *ret. Returns 1 with *ret set. A text for
 * NVIDIA's plain fields may be written as a number or a boolean; @strict: it may not.
 */
int read_text_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, bool strict, const char **ret) MUST_USE;
int read_bool(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, bool *ret) MUST_USE;
int read_int(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, int64_t *ret) MUST_USE;
int read_range(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const struct field_range *range,
	uint32_t *ret) MUST_USE;
int read_word_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const struct field_words *words, int *ret) MUST_USE;

/* The parts; each reads what is below its key of @top, NULL for none. */
int read_flags(struct config_reader *r, const struct yaml_node *top) MUST_USE;
int read_sharing(struct config_reader *r, const struct yaml_node *top) MUST_USE;
int read_resources(struct config_reader *r, const struct yaml_node *top) MUST_USE;
int read_slices(struct config_reader *r, const struct yaml_node *sharing,
	const struct config_value_path *w) MUST_USE;
int read_health_keys(struct config_reader *r, const struct yaml_node *top) MUST_USE;

/* What is below an `isolation` of the entry @pattern, which has so many replicas. */
int read_isolation(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const char *pattern, uint32_t replicas,
	struct isolation *iso) MUST_USE;
/* none | equal | 8Gi | 25%; @replicas 0: of a profile, which has no `equal`. As read_text_value(). */
int read_isolation_memory(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, uint32_t replicas, struct isolation *iso) MUST_USE;
/* `compute`, `class` and `unhooked` of the object @n; @replicas as above; where .compute is set before, it
 * is a profile's. */
int read_isolation_words(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const char *pattern, uint32_t replicas,
	struct isolation *iso) MUST_USE;

/* Warns of time-slicing entries without compute, of the list @entries that has been read last, that share a GPU
 * with others that have it. */
int read_warn_mixed_compute(struct config_reader *r, const struct yaml_node *entries,
	const struct config_value_path *w, const char *pattern) MUST_USE;

/* What in @sharing.slices is meant twice, or has the name of something else. Everything has been read. */
int check_slices(struct config_reader *r, const struct yaml_node *slices,
	const struct config_value_path *w) MUST_USE;

/* One element of a `devices` list as text, checked. */
int read_device_ref(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, struct strv *list) MUST_USE;
/* A resource name with its prefix; @n is not NULL. */
int read_resource_name(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, char *ret) MUST_USE;
/* Warns of an entry for the resource @name that no device can have, if one is near that was meant: a name
 * that only renaming makes, or one that is misspelt. `resources` has been read. */
int warn_of_source(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *w, const char *name) MUST_USE;

/* Flags and variables over the file, then NVIDIA's checks, then into the config. */
int flags_overlay(struct config_reader *r) MUST_USE;
int flags_validate(struct config_reader *r) MUST_USE;
int flags_apply(struct config_reader *r) MUST_USE;
const struct flag_value *flags_value(const struct config_reader *r, const char *path);
/* "file:3:5: flags.migStrategy", "$MIG_STRATEGY" or "--mig-strategy". */
void flags_format_source(const struct config_reader *r, const char *path, char *buf,
	size_t cap);
#define FLAGS_SOURCE_MAX 320

/* config_unsupported() with the places of flags, which struct config does not keep. */
struct config_places {
	char discovery[FLAGS_SOURCE_MAX];
};
int unsupported_check(const struct config *c, const struct config_places *places,
	struct error *err) MUST_USE;

/* What config_parse() and the manifest reader do with one text. */
struct config_text {
	const char *path, *entry; /* for struct config; entry may be NULL */
	struct yaml_source src;
	bool accept_unsupported;
	struct strv *mistakes; /* behind the first, which is the error; NULL: it ends there */
};
int config_read_text(struct config **ret, const struct config_text *t,
	const struct config_sources *sources, struct strv *warnings,
	struct error *err) MUST_USE;

/* The whole file; an error has the text of NVIDIA's loader. */
int config_file_read(const char *path, struct buf *b, struct error *err) MUST_USE;

/* Go's way to print a duration: "1m30s", "5ns", "infinite". */
#define DURATION_TEXT_MAX 48
void duration_text(int64_t ns, char *buf);
