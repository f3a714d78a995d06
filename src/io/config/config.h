/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads NVIDIA's `version: v1` configuration, with our keys, into core's struct config: file,
 * environment and command line, in their order of precedence.
 *
 * Every error names file:line:column, the key, what was expected and what was found. What is
 * accepted but has no effect here gives one warning each, never silence. Nothing is applied by
 * halves: a struct config comes out whole or not at all.
 * Thread: any.
 */
#include "lib/base/option.h"
#include "model/config/config.h"

#define CONFIG_FILE_MAX     (1U << 20) /* bytes; a ConfigMap cannot be larger either */
#define CONFIG_MISTAKES_MAX 20         /* that are told of one config */

/* The flags and variables of nvidia-device-plugin, as rows to put into a program's option table. */
extern const struct option_def config_options[];
extern const size_t config_n_options;

/* Where values come from besides the file. */
struct config_sources {
	const struct options *options; /* parsed with a table that contains config_options */
	const char *(*env)(const char *name); /* for DP_*_HEALTHCHECKS; NULL: getenv */
};

/*
 * From the text of one config. @name is what messages call it ("path" or "path#entry"), with
 * @line_offset lines above it (for a ConfigMap entry inside a manifest). @warnings collects one
 * line each; may be NULL.
 */
int config_parse(struct config **ret, const char *name, uint32_t line_offset, const char *text,
	size_t len, const struct config_sources *sources, struct strv *warnings,
	struct error *err) MUST_USE;

/*
 * Whether a text says nothing: no key at all, as of a file that was emptied (blanks, comments, "---", null, "{}"). It is
 * a config, all defaults, but hardly what anybody wanted of a file that had one.
 */
bool config_is_empty(const char *text, size_t len);

/* From a file; NULL or "" means none: environment, flags and defaults only. */
int config_load(struct config **ret, const char *path, const struct config_sources *sources,
	struct strv *warnings, struct error *err) MUST_USE;

/*
 * Like config_parse(), but also for what this version cannot do yet (see config_unsupported()).
 * For tools that only look.
 */
int config_parse_any(struct config **ret, const char *name, uint32_t line_offset,
	const char *text, size_t len, const struct config_sources *sources,
	struct strv *warnings, struct error *err) MUST_USE;

/*
 * ERR_UNSUPPORTED, with the place in the file @name, if the config asks for something that this version has
 * not got: Tegra, VFIO. All other functions here that return a config have asked already, but for
 * config_parse_any().
 */
int config_unsupported(const struct config *c, const char *name, struct error *err) MUST_USE;

/*
 * One config of a file: @name is "file.yaml#entry" or "file.yaml"; either @config or @err is set,
 * and both are borrowed. @err is the first mistake, and @more are those that do not come of it, all
 * together CONFIG_MISTAKES_MAX. Of a document that is no config, both are NULL and so is @text, and
 * @warnings has one line: that a manifest holds none, or where the configs of a values file are.
 */
typedef void config_each_fn(void *arg, const char *name, const char *text,
	struct config *config, const struct strv *warnings, const struct error *err,
	const struct strv *more);

/*
 * A file that may be a plain config, Kubernetes manifests with ConfigMaps (several documents,
 * Lists), or the values file of a Helm chart: calls @each for every config in it, in order. "-" is standard input. Returns the number
 * of configs; < 0 if the file itself cannot be read, is no YAML, or holds no config.
 */
int config_each(const char *path, const struct config_sources *sources, config_each_fn *each,
	void *arg, struct error *err) MUST_USE;

/* The same from memory; @path is what messages call it. */
int config_each_text(const char *path, const char *text, size_t len,
	const struct config_sources *sources, config_each_fn *each, void *arg,
	struct error *err) MUST_USE;

/* The configuration in force as NVIDIA's plugin prints it at start: indented JSON, null for what
 * is unset, as by NVIDIA's. Yours: free(). */
char *config_to_json(const struct config *c) MUST_USE;
