/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of MIG, read into the model's plain types and printed as mig-parted prints them:
 *
 *	named layouts	model/mig/config/config.h	YAML or JSON	mig-parted's api/spec/v1, and our list form:
 *
 *		mig-devices:
 *		- {profile: 3g.20gb, start: 4}
 *		- {profile: 1g.5gb, count: 2}
 *
 *	hooks		model/mig/hooks.h	YAML or JSON	mig-parted's api/hooks/v1
 *	GPU clients	struct strv		YAML or JSON	k8s-mig-manager's clients.yaml
 *	checkpoint	model/mig/checkpoint.h	JSON		mig-parted's api/checkpoint/v1
 *
 * Parse functions: errors are ERR_INVALID or ERR_LIMIT and begin with "name:line:column: ", with
 * mig-parted's words. Load functions read a file ("-": standard input) and prefix mig-parted's "read error:
 * " or "unmarshal error: ". Results are never partial. Warnings have the same form, one line each;
 * @warnings may be NULL.
 * Thread: any.
 */
#include "lib/yaml/yaml.h"
#include "model/mig/checkpoint.h"
#include "model/mig/config/config.h"
#include "model/mig/hooks.h"

#define MIG_FILE_MAX         (1U << 20) /* bytes; limit of a ConfigMap, too */
#define MIG_SERVICES_MAX     64         /* of one GPU clients file */
#define MIG_SERVICE_NAME_MAX 255

/* The named layouts; a text without any gives an empty object. Free *ret with mig_configs_free(). */
int mig_configs_parse(struct mig_configs **ret, const struct yaml_source *src,
	struct strv *warnings, struct error *err) MUST_USE;
int mig_configs_load(struct mig_configs **ret, const char *path, struct strv *warnings,
	struct error *err) MUST_USE;

/* The hooks; a text without any gives an empty object. Free *ret with mig_hooks_free(). */
int mig_hooks_parse(struct mig_hooks **ret, const struct yaml_source *src,
	struct strv *warnings, struct error *err) MUST_USE;
int mig_hooks_load(struct mig_hooks **ret, const char *path, struct strv *warnings,
	struct error *err) MUST_USE;

/* The systemd services of a GPU clients file, in its order, appended to @ret. */
int mig_services_parse(struct strv *ret, const struct yaml_source *src, struct strv *warnings,
	struct error *err) MUST_USE;
int mig_services_load(struct strv *ret, const char *path, struct strv *warnings,
	struct error *err) MUST_USE;
/* Whether @len bytes can be a service name: not an option, path or second word. */
bool mig_service_is(const char *text, size_t len);

/* Messages call the text @name. Free *ret with mig_checkpoint_free(). */
int mig_checkpoint_parse(struct mig_checkpoint **ret, const char *name, const char *text,
	size_t len, struct error *err) MUST_USE;
int mig_checkpoint_load(struct mig_checkpoint **ret, const char *path,
	struct error *err) MUST_USE;

/* The same bytes as mig-parted prints: YAML ends with a line break, JSON does not. Names are sorted as by
 * its libraries. The caller frees the text with free(). NULL: no memory. */
char *mig_configs_to_yaml(const struct mig_configs *c) MUST_USE;
char *mig_configs_to_json(const struct mig_configs *c) MUST_USE;
char *mig_checkpoint_to_json(const struct mig_checkpoint *c) MUST_USE;

/* The default configs, built into the program from mig-default.yaml, as text and read. */
extern const char mig_default_yaml[];
extern const size_t mig_default_yaml_len;
int mig_default_configs(struct mig_configs **ret, struct error *err) MUST_USE;

/* The configs where the operator gave no file: mig_config_generate() of the node, then the defaults whose
 * names are missing there. */
int mig_builtin_configs(struct mig_configs **ret, const struct mig_node *node,
	struct error *err) MUST_USE;
