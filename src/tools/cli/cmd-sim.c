/* SPDX-License-Identifier: Apache-2.0 */

/* gpuslice sim: makes simulated GPU nodes and injects faults. */
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "tools/cli/cmd.h"
#include "tools/cli/output.h"
#include "testbed/sim/control/control.h"

#include <stdio.h>
#include <string.h>

#define OUTPUT_MAX_BYTES (16 * 1024 * 1024)

/* One action: its words, the number of its arguments, and its function. */
struct action {
	const char *word, *second; /* second word or NULL */
	int min_args, max_args;
	bool needs_node;
	int (*run)(struct sim_control *c, char *const *args, const struct options *o,
		struct error *err);
};

static int write_sim_output(struct buf *b, struct error *err)
{
	if (!buf_ok(b))
		return error_nomem(err);
	return output_write(NULL, buf_str(b), b->len, err);
}

/* The slot of the GPU that the first argument names. */
static int gpu_arg(struct sim_control *c, char *const *args, uint32_t *slot, struct error *err)
{
	return sim_control_find(c, args[0], slot, err);
}

static int run_create(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OUTPUT_MAX_BYTES);
	const char *node = args[0] ? args[0] : option_str(o, "node", NULL);

	if (sim_control_create(c, node, option_str(o, "dir", NULL),
		    option_bool(o, "force", false), option_uint(o, "seed", 0), err) < 0 ||
		sim_control_show(c, &b, err) < 0)
		return -1;
	return write_sim_output(&b, err);
}

static int run_show(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OUTPUT_MAX_BYTES);
	int r = option_bool(o, "json", false) ? sim_control_show_json(c, &b, err)
					      : sim_control_show(c, &b, err);

	(void)args;
	return r < 0 ? r : write_sim_output(&b, err);
}

static int run_sim_list(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OUTPUT_MAX_BYTES);

	(void)c;
	(void)o;
	if (!strcmp(args[0], "models"))
		sim_list_models(&b);
	else if (!strcmp(args[0], "keys"))
		sim_list_keys(&b);
	else if (!strcmp(args[0], "groups"))
		sim_list_groups(&b);
	else if (!strcmp(args[0], "mig"))
		sim_list_mig(&b);
	else
		return error_set(err, ERR_INVALID,
			"expected models, keys, groups or mig, found '%.40s'", args[0]);
	return write_sim_output(&b, err);
}

static int run_list_models(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	char models[] = "models", *const words[] = { models, NULL };

	(void)args;
	return run_sim_list(c, words, o, err);
}

static int run_xid(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint32_t slot, gi, ci, xid;

	(void)o;
	if (!parse_u32(args[1], &xid))
		return error_set(err, ERR_INVALID, "expected an XID number, found '%.40s'",
			args[1]);
	if (sim_control_find_device(c, args[0], &slot, &gi, &ci, err) < 0)
		return -1;
	return sim_control_xid(c, slot, gi, ci, xid, err);
}

static int run_reboot(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	(void)args;
	(void)o;
	return sim_control_reboot(c, err);
}

static int run_calls(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OUTPUT_MAX_BYTES);

	(void)args;
	(void)o;
	buf_printf(&b, "calls %llu\nmig_changes %llu\n",
		(unsigned long long)sim_count_read(c->state, SIM_COUNT_CALLS),
		(unsigned long long)sim_count_read(c->state, SIM_COUNT_CHANGES));
	return write_sim_output(&b, err);
}

static int run_lose(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint32_t slot;

	(void)o;
	return gpu_arg(c, args, &slot, err) < 0 ? -1 : sim_control_lose(c, slot, err);
}

static int run_return(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint32_t slot;

	(void)o;
	return gpu_arg(c, args, &slot, err) < 0 ? -1 : sim_control_restore(c, slot, err);
}

static int run_reset(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint32_t slot;

	(void)o;
	return gpu_arg(c, args, &slot, err) < 0 ? -1 : sim_control_reset(c, slot, err);
}

