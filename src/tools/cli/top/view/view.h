/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `gpuslice top` shows, made of the agent's JSON: a model, its rows, and the screen, which is text
 * without a terminal, so that tests and --once get the same lines as a terminal.
 * Thread: any (pure, except for the locale); a model and a state: the owner's.
 */
#include "lib/base/error.h"
#include "tools/cli/top/view/canvas.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the model --- */

/*
 * The node as `gpuslice top` sees it: the agent's /api/v1/node (docs/api.md) in flat arrays.
 * node/view/view.h defines devices, replicas and uses (here: usages). An unknown value is the largest
 * number of its type, or "" for text. The model owns the texts. They come from another process;
 * canvas.h makes them safe for a terminal.
 *
 * Units: nanoseconds, bytes, millionths, nano-units of the currency.
 */

#define TOP_NONE    UINT32_MAX
#define TOP_UNKNOWN UINT64_MAX

#define TOP_DOCUMENT_MAX (32U << 20) /* bytes */
#define TOP_GPUS_MAX     1024
#define TOP_DEVICES_MAX  64           /* of one GPU */
#define TOP_REPLICAS_MAX 4096         /* of one device; also limits its usages */
#define TOP_ALL_MAX      (256U << 10) /* of all GPUs, for each kind */

struct top_gpu {
	uint32_t index; /* TOP_NONE: the GPU is gone, and another GPU has its index */
	const char *uuid, *name, *bus_id;
	const char *health, *reason, *refused;
	bool present, mig_known, mig_enabled;
	uint32_t last_xid;
	uint64_t cost_nano_per_hour;
	double temperature, power_watts, power_limit_watts; /* NaN: not known */
	uint32_t first_device, n_devices;
	double board_mib, board_used_mib; /* private: the board's own figures; NaN: not known */
	/* Sums of the devices; in MIG mode those of the board, if known. */
	uint64_t memory_total, memory_used;
	uint32_t busy, allocated; /* sums of the devices, weighted by their shares */
};

struct top_device {
	uint32_t gpu; /* position in .gpus */
	bool mig;
	const char *uuid, *label, *profile, *mode, *resource;
	const char *health, *reason, *refused;
	uint32_t share, allocated, busy, replicas_used;
	uint64_t memory_total, memory_used;
	uint32_t n_replicas;
};

struct top_replica {
	uint32_t device;
	const char *id, *resource;
	uint32_t replica, share;
	uint64_t memory_limit;
	bool healthy;
	uint32_t usage; /* position in .usages; TOP_NONE: free */
	bool first;     /* the first replica of its usage */
};

struct top_usage {
	uint32_t device;
	const char *namespace_, *pod, *container, *uid, *resource, *mode;
	bool live, offered_now, has_replica; /* .has_replica: a replica in this list has it */
	uint32_t share, received;
	uint64_t memory_used, memory_peak, memory_limit;
	/* The rest only for a usage with a slice. */
	uint64_t quanta, waits;
	bool has_quantum, demoted, stuck, over;
};

struct json_t;

struct top_model {
	struct json_t *document; /* private: owns the texts */
	const char *wall_time, *node, *hostname, *driver_version, *cuda_version, *agent_version;
	bool nvml_up;
	const char *nvml_error;
	bool holders_known;
	const char *holders_error;
	bool priced;
	uint64_t price_nano_per_hour;
	const char *currency;
	uint64_t config_generation;
	const char *config_sharing, *config_error;
	size_t n_warnings;
	const char *warning;                    /* the first warning */
	size_t n_degraded;                      /* components of the agent that do not work */
	const char *degraded, *degraded_reason; /* the first component */
	struct top_gpu *gpus;
	struct top_device *devices;
	struct top_replica *replicas;
	struct top_usage *usages;
	size_t n_gpus, n_devices, n_replicas, n_usages;
};

/* ERR_INVALID: the text names the place in the document, what was expected and what was found.
 * ERR_LIMIT, ERR_NOMEM. */
int top_model_read(struct top_model **ret, const char *json, size_t len,
	struct error *err) MUST_USE;
/* "On", "Off"; "-": the agent could not read it. */
const char *top_mig_mode(const struct top_gpu *g);

struct top_model *top_model_free(struct top_model *m); /* returns NULL */
DEFINE_CLEANUP(struct top_model *, top_model_free)

/* --- the rows --- */

/* Selects and sorts the rows of a model for a table. */

enum top_table {
	TOP_PODS,   /* a row for each container on each device */
	TOP_SLICES, /* a row for each replica, allocated or free */
	TOP_GPUS,   /* a row for each device (GPU or MIG device) and each GPU without one */
	TOP_BOARDS, /* a row for each GPU, if the screen has no room for the frame */
	TOP_TABLE_COUNT_,
};

enum top_sort {
	TOP_BY_GPU, /* in the agent's order */
	TOP_BY_NAME,
	TOP_BY_MODE,
	TOP_BY_SHARE,
	TOP_BY_RECEIVED,
	TOP_BY_MEMORY,
	TOP_BY_LIMIT,
	TOP_BY_PEAK,
	TOP_BY_QUANTA,
	TOP_BY_WAITS,
	TOP_BY_COST,
	TOP_SORT_COUNT_,
};

