/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside src/tools/plan/input only. */
#include "lib/yaml/yaml.h"
#include "tools/plan/input/input.h"

struct input_reader {
	struct plan_input *in;
	const struct yaml_source *src;
	struct error *err;
};

/* "name:line:column: key: expected ..., found ..."; returns -1. */
int input_fail(const struct input_reader *r, const struct yaml_node *n, const char *key,
	const char *expected);

/* A key of an object: what reads its value, and where it goes. */
struct input_key {
	const char *key;
	int (*read)(const struct input_reader *r, const struct yaml_node *n,
		const struct input_key *key, void *to);
	size_t offset; /* of what it is read to, in the object's struct */
	double min, max;
	const char *const *words; /* of an enum, in order, with NULL at its end */
	bool open;                /* more than .min, not .min itself */
};

/* All keys of @n by @keys; another one is an error that lists them. */
int input_object(const struct input_reader *r, const struct yaml_node *n, const char *what,
	const struct input_key *keys, size_t n_keys, void *to);

/* The forms that values have. */
int input_text(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_gpu(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_texts(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_bool(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_word(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_words(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_count(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_real(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_seconds(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_milliseconds(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_number(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_time(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_cpu(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_mib(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);

int input_calibration(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);

int input_workloads(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);

/* What a workload has where a file does not say it, until input_end. */
#define INPUT_UNSET UINT32_MAX

/* Whether a terminal may take what begins at @text for a command: ASCII's control characters, and U+0080 to 9F. */
bool input_is_control(const char *text);

/* A note on the place of @n. Beyond PLAN_NOTES_MAX they are dropped. */
int input_add_note(const struct input_reader *r, const struct yaml_node *n, const char *code,
	const char *fmt, ...) PRINTF(4, 5);

/* ---- Kubernetes objects --------------------------------------------------------------------------------------- */

/* A document that has a kind or an apiVersion. */
int objects_read(const struct input_reader *r, const struct yaml_node *doc);
int objects_end(struct plan_input *in, struct error *err);

/* One kind each: @o is the object. */
int object_workload(const struct input_reader *r, const struct yaml_node *o, const char *kind);
int object_config_map(const struct input_reader *r, const struct yaml_node *o,
	const char *kind);
int object_node_pool(const struct input_reader *r, const struct yaml_node *o, const char *kind);
/* Whether @doc is a sharing config, or one of MIG devices, by itself; and what it says. */
bool sharing_is_file(const struct yaml_node *doc);
int sharing_read_file(const struct input_reader *r, const struct yaml_node *doc);

int object_node_template(const struct input_reader *r, const struct yaml_node *o,
	const char *kind);
int object_eksctl(const struct input_reader *r, const struct yaml_node *o, const char *kind);

/* The value at "a.b.c" below @n; NULL: there is none, or something on the way is no object. */
const struct yaml_node *object_at(const struct yaml_node *n, const char *path);
/* Its text; NULL: it is none. */
const char *object_get_text(const struct yaml_node *n, const char *path);
/* Whether it is a list, and if so its items. */
size_t object_list(const struct yaml_node *n, const char *path, struct yaml_node ***items);
/* A text without what a terminal would take as more than a character; cut at @size. */
const char *object_clean(const char *text, char *buf, size_t size);

const char *input_store_text(const struct input_reader *r,
	const char *text); /* NULL: no memory, in r->err */
