/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gpuslice-mps: does for the agent what needs another process. Calls of NVML may hang, and so may reading a
 * client's environment. A mount namespace belongs to one process.
 *
 *	gpuslice-mps [--nvml PATH] [--driver-root DIR] [--set MODE] mode UUID...
 *		prints "UUID MODE" for each GPU, its present compute mode; then sets MODE;
 *	gpuslice-mps clients
 *		reads PIDs, and prints "PID POD-UID DEVICES" for each;
 *	gpuslice-mps [--place DIR] [--shm DIR] [--log FILE] run PROGRAM [ARGUMENT...]
 *		becomes the owner of DIR (node/agent/mps/daemon-lock.h); then becomes PROGRAM, with the other DIR as
 *		its /dev/shm and with its output appended to FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "node/agent/base/pod-of-process.h"
#include "node/agent/mps/client-text.h"
#include "node/agent/mps/daemon-lock.h"
#include "lib/base/fd.h"
#include "lib/base/option.h"
#include "lib/base/parse.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"
#include "io/nvml/nvml.h"

static const struct option_def option_defs[] = {
	{ .name = "nvml", .type = OPTION_STR, .arg = "PATH", .help = "NVML library to open" },
	{ .name = "driver-root",
		.type = OPTION_STR,
		.arg = "DIR",
		.help = "search the library below this directory first" },
	{ .name = "set",
		.type = OPTION_UINT,
		.arg = "MODE",
		.help = "mode: the compute mode to set, 0 default, 3 exclusive process" },
	{ .name = "place",
		.type = OPTION_STR,
		.arg = "DIR",
		.help = "run: the daemon's directory, which one daemon may have" },
	{ .name = "shm",
		.type = OPTION_STR,
		.arg = "DIR",
		.help = "run: what the program has as /dev/shm" },
	{ .name = "log",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "run: where its output is appended" },
};

/* --- mode --- */

static int set_gpu_compute_mode(const struct nvml *n, const char *uuid,
	const struct option_value *set, struct error *err)
{
	nvmlDevice_t device;
	unsigned mode = 0;
	nvmlReturn_t r = n->nvmlDeviceGetHandleByUUID(uuid, &device);

	if (r != NVML_SUCCESS)
		return nvml_error(err, n, NVML_CALL_nvmlDeviceGetHandleByUUID, r);
	r = n->nvmlDeviceGetComputeMode(device, &mode);
	if (r != NVML_SUCCESS)
		return nvml_error(err, n, NVML_CALL_nvmlDeviceGetComputeMode, r);
	if (printf("%s %u\n", uuid, mode) < 0 || fflush(stdout) != 0)
		return error_sys(err, errno, "write");
	if (set->source == OPTION_UNSET || set->u == mode)
		return 0;
	r = n->nvmlDeviceSetComputeMode(device, (unsigned)set->u);
	return r == NVML_SUCCESS ? 0
				 : nvml_error(err, n, NVML_CALL_nvmlDeviceSetComputeMode, r);
}

static int run_mode_command(const struct options *o, struct error *err)
{
	struct nvml n;
	char path[PATH_MAX];
	int r = 0;

	if (nvml_find(path, option_get(o, "nvml")->str, option_get(o, "driver-root")->str,
		    err) < 0 ||
		nvml_open(&n, path, err) < 0 || nvml_init(&n, err) < 0)
		return -1;
	/* A lost GPU does not keep the others from being set. */
	for (size_t i = 1; i < o->args.n; i++) {
		struct error one = ERROR_INIT;

		if (set_gpu_compute_mode(&n, o->args.v[i], option_get(o, "set"), &one) == 0)
			continue;
		error_copy(err, &one);
		r = error_prefix(err, "GPU %s", o->args.v[i]);
	}
	return r;
}

/* --- clients --- */

/* Blocks on standard input, and on /proc (lib/base/procfs.h): for ever if a process's environment never comes. */

#define FILE_MAX     (4 << 20)
#define PID_LINE_MAX 32

/* For all files of one process. */
static const struct procfs_budget whole_budget = {
	.file_bytes = FILE_MAX,
	.file_cpu_ns = 50 * NS_PER_MS,
	.cpu_ns = 150 * NS_PER_MS,
	.end_ns = NS_PER_SEC, /* from the question on */
};

/* Of a file beyond its bounds, the beginning counts as the whole. */
static bool read_client_proc_file(struct buf *b, uint32_t pid, const char *file,
	struct procfs_budget *left)
{
	return procfs_read(b, "/proc", pid, file, left) != PROCFS_GONE && b->len > 0;
}