static int run_hang(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint64_t calls = option_uint(o, "calls", SIM_HANG_CALLS);
	uint64_t for_ms = option_uint(o, "for", UINT64_MAX / NS_PER_MS);
	uint64_t ns = 0, ms = 0;
	uint32_t slot;

	if (!strcmp(args[1], "forever"))
		ns = SIM_HANG_FOREVER;
	else if (strcmp(args[1], "off") != 0 && (!parse_u64(args[1], &ms) || ms > UINT32_MAX))
		return error_set(err, ERR_INVALID,
			"expected milliseconds, forever or off, found '%.40s'", args[1]);
	if (calls > SIM_HANG_CALLS || for_ms > UINT64_MAX / NS_PER_MS)
		return error_set(err, ERR_INVALID, "--calls or --for is out of range");
	if (gpu_arg(c, args, &slot, err) < 0)
		return -1;
	sim_hang_set(c->state, slot, ns ? ns : ms * NS_PER_MS, (uint32_t)calls,
		for_ms * NS_PER_MS);
	return 0;
}

/* "oom", "hang", or the number of the CUDA error that kills a context. */
static int read_cuda_fault(const char *text, enum sim_cuda_fault *kind, uint32_t *value,
	struct error *err)
{
	*value = 0;
	if (!strcmp(text, "oom")) {
		*kind = SIM_CUDA_OOM;
		return 0;
	}
	if (!strcmp(text, "hang")) {
		*kind = SIM_CUDA_HANG;
		return 0;
	}
	*kind = SIM_CUDA_ERROR;
	if (parse_u32(text, value) && *value >= 700 && *value <= 999)
		return 0;
	return error_set(err, ERR_INVALID,
		"expected oom, hang, off or a CUDA error like 700 or 719, found '%.40s'", text);
}

static int run_cuda_fault(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint64_t at = option_uint(o, "at", 1), calls = option_uint(o, "calls", 1);
	bool off = !strcmp(args[1], "off");
	enum sim_cuda_fault kind = SIM_CUDA_OOM;
	uint32_t slot, value = 0;

	if (!off && read_cuda_fault(args[1], &kind, &value, err) < 0)
		return -1;
	if (at == 0 || calls == 0 || calls > SIM_HANG_CALLS)
		return error_set(err, ERR_INVALID, "--at or --calls is out of range");
	if (gpu_arg(c, args, &slot, err) < 0)
		return -1;
	if (!off) {
		sim_cuda_fault_set(c->state, slot, kind, at, (uint32_t)calls, value);
		return 0;
	}
	for (int i = 0; i < SIM_CUDA_FAULTS; i++)
		sim_cuda_fault_set(c->state, slot, (enum sim_cuda_fault)i, 1, 0, 0);
	return 0;
}

static int run_fail(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	enum sim_group group;
	uint32_t slot, code;

	(void)o;
	if (!sim_group_find(args[1], &group))
		return error_set(err, ERR_INVALID,
			"unknown group of functions '%.40s' (gpuslice sim list groups)",
			args[1]);
	if (!sim_code_parse(args[2], &code))
		return error_set(err, ERR_INVALID,
			"expected an NVML code like 3, NOT_SUPPORTED or SUCCESS, found '%.40s'",
			args[2]);
	return gpu_arg(c, args, &slot, err) < 0 ? -1
						: sim_control_fail(c, slot, group, code, err);
}

static int run_set(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint32_t slot;

	(void)o;
	return gpu_arg(c, args, &slot, err) < 0
		       ? -1
		       : sim_control_set(c, slot, args[1], args[2], err);
}

static int run_add(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint32_t slot;

	(void)o;
	return sim_control_add(c, args[0], &slot, err);
}

static int run_remove(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint32_t slot;

	(void)o;
	return gpu_arg(c, args, &slot, err) < 0 ? -1 : sim_control_remove(c, slot, err);
}

static int run_driver(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	enum sim_driver driver;

	(void)o;
	if (!sim_driver_find(args[0], &driver))
		return error_set(err, ERR_INVALID,
			"expected load, unload, mismatch or no-permission, found '%.40s'",
			args[0]);
	return sim_control_driver(c, driver, err);
}

static int parse_process_kind(const char *text, uint32_t *ret, struct error *err)
{
	static const char *const kinds[] = { [SIM_PROCESS_COMPUTE] = "compute",
		[SIM_PROCESS_GRAPHICS] = "graphics",
		[SIM_PROCESS_MPS] = "mps" };

	for (uint32_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(kinds[i], text)) {
			*ret = i;
			return 0;
		}
	return error_set(err, ERR_INVALID,
		"--kind: expected compute, graphics or mps, found '%.40s'", text);
}

