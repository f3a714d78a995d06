/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The catalogue (catalogue.yaml, compiled in) and how a node is built from it. Building is pure: the same model
 * and seed always give the same node, with the same UUIDs and serial numbers. Thread: any.
 */
#include "testbed/sim/model.h"

#define SIM_LAYOUT_MAX    8
#define SIM_PAIRS_MAX     16
#define SIM_MODEL_SET_MAX 4

struct sim_product {
	const char *evidence; /* measured, listed or plausible */
	struct sim_keys keys;
	uint16_t fail[SIM_GROUP_ROOM];
};

struct sim_layout {
	const char *name;
	uint32_t count, level_switch, level_numa, level_far;
	struct {
		uint16_t domain;
		uint8_t bus, device, pcie_switch;
		int8_t numa;
	} addresses[SIM_LAYOUT_MAX];
};

struct sim_nvlinks {
	const char *name;
	uint32_t switch_links; /* links of each GPU to switches */
	uint32_t hidden;       /* the switches are not visible on the PCI bus */
	uint32_t pair_count;
	struct {
		uint8_t a, b, links;
	} pairs[SIM_PAIRS_MAX];
};

struct sim_node_model {
	const char *name;
	uint32_t product, layout, nvlinks; /* indices */
	uint16_t fail[SIM_GROUP_ROOM];
	struct {
		const char *key, *value;
	} set[SIM_MODEL_SET_MAX];
};

/* The driver of a node that names none: its version, NVML's major version, CUDA's version (12040 is 12.4). */
extern const char sim_default_driver[];
extern const uint32_t sim_default_nvml_major, sim_default_cuda;
/*
 * The tables of the catalogue. struct sim_node_model has indices of the first three. sim_product_count and
 * sim_node_model_count are the lengths of their tables.
 */
extern const struct sim_product sim_products[];
extern const struct sim_layout sim_layouts[];
extern const struct sim_nvlinks sim_nvlinks[];
extern const struct sim_node_model sim_node_models[];
extern const size_t sim_product_count, sim_node_model_count;

const struct sim_product *sim_product_find(const char *key);        /* NULL: unknown */
const struct sim_node_model *sim_node_model_find(const char *name); /* NULL: unknown */

/* A new node: no GPUs, the default driver. @spec: the model or file that the node is made from. */
void sim_node_init(struct sim_node *node, const char *name, const char *spec, uint64_t seed);

/*
 * Puts GPUs of @model into an empty node: @count of them, 0 for the model's own number. GPUs beyond the layout get
 * PCI addresses of other domains and no NVLink.
 */
int sim_node_fill(struct sim_node *node, const struct sim_node_model *model, uint32_t count,
	struct error *err) MUST_USE;

/* Puts one more GPU with @product's keys into the first free slot. Returns the slot in *ret. */
int sim_node_add(struct sim_node *node, const struct sim_product *product, uint32_t *ret,
	struct error *err) MUST_USE;

/* Saves the keys and failing groups of all GPUs as the values that a reset restores. */
void sim_node_seal(struct sim_node *node);
