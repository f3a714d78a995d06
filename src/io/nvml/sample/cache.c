/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of NVML's questions a reading asks: an answer or a refusal stays valid for a while (reading.h,
 * "State").
 */
#include "io/nvml/sample/reading.h"

/* For how long an answer with @code is final; 0: not at all. */
static uint64_t refusal_ns(nvmlReturn_t code)
{
	switch ((int)code) {
	case NVML_ERROR_NOT_SUPPORTED:
	case NVML_ERROR_FUNCTION_NOT_FOUND:
	case NVML_ERROR_INVALID_ARGUMENT:
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
	case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED:
	case NVML_ERROR_DEPRECATED:
		return SAMPLE_REFUSED_NS;
	case NVML_ERROR_NO_PERMISSION:
		return SAMPLE_DENIED_NS;
	default:
		return 0;
	}
}

/*
 * For how long not to ask again after @code. With @again the refusal is not final, and the next reading asks
 * again. That is for questions answered before, since NVML refuses them for a GPU in trouble, too, and for
 * questions that cost nothing more.
 */
static uint64_t get_cache_ns(const struct sample_reading *r, nvmlReturn_t code, bool again)
{
	uint64_t ns = refusal_ns(code);

	return again && ns > r->period_ns / 2 ? r->period_ns / 2 : ns;
}

static bool is_memory_or_rates(size_t position)
{
	source_call *call = sources[position].call;

	return call == source_fb || call == source_fb_ratio || call == source_utilization;
}

static void set_reading_gone(struct sample_reading *r, nvmlReturn_t code)
{
	if (code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_RESET_REQUIRED)
		r->gone = code;
}

bool sample_needs_query(struct sample_reading *r, size_t position)
{
	const struct sample_cached *k = &r->state->cached[position];
	/* A value expires half a period early rather than half a period late. */
	uint64_t slack = k->refused ? 0 : r->period_ns / 2;

	if (r->gone || !(r->wanted[position / 64] >> position % 64 & 1) ||
		!(fields[position].of & r->of))
		return false;
	if (k->until_ns == 0 || r->now_ns + slack >= k->until_ns)
		return true;
	if (!k->refused) {
		r->has[position] = true;
		r->values[position] = k->value;
	}
	return false;
}

void sample_set_result(struct sample_reading *r, size_t position, nvmlReturn_t code,
	const union source_value *v)
{
	struct sample_cached *k = &r->state->cached[position];
	uint64_t keep_ns = 0;

	set_reading_gone(r, code);
	if (code == NVML_SUCCESS) {
		r->has[position] = true;
		r->values[position] = *v;
		if (sources[position].every == SOURCE_COSTLY)
			keep_ns = SAMPLE_COSTLY_NS;
		else if (sources[position].every == SOURCE_FIXED)
			keep_ns = SAMPLE_FIXED_NS;
		if (keep_ns)
			k->value = *v;
	} else {
		keep_ns = get_cache_ns(r, code, k->answered || is_memory_or_rates(position));
	}
	k->answered = k->answered || code == NVML_SUCCESS;
	k->refused = code != NVML_SUCCESS;
	k->until_ns = keep_ns ? r->now_ns + keep_ns : 0;
}

bool sample_may_query(const struct sample_reading *r, enum sample_query q)
{
	return !r->gone && r->now_ns >= r->state->refused_until[q];
}

bool sample_answered(struct sample_reading *r, enum sample_query q, nvmlReturn_t code)
{
	bool *answered = &r->state->answered[q];
	uint64_t ns = get_cache_ns(r, code,
		*answered || q == SAMPLE_QUERY_MEMORY || q == SAMPLE_QUERY_RATES);

	set_reading_gone(r, code);
	*answered = *answered || code == NVML_SUCCESS;
	if (ns)
		r->state->refused_until[q] = r->now_ns + ns;
	return code == NVML_SUCCESS;
}
