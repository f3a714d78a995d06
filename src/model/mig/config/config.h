/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Named MIG layouts in mig-parted's terms, and their meaning for the GPUs of a node.
 *
 * A config is a list of entries. mig-parted applies them in order, so the last entry that matches a GPU
 * decides. io/config/mig/mig.h reads and writes configs. Besides mig-parted's counts, `mig-devices` may be
 * our list form {profile, start}: GPU instances at given places.
 * Thread: any (pure).
 */
#include "lib/base/strv.h"
#include "model/mig/layout.h"

#define MIG_CONFIGS_MAX 4096 /* named configs of one file */
#define MIG_ENTRIES_MAX 1024 /* entries of one config */
#define MIG_DEVICES_MAX 64   /* rows of one `mig-devices` */
#define MIG_INDEXES_MAX 1024 /* in `devices` of one entry */
#define MIG_FILTERS_MAX 256
#define MIG_FILTER_MAX  47
#define MIG_NAME_MAX    128
#define MIG_COUNT_MAX   1000000

struct mig_pci { /* as in filters: (device << 16) | vendor */
	uint32_t device, subsystem;
};

struct mig_filter {
	uint32_t device, subsystem;
	bool any_subsystem;
	/* Not a number. As in NVIDIA's program such a filter matches nothing; .text has the original. */
	bool never;
	char text[MIG_FILTER_MAX + 1]; /* truncated if longer; then .never is set */
};

struct mig_device_row {
	struct mig_profile profile;
	uint32_t count;
	uint32_t start; /* MIG_START_ANY, except in the list form; there count is 1 */
};

struct mig_entry {
	uint32_t line;
	bool all;         /* `devices: all`; else the indexes */
	bool filter_text; /* a single filter outside a list; for printing only */
	bool has_rows;    /* `mig-devices` was present, maybe as {}; for printing only */
	uint32_t *devices;
	size_t n_devices;
	struct mig_filter *filters; /* none: matches every GPU */
	size_t n_filters;
	bool enabled;
	struct mig_device_row *rows; /* in file order */
	size_t n_rows;
};

/* Whether only the list form can express @e: a place, or one profile in two rows. */
bool mig_entry_needs_list(const struct mig_entry *e);

struct mig_config {
	char name[MIG_NAME_MAX];
	uint32_t line;
	struct mig_entry *entries;
	size_t n, room;
};

struct mig_configs {
	struct mig_config *configs; /* in file order */
	size_t n, room;
};

struct mig_configs *mig_configs_free(struct mig_configs *c); /* returns NULL */
DEFINE_CLEANUP(struct mig_configs *, mig_configs_free)

/* The config @name; NULL: none. Borrowed. */
const struct mig_config *mig_configs_find(const struct mig_configs *c, const char *name);

/* Moves the configs of @from with names that @to lacks to the end of @to. @from keeps the others. */
int mig_configs_add_missing(struct mig_configs *to, struct mig_configs *from,
	struct error *err) MUST_USE;

/* The config @name; NULL or "": the only config. Errors have mig-parted's texts. */
int mig_configs_select(const struct mig_configs *c, const char *name,
	const struct mig_config **ret, struct error *err) MUST_USE;

/* One GPU of a node, as configs refer to it. */
struct mig_node_gpu {
	uint32_t index; /* NVML's index */
	char uuid[96], bus_id[32];
	struct mig_pci pci;
	struct mig_layout layout;
	struct mig_state state;
	struct error fault; /* ERR_NONE, or why the GPU is unreadable and stays as it is */
};

struct mig_node {
	uint32_t n;
	struct mig_node_gpu *gpus; /* by index */
};

/* "0x20B010DE" or "0x20B010DE:0x134F10DE", in any base that Go accepts. Any other text matches nothing. */
void mig_filter_parse(struct mig_filter *ret, const char *text);
/* Whether a GPU with these PCI IDs passes the filter. */
bool mig_filter_matches(const struct mig_filter *f, const struct mig_pci *pci);

/* The last entry of @c that matches @g; NULL: none, and the GPU stays as it is. */
const struct mig_entry *mig_config_entry(const struct mig_config *c,
	const struct mig_node_gpu *g);

/* Adds one note for each peculiarity of @c on this node: a GPU index that does not exist, or a GPU without
 * a matching entry. Neither is an error. */
int mig_config_notes(const struct mig_config *c, const struct mig_node *node,
	struct strv *notes, struct error *err) MUST_USE;

/*
 * Whether the actual state of @g equals @e: the mode, the count of each instance by name and, in the list
 * form, the places. A count of 0 is never equal, as in mig-parted. No config can require a GPU instance
 * without compute instances. @why (may be NULL) receives the difference. If true, nothing needs to change.
 */
bool mig_entry_applied(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct error *why);

/* Whether the current mode (not the pending one) equals the mode of @e. */
bool mig_entry_mode_applied(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct error *why);

/*
 * The desired layout of @g by @e. Rows are expanded and sorted as in mig-parted. CIs of one GI profile are
 * packed into GIs. If mig_entry_applied(), the result is the actual layout. @notes (may be NULL) receives a
 * note for a name that was guessed.
 *
 * Returns 0 with *ret. Returns 1 if the GPU has no MIG and stays as it is (`devices: all`, or disabled).
 * Errors: ERR_INVALID, a profile that this GPU does not have; ERR_LIMIT, more instances than a GPU can
 * have; ERR_UNSUPPORTED, an index that names a GPU without MIG.
 */
int mig_entry_want(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct strv *notes, struct error *err) MUST_USE;

/*
 * Whether @c is applied on @node, as in mig-parted's assert. If not, @why has the GPU and the difference.
 * @mode_only checks only the modes of the GPUs with a matching entry. Otherwise every GPU of the node needs
 * an entry. For an unreadable GPU nothing is applied.
 */
bool mig_config_assert(const struct mig_config *c, const struct mig_node *node, bool mode_only,
	struct error *why) MUST_USE;

/* The state of the node as a config named @name, in the form of mig-parted's export. Leaves out unreadable
 * GPUs. */
int mig_config_export(struct mig_configs **ret, const struct mig_node *node, const char *name,
	struct error *err) MUST_USE;

/* Configs for what the node's GPUs can be, sorted by name. ERR_NOT_FOUND: no GPU has MIG, or none reports
 * its profiles. */
int mig_config_generate(struct mig_configs **ret, const struct mig_node *node,
	struct error *err) MUST_USE;

/* --- building configs --- */

/* For the reader, export and generate. Lists have the limits above. ERR_LIMIT names the limit. A partly built
 * object can be freed. New elements are zero except for the given members. */

/* An object without configs. ERR_NOMEM. */
int mig_configs_new(struct mig_configs **ret, struct error *err) MUST_USE;

/* Append a config named @name, or an entry. *ret is borrowed until the next element of that list is added.
 * ERR_LIMIT also for a name that is too long. */
int mig_configs_add(struct mig_configs *c, const char *name, struct mig_config **ret,
	struct error *err) MUST_USE;
int mig_config_add_entry(struct mig_config *c, struct mig_entry **ret,
	struct error *err) MUST_USE;

/* Append a GPU index, a copy of @f, or a copy of @row to @e. */
int mig_entry_add_device(struct mig_entry *e, uint32_t index, struct error *err) MUST_USE;
int mig_entry_add_filter(struct mig_entry *e, const struct mig_filter *f,
	struct error *err) MUST_USE;
int mig_entry_add_row(struct mig_entry *e, const struct mig_device_row *row,
	struct error *err) MUST_USE;
