/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of the stand-in by name, with their arguments, for `gpuslice kubelet fault` (standin.h). */
#include "testbed/standin/standin.h"

#include "lib/base/buf.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <string.h>

struct fault_args {
	struct kubelet *k;
	const char *first; /* NULL: none */
	struct buf *output;
};

static int parse_fault_number(const struct fault_args *a, const char *what, uint32_t def,
	uint32_t *ret, struct error *err)
{
	*ret = def;
	if (a->first && !parse_u32(a->first, ret))
		return error_set(err, ERR_INVALID, "%s: expected a number, found '%.60s'", what,
			a->first);
	return 0;
}

static int read_switch(const struct fault_args *a, bool *ret, struct error *err)
{
	if (!a->first || strcmp(a->first, "on") == 0)
		*ret = true;
	else if (strcmp(a->first, "off") == 0)
		*ret = false;
	else
		return error_set(err, ERR_INVALID, "expected on or off, found '%.60s'",
			a->first);
	return 0;
}

/* NULL for all resources, or the name of an existing one. */
static int check_fault_resource(const struct fault_args *a, struct error *err)
{
	struct resource_count n;

	return !a->first || device_manager_count(kubelet_devices(a->k), a->first, &n)
		       ? 0
		       : error_set(err, ERR_NOT_FOUND,
				 "no resource '%.120s'; 'gpuslice kubelet get resources' lists them",
				 a->first);
}

static int clear_faults(const struct fault_args *a, struct error *err)
{
	(void)err;
	*kubelet_faults(a->k) = (struct kubelet_faults){ 0 };
	buf_puts(a->output, "all faults are off");
	return 0;
}

static int apply_delay_fault(const struct fault_args *a, struct error *err)
{
	uint32_t ms;

	if (parse_fault_number(a, "delay", 1000, &ms, err) < 0)
		return -1;
	kubelet_faults(a->k)->delay_ns = ms * NS_PER_MS;
	buf_printf(a->output, "Register and PodResources are answered after %u ms", ms);
	return 0;
}

static int apply_delete_sockets_fault(const struct fault_args *a, struct error *err)
{
	(void)err;
	buf_printf(a->output, "%u plugin sockets deleted", kubelet_delete_sockets(a->k));
	return 0;
}

static int apply_drop_streams_fault(const struct fault_args *a, struct error *err)
{
	if (check_fault_resource(a, err) < 0)
		return -1;
	buf_printf(a->output, "%u ListAndWatch streams dropped",
		kubelet_drop_streams(a->k, a->first));
	return 0;
}

static int apply_duplicate_fault(const struct fault_args *a, struct error *err)
{
	if (check_fault_resource(a, err) < 0)
		return -1;
	buf_printf(a->output, "%u ListAndWatch streams doubled",
		kubelet_duplicate_streams(a->k, a->first));
	return 0;
}

static int apply_never_answer_fault(const struct fault_args *a, struct error *err)
{
	if (read_switch(a, &kubelet_faults(a->k)->never_answer, err) < 0)
		return -1;
	buf_printf(a->output, "Register is %s",
		kubelet_faults(a->k)->never_answer ? "never answered" : "answered again");
	return 0;
}

static int apply_race_fault(const struct fault_args *a, struct error *err)
{
	if (read_switch(a, &kubelet_faults(a->k)->reregister_race, err) < 0)
		return -1;
	buf_printf(a->output, "the re-registration race of kubelets up to 1.36 is %s",
		kubelet_faults(a->k)->reregister_race ? "on" : "off");
	return 0;
}

static int apply_refuse_fault(const struct fault_args *a, struct error *err)
{
	if (parse_fault_number(a, "refuse", 1, &kubelet_faults(a->k)->refuse, err) < 0)
		return -1;
	buf_printf(a->output, "the next %u registrations are refused",
		kubelet_faults(a->k)->refuse);
	return 0;
}

static int apply_slow_reader_fault(const struct fault_args *a, struct error *err)
{
	if (check_fault_resource(a, err) < 0)
		return -1;
	buf_printf(a->output, "%u ListAndWatch streams opened that never read",
		kubelet_slow_reader(a->k, a->first));
	return 0;
}

typedef int (*fault_fn)(const struct fault_args *a, struct error *err);

#define FAULTS(X)                                                                             \
	X("clear", "", "turn all lasting faults off", clear_faults)                           \
	X("delay", "[MS]", "answer Register and PodResources late", apply_delay_fault)        \
	X("delete-sockets", "", "delete the plugins' socket files",                           \
		apply_delete_sockets_fault)                                                   \
	X("drop-streams", "[RESOURCE]", "end ListAndWatch streams", apply_drop_streams_fault) \
	X("duplicate-stream", "[RESOURCE]", "open a second ListAndWatch",                     \
		apply_duplicate_fault)                                                        \
	X("never-answer", "[on|off]", "take Register calls and never answer",                 \
		apply_never_answer_fault)                                                     \
	X("refuse", "[N]", "refuse the next N registrations", apply_refuse_fault)             \
	X("reregister-race", "[on|off]",                                                      \
		"the end of an old stream disconnects the new plugin (kubelets up to 1.36)",  \
		apply_race_fault)                                                             \
	X("slow-reader", "[RESOURCE]", "open a ListAndWatch that never reads",                \
		apply_slow_reader_fault)

#define ROW(name, args, help, fn) { name, args, help },
const struct standin_fault_row standin_faults[] = { FAULTS(ROW) };
#undef ROW
const size_t standin_n_faults = ARRAY_LEN(standin_faults);

#define ROW(name, args, help, fn) fn,
static const fault_fn fault_fns[] = { FAULTS(ROW) };
#undef ROW

int standin_fault(struct standin *s, const char *name, const char *const *args, size_t n_args,
	struct buf *ret, struct error *err)
{
	struct fault_args a = { .k = standin_kubelet(s),
		.first = n_args ? args[0] : NULL,
		.output = ret };

	for (size_t i = 0; i < standin_n_faults; i++) {
		if (strcmp(standin_faults[i].name, name) != 0)
			continue;
		if (n_args > (*standin_faults[i].args ? 1 : 0))
			return error_set(err, ERR_INVALID, "fault '%s' takes %s", name,
				*standin_faults[i].args ? standin_faults[i].args
							: "no argument");
		return fault_fns[i](&a, err);
	}
	return error_set(err, ERR_INVALID,
		"no fault '%.60s'; 'gpuslice kubelet fault' lists them", name);
}
