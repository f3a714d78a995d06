/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the readers of the parts of a config: the key path, messages, and typed values with NVIDIA's
 * conversions. Inside src/io/config only.
 * Thread: any.
 */
#include "lib/base/buf.h"
#include "io/config/config.h"
#include "io/config/field.h"
#include "lib/yaml/yaml.h"

#define CONFIG_FIELDS_MAX   160
#define CONFIG_ENTRIES_MAX  1024 /* of each list in sharing and resources */
#define CONFIG_WARNINGS_MAX 100

/* Path to a value, from the inside out. On the stack of the readers. */
struct config_value_path {
	const struct config_value_path *parent;
	const char *key; /* NULL: element .index of the parent list */
	size_t index;
};

enum value_source { VALUE_UNSET, VALUE_FROM_FILE, VALUE_FROM_ENV, VALUE_FROM_ARGS };

/* A flag before validation, from any source. */
struct flag_value {
	enum value_source source;
	struct config_pos pos; /* for VALUE_FROM_FILE */
	const char *env;       /* for VALUE_FROM_ENV */
	char *str;             /* words and texts; for other types, for messages */
	bool b;
	int64_t i;
	struct strv list;
};

struct config_reader {
	const struct yaml_source *src;        /* .text NULL: no file */
	const struct config_sources *sources; /* may be NULL */
	struct strv *warnings;                /* may be NULL */
	struct strv *mistakes; /* mistakes after the first; NULL: stop at the first */
	struct error first;    /* first mistake; ERR_NONE: none */
	size_t n_mistakes;
	struct error *err;
	struct config *c;
	struct flag_value values[CONFIG_FIELDS_MAX]; /* by row of config_fields */
	const struct yaml_node *mps, *time_slicing;  /* NULL: absent or null */
};

/* "file:line:column: key.path: text". Returns -1. */
int read_fail(struct config_reader *r, const struct yaml_node *at,
	const struct config_value_path *path, enum error_code code, const char *fmt, ...)
	PRINTF(5, 6);

/*
 * Decides whether reading continues after a function that returned @ret. Returns 0 after a mistake that is
 * kept, while the limit allows more; else @ret. Call only if the following code does not depend on the
 * wrong value.
 */
int read_on(struct config_reader *r, int ret) MUST_USE;

/* Adds "file:line:column: key.path: text" to .warnings. < 0 only for lack of memory. */
int read_warn(struct config_reader *r, const struct yaml_node *at,
	const struct config_value_path *path, const char *fmt, ...) PRINTF(4, 5) MUST_USE;

/* "expected @expected, found ...", with the text of NVIDIA's decoder for the Go type. */
int read_type_error(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *expected, const char *go_type);

#define WHERE_TEXT_MAX 200

/* Edit distance of two words, ignoring case, up to @max. A greater distance, or a word that is too long to
 * compare, gives @max + 1. */
size_t read_distance(const char *a, const char *b, size_t max);

/* Checks all keys of the object by the rows below @pattern. Returns 1 for an object and 0 for null or NULL.
 * Any other type is an error. */
int read_object(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *pattern) MUST_USE;

/* The value of @key in the object @pattern, with its case rule; NULL: absent. */
const struct yaml_node *read_find_key(const struct yaml_node *object, const char *pattern,
	const char *key);

/* Read one value. Return 1 with *ret set, or 0 for NULL or null without changing *ret. A text of NVIDIA's
 * plain fields may be written as a number or boolean. @strict forbids that. read_range() checks the limits of
 * @range, and read_word_value() gives the position in @words. */
int read_text_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, bool strict, const char **ret) MUST_USE;
int read_bool(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, bool *ret) MUST_USE;
int read_int(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, int64_t *ret) MUST_USE;
int read_range(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const struct field_range *range,
	uint32_t *ret) MUST_USE;
int read_word_value(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const struct field_words *words,
	int *ret) MUST_USE;

/* Each part reads the value below its key of @top into .c (read_flags(): into .values); @top may be NULL. @path
 * is the path of @sharing. 0: done, or the key is absent. < 0: .err or .first has the mistake. */
int read_flags(struct config_reader *r, const struct yaml_node *top) MUST_USE;
int read_sharing(struct config_reader *r, const struct yaml_node *top) MUST_USE;
int read_resources(struct config_reader *r, const struct yaml_node *top) MUST_USE;
int read_slices(struct config_reader *r, const struct yaml_node *sharing,
	const struct config_value_path *path) MUST_USE;
int read_health_keys(struct config_reader *r, const struct yaml_node *top) MUST_USE;

/* Reads `isolation` of the entry @pattern, which has @replicas replicas. */
int read_isolation(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *pattern, uint32_t replicas,
	struct isolation *iso) MUST_USE;
/* none | equal | 8Gi | 25%. @replicas 0: a profile, without `equal`. Returns as read_text_value(). */
int read_isolation_memory(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, uint32_t replicas,
	struct isolation *iso) MUST_USE;
/* Reads `compute`, `class` and `unhooked` of the object @n. @replicas: as in read_isolation_memory(). If
 * .compute is already set, @n is a profile. */
int read_isolation_words(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *pattern, uint32_t replicas,
	struct isolation *iso) MUST_USE;

/* Warns of entries without compute that share a GPU with entries that have compute. @entries is the list of
 * time-slicing entries that was read last. */
int read_warn_mixed_compute(struct config_reader *r, const struct yaml_node *entries,
	const struct config_value_path *path, const char *pattern) MUST_USE;

/* Checks sharing.slices for devices that two entries claim, and for names with another meaning. Call after
 * everything is read. */
int check_slices(struct config_reader *r, const struct yaml_node *slices,
	const struct config_value_path *path) MUST_USE;

/* Reads and checks one element of a `devices` list. */
int read_device_ref(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct strv *list) MUST_USE;
/* Reads a resource name and adds its prefix. @n is not NULL. */
int read_resource_name(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, char *ret) MUST_USE;
/* Warns of an entry for the resource @name that no device can have, if a similar name is known: a name
 * before renaming, or the correct spelling. Call after `resources` is read. */
int warn_of_source(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *name) MUST_USE;

/* Order of calls: flags and variables over the file, NVIDIA's checks, copy into the config. */
int flags_overlay(struct config_reader *r) MUST_USE;
int flags_validate(struct config_reader *r) MUST_USE;
int flags_apply(struct config_reader *r) MUST_USE;
/* "file:3:5: flags.migStrategy", "$MIG_STRATEGY" or "--mig-strategy". */
void flags_format_source(const struct config_reader *r, const char *path, char *buf,
	size_t cap);
#define FLAGS_SOURCE_MAX 320

/* How config_parse() and the manifest reader read one text. */
struct config_text {
	const char *path, *entry; /* for struct config; .entry may be NULL */
	struct yaml_source src;
	bool accept_unsupported;
	/* mistakes after the first, which is the error; NULL: stop at the first */
	struct strv *mistakes;
};
/* Reads @t.src (.text NULL: only flags and variables). @sources and @warnings may be NULL. *ret is the
 * caller's. */
int config_read_text(struct config **ret, const struct config_text *t,
	const struct config_sources *sources, struct strv *warnings,
	struct error *err) MUST_USE;

/* Reads the whole file. An error has the text of NVIDIA's loader. */
int config_file_read(const char *path, struct buf *b, struct error *err) MUST_USE;

/* Go's form of a duration: "1m30s", "5ns"; INT64_MAX: "infinite". @buf has DURATION_TEXT_MAX bytes. */
#define DURATION_TEXT_MAX 48
void duration_text(int64_t ns, char *buf);
