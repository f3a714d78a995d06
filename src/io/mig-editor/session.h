/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One NVML session of the editor: the open library, the number of calls, and the known facts of each
 * product. So of eight GPUs of one product the editor queries the profiles once. Inside
 * src/io/mig-editor only. Thread: one.
 */
#include "model/mig/config/config.h"
#include "io/nvml/nvml.h"

/* NVML's enumerators to try; NVML reports where they end. */
#define MIG_NUMBERS_MAX  64
#define MIG_PRODUCTS_MAX 16
#define MIG_CI_KINDS_MAX 16 /* CI profiles of one GI profile */

struct mig_ci_kind {
	uint32_t number, id, slices, multiprocessors;
};

/* The CI profiles of one GI profile. NVML reports them for a GI only, and there may be none yet. */
struct mig_ci_kinds {
	bool known; /* all of them; otherwise at most the one over the whole GI */
	uint32_t n;
	struct mig_ci_kind kinds[MIG_CI_KINDS_MAX]; /* in the order of numbers */
};

struct mig_product {
	struct mig_pci pci;
	struct mig_layout layout; /* .n 0: unknown, as GPUs may not report it with MIG off */
	struct mig_ci_kinds ci[MIG_PROFILES_MAX]; /* by position in the layout */
};

struct mig_session {
	struct nvml nvml;
	bool up; /* nvmlInit_v2() was called */
	uint64_t calls;
	const uint32_t *ignored; /* processes that do not count as clients; borrowed */
	uint32_t n_ignored;
	uint32_t n_products;
	struct mig_product products[MIG_PRODUCTS_MAX];
};

/* Calls NVML and counts the call. */
#define MIG_CALL(s, name, ...) ((s)->calls++, (s)->nvml.name(__VA_ARGS__))

/* The same; a result other than SUCCESS fills @err and makes the value -1. */
#define MIG_TRY(s, err, name, ...) \
	mig_session_result((s), (err), NVML_CALL_##name, MIG_CALL(s, name, __VA_ARGS__))

int mig_session_result(const struct mig_session *s, struct error *err, enum nvml_call call,
	nvmlReturn_t r) MUST_USE;

int mig_session_start(struct mig_session *s, struct error *err) MUST_USE;
void mig_session_stop(struct mig_session *s); /* keeps the library, ends all handles */
