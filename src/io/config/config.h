/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads NVIDIA's `version: v1` configuration, with our keys, into the model's struct config. Sources: file,
 * environment and command line, in their order of precedence.
 *
 * Every error has file:line:column, the key, what was expected and what was found. A setting that is
 * accepted without effect gives one warning. Nothing is applied partly: the result is a complete struct
 * config or an error.
 * Thread: any.
 */
#include "lib/base/option.h"
#include "model/config/config.h"

#define CONFIG_FILE_MAX     (1U << 20) /* bytes; limit of a ConfigMap, too */
#define CONFIG_MISTAKES_MAX 20         /* limit of the mistakes reported for one config */

/* The flags and variables of nvidia-device-plugin, as rows for a program's option table. */
extern const struct option_def config_options[];
extern const size_t config_n_options;

/* Sources of values other than the file. */
struct config_sources {
	const struct options *options; /* parsed with a table that contains config_options */
	const char *(*env)(const char *name); /* for DP_*_HEALTHCHECKS; NULL: getenv */
};

/* Reads the text of one config. Messages call it @name ("path" or "path#entry"). @line_offset lines are
 * above it, as for a ConfigMap entry in a manifest. @warnings receives one line each; may be NULL. */
int config_parse(struct config **ret, const char *name, uint32_t line_offset, const char *text,
	size_t len, const struct config_sources *sources, struct strv *warnings,
	struct error *err) MUST_USE;

/* Whether a text has no key at all, as an emptied file (spaces, comments, "---", null, "{}"). Such a text
 * is a config with all defaults. If the file had a config before, this is hardly the operator's intent. */
bool config_is_empty(const char *text, size_t len);

/* Like config_parse(), but accepts settings that this version does not support (see config_unsupported()).
 * For tools that only inspect configs. */
int config_parse_any(struct config **ret, const char *name, uint32_t line_offset,
	const char *text, size_t len, const struct config_sources *sources,
	struct strv *warnings, struct error *err) MUST_USE;

/*
 * ERR_UNSUPPORTED, with the place in the file @name, if the config needs something that this version does
 * not support: Tegra, VFIO. All other functions here that return a config check this, except
 * config_parse_any().
 */
int config_unsupported(const struct config *c, const char *name, struct error *err) MUST_USE;

/*
 * One config of a file. @name is "file.yaml#entry" or "file.yaml". Either @config or @err is set; both are
 * borrowed. @err is the first mistake. @more has the mistakes that are independent of it, together at most
 * CONFIG_MISTAKES_MAX. For a document that is not a config, @config, @err and @text are NULL. @warnings
 * then has one line: the manifest has no config, or where the configs of a values file are.
 */
typedef void config_each_fn(void *arg, const char *name, const char *text,
	struct config *config, const struct strv *warnings, const struct error *err,
	const struct strv *more);

/*
 * Calls @each for every config in a file, in order. The file may be a plain config, Kubernetes manifests
 * with ConfigMaps (several documents, Lists), or the values file of a Helm chart. "-" is standard input.
 * Returns the number of configs. Returns < 0 if the file is unreadable, not YAML, or without a config.
 */
int config_each(const char *path, const struct config_sources *sources, config_each_fn *each,
	void *arg, struct error *err) MUST_USE;

/* config_each() for a text in memory, which messages call @path. */
int config_each_text(const char *path, const char *text, size_t len,
	const struct config_sources *sources, config_each_fn *each, void *arg,
	struct error *err) MUST_USE;

/* The config in force in the form that NVIDIA's plugin prints at start: indented JSON, null for unset
 * values. The caller frees it with free(). */
char *config_to_json(const struct config *c) MUST_USE;