static int run_process_start(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	const char *memory = option_str(o, "memory", "0");
	uint64_t pid = option_uint(o, "pid", 0), sm = option_uint(o, "sm", 0);
	struct sim_process p = { .pid = 0 };
	uint32_t slot;

	if (pid == 0 || pid > INT32_MAX)
		return error_set(err, ERR_INVALID, "--pid: expected a process id");
	if (sm > 100)
		return error_set(err, ERR_INVALID, "--sm: expected 0 to 100 percent");
	if (!parse_bytes(memory, &p.memory_bytes))
		return error_set(err, ERR_INVALID,
			"--memory: expected bytes like 4Gi, found '%.40s'", memory);
	if (parse_process_kind(option_str(o, "kind", "compute"), &p.kind, err) < 0)
		return -1;
	p.pid = (uint32_t)pid;
	p.sm_percent = (uint32_t)sm;
	p.mem_percent = (uint32_t)sm / 2;
	(void)snprintf(p.name, sizeof(p.name), "%s", option_str(o, "name", "simulated"));
	if (sim_control_find_device(c, args[0], &slot, &p.gi, &p.ci, err) < 0)
		return -1;
	return sim_control_process_start(c, slot, &p, err);
}

static int run_process_stop(struct sim_control *c, char *const *args, const struct options *o,
	struct error *err)
{
	uint32_t pid;

	(void)o;
	if (!parse_u32(args[0], &pid))
		return error_set(err, ERR_INVALID, "expected a process id, found '%.40s'",
			args[0]);
	return sim_control_process_stop(c, pid, err);
}

static const struct action actions[] = {
	{ "add", NULL, 0, 1, true, run_add },
	{ "calls", NULL, 0, 0, true, run_calls },
	{ "create", NULL, 0, 1, false, run_create },
	{ "cuda-fault", NULL, 2, 2, true, run_cuda_fault },
	{ "driver", NULL, 1, 1, true, run_driver },
	{ "fail", NULL, 3, 3, true, run_fail },
	{ "hang", NULL, 2, 2, true, run_hang },
	{ "list", NULL, 1, 1, false, run_sim_list },
	{ "list-models", NULL, 0, 0, false, run_list_models },
	{ "lose", NULL, 1, 1, true, run_lose },
	{ "process", "start", 1, 1, true, run_process_start },
	{ "process", "stop", 1, 1, true, run_process_stop },
	{ "reboot", NULL, 0, 0, true, run_reboot },
	{ "remove", NULL, 1, 1, true, run_remove },
	{ "reset", NULL, 1, 1, true, run_reset },
	{ "return", NULL, 1, 1, true, run_return },
	{ "set", NULL, 3, 3, true, run_set },
	{ "show", NULL, 0, 0, true, run_show },
	{ "xid", NULL, 2, 2, true, run_xid },
};

static const struct action *find_action(const struct strv *args, size_t *words)
{
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		const struct action *a = &actions[i];

		if (args->n == 0 || strcmp(args->v[0], a->word) != 0)
			continue;
		*words = a->second ? 2 : 1;
		if (!a->second || (args->n > 1 && !strcmp(args->v[1], a->second)))
			return a;
	}
	return NULL;
}

static int run_sim(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(sim_control_close) struct sim_control c = { .state = NULL };
	size_t words = 0;
	const struct action *a = find_action(&o->args, &words);
	size_t rest = a ? o->args.n - words : 0;
	char *const none[] = { NULL };

	(void)cmd;
	if (!a)
		return error_set(err, ERR_INVALID,
			"which action? 'gpuslice sim --help' lists them");
	if (rest < (size_t)a->min_args || rest > (size_t)a->max_args)
		return error_set(err, ERR_INVALID,
			"%s%s%s: too %s arguments; 'gpuslice sim --help' shows which it takes",
			a->word, a->second ? " " : "", a->second ? a->second : "",
			rest < (size_t)a->min_args ? "few" : "many");
	if (a->needs_node && sim_control_open(&c, option_str(o, "node", NULL),
				     option_str(o, "dir", NULL), err) < 0)
		return -1;
	return a->run(&c, rest ? o->args.v + words : none, o, err);
}

