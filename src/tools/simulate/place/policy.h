/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The functions of every policy. Inside src/tools/simulate only. Thread: the policy's (place.h); place_draw():
 * the owner's of @state.
 */
#include "tools/simulate/place/place.h"

struct place_policy;

struct place_method {
	/* .start, .stop and .changed may be NULL. .start reads the setting's mix into .own. */
	int (*start)(struct place_policy *p, const struct place_setting *s, struct error *err);
	void (*stop)(struct place_policy *p);
	bool (*decide)(struct place_policy *p, const struct place_pod *pod,
		struct place_choice *ret);
	void (*changed)(struct place_policy *p, size_t i);
};

struct place_policy {
	const struct place_method *method;
	const struct place_node *nodes;
	size_t n_nodes;
	uint64_t state; /* of place_draw() */
	void *own;      /* private to the method */
};

/* The methods of place_policy_names. */
extern const struct place_method place_value, place_fgd, place_best_fit, place_first_fit,
	place_random;

/* A number below @below; @below is not 0. */
uint64_t place_draw(uint64_t *state, uint64_t below);
