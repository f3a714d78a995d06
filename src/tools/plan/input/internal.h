/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside src/tools/plan/input only. Thread: the owner's of the input. */
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

/* A key of an object, the function that reads its value, and the place for the value. */
struct input_key {
	const char *key;
	int (*read)(const struct input_reader *r, const struct yaml_node *n,
		const struct input_key *key, void *to);
	size_t offset; /* of the member in the object's struct */
	double min, max;
	const char *const *words; /* of an enum, in order, NULL at the end */
	bool open;                /* the range excludes .min itself */
};

/* Reads all keys of @n by @keys; an unknown key is an error that lists them. */
int input_object(const struct input_reader *r, const struct yaml_node *n, const char *what,
	const struct input_key *keys, size_t n_keys, void *to);

/*
 * Readers of the forms of values. Each checks @n and stores the value in *to. Returns 0, or -1 with the error in
 * r->err. The type of *to:
 *
 *	input_text                         const char *, owned by the input
 *	input_texts                        struct strv; its earlier texts are dropped
 *	input_gpu                          const struct plan_gpu *
 *	input_bool                         bool
 *	input_word, input_words            unsigned: position in key->words; a bit for each position
 *	input_count, input_cpu, input_mib  uint32_t: the number, thousandths of a processor, MiB
 *	input_real                         double
 *	input_seconds, input_milliseconds  double: seconds
 *	input_number, input_time           struct plan_number: the number, seconds
 */
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

/* The list of workloads. Adds them to r->in; ignores @to. */
int input_workloads(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to);

/* A workload's number that no file has set, until plan_input_end(). */
#define INPUT_UNSET UINT32_MAX

/* Whether @text begins with a character that a terminal may take as a command: ASCII control, or U+0080 to
 * U+009F. */
bool input_is_control(const char *text);

/* Adds a note at the place of @n. Drops notes beyond PLAN_NOTES_MAX. */
int input_add_note(const struct input_reader *r, const struct yaml_node *n, const char *code,
	const char *fmt, ...) PRINTF(4, 5);

/* --- Kubernetes objects --- */

/* Reads a document with a kind or an apiVersion. */
int objects_read(const struct input_reader *r, const struct yaml_node *doc);
/* After all files: makes workloads and the layout from the objects. Adds notes on missing and unused figures. */
int objects_end(struct plan_input *in, struct error *err);

/* Readers of one kind each: @o is the object. object_workload() adds a workload, object_node_pool() instance types. */
int object_workload(const struct input_reader *r, const struct yaml_node *o, const char *kind);
int object_node_pool(const struct input_reader *r, const struct yaml_node *o, const char *kind);
/* Whether @doc by itself is a sharing config, or a config of MIG devices. */
bool sharing_is_file(const struct yaml_node *doc);
/* Reads such a document. A config of MIG devices only gets a note. */
int sharing_read_file(const struct input_reader *r, const struct yaml_node *doc);

/* An AWSNodeTemplate: only adds notes. */
int object_node_template(const struct input_reader *r, const struct yaml_node *o,
	const char *kind);
/* A ClusterConfig of eksctl: its region, and the instance types of its node groups. */
int object_eksctl(const struct input_reader *r, const struct yaml_node *o, const char *kind);

/* The value at "a.b.c" below @n; NULL: not found, or a node on the way is not an object. */
const struct yaml_node *object_at(const struct yaml_node *n, const char *path);
/* The text of that value; NULL: not a scalar. */
const char *object_get_text(const struct yaml_node *n, const char *path);
/* Number of items of that value, with the items in *items; 0: not a list, or empty. */
size_t object_list(const struct yaml_node *n, const char *path, struct yaml_node ***items);
/* Copies a text to @buf with control characters replaced; truncates it to @size. */
const char *object_clean(const char *text, char *buf, size_t size);

/* Copies @text into the input, which owns the copy. NULL: no memory, error in r->err. */
const char *input_store_text(const struct input_reader *r, const char *text);
