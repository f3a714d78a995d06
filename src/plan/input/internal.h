/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside src/plan/input only. */
#include "config/yaml.h"
#include "plan/input/input.h"

struct reading {
	struct plan_input *in;
	const struct yaml_source *src;
	struct error *err;
};

/* "name:line:column: key: expected ..., found ..."; returns -1. */
int input_fail(const struct reading *r, const struct yaml_node *n, const char *key,
	const char *expected);

/* A key of an object: what reads its value, and where it goes. */
struct input_key {
	const char *key;
	int (*read)(const struct reading *r, const struct yaml_node *n,
		const struct input_key *key, void *to);
	size_t offset; /* of what it is read to, in the object's struct */
	double min, max;
	const char *const *words; /* of an enum, in order, with NULL at its end */
	bool open;                /* more than .min, not .min itself */
};

/* All keys of @n by @keys; another one is an error that lists them. */
int input_object(const struct reading *r, const struct yaml_node *n, const char *what,
	const struct input_key *keys, size_t n_keys, void *to);

/* The forms that values have. */
int input_text(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_texts(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_bool(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_word(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_words(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_count(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_real(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_seconds(const struct reading *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_milliseconds(const struct reading *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_number(const struct reading *r, const struct yaml_node *n,
	const struct input_key *key, void *to);
int input_time(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_cpu(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);
int input_mib(const struct reading *r, const struct yaml_node *n, const struct input_key *key,
	void *to);

int input_workloads(const struct reading *r, const struct yaml_node *n,
	const struct input_key *key, void *to);

const char *input_keep(const struct reading *r,
	const char *text); /* NULL: no memory, in r->err */