const char *top_sort_name(enum top_sort s);              /* "received" */
int top_sort_find(const char *name, enum top_sort *ret); /* < 0: unknown name */

bool top_sort_fits(enum top_sort s, enum top_table table); /* whether its rows differ in @s */

#define TOP_FILTER_MAX 64

struct top_choice {
	enum top_table table;
	enum top_sort sort;
	bool reverse;   /* the reverse of the natural order: names up, numbers down */
	bool hide_idle; /* hides free, ended, and idle in the last interval */
	char filter[TOP_FILTER_MAX]; /* "": no filter */
};

/* A member that does not apply is NULL. .usage is also NULL for a replica that is free or has an
 * unknown holder. The model owns all. */
struct top_row {
	const struct top_gpu *gpu;
	const struct top_device *device;
	const struct top_replica *replica;
	const struct top_usage *usage;
	size_t order; /* in the agent's order */
};

struct top_rows {
	struct top_row *v; /* owned: free() */
	size_t n, all;     /* rows shown, and rows without the filter */
};

/* The rows of @m that @c selects, in the order of @c. They borrow from @m. ERR_NOMEM. */
int top_rows_make(struct top_rows *ret, const struct top_model *m, const struct top_choice *c,
	struct error *err) MUST_USE;
void top_rows_fini(struct top_rows *r);

/* Whether no container holds the replica, as far as the kubelet has reported. */
bool top_row_is_free(const struct top_row *r);

/* The usage with the counters and memory of this row. NULL: none, or an earlier replica of the same
 * container shows them. */
const struct top_usage *top_row_figures(const struct top_row *r);

/* Numbers of a row. TOP_UNKNOWN: not known, or does not apply. Shares are of the whole GPU. */
uint64_t top_row_share(const struct top_row *r);
uint64_t top_row_received(const struct top_row *r);
uint64_t top_row_memory(const struct top_row *r);
uint64_t top_row_limit(const struct top_row *r);
uint64_t top_row_cost(const struct top_row *r); /* nano-units an hour */

/* --- numbers as text --- */

/* Formats numbers for a narrow column; "-": not known. Each returns @ret. */

#define FIGURE_MAX 40

char *figure_percent(char ret[FIGURE_MAX], uint64_t millionths);         /* "7.5%", "100%" */
char *figure_whole_percent(char ret[FIGURE_MAX], uint64_t millionths);   /* "8%" */
char *figure_bytes(char ret[FIGURE_MAX], uint64_t bytes);                /* "512Mi", "9.5Gi" */
char *figure_mib(char ret[FIGURE_MAX], uint64_t bytes);                  /* "81559MiB" */
char *figure_count(char ret[FIGURE_MAX], uint64_t n);                    /* "12345", "1.2M" */
char *figure_money(char ret[FIGURE_MAX], uint64_t nano);                 /* "1.2290" */
char *figure_real(char ret[FIGURE_MAX], double value, const char *unit); /* "69W"; NaN: "N/A" */

/* --- the columns --- */

/*
 * Draws rows in columns. The least important columns are left out first until the rest fits; names
 * share the remaining width.
 */

struct columns_options {
	enum top_table table;
	enum top_sort sort; /* the head of this column is marked */
	bool priced;        /* else no column of costs */
};

/* Draws the heads and @n rows from @first on, one line each. */
void columns_draw(struct canvas *c, const struct top_rows *rows, size_t first, size_t n,
	const struct columns_options *style);

/* --- the screen --- */

/* A model and the user's choices as lines. */

struct top_state {
	struct top_choice choice;
	bool help, paused;
	bool typing;                 /* the user types a filter, which already applies */
	char before[TOP_FILTER_MAX]; /* the filter that Escape restores */
	size_t scroll;               /* rows above the first shown row */
	size_t page;                 /* rows that fit the table; set by top_screen() */
	unsigned width, height;      /* .height 0: no limit, and no key line */
	bool utf8;
	uint64_t interval_ns;
	bool unavailable; /* the last request failed: .unavailable_since_wall_ns and .why are set */
	uint64_t unavailable_since_wall_ns, now_wall_ns;
	struct error why;
};

/* @m NULL: no answer yet. Corrects .scroll and sets .page. */
int top_screen(struct canvas *c, const struct top_model *m, struct top_state *s,
	struct error *err) MUST_USE;

/* --- keys --- */

/* The effect of a key on the shown state. */

/* Keys that are not a byte. */
enum {
	TOP_KEY_UP = 0x100,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_BACKSPACE,
};

enum top_action {
	TOP_NOTHING, /* the key has no meaning here */
	TOP_REDRAW,
	TOP_QUIT,
};

/* @key: a key, or a byte of a character while the user types a filter. */
enum top_action top_press(struct top_state *s, int key);

/* Limits of --interval. The keys + and - stay within them. */
#define TOP_INTERVAL_MIN_NS UINT64_C(500000000)
#define TOP_INTERVAL_MAX_NS UINT64_C(3600000000000)