static const struct option_def options[] = {
	{ .name = "at",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "1",
		.help = "cuda-fault: the N-th allocation or kernel from now" },
	{ .name = "calls",
		.type = OPTION_UINT,
		.arg = "N",
		.help = "hang: only the next N calls; cuda-fault: so many, else one" },
	{ .name = "dir",
		.type = OPTION_STR,
		.arg = "DIR",
		.help = "the node's directory, instead of GPUSLICE_SIM_DIR" },
	{ .name = "for",
		.type = OPTION_UINT,
		.arg = "MS",
		.help = "hang: only for so long from now" },
	{ .name = "force", .type = OPTION_BOOL, .help = "create: make an existing node anew" },
	{ .name = "json", .type = OPTION_BOOL, .help = "show: print JSON" },
	{ .name = "kind",
		.type = OPTION_STR,
		.arg = "KIND",
		.def = "compute",
		.help = "process start: compute, graphics or mps" },
	{ .name = "memory",
		.type = OPTION_STR,
		.arg = "BYTES",
		.def = "0",
		.help = "process start: GPU memory, like 4Gi" },
	{ .name = "name",
		.type = OPTION_STR,
		.arg = "NAME",
		.def = "simulated",
		.help = "process start: what the process is called" },
	{ .name = "node",
		.type = OPTION_STR,
		.arg = "NODE",
		.help = "model or node file, instead of GPUSLICE_SIM_NODE" },
	{ .name = "pid",
		.type = OPTION_UINT,
		.arg = "PID",
		.help = "process start: process id" },
	{ .name = "seed",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "0",
		.help = "create: other UUIDs than another node of the same model" },
	{ .name = "sm",
		.type = OPTION_UINT,
		.arg = "PERCENT",
		.def = "0",
		.help = "process start: share of the GPU or MIG device that it uses" },
};

const struct cmd cmd_sim = {
	.name = "sim",
	.usage = "ACTION [ARGUMENT]... [OPTION]...",
	.summary = "make a simulated GPU node, look at it, break it",
	.description =
		"The node is the one that GPUSLICE_SIM_NODE and GPUSLICE_SIM_DIR name; every program that\n"
		"loads the simulated libnvidia-ml.so.1 with the same variables sees each change at once.\n"
		"GPU is an index, a UUID or a PCI bus id; DEVICE is a GPU or a MIG device, by its UUID or as\n"
		"INDEX:GI:CI.\n\n"
		"Actions:\n"
		"  create [NODE]             make the node: a model, or a node file\n"
		"  show [--json]             the node's GPUs and what is wrong with them\n"
		"  list models|keys|groups|mig\n"
		"                            what there is to choose from (list-models: the same)\n"
		"  calls                     how many NVML calls the node has had, and how many changed MIG\n"
		"  xid DEVICE N              send XID N to all who listen\n"
		"  lose GPU                  fall off the bus: XID 79, every call says GPU is lost\n"
		"  return GPU                come back\n"
		"  hang GPU MS|forever|off   block each call on this GPU [--calls N] [--for MS]\n"
		"  cuda-fault GPU oom|hang|ERROR|off\n"
		"                            let a CUDA allocation find no memory, a kernel never end, or one\n"
		"                            kill its context with ERROR (700, 719), with an XID [--at N]\n"
		"                            [--calls N]\n"
		"  fail GPU GROUP CODE       let a group of functions answer CODE; SUCCESS: work again\n"
		"  set GPU KEY VALUE         change a figure\n"
		"  reset GPU                 as it was made: no faults, no processes, no MIG instances\n"
		"  reboot                    restart the node: no processes, no MIG instances, new handles;\n"
		"                            MIG mode stays on Ampere and goes off on later GPUs\n"
		"  add [PRODUCT]             plug in one more GPU\n"
		"  remove GPU                unplug one\n"
		"  process start DEVICE --pid PID [--memory BYTES] [--sm PERCENT] [--kind KIND] [--name NAME]\n"
		"  process stop PID          take it off all GPUs\n"
		"  driver load|unload|mismatch|no-permission\n\n"
		"Example:\n"
		"  export GPUSLICE_SIM_NODE=p3.8xlarge GPUSLICE_SIM_DIR=/tmp/node\n"
		"  gpuslice sim create && gpuslice sim lose 2 && gpuslice sim show\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_sim,
};
