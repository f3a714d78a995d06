/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Named MIG layouts, in mig-parted's terms, and what they mean for the GPUs of a node.
 *
 * A config is a list of entries that are applied in order; the last that matches a GPU decides.
 * io/config/mig/mig.h reads and writes them. Beside mig-parted's counts, `mig-devices` may be a list of
 * {profile, start} of ours: GPU instances at given places.
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
	bool never; /* not a number, as with NVIDIA: matches nothing; .text says what stood there */
	char text[MIG_FILTER_MAX + 1]; /* cut, and then .never, if longer */
};

struct mig_device_row {
	struct mig_profile profile;
	uint32_t count;
	uint32_t start; /* MIG_START_ANY unless the list form gives it; then count is 1 */
};

struct mig_entry {
	uint32_t line;
	bool all;         /* devices: all; else the indexes: */
	bool filter_text; /* one filter, not in a list: only for printing */
	bool has_rows;    /* `mig-devices` was there, if only as {}: only for printing */
	uint32_t *devices;
	size_t n_devices;
	struct mig_filter *filters; /* none: every GPU */
	size_t n_filters;
	bool enabled;
	struct mig_device_row *rows; /* in the order of the file */
	size_t n_rows;
};

/* Whether only the list form can say what @e has: a place, or one profile in two rows. */
bool mig_entry_needs_list(const struct mig_entry *e);

struct mig_config {
	char name[MIG_NAME_MAX];
	uint32_t line;
	struct mig_entry *entries;
	size_t n;
};

struct mig_configs {
	struct mig_config *configs; /* in the order of the file */
	size_t n;
};

struct mig_configs *mig_configs_free(struct mig_configs *c); /* returns NULL */
DEFINE_CLEANUP(struct mig_configs *, mig_configs_free)

/* The config @name; NULL: none of that name. Borrowed. */
const struct mig_config *mig_configs_find(const struct mig_configs *c, const char *name);

/* Moves to the end of @to what @from has under other names; @from keeps the rest. */
int mig_configs_add_missing(struct mig_configs *to, struct mig_configs *from,
	struct error *err) MUST_USE;

/* The config @name; NULL or "": the only one. Errors have mig-parted's texts. */
int mig_configs_select(const struct mig_configs *c, const char *name,
	const struct mig_config **ret, struct error *err) MUST_USE;

/* One GPU of a node, as configs see it. */
struct mig_node_gpu {
	uint32_t index; /* NVML's */
	char uuid[96], bus_id[32];
	struct mig_pci pci;
	struct mig_layout layout;
	struct mig_state state;
	struct error fault; /* ERR_NONE, or why it could not be read: it is then left alone */
};

struct mig_node {
	uint32_t n;
	struct mig_node_gpu *gpus; /* by index */
};

/* "0x20B010DE" or "0x20B010DE:0x134F10DE", in any base that Go reads; all else matches nothing. */
void mig_filter_parse(struct mig_filter *ret, const char *text);
bool mig_filter_matches(const struct mig_filter *f, const struct mig_pci *pci);

/* Whether @e is about this GPU. */
bool mig_entry_matches(const struct mig_entry *e, const struct mig_node_gpu *g);

/* The last entry of @c that matches @g; NULL: none does, and the GPU is left as it is. */
const struct mig_entry *mig_config_entry(const struct mig_config *c,
	const struct mig_node_gpu *g);

/*
 * What people should know of @c on this node, a line each: a GPU index that does not exist, a GPU
 * that no entry is about. Neither is an error.
 */
int mig_config_notes(const struct mig_config *c, const struct mig_node *node,
	struct strv *notes, struct error *err) MUST_USE;

/*
 * Whether @g is what @e wants: the mode, and the same count of each instance by name;
 * where the list form gives places, at these. A count of 0 is never equal, as with mig-parted. A
 * GPU instance without compute instances is nothing that a config can want. @why (may be NULL)
 * says what differs. Where this holds there is nothing to do.
 */
bool mig_entry_applied(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct error *why);

/* Whether its mode is: the current one, not the pending. */
bool mig_entry_mode_applied(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct error *why);

/*
 * What @e wants of @g: rows expanded, sorted as mig-parted sorts them, CIs of one GI profile packed
 * into GIs; where mig_entry_applied(), what is there. Notes for people go to @notes
 * (a name that was guessed; may be NULL).
 *
 * Returns 0 with *ret; 1: the GPU has no MIG and is to be left alone (`devices: all`, or disabled).
 * Errors: ERR_INVALID a profile that this GPU has not; ERR_LIMIT more instances than any GPU can
 * have; ERR_UNSUPPORTED an index that names a GPU without MIG.
 */
int mig_entry_want(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct strv *notes, struct error *err) MUST_USE;

/*
 * mig-parted's question: is @c applied? If not, @why says of which GPU and what differs.
 * @mode_only: only the modes of the GPUs that @c is about; else every GPU of the node has to be
 * covered too. A GPU that could not be read has nothing applied.
 */
bool mig_config_assert(const struct mig_config *c, const struct mig_node *node, bool mode_only,
	struct error *why) MUST_USE;

/*
 * What the node is, as a config with one name, as mig-parted exports it. GPUs that could not be read are
 * left out.
 */
int mig_config_export(struct mig_configs **ret, const struct mig_node *node, const char *name,
	struct error *err) MUST_USE;

/* What the node's GPUs can be, as configs in the order of their names.
 * ERR_NOT_FOUND: no GPU with MIG, or none that says its profiles. */
int mig_config_generate(struct mig_configs **ret, const struct mig_node *node,
	struct error *err) MUST_USE;
