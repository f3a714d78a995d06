/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

struct cuda_table cu;
struct nvml_api nvml;

void die(const char *fmt, ...)
{
	va_list ap;

	(void)printf("result=failed reason=\"");
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)printf("\"\n");
	(void)fflush(stdout);
	_exit(1);
}

void must(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS)
		die("%s: CUDA error %u", what, r);
}

void cuda_open(void)
{
	void *lib = dlopen(CUDA_SONAME, RTLD_NOW);

	if (!lib) {
		(void)printf("result=skipped reason=\"%s\"\n", dlerror());
		exit(NO_DRIVER_EXIT);
	}
#define X(name, params) *(void **)&cu.name = dlsym(lib, #name);
	CUDA_FUNCTIONS(X)
#undef X
	must(cu.cuInit(0), "cuInit");
}

CUdevice cuda_start(int ordinal, CUcontext *context)
{
	CUdevice device;

	must(cu.cuDeviceGet(&device, ordinal), "cuDeviceGet");
	must(cu.cuDevicePrimaryCtxRetain(context, device), "cuDevicePrimaryCtxRetain");
	must(cu.cuCtxSetCurrent(*context), "cuCtxSetCurrent");
	return device;
}

void nvml_open(void)
{
	void *lib = dlopen(NVML_SONAME, RTLD_NOW);

	if (!lib) {
		(void)printf("result=skipped reason=\"%s\"\n", dlerror());
		exit(NO_DRIVER_EXIT);
	}
#define X(name, params) *(void **)&nvml.name = dlsym(lib, #name);
	NVML_FUNCTIONS(X)
#undef X
	if (nvml.nvmlInit_v2() != NVML_SUCCESS)
		die("nvmlInit_v2 failed");
}

nvmlDevice_t nvml_by_uuid(const char *uuid)
{
	nvmlDevice_t device = NULL;
	nvmlReturn_t r = nvml.nvmlDeviceGetHandleByUUID(uuid, &device);

	if (r)
		die("nvmlDeviceGetHandleByUUID %s: NVML error %d", uuid, (int)r);
	return device;
}

nvmlDevice_t nvml_of(CUdevice device, char *uuid)
{
	CUuuid id;
	size_t at = 4;

	must(cu.cuDeviceGetUuid_v2(&id, device), "cuDeviceGetUuid_v2");
	(void)snprintf(uuid, 5, "GPU-");
	for (unsigned int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			uuid[at++] = '-';
		(void)snprintf(uuid + at, 3, "%02x", (unsigned char)id.bytes[i]);
		at += 2;
	}
	return nvml_by_uuid(uuid);
}

const char *kernels(void)
{
	static char text[256 * 1024];
	char path[4096];
	const char *named = getenv("GPUSLICE_TEST_PTX");
	char self[4000] = "", *slash;
	FILE *f;

	if (text[0])
		return text;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("/proc/self/exe: %s", strerror(errno));
	slash = strrchr(self, '/');
	(void)snprintf(path, sizeof(path), "%.*skernels.ptx", (int)(slash - self + 1), self);
	f = fopen(named ? named : path, "re");
	if (!f)
		die("open %s: %s", named ? named : path, strerror(errno));
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	(void)fclose(f);
	return text;
}

unsigned int nvml_physical(nvmlDevice_t device, struct physical *ret)
{
	static __thread nvmlProcessInfo_t infos[PHYSICAL_MAX];
	unsigned int n = PHYSICAL_MAX;

	if (nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, infos) != NVML_SUCCESS)
		die("nvmlDeviceGetComputeRunningProcesses_v3 failed");
	for (unsigned int i = 0; i < n; i++)
		ret[i] = (struct physical){ infos[i].pid, infos[i].usedGpuMemory };
	return n;
}

unsigned long long physical_of(const struct physical *p, unsigned int n, pid_t pid)
{
	for (unsigned int i = 0; i < n; i++)
		if (p[i].pid == (unsigned int)pid)
			return p[i].bytes;
	return 0;
}

static int ask_arbiter(int fd, const void *request, size_t len, void *answer, size_t size)
{
	ssize_t n;

	if (send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
		return -1;
	do /* EINTR comes without a signal too, on a socket with a timeout */
		n = recv(fd, answer, size, 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)size ? 0 : -1;
}

int probe_open(const char *slice_dir)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct slice_hello hello = { .head = { .op = SLICE_HELLO, .tag = 1 },
		.version = SLICE_WIRE_VERSION,
		.pid = (uint32_t)getpid(),
		.name = "watcher" };
	struct slice_welcome welcome;
	struct timeval deadline = { .tv_sec = 5 };
	int dir = open(slice_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	/* The address goes through the descriptor, because a path of a test may be longer than an address
	 * has room for. */
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/socket", dir);
	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
	if (dir < 0 || fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
		ask_arbiter(fd, &hello, sizeof(hello), &welcome, sizeof(welcome)) != 0 ||
		welcome.status != SLICE_OK) {
		if (fd >= 0)
			(void)close(fd);
		fd = -1;
	}
	if (dir >= 0)
		(void)close(dir);
	return fd;
}

int look(int fd, unsigned int first, struct slice_viewed *ret)
{
	struct slice_view request = { .head = { .op = SLICE_VIEW, .tag = 2 }, .first = first };

	return ask_arbiter(fd, &request, sizeof(request), ret, sizeof(*ret));
}

double ms_since(uint64_t start_ns)
{
	return (double)(time_mono_ns() - start_ns) / 1e6;
}

void sleep_us(unsigned int us)
{
	struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L };

	(void)nanosleep(&t, NULL);
}

uint64_t number(const char *text, const char *what)
{
	uint64_t n;

	if (!text || !parse_bytes(text, &n))
		die("%s: '%s' is no number", what, text ? text : "");
	return n;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *values, unsigned int n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