static void find_pod(struct buf *b, uint32_t pid, struct procfs_budget *left,
	char ret[POD_UID_MAX])
{
	ret[0] = '\0';
	if (read_client_proc_file(b, pid, "cgroup", left) &&
		pod_uid_from_cgroup(buf_str(b), b->len, ret))
		return;
	if (read_client_proc_file(b, pid, "mountinfo", left))
		(void)pod_uid_from_mounts(buf_str(b), b->len, ret);
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

/* The process may have written anything there: a value that cannot be device IDs counts as none. */
static void find_client_devices(struct buf *b, uint32_t pid, struct procfs_budget *left,
	char ret[MPS_DEVICES_MAX])
{
	const char *value = NULL;

	if (read_client_proc_file(b, pid, "environ", left))
		value = mps_environ_find(buf_str(b), b->len, MPS_DEVICES_VARIABLE);
	if (!value || strlen(value) >= MPS_DEVICES_MAX || !is_printable(value))
		value = "";
	(void)snprintf(ret, MPS_DEVICES_MAX, "%s", value);
}

static int print_client_pod(struct buf *b, uint32_t pid, struct error *err)
{
	struct procfs_budget left = whole_budget;
	char pod[POD_UID_MAX], devices[MPS_DEVICES_MAX];

	left.end_ns += time_mono_ns();
	find_pod(b, pid, &left, pod);
	find_client_devices(b, pid, &left, devices);
	if (printf("%u %s %s\n", (unsigned)pid, *pod ? pod : "-", *devices ? devices : "-") <
			0 ||
		fflush(stdout) != 0)
		return error_sys(err, errno, "write");
	return 0;
}

/*
 * Reads PIDs from standard input, one a line, until its end. Answers each with a line "PID POD-UID DEVICES", "-"
 * for what is not known. ERR_INVALID: a line is no PID.
 */
static int clients_serve(struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(FILE_MAX);
	char line[PID_LINE_MAX];
	uint32_t pid;

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (!parse_u32(line, &pid))
			return error_set(err, ERR_INVALID,
				"standard input: expected a PID, found \"%s\"", line);
		if (print_client_pod(&b, pid, err) < 0)
			return -1;
	}
	return 0;
}

/* --- run --- */

static int mount_shm(const char *dir, struct error *err)
{
	if (unshare(CLONE_NEWNS) < 0)
		return error_sys(err, errno, "a mount namespace for the MPS daemon");
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
		mount(dir, "/dev/shm", NULL, MS_BIND, NULL) < 0)
		return error_sys(err, errno, "mount '%s' at '/dev/shm'", dir);
	return 0;
}

/* O_APPEND: the agent, which reads the log, may truncate it. */
static int open_mps_run_log(const char *path, struct error *err)
{
	CLEANUP(closep)
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		return error_sys(err, errno, "redirect output to '%s'", path);
	return 0;
}

/* The program does not inherit the signals that the agent ignores or blocks. */
static void reset_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int run_daemon_command(const struct options *o, struct error *err)
{
	const char *shm = option_get(o, "shm")->str, *log = option_get(o, "log")->str;
	const char *place = option_get(o, "place")->str;

	if (place && *place && mps_lock_take(place, err) < 0)
		return -1;
	if ((shm && *shm && mount_shm(shm, err) < 0) ||
		(log && *log && open_mps_run_log(log, err) < 0))
		return -1;
	reset_signals();
	(void)execvp(o->args.v[1], &o->args.v[1]);
	return error_sys(err, errno, "run '%s'", o->args.v[1]);
}

/* --- main --- */

static int print_mps_run_help(void)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(16384);

	buf_puts(&b,
		"Usage: gpuslice-mps [OPTION...] mode UUID...\n"
		"       gpuslice-mps clients\n"
		"       gpuslice-mps [OPTION...] run PROGRAM [ARGUMENT...]\n"
		"Prepares GPUs for CUDA MPS, and starts its control daemon, for gpusliced.\n\n");
	options_help(&b, option_defs, ARRAY_LEN(option_defs));
	return fputs(buf_str(&b), stdout) < 0 || fflush(stdout) != 0;
}

static int start_mps_run(const struct options *o, struct error *err)
{
	const char *what = o->args.n ? o->args.v[0] : "";

	if (!strcmp(what, "clients") && o->args.n == 1)
		return clients_serve(err);
	if (o->args.n < 2 || (strcmp(what, "mode") != 0 && strcmp(what, "run") != 0))
		return error_set(err, ERR_INVALID,
			"expected 'mode UUID...', 'clients' or 'run PROGRAM', see --help");
	return !strcmp(what, "mode") ? run_mode_command(o, err) : run_daemon_command(o, err);
}

int main(int argc, char **argv)
{
	struct options o;
	struct error err = ERROR_INIT;
	int r = options_parse(&o, option_defs, ARRAY_LEN(option_defs), argc, argv,
		OPTIONS_STOP_AT_ARG, NULL, &err);

	if (r == OPTIONS_HELP) {
		r = print_mps_run_help();
	} else if (r == OPTIONS_VERSION) {
		r = printf("gpuslice-mps %s\n", GPUSLICE_VERSION) < 0;
	} else if (r < 0 || start_mps_run(&o, &err) < 0) {
		(void)fprintf(stderr, "gpuslice-mps: %s\n", err.msg);
		r = r < 0 ? 2 : 1;
	}
	options_fini(&o);
	return r;
}
