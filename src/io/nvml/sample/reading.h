/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sampler's state of one GPU or MIG device from sample to sample, and the parts of one reading. For the files
 * of the sampler only.
 *
 * State. Refused questions, which are not repeated for a while; values that are costly or do not change; counters
 * for rates; two GPM samples; and the last times of process utilization. A new worker, hence a new driver session,
 * begins without any state. So does a GPU whose MIG mode changed.
 *
 * Thread: the worker's main thread.
 */
#include "lib/base/time.h"
#include "io/nvml/probe/mig.h"
#include "io/nvml/probe/probe.h"
#include "io/nvml/sample/share.h"
#include "io/nvml/sample/source.h"

#define SAMPLE_REFUSED_NS (600 * NS_PER_SEC) /* not supported */
#define SAMPLE_DENIED_NS  (60 * NS_PER_SEC)  /* no permission */
#define SAMPLE_COSTLY_NS  (10 * NS_PER_SEC)
#define SAMPLE_FIXED_NS   (600 * NS_PER_SEC)

/* Questions that are not fields but can be refused, too. */
enum sample_query {
	SAMPLE_QUERY_MEMORY,
	SAMPLE_QUERY_RATES, /* utilization */
	SAMPLE_QUERY_GPM,
	SAMPLE_QUERY_PROCESSES,
	SAMPLE_QUERY_SHARES, /* process utilization */
	SAMPLE_QUERY_COUNT_,
};

struct sample_cached {
	uint64_t until_ns; /* 0: nothing is cached */
	bool refused;
	bool answered;            /* at least once */
	union source_value value; /* unless refused */
};

struct sample_counter { /* of one direction of one link; [SAMPLE_LINKS]: the sum of all */
	bool known;
	uint64_t kib, at_ns;
};

#define SAMPLE_LINKS 18

struct sample_state {
	char uuid[GPU_UUID_MAX];
	uint32_t gpu, gi, ci;
	bool mig_enabled;         /* of the GPU */
	bool present;             /* in this sample */
	uint64_t at_ns;           /* of the last reading; 0: none yet */
	uint64_t queried_wall_us; /* last question for process utilization; 0: none */
	uint64_t refused_until[SAMPLE_QUERY_COUNT_];
	bool answered[SAMPLE_QUERY_COUNT_]; /* at least once */
	struct sample_cached cached[FIELDS_MAX];
	struct sample_counter counters[SAMPLE_LINKS + 1][2]; /* transmitted, received */
	nvmlGpmSample_t gpm[2]; /* one of the last reading, the other free */
	uint32_t gpm_new;       /* index of the newer one */
	bool gpm_checked;       /* GPM is supported */
	bool gpm_base;          /* gpm[gpm_new] is of the last reading */
	bool gpm_pair;          /* both are valid: of the last reading and of this one */
	struct share_state shares;
};

/* One reading. */
struct sample_reading {
	struct source_query query;
	struct sample_state *state;
	uint32_t of; /* FIELD_OF_...: kind of the device */
	nvmlDevice_t parent;
	const uint64_t *wanted;
	uint64_t now_ns, period_ns; /* monotonic; sample interval, 10 s at most */
	nvmlReturn_t gone;          /* 0, or why not to ask the GPU again in this reading */
	struct worker_device *device;
	bool has[FIELDS_MAX];
	union source_value values[FIELDS_MAX]; /* by position, where .has */
	double gpm_busy; /* part of the interval, 0 to 1; < 0: unknown to GPM */
	uint32_t n_users;
	struct sample_process users[PROBE_PROCESSES_MAX];
};

/* cache.c: what need not be asked. */

/* Whether to ask for the field at @position now. If not, a cached value has been taken, if there is one. */
bool sample_needs_query(struct sample_reading *r, size_t position);
/* Stores the answer @code to the field at @position; @v is the value in case of success. */
void sample_set_result(struct sample_reading *r, size_t position, nvmlReturn_t code,
	const union source_value *v);
/* Whether to ask @q now: the GPU is there, and no refusal is in force. */
bool sample_may_query(const struct sample_reading *r, enum sample_query q);
/* Notes a refusal, and a GPU that is gone. True: @code is success. */
bool sample_answered(struct sample_reading *r, enum sample_query q, nvmlReturn_t code);

/* fields.c: all field values and rates in one call. */
void sample_fields(struct sample_reading *r);

/* gpm.c */
void sample_gpm_collect(struct sample_reading *r); /* takes a sample; sets .now_ns */
void sample_gpm_read(struct sample_reading *r);    /* metrics of the last two samples */
void sample_gpm_free(const struct nvml *nvml, struct sample_state *s);

/*
 * users.c: fills .users from @list, which is the list of the GPU, and with the time for which each process
 * computed.
 */
void sample_users(struct sample_reading *r, const struct probe_processes *list,
	nvmlProcessUtilizationSample_t *room, uint32_t n_room);
